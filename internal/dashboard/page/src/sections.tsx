// The sections that list what the documents say.
import { useState } from 'preact/hooks'
import { amount, clock, perSecond, plural, seconds } from './format'
import type { Diagnosis, Event, Finding, Keyed, Namespace, Peering, Pod, Point, VirtualNode } from './model'
import { Badge, Cards, Empty, Meter, Section, Sparkline, worstFirst } from './parts'

export function Findings({ diagnosis }: { diagnosis?: Diagnosis }) {
  const problems = diagnosis?.findings.filter((f) => f.level !== 'ok') ?? []
  const well = diagnosis?.findings.filter((f) => f.level === 'ok') ?? []
  return (
    <Section id="findings" title="Findings" note={diagnosis?.done ? plural(problems.length, 'problem') : 'being diagnosed'}>
      {/* Its height is fixed: findings come and go, and the page below must not move. */}
      <div class="scroll fixed" role="region" tabIndex={0} aria-label="List of findings">
        {diagnosis?.done && problems.length === 0 && <Empty>doctor finds no problem.</Empty>}
        <ul class="rows">{problems.map((f) => <Problem key={f.cluster + f.check + f.evidence} finding={f} />)}</ul>
        {well.length > 0 && (
          <details>
            <summary>{plural(well.length, 'check')} without a problem</summary>
            <ul class="rows">
              {well.map((f) => (
                <li key={f.cluster + f.check + f.evidence}><Badge health="ok">{f.cluster}: {f.check}</Badge> <span class="wrap">{f.evidence}</span></li>
              ))}
            </ul>
          </details>
        )}
      </div>
    </Section>
  )
}

function Problem({ finding }: { finding: Finding }) {
  const consequences = finding.consequences ?? []
  return (
    <li>
      <Badge health={finding.level}>{finding.cluster}: {finding.check}</Badge>
      <p class="wrap">{finding.evidence}</p>
      {finding.cure && <p class="wrap"><strong>Cure:</strong> <span class="code">{finding.cure}</span></p>}
      {consequences.length > 0 && (
        <details>
          <summary>leads to {plural(consequences.length, 'other problem')}</summary>
          <ul class="rows">{consequences.map((c) => <Problem key={c.cluster + c.check + c.evidence} finding={c} />)}</ul>
        </details>
      )}
    </li>
  )
}

export function Peerings({ peerings, reading }: { peerings: (Peering & Keyed)[]; reading: boolean }) {
  return (
    <Section id="peerings" title="Peerings" note={plural(peerings.length, 'peering')}>
      {peerings.length === 0 && <Empty reading={reading}>No cluster is peered with another one: <span class="code">liqoctl peer</span> peers two.</Empty>}
      <Cards items={peerings} what="peerings" card={(p) => (
        <>
          <h3>{p.a} and {p.b}</h3>
          <p class="badges">
            {p.uses.map((u) => <Badge key={u.consumer} health={u.health}>{u.consumer} → {u.provider}: {u.phase}</Badge>)}
            {p.uses.length === 0 && <Badge health="none">no resources are used</Badge>}
            {p.tunnel ? <Badge health={p.tunnel.health}>tunnel: {p.tunnel.state}</Badge> : <Badge health="none">no tunnel</Badge>}
          </p>
          {p.tunnel && (
            <dl class="figures">
              <dt>Round trip</dt>
              <Figure value={p.tunnel.health === 'ok' ? p.tunnel.roundTrip : undefined} unit={seconds} points={p.tunnel.roundTrips} />
              <dt>{p.a} → {p.b}</dt>
              <Figure value={p.tunnel.forth} unit={perSecond} points={p.tunnel.forths} />
              <dt>{p.b} → {p.a}</dt>
              <Figure value={p.tunnel.back} unit={perSecond} points={p.tunnel.backs} />
              {p.tunnel.mtu && <><dt>MTU</dt><dd><span class="figure">{p.tunnel.mtu} B</span></dd></>}
            </dl>
          )}
          {p.tunnel?.unmeasured && <p class="note wrap">Traffic is not known: {p.tunnel.unmeasured}</p>}
          {[...(p.tunnel?.messages ?? []), ...(p.alerts ?? [])].map((m, i) => <p key={i} class="wrap fail-text">{m}</p>)}
        </>
      )} />
    </Section>
  )
}

function Figure({ value, unit, points }: { value?: number; unit: (value: number) => string; points?: Point[] }) {
  return <dd><span class="figure">{value === undefined ? '–' : unit(value)}</span><Sparkline points={points} /></dd>
}

