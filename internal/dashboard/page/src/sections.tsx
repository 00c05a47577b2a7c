// The sections that list what the documents say. A line has the state of an object. What is wrong with it is in the findings, and in its details.
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { amount, bytes, clock, perSecond, plural, seconds } from './format'
import type { Claim, Diagnosis, Event, Finding, Keyed, Namespace, Peering, Pod, Point, Resource, VirtualNode } from './model'
import { Badge, Empty, Filter, List, matches, Meter, Row, Section, Sparkline, worstFirst } from './parts'

export function Findings({ diagnosis }: { diagnosis?: Diagnosis }) {
  const problems = grouped(diagnosis?.findings.filter((f) => f.level !== 'ok') ?? [])
  const well = grouped(diagnosis?.findings.filter((f) => f.level === 'ok') ?? [])
  return (
    <Section id="findings" title="Findings" note={diagnosis?.done ? plural(problems.length, 'problem') : 'being diagnosed'}>
      {diagnosis?.done && problems.length === 0 && <p><Badge health="ok">doctor finds no problem</Badge></p>}
      <List items={problems} what="problems" limit={5} item={(g) => <Problem group={g} />} />
      {well.length > 0 && (
        <details>
          <summary>{plural(well.length, 'check')} without a problem</summary>
          <List items={well} what="checks" item={(g) => <Problem group={g} />} />
        </details>
      )}
    </Section>
  )
}

interface Group { key: string; findings: Finding[] }

/** Both ends of a peering may report the same failure: it is one problem. */
function grouped(findings: Finding[]): Group[] {
  const groups = new Map<string, Finding[]>()
  for (const f of findings) {
    const key = f.peer ? [f.check, ...[f.cluster, f.peer].sort()].join('/') : [f.check, f.cluster, f.evidence].join('/')
    groups.set(key, [...groups.get(key) ?? [], f])
  }
  return [...groups].map(([key, group]) => ({ key, findings: group }))
}

const distinct = (texts: (string | undefined)[]) => [...new Set(texts.filter((text) => !!text))]

function Problem({ group: { findings } }: { group: Group }) {
  const consequences = grouped(findings.flatMap((f) => f.consequences ?? []))
  const level = findings.some((f) => f.level === 'fail') ? 'fail' : findings[0]!.level
  return (
    <>
      <Badge health={level}>{distinct(findings.map((f) => f.cluster)).join(' and ')}: {findings[0]!.check}</Badge>
      {distinct(findings.map((f) => f.evidence)).map((text) => <p key={text}>{text}</p>)}
      {distinct(findings.map((f) => f.cure)).map((text) => <p key={text}><strong>Cure:</strong> <span class="code">{text}</span></p>)}
      {consequences.length > 0 && (
        <details>
          <summary>leads to {plural(consequences.length, 'other problem')}</summary>
          <List items={consequences} what="problems" item={(g) => <Problem group={g} />} />
        </details>
      )}
    </>
  )
}

export function Peerings({ peerings, reading }: { peerings: (Peering & Keyed)[]; reading: boolean }) {
  return (
    <Section id="peerings" title="Peerings" note={plural(peerings.length, 'peering')}>
      {peerings.length === 0 && <Empty reading={reading}>No cluster is peered with another one: <span class="code">liqoctl peer</span> peers two.</Empty>}
      <List items={worstFirst(peerings)} what="peerings" item={(p) => (
        <Row title={titleOf(p)} cells={[
          <>
            {p.tunnel ? <Badge health={p.tunnel.health}>tunnel: {p.tunnel.state}</Badge> : <Badge health="none">no tunnel</Badge>}
            {p.uses.filter((u) => u.health !== 'ok').map((u) => <Badge key={u.consumer} health={u.health}>{u.consumer} uses {u.provider}: {u.phase}</Badge>)}
          </>,
          p.tunnel?.roundTrip !== undefined && <>{seconds(p.tunnel.roundTrip)} <span class="note">round trip</span></>,
          p.tunnel?.forth !== undefined && p.tunnel.back !== undefined && (
            <><Traffic to={p.b} value={p.tunnel.forth} /> <Traffic to={p.a} value={p.tunnel.back} /></>
          ),
        ]} details={() => <PeeringDetails p={p} />} />
      )} />
    </Section>
  )
}

