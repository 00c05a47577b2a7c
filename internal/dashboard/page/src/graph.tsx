// The graph of the topology: clusters, and the peerings between them.
import { useEffect, useRef, useState } from 'preact/hooks'
import { perSecond, plural, seconds } from './format'
import { arrange, cut, layout, shorten, type Box, type Label, type Line, type Spot } from './layout'
import type { Cluster, Keyed, Peering } from './model'
import { worstFirst } from './parts'

// Among more lines than these it is not clear which one a figure belongs to: only those of tunnels in trouble, and of the chosen one, are shown.
const manyPeerings = 12
// A picture that is narrower than these pixels is taller than wide, and has the round trips as its only figures.
const narrow = 500
const steps: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }

/** The text that says all about a peering. */
export function describe(p: Peering): string {
  const uses = p.uses.map((u) => `${u.consumer} uses ${u.provider}, ${u.phase}`).join('; ') || 'no resources are used'
  const t = p.tunnel
  if (!t) return `${p.a} and ${p.b}: ${uses}; no tunnel`
  const figures = [t.roundTrip !== undefined && `round trip ${seconds(t.roundTrip)}`, t.forth !== undefined && `${perSecond(t.forth + (t.back ?? 0))}`]
  return `${p.a} and ${p.b}: ${uses}; tunnel ${t.state}${figures.filter(Boolean).map((f) => `, ${f}`).join('')}`
}

function figures(p: Peering, brief: boolean): string {
  const t = p.tunnel
  if (!t) return 'no tunnel'
  if (t.health !== 'ok') return t.state
  const parts = [t.roundTrip !== undefined && seconds(t.roundTrip), !brief && t.forth !== undefined && perSecond(t.forth + (t.back ?? 0))]
  return parts.filter(Boolean).join(' · ') || t.state
}

let canvas: CanvasRenderingContext2D | null

/** Returns the width of a text in the font of the names, the widest one of the graph. */
function widthOf(text: string): number {
  canvas ??= document.createElement('canvas').getContext('2d')!
  canvas.font = '600 15px system-ui, sans-serif'
  return canvas.measureText(text).width + 4
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
  const tall = width < narrow
  const height = clusters.length < 3 && !tall ? 200 : clusters.length < 5 ? 340 : Math.max(440, Math.min(600, 0.55 * width))
  const known = new Set(clusters.map((c) => c.id))
  const linked = peerings.filter((p) => known.has(p.a) && known.has(p.b))
  const spots = layout([...known], linked.map((p) => [p.a, p.b]), tall)
  const names = Math.max(0, ...clusters.map((c) => widthOf(nameFor(c, tall))))
  const margin = { x: tall ? 60 : Math.min(names + 44, width / 4), y: 54 }
  const [rx, ry] = [Math.max(1, width / 2 - margin.x), height / 2 - margin.y]
  const radius = Math.max(4, Math.min(tall ? 20 : 26, (rx + ry) / clusters.length))
  const place = (id: string) => {
    const spot = spots.get(id)!
    return { x: width / 2 + spot.x * rx, y: height / 2 + spot.y * ry }
  }
  const items = [...clusters, ...linked].map((document) => document.key)
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

  const lines = new Map(linked.map((p) => [p.key, between(place(p.a), place(p.b), radius)]))
  const labels = [
    ...worstFirst(clusters).map((c) => nameOf(c, place(c.id), spots.get(c.id)!, radius, tall)),
    ...worstFirst(linked).filter((p) => linked.length <= manyPeerings || (p.tunnel && p.tunnel.health !== 'ok') || p.key === chosen)
      .flatMap((p) => [...(tall ? [] : [false]), true].map((brief) => figuresOf(p, lines.get(p.key)!, brief))),
  ].sort((a, b) => Number(b.key === chosen) - Number(a.key === chosen))
  const boxes = arrange(labels, clusters.map((c) => ({ ...place(c.id), r: radius })), [...lines.values()], width, height)
  const texts = [...boxes.values()]

  return (
    <div ref={ref} class="graph">
      {width > 0 && (
        <svg ref={group} class={radius < 12 ? 'small' : ''} width={width} height={height} role="group" onKeyDown={move}
          aria-label="Topology: arrow keys move between clusters and peerings">
          {linked.map((p) => <Edge key={p.key} peering={p} line={lines.get(p.key)!} boxes={texts} size={Math.min(14, radius)} item={item(p.key)} />)}
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
            {[...boxes].map(([key, { text, name, ...box }]) => (
              <text key={key} class={name ? 'name' : ''} x={(box.left + box.right) / 2} y={box.bottom - 5}>{text}</text>
            ))}
          </g>
        </svg>
      )}
      <p class="chosen" aria-live="polite">{explain(chosen, clusters, peerings)}</p>
    </div>
  )
}

