// The documents that liqoctl sends, and the store that keeps them. The types are those of the documents in internal/dashboard.

export type Health = 'none' | 'ok' | 'warn' | 'fail'
export interface Point { at: number; value: number }

export interface Cluster {
  id: string; local?: boolean; given?: boolean; reading?: boolean; version?: string; server?: string; message?: string
  health: Health; nodes: number; pods: number
}
export interface Use { consumer: string; provider: string; phase: string; health: Health }
export interface Tunnel {
  state: string; health: Health; mtu?: number; roundTrip?: number; roundTrips?: Point[]
  forth?: number; back?: number; forths?: Point[]; backs?: Point[]; unmeasured?: string; messages?: string[]
}
export interface Peering {
  a: string; b: string; health: Health; uses: Use[]; tunnel?: Tunnel; authentication?: string; type?: string; alerts?: string[]
}
export interface Resource { name: string; granted: number; requested: number; used?: number; free: number; known?: boolean }
export interface VirtualNode {
  cluster: string; name: string; provider: string; state: string; message?: string; health: Health; pods: number; resources: Resource[]
}
export interface Place { cluster: string; namespace?: string; running: number; pods: number }
export interface Namespace {
  cluster: string; name: string; consumer?: string; strategy?: string; phase: string; health: Health; message?: string; places: Place[]
  volumes?: { ready: number; total: number; health: Health }
}
export interface Claim {
  cluster: string; namespace: string; name: string; place?: string; node?: string; size?: number; requested: number; state: string; health: Health
}
export interface Pod { cluster: string; namespace: string; name: string; place?: string; node?: string; state: string; health: Health }
export interface Event {
  cluster: string; at: number; type: string; reason: string; object: string; message: string; count?: number
}
export interface Finding {
  cluster: string; check: string; level: 'ok' | 'warn' | 'fail'; evidence: string; cure?: string; peer?: string; consequences?: Finding[]
}
export interface Diagnosis { done: boolean; findings: Finding[] }

interface Kinds {
  cluster: Cluster; peering: Peering; node: VirtualNode; namespace: Namespace; pod: Pod; claim: Claim; event: Event; diagnosis: Diagnosis
}
type Kind = keyof Kinds

/** A message of the stream. The first one of a connection replaces everything. */
export interface Update { first?: boolean; set?: Record<string, unknown>; removed?: string[] }

/** Keyed is a document with its key, by which the page knows it again. */
export interface Keyed { key: string }

/** All documents by kind, each list in the order of its keys. A list keeps its identity while none of its documents changes. */
export type Lists = { [K in Kind]: (Kinds[K] & Keyed)[] }

const kinds: Kind[] = ['cluster', 'peering', 'node', 'namespace', 'pod', 'claim', 'event', 'diagnosis']

/** Store applies updates, as Patch.Apply of internal/dashboard does. */
export class Store {
  private documents = new Map<Kind, Map<string, unknown>>(kinds.map((kind) => [kind, new Map()]))
  lists = Object.fromEntries(kinds.map((kind) => [kind, []])) as unknown as Lists

  apply(update: Update): void {
    const touched = new Set<Kind>()
    const of = (key: string) => {
      const kind = key.split('/', 1)[0] as Kind
      touched.add(kind)
      return this.documents.get(kind)
    }
    if (update.first) {
      for (const kind of kinds) {
        this.documents.get(kind)!.clear()
        touched.add(kind)
      }
    }
    for (const [key, document] of Object.entries(update.set ?? {})) of(key)?.set(key, { ...(document as object), key })
    for (const key of update.removed ?? []) of(key)?.delete(key)
    const lists: Record<string, unknown[]> = { ...this.lists }
    for (const kind of touched) {
      const all = this.documents.get(kind)
      if (all) lists[kind] = [...all.keys()].sort().map((key) => all.get(key))
    }
    this.lists = lists as unknown as Lists
  }
}