/** The direction from a consumer to its provider. */
function titleOf(p: Peering): string {
  const [use] = p.uses
  if (!use) return `${p.a} – ${p.b}`
  return p.uses.length > 1 ? `${p.a} ⇄ ${p.b}` : `${use.consumer} → ${use.provider}`
}

const Traffic = ({ to, value }: { to: string; value: number }) => <span>{perSecond(value)} <span class="note">to {to}</span></span>

function PeeringDetails({ p }: { p: Peering }) {
  const t = p.tunnel, alerts = p.alerts ?? []
  // A condition of the peering often repeats the message of its tunnel.
  const messages = [...alerts, ...(t?.messages ?? []).filter((m) => !alerts.some((a) => a.endsWith(m.slice(m.indexOf(':')))))]
  return (
    <>
      {distinct(messages).map((m) => <p key={m} class="fail-text">{m}</p>)}
      <dl class="figures">
        {p.uses.map((u) => <Fact key={u.consumer} name={`${u.consumer} uses ${u.provider}`}>{u.phase}</Fact>)}
        {p.authentication && <Fact name="Authentication">{p.authentication}</Fact>}
        {p.type && <Fact name="API server">{p.type}</Fact>}
        {t?.mtu ? <Fact name="MTU">{t.mtu} B</Fact> : null}
        <Course name="Round trip" unit={seconds} points={t?.roundTrips} />
        <Course name={`Traffic to ${p.b}`} unit={perSecond} points={t?.forths} />
        <Course name={`Traffic to ${p.a}`} unit={perSecond} points={t?.backs} />
      </dl>
      {t?.unmeasured && <p class="note">Traffic is not known: {t.unmeasured}</p>}
    </>
  )
}

const Fact = ({ name, children }: { name: string; children: ComponentChildren }) => <div><dt>{name}</dt><dd>{children}</dd></div>

/** The course of a measurement, with its highest value. It is left out if there is none. */
function Course({ name, unit, points = [] }: { name: string; unit: (value: number) => string; points?: Point[] }) {
  if (points.length < 2) return null
  return <Fact name={name}><Sparkline points={points} /> at most {unit(Math.max(...points.map((p) => p.value)))}</Fact>
}

export function Nodes({ nodes, reading }: { nodes: (VirtualNode & Keyed)[]; reading: boolean }) {
  return (
    <Section id="nodes" title="Virtual nodes" note={plural(nodes.length, 'node')}>
      {nodes.length === 0 && <Empty reading={reading}>No cluster has a virtual node.</Empty>}
      <List items={worstFirst(nodes)} what="virtual nodes" item={(n) => {
        const resources = n.resources.filter((r) => r.granted > 0 || r.requested > 0)
        return (
          <Row title={<>{n.name} <span class="note">in {n.cluster}</span></>} cells={[
            <><Badge health={n.health}>{n.state}</Badge> <span class="note">{plural(n.pods, 'pod')}</span></>,
            ...resources.slice(0, 2).map((r) => <Amounts key={r.name} r={r} />),
          ]} details={() => (
            <>
              {n.message && <p class="fail-text">{n.message}</p>}
              <p class="note">
                It runs pods in cluster {n.provider}. “Requested” is the sum of the requests of these pods.
                {resources.every((r) => r.used === undefined) && ' What they use is shown if cluster ' + n.cluster + ' has a metrics server.'}
                {resources.some((r) => !r.known) && ' “Left” is the rest of the grant. Give the provider’s kubeconfig to see what it really has free.'}
              </p>
              {resources.length > 2 && <ul class="cells">{resources.slice(2).map((r) => <li key={r.name}><Amounts r={r} /></li>)}</ul>}
            </>
          )} />
        )
      }} />
    </Section>
  )
}