const symbol = (c: Cluster) => (c.health === 'fail' ? '✖' : c.health === 'warn' ? '!' : c.local ? '⌂' : '')

/** The visible line between two circles. */
function between(a: Spot, b: Spot, radius: number): Line {
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1
  const [dx, dy] = [((b.x - a.x) / length) * (radius + 3), ((b.y - a.y) / length) * (radius + 3)]
  return { from: { x: a.x + dx, y: a.y + dy }, to: { x: b.x - dx, y: b.y - dy } }
}

const nameFor = (c: Cluster, tall: boolean) => shorten(c.id, tall ? 14 : undefined)

/** The name of a cluster is outside of the ring, or else at another side of its circle. */
function nameOf(c: Cluster & Keyed, { x, y }: Spot, outward: Spot, radius: number, tall: boolean): Label {
  const text = nameFor(c, tall), w = widthOf(text)
  const side = (dx: number, dy: number) => ({ x: x + dx * (radius + 8 + w / 2), y: y + dy * (radius + 14) })
  const places = [side(0, 1), side(0, -1), side(1, 0), side(-1, 0), side(0.8, 0.8), side(-0.8, 0.8), side(0.8, -0.8), side(-0.8, -0.8)]
  if (outward.x || outward.y) places.unshift(side(outward.x, outward.y))
  return { key: c.key, text, w, name: true, places }
}

/** The figures of a peering are on its line, or else next to it. */
function figuresOf(p: Peering & Keyed, line: Line, brief: boolean): Label {
  const text = figures(p, brief), w = widthOf(text)
  const [dx, dy] = [line.to.x - line.from.x, line.to.y - line.from.y], length = Math.hypot(dx, dy) || 1
  const away = (Math.abs(dy / length) * w) / 2 + Math.abs(dx / length) * 10 + 5
  const at = (t: number, aside: number) => ({ x: line.from.x + t * dx - (aside * away * dy) / length, y: line.from.y + t * dy + (aside * away * dx) / length })
  const shares = [0.5, 0.4, 0.6, 0.3, 0.7]
  return { key: p.key, text, w, places: [...shares.map((t) => ({ ...at(t, 0), on: line })), ...shares.flatMap((t) => [at(t, -1), at(t, 1)])] }
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

interface EdgeProps { peering: Peering; line: Line; boxes: Box[]; size: number; item: Record<string, unknown> }

function Edge({ peering, line, boxes, size, item }: EdgeProps) {
  const [dx, dy] = [line.to.x - line.from.x, line.to.y - line.from.y], length = Math.hypot(dx, dy) || 1
  const arrow = (tip: Spot, sign: number, health: string) => {
    const [ux, uy] = [(sign * dx * size) / length, (sign * dy * size) / length]
    const points = [[tip.x, tip.y], [tip.x - ux - uy / 2, tip.y - uy + ux / 2], [tip.x - ux + uy / 2, tip.y - uy - ux / 2]]
    return <polygon class={`arrow ${health}`} points={points.map((p) => p.map((v) => v.toFixed(1)).join(',')).join(' ')} />
  }
  const ends = ({ from, to }: Line) => ({ x1: from.x, y1: from.y, x2: to.x, y2: to.y })
  return (
    <g class={`edge ${peering.health}`} aria-label={describe(peering)} {...item}>
      <line class="touch" {...ends(line)} />
      {cut(line, boxes).map((part, i) => <line key={i} class={`line ${peering.tunnel ? peering.tunnel.health : 'none'}`} {...ends(part)} />)}
      {peering.uses.map((u) => (u.provider === peering.b ? arrow(line.to, 1, u.health) : arrow(line.from, -1, u.health)))}
    </g>
  )
}