export function Nodes({ nodes, reading }: { nodes: (VirtualNode & Keyed)[]; reading: boolean }) {
  return (
    <Section id="nodes" title="Virtual nodes" note={plural(nodes.length, 'node')}>
      {nodes.length === 0 && <Empty reading={reading}>No cluster has a virtual node.</Empty>}
      <Cards items={nodes} what="virtual nodes" card={(n) => (
        <>
          <h3>{n.name} <span class="note">in {n.cluster}, runs pods in {n.provider}</span></h3>
          <p class="badges"><Badge health={n.health}>{n.state}</Badge> <span class="note">{plural(n.pods, 'pod')}</span></p>
          {n.message && <p class="wrap fail-text">{n.message}</p>}
          <ul class="meters">
            {n.resources.map((r) => {
              const free = `${amount(r.name, r.free)} ${r.known ? 'really free' : 'left'}`
              const text = `${amount(r.name, r.used)} of ${amount(r.name, r.granted)} used, ${free}`
              return (
                <li key={r.name}>
                  <span class="name">{r.name}{r.name === 'cpu' && ' (cores)'}</span>
                  <span class="text">{text}</span>
                  <Meter used={r.used} free={r.free} of={r.granted} label={`${r.name}: ${text}`} />
                </li>
              )
            })}
          </ul>
        </>
      )} />
      {nodes.some((n) => n.resources.some((r) => !r.known)) && (
        <p class="note">“left” is what remains of the grant. Give the provider’s kubeconfig to see what it really has free.</p>
      )}
    </Section>
  )
}

export type Choose = (end: 'from' | 'to', pod: Pod) => void

// The clusters with most pods that are not ready come first, then those with most pods.
const placeLimit = 12

interface NamespacesProps { namespaces: (Namespace & Keyed)[]; pods: (Pod & Keyed)[]; reading: boolean; choose: Choose }

export function Namespaces({ namespaces, pods, reading, choose }: NamespacesProps) {
  return (
    <Section id="namespaces" title="Offloaded namespaces" note={plural(namespaces.length, 'namespace')}>
      {namespaces.length === 0 && <Empty reading={reading}>No namespace is offloaded: <span class="code">liqoctl offload namespace</span> offloads one.</Empty>}
      <Cards items={namespaces} what="namespaces" card={(n) => {
        const total = n.places.reduce((sum, p) => sum + p.pods, 0)
        const places = [...n.places].sort((a, b) => b.pods - b.running - (a.pods - a.running) || b.pods - a.pods)
        return (
          <>
            <h3>{n.name} <span class="note">{n.consumer ? `in ${n.cluster}, of consumer ${n.consumer}` : `of ${n.cluster}`}</span></h3>
            <p class="badges"><Badge health={n.health}>{n.phase}</Badge> <span class="note">{n.strategy}</span></p>
            {n.message && <p class="wrap fail-text">{n.message}</p>}
            <ul class="meters">
              {places.slice(0, placeLimit).map((p) => {
                const text = `${p.running} of ${plural(p.pods, 'pod')} ready`
                return (
                  <li key={p.cluster}>
                    <span class="name">{p.cluster || 'no node yet'}{p.namespace && ` (${p.namespace})`}</span>
                    <span class="text">{text}</span>
                    <Meter used={p.running} free={p.pods - p.running} of={total} label={`${p.cluster || 'no node yet'}: ${text}`} />
                  </li>
                )
              })}
            </ul>
            {places.length > placeLimit && <p class="note">and {plural(places.length - placeLimit, 'more cluster')}</p>}
            <Pods of={n} pods={pods} choose={choose} />
          </>
        )
      }} />
    </Section>
  )
}

const podLimit = 100

function Pods({ of, pods, choose }: { of: Namespace; pods: (Pod & Keyed)[]; choose: Choose }) {
  const [open, setOpen] = useState(false)
  const own = open ? pods.filter((p) => p.cluster === of.cluster && p.namespace === of.name) : []
  return (
    <details onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
      <summary>Pods</summary>
      {open && (
        <div class="scroll" role="region" tabIndex={0} aria-label={`Pods of namespace ${of.name} of ${of.cluster}`}>
          <table>
            <thead><tr><th scope="col">Pod</th><th scope="col">State</th><th scope="col">Cluster</th><th scope="col">Path</th></tr></thead>
            <tbody>
              {worstFirst(own).slice(0, podLimit).map((p) => (
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
          {own.length > podLimit && <p class="note">and {plural(own.length - podLimit, 'more pod')}</p>}
        </div>
      )}
    </details>
  )
}

export function Events({ events, reading }: { events: (Event & Keyed)[]; reading: boolean }) {
  const newest = [...events].sort((a, b) => b.at - a.at)
  return (
    <Section id="events" title="Events" note={events.length ? `the newest ${events.length}` : undefined}>
      {events.length === 0 && <Empty reading={reading}>No recent event is about Liqo.</Empty>}
      <ul class="rows events">
        {newest.map((e) => (
          <li key={e.key}>
            <time dateTime={new Date(e.at * 1000).toISOString()}>{clock(e.at)}</time>{' '}
            <Badge health={e.type === 'Warning' ? 'warn' : 'none'}>{e.reason}</Badge>{' '}
            <span class="wrap"><strong>{e.cluster}: {e.object}</strong> {e.message}{(e.count ?? 0) > 1 && ` (${e.count} times)`}</span>
          </li>
        ))}
      </ul>
    </Section>
  )
}