/** What of a grant the pods request, what they use, if that is measured, and what is free. */
function Amounts({ r }: { r: Resource }) {
  const parts = [`${amount(r.name, r.requested)} requested`, r.used !== undefined && `${amount(r.name, r.used)} in use`,
    `${amount(r.name, r.free)} ${r.known ? 'really free' : 'left'}`].filter(Boolean)
  return (
    <span class="amounts">
      <span>{amount(r.name, r.granted)} {r.name}{r.name === 'cpu' && ' (cores)'}</span>
      <span class="note">{parts.map((part, i) => <>{i > 0 && ', '}<span class="whole">{part}</span></>)}</span>
      <Meter used={r.requested} free={r.free} of={r.granted} label={`${r.name}: ${parts.join(', ')}`} />
    </span>
  )
}

export type Choose = (end: 'from' | 'to', pod: Pod) => void

interface NamespacesProps { namespaces: (Namespace & Keyed)[]; pods: (Pod & Keyed)[]; claims: (Claim & Keyed)[]; reading: boolean; choose: Choose }

export function Namespaces({ namespaces, pods, claims, reading, choose }: NamespacesProps) {
  const [filter, setFilter] = useState('')
  const shown = namespaces.filter((n) => matches(filter, n.name, n.cluster, n.consumer, n.phase, ...n.places.map((p) => p.cluster)))
  return (
    <Section id="namespaces" title="Offloaded namespaces" note={plural(namespaces.length, 'namespace')}
      tools={namespaces.length > 1 && <Filter what="namespaces" text={filter} setText={setFilter} />}>
      {namespaces.length === 0 && <Empty reading={reading}>No namespace is offloaded: <span class="code">liqoctl offload namespace</span> offloads one.</Empty>}
      {namespaces.length > 0 && shown.length === 0 && <Empty>No namespace has these words.</Empty>}
      <List items={worstFirst(shown)} what="namespaces" item={(n) => {
        // The clusters with most pods that are not ready come first, then those with most pods.
        const places = n.places.filter((p) => p.pods > 0).sort((a, b) => b.pods - b.running - (a.pods - a.running) || b.pods - a.pods)
        const [running, total] = [places.reduce((sum, p) => sum + p.running, 0), places.reduce((sum, p) => sum + p.pods, 0)]
        const text = `${running.toLocaleString('en')} of ${plural(total, 'pod')} ready`
        return (
          <Row title={<>{n.name} <span class="note">{n.consumer ? `in ${n.cluster}, of consumer ${n.consumer}` : `of ${n.cluster}`}</span></>} cells={[
            <><Badge health={n.health}>{n.phase}</Badge>{n.volumes && <VolumeCount of={n.volumes} />}</>,
            total > 0 && <span class="amounts">{text} <Meter used={running} free={0} of={total} label={text} /></span>,
            total > 0 && places.slice(0, 3).map((p) => `${p.pods.toLocaleString('en')} ${p.cluster ? 'in ' + p.cluster : 'on no node yet'}`).join(', ') +
              (places.length > 3 ? ` and ${plural(places.length - 3, 'more cluster')}` : ''),
          ]} details={() => <NamespaceDetails n={n} pods={pods} claims={claims} choose={choose} />} />
        )
      }} />
    </Section>
  )
}

/** How many volumes a namespace has, and how many of them are ready unless all are. */
const VolumeCount = ({ of: { ready, total, health } }: { of: NonNullable<Namespace['volumes']> }) => (
  ready === total ? <span class="note">{plural(total, 'volume')}</span> : <Badge health={health}>{ready} of {plural(total, 'volume')} ready</Badge>
)

const limit = 50

