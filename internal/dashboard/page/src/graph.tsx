// The graph of the topology: clusters, and the peerings between them.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { perSecond, plural, seconds } from './format'
import { arrange, shorten, type Label } from './labels'
import { layout, type Spot } from './layout'
import type { Cluster, Keyed, Peering } from './model'
import { worstFirst } from './parts'

const height = 360
// Among more lines than these it is not clear which one a figure belongs to: only those of tunnels in trouble, and of the chosen one, are shown.
const manyPeerings = 12
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

export function Graph({ clusters, peerings }: { clusters: (Cluster & Keyed)[]; peerings: (Peering & Keyed)[] }) {
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

  const radius = Math.max(5, Math.min(26, 0.2 * Math.sqrt((width * height) / Math.max(1, clusters.length))))
  const margin = { x: Math.min(radius + 50, width / 5), y: radius + 24 }
  const place = (id: string) => {
    const spot = spots.get(id) ?? { x: 0.5, y: 0.5 }
    return { x: margin.x + spot.x * (width - 2 * margin.x), y: margin.y + spot.y * (height - 2 * margin.y) }
  }
  const items = [...clusters, ...peerings].map((document) => document.key)
  const group = useRef<SVGSVGElement>(null)
  const move = (event: KeyboardEvent) => {
    const step = steps[event.key]
    if (!step || items.length === 0) return
    event.preventDefault()
    const next = (at + step + items.length) % items.length
    setAt(next)
    choose(items[next]!)
    group.current?.querySelector<SVGElement>(`[data-item="${next}"]`)?.focus()
  }
  // Attributes of SVG elements are case-sensitive: it is tabindex, not tabIndex.
  const item = (key: string) => ({
    'data-item': items.indexOf(key), role: 'button' as const, 'aria-pressed': chosen === key,
    tabindex: items.indexOf(key) === Math.min(at, items.length - 1) ? 0 : -1,
    onClick: () => { choose(chosen === key ? '' : key); setAt(items.indexOf(key)) },
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault()
        choose(chosen === key ? '' : key)
      }
    },
  })

  const labels = [
    ...worstFirst(clusters).map((c) => labelOf(c, place(c.id), radius)),
    ...worstFirst(peerings).filter((p) => peerings.length <= manyPeerings || (p.tunnel && p.tunnel.health !== 'ok') || p.key === chosen)
      .map((p) => ({ key: p.key, text: figures(p), places: along(place(p.a), place(p.b), radius) })),
  ].sort((a, b) => Number(b.key === chosen) - Number(a.key === chosen))
  const texts = arrange(labels, clusters.map((c) => ({ ...place(c.id), r: radius })), width, chosen)

  return (
    <div ref={ref} class="graph">
      {width > 0 && (
        <svg ref={group} class={radius < 12 ? 'small' : ''} width={width} height={height} role="group" onKeyDown={move}
          aria-label="Topology: arrow keys move between clusters and peerings">
          {peerings.map((p) => (
            <Edge key={p.key} peering={p} a={place(p.a)} b={place(p.b)} radius={radius} item={item(p.key)} />
          ))}
          {clusters.map((c) => {
            const { x, y } = place(c.id)
            return (
              <g key={c.key} class={`vertex ${c.health} ${c.given ? '' : 'foreign'}`} transform={`translate(${x} ${y})`} font-size={Math.min(18, 1.4 * radius)}
                {...item(c.key)}
                aria-label={`Cluster ${c.id}${c.local ? ', the local one' : ''}: ${summary(c)}`}>
                <circle r={radius} />
                <text class="symbol" aria-hidden="true" dy="0.35em">{symbol(c)}</text>
              </g>
            )
          })}
          <g class="labels" aria-hidden="true">
            {labels.map(({ key, text }) => texts.has(key) && <text key={key} x={texts.get(key)!.x} y={texts.get(key)!.y}>{text}</text>)}
          </g>
        </svg>
      )}
      <p class="chosen" aria-live="polite">{explain(chosen, clusters, peerings)}</p>
    </div>
  )
}

const symbol = (c: Cluster) => (c.health === 'fail' ? '✖' : c.health === 'warn' ? '!' : c.local ? '⌂' : '')

/** The name of a cluster stands below its circle, or else at another side. */
function labelOf(c: Cluster & Keyed, { x, y }: Spot, radius: number): Label {
  const text = shorten(c.id), aside = radius + 6 + 4 * text.length
  return { key: c.key, text, places: [{ x, y: y + radius + 18 }, { x, y: y - radius - 8 }, { x: x + aside, y: y + 5 }, { x: x - aside, y: y + 5 }] }
}

/** The figures of a peering stand next to the middle of its line, or else closer to one of its ends. */
function along(a: Spot, b: Spot, radius: number): Spot[] {
  const aside = [-8, 20, -radius - 10, radius + 22]
  return [0.5, 0.6, 0.4, 0.7, 0.3].flatMap((t) => aside.map((dy) => ({ x: a.x + t * (b.x - a.x), y: a.y + t * (b.y - a.y) + dy })))
}

function summary(c: Cluster): string {
  if (c.message) return c.message
  if (!c.given) return 'its kubeconfig was not given'
  return c.reading ? 'being read' : `${plural(c.nodes, 'node')}, ${plural(c.pods, 'pod')}, Liqo ${c.version || 'of unknown version'}`
}

function explain(chosen: string, clusters: (Cluster & Keyed)[], peerings: (Peering & Keyed)[]): string {
  const cluster = clusters.find((c) => c.key === chosen)
  if (cluster) return `${cluster.id}${cluster.local ? ' (local)' : ''}: ${summary(cluster)}`
  const peering = peerings.find((p) => p.key === chosen)
  return peering ? describe(peering) : 'Choose a cluster or a peering. An arrow leads from a consumer to its provider.'
}

interface EdgeProps {
  peering: Peering; a: Spot; b: Spot; radius: number; item: Record<string, unknown>
}

function Edge({ peering, a, b, radius, item }: EdgeProps) {
  const size = Math.min(12, radius)
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1
  const [ux, uy] = [(b.x - a.x) / length, (b.y - a.y) / length]
  const arrow = (towards: Spot, sign: number, health: string) => {
    const tip = { x: towards.x - sign * ux * (radius + 4), y: towards.y - sign * uy * (radius + 4) }
    const back = { x: tip.x - sign * ux * size, y: tip.y - sign * uy * size }
    const points = [[tip.x, tip.y], [back.x - (uy * size) / 2, back.y + (ux * size) / 2], [back.x + (uy * size) / 2, back.y - (ux * size) / 2]]
    return <polygon class={`arrow ${health}`} points={points.map((p) => p.map((v) => v.toFixed(1)).join(',')).join(' ')} />
  }
  const line = { x1: a.x, y1: a.y, x2: b.x, y2: b.y }
  return (
    <g class={`edge ${peering.health}`} aria-label={describe(peering)} {...item}>
      <line class="touch" {...line} />
      <line class={`line ${peering.tunnel ? peering.tunnel.health : 'none'}`} {...line} />
      {peering.uses.map((u) => (u.provider === peering.b ? arrow(b, 1, u.health) : arrow(a, -1, u.health)))}
    </g>
  )
}
