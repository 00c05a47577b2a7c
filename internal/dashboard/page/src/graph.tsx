// The graph of the topology: clusters, and the peerings between them.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { perSecond, plural, seconds } from './format'
import { layout, type Spot } from './layout'
import type { Cluster, Peering } from './model'

const height = 360
// Above these numbers, only what is chosen has a text next to it.
const manyPeerings = 8, manyClusters = 30
const steps: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }

/** The text that says all about a peering. */
export function describe(p: Peering): string {
  const uses = p.uses.map((u) => `${u.consumer} uses ${u.provider}, ${u.phase}`).join('; ') || 'no resources are used'
  const t = p.tunnel
  if (!t) return `${p.a} and ${p.b}: ${uses}; no tunnel`
  const figures = [t.roundTrip !== undefined && `round trip ${seconds(t.roundTrip)}`, t.forth !== undefined && `${perSecond(t.forth + (t.back ?? 0))}`]
  return `${p.a} and ${p.b}: ${uses}; tunnel ${t.state}${figures.filter(Boolean).map((f) => `, ${f}`).join('')}`
}

function figures(p: Peering): string {
  const t = p.tunnel
  if (!t) return 'no tunnel'
  if (t.health !== 'ok') return t.state
  const parts = [t.roundTrip !== undefined && seconds(t.roundTrip), t.forth !== undefined && perSecond(t.forth + (t.back ?? 0))]
  return parts.filter(Boolean).join(' · ') || t.state
}

function useWidth() {
  const ref = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(0)
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry!.contentRect.width)))
    observer.observe(ref.current!)
    return () => observer.disconnect()
  }, [])
  return [ref, width] as const
}

export const keyOf = (p: Peering) => `peering-${p.a}-${p.b}`

export function Graph({ clusters, peerings }: { clusters: Cluster[]; peerings: Peering[] }) {
  const [ref, width] = useWidth()
  const [chosen, choose] = useState('')
  const [at, setAt] = useState(0) // the element that Tab leads to; the arrow keys change it
  const places = useRef(new Map<string, Spot>())
  const topology = JSON.stringify([clusters.map((c) => c.id), peerings.map((p) => [p.a, p.b])])
  const spots = useMemo(() => {
    const known = new Set(clusters.map((c) => c.id))
    const links = peerings.filter((p) => known.has(p.a) && known.has(p.b)).map((p): [string, string] => [p.a, p.b])
    return (places.current = layout([...known], links, places.current))
  }, [topology])

  const radius = clusters.length > manyClusters ? 9 : clusters.length > 12 ? 16 : 26
  const margin = { x: Math.min(90, radius + 60, width / 5), y: radius + 34 }
  const place = (id: string) => {
    const spot = spots.get(id) ?? { x: 0.5, y: 0.5 }
    return { x: margin.x + spot.x * (width - 2 * margin.x), y: margin.y + spot.y * (height - 2 * margin.y) }
  }
  const items = [...clusters.map((c) => `cluster-${c.id}`), ...peerings.map(keyOf)]
  const group = useRef<SVGSVGElement>(null)
  const move = (event: KeyboardEvent) => {
    const step = steps[event.key]
    if (!step || items.length === 0) return
    event.preventDefault()
    const next = (at + step + items.length) % items.length
    setAt(next)
    choose(items[next]!)
    group.current?.querySelector<SVGElement>(`[data-item="${items[next]}"]`)?.focus()
  }
  const item = (key: string) => ({
    'data-item': key, role: 'button' as const, tabIndex: items.indexOf(key) === Math.min(at, items.length - 1) ? 0 : -1, 'aria-pressed': chosen === key,
    onClick: () => { choose(chosen === key ? '' : key); setAt(items.indexOf(key)) },
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault()
        choose(chosen === key ? '' : key)
      }
    },
  })

  return (
    <div ref={ref} class="graph">
      {width > 0 && (
        <svg ref={group} width={width} height={height} role="group" aria-label="Topology: arrow keys move between clusters and peerings" onKeyDown={move}>
          {peerings.map((p) => (
            <Edge key={keyOf(p)} peering={p} a={place(p.a)} b={place(p.b)} radius={radius} chosen={chosen === keyOf(p)}
              labelled={peerings.length <= manyPeerings || chosen === keyOf(p)} item={item(keyOf(p))} />
          ))}
          {clusters.map((c) => {
            const { x, y } = place(c.id)
            const labelled = clusters.length <= manyClusters || c.given || chosen === `cluster-${c.id}`
            return (
              <g key={c.id} class={`vertex ${c.health} ${c.given ? '' : 'foreign'}`} transform={`translate(${x} ${y})`} {...item(`cluster-${c.id}`)}
                aria-label={`Cluster ${c.id}${c.local ? ', the local one' : ''}: ${summary(c)}`}>
                <circle r={radius} />
                <text class="symbol" aria-hidden="true" dy="0.35em">{c.health === 'fail' ? '✖' : c.health === 'warn' ? '!' : c.local ? '⌂' : ''}</text>
                {labelled && <text class="label" aria-hidden="true" y={radius + 18}>{c.id}</text>}
              </g>
            )
          })}
        </svg>
      )}
      <p class="chosen" aria-live="polite">{explain(chosen, clusters, peerings)}</p>
    </div>
  )
}

function summary(c: Cluster): string {
  if (c.message) return c.message
  if (!c.given) return 'its kubeconfig was not given'
  return c.reading ? 'being read' : `${plural(c.nodes, 'node')}, ${plural(c.pods, 'pod')}, Liqo ${c.version || 'of unknown version'}`
}

function explain(chosen: string, clusters: Cluster[], peerings: Peering[]): string {
  const cluster = clusters.find((c) => `cluster-${c.id}` === chosen)
  if (cluster) return `${cluster.id}${cluster.local ? ' (local)' : ''}: ${summary(cluster)}`
  const peering = peerings.find((p) => keyOf(p) === chosen)
  return peering ? describe(peering) : 'Choose a cluster or a peering. An arrow leads from a consumer to its provider.'
}

interface EdgeProps {
  peering: Peering; a: Spot; b: Spot; radius: number; chosen: boolean; labelled: boolean; item: Record<string, unknown>
}

function Edge({ peering, a, b, radius, chosen, labelled, item }: EdgeProps) {
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1
  const [ux, uy] = [(b.x - a.x) / length, (b.y - a.y) / length]
  const arrow = (towards: Spot, sign: number, health: string) => {
    const tip = { x: towards.x - sign * ux * (radius + 4), y: towards.y - sign * uy * (radius + 4) }
    const back = { x: tip.x - sign * ux * 12, y: tip.y - sign * uy * 12 }
    const points = [[tip.x, tip.y], [back.x - uy * 6, back.y + ux * 6], [back.x + uy * 6, back.y - ux * 6]]
    return <polygon class={`arrow ${health}`} points={points.map((p) => p.map((v) => v.toFixed(1)).join(',')).join(' ')} />
  }
  const line = { x1: a.x, y1: a.y, x2: b.x, y2: b.y }
  return (
    <g class={`edge ${peering.health} ${chosen ? 'chosen' : ''}`} aria-label={describe(peering)} {...item}>
      <line class="touch" {...line} />
      <line class={`line ${peering.tunnel ? peering.tunnel.health : 'none'}`} {...line} />
      {peering.uses.map((u) => (u.provider === peering.b ? arrow(b, 1, u.health) : arrow(a, -1, u.health)))}
      {labelled && <text class="label" aria-hidden="true" x={(a.x + b.x) / 2} y={(a.y + b.y) / 2 - 8}>{figures(peering)}</text>}
    </g>
  )
}