function NamespaceDetails({ n, pods, claims, choose }: { n: Namespace } & Pick<NamespacesProps, 'pods' | 'claims' | 'choose'>) {
  const [filter, setFilter] = useState('')
  const remote = n.places.filter((p) => p.namespace)
  const own = pods.filter((p) => p.cluster === n.cluster && p.namespace === n.name)
  const shown = worstFirst(own.filter((p) => matches(filter, p.name, p.state, p.place)))
  return (
    <>
      {n.message && <p class="fail-text">{n.message}</p>}
      {n.strategy && <p class="note">Strategy {n.strategy}</p>}
      {remote.length > 0 && <p class="note">Remote namespaces: {remote.map((p) => `${p.namespace} in ${p.cluster}`).join(', ')}</p>}
      {n.volumes && <Volumes n={n} claims={worstFirst(claims.filter((c) => c.cluster === n.cluster && c.namespace === n.name))} />}
      {own.length > 10 && <Filter what={`pods of ${n.name}`} text={filter} setText={setFilter} />}
      {own.length > 0 && (
        <table>
          <caption class="hidden">Pods of namespace {n.name} of {n.cluster}</caption>
          <thead><tr><th scope="col">Pod</th><th scope="col">State</th><th scope="col">Cluster</th><th scope="col">Path</th></tr></thead>
          <tbody>
            {shown.slice(0, limit).map((p) => (
              <tr key={p.key}>
                <th scope="row">{p.name}</th>
                <td><Badge health={p.health}>{p.state}</Badge></td>
                <td>{p.place || '–'}</td>
                <td>
                  <button type="button" aria-label={`Path from ${p.name}`} onClick={() => choose('from', p)}>from</button>{' '}
                  <button type="button" aria-label={`Path to ${p.name}`} onClick={() => choose('to', p)}>to</button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {shown.length > limit && <p class="note">and {plural(shown.length - limit, 'more pod')}</p>}
    </>
  )
}

function Volumes({ n, claims }: { n: Namespace; claims: (Claim & Keyed)[] }) {
  return (
    <>
      <table>
        <caption class="hidden">Volumes of namespace {n.name} of {n.cluster}</caption>
        <thead><tr><th scope="col">Volume</th><th scope="col">State</th><th scope="col">Data in</th><th scope="col">Size</th></tr></thead>
        <tbody>
          {claims.slice(0, limit).map((c) => (
            <tr key={c.key}>
              <th scope="row">{c.name}</th>
              <td><Badge health={c.health}>{c.state}</Badge></td>
              <td>{c.place || '–'}{c.node && <span class="note"> on {c.node}</span>}</td>
              <td>{c.size ? bytes(c.size) : <span class="note">{bytes(c.requested)} requested</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {claims.length > limit && <p class="note">and {plural(claims.length - limit, 'more volume')}</p>}
    </>
  )
}

const eventLimit = 10

export function Events({ events, reading }: { events: (Event & Keyed)[]; reading: boolean }) {
  const [filter, setFilter] = useState('')
  const [normal, setNormal] = useState(false)
  const isNormal = (e: Event) => e.type !== 'Warning'
  const normals = events.filter(isNormal).length
  const shown = events.filter((e) => (normal || !isNormal(e)) && matches(filter, e.cluster, e.object, e.reason, e.message))
    .sort((a, b) => Number(isNormal(a)) - Number(isNormal(b)) || b.at - a.at)
  return (
    <Section id="events" title="Events" note={plural(events.length - normals, 'warning')} tools={events.length > 0 && (
      <div class="tools">
        {normals > 0 && <label><input type="checkbox" checked={normal} onChange={(e) => setNormal(e.currentTarget.checked)} /> also {normals} normal ones</label>}
        <Filter what="events" text={filter} setText={setFilter} />
      </div>
    )}>
      {shown.length === 0 && <Empty reading={reading}>{filter ? 'No event has these words.' : 'No recent warning is about Liqo.'}</Empty>}
      <List items={shown} what="events" limit={eventLimit} item={(e) => (
        <div class="row event">
          <time dateTime={new Date(e.at * 1000).toISOString()}>{clock(e.at)}</time>
          <span><Badge health={isNormal(e) ? 'none' : 'warn'}>{e.reason}</Badge>{(e.count ?? 0) > 1 && <span class="note"> {e.count} times</span>}</span>
          <span><strong>{e.cluster}: {e.object}</strong> {e.message}</span>
        </div>
      )} />
    </Section>
  )
}
