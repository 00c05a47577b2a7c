// Where the clusters of the topology are drawn, and where its texts are.

export interface Spot { x: number; y: number }
export interface Line { from: Spot; to: Spot }
export interface Circle extends Spot { r: number }
export interface Box { left: number; right: number; top: number; bottom: number }

/**
 * Returns a place for each cluster, from -1 to 1 in both directions. The clusters are on a circle, so that no line between two of them crosses a
 * name outside of it. A cluster that takes part in all peerings is in the middle. The first cluster is at the left, or at the top of a tall picture.
 */
export function layout(ids: string[], links: [string, string][], tall: boolean): Map<string, Spot> {
  const hub = links.length > 1 ? ids.find((id) => links.every((link) => link.includes(id))) : undefined
  const ring = ids.filter((id) => id !== hub)
  const spots = new Map(ring.map((id, i) => {
    const angle = (tall ? -Math.PI / 2 : Math.PI) + (2 * Math.PI * i) / ring.length
    return [id, { x: Math.cos(angle), y: Math.sin(angle) }]
  }))
  if (hub !== undefined) spots.set(hub, { x: 0, y: 0 })
  return spots
}

/**
 * A text that is w pixels wide, and the places where its middle may be, the best first. A name is shown even if lines have to make room for it. Of
 * several labels with one key, the first one that has room is shown.
 */
export interface Label { key: string; text: string; w: number; name?: boolean; places: (Spot & { on?: Line })[] }
export interface Placed extends Box { text: string; name?: boolean }

const high = 19 // the height of a text in pixels
const most = 22

/** Shortens a name in its middle: names of clusters often differ at their ends. */
export const shorten = (name: string, to = most) => (name.length <= to ? name : `${name.slice(0, to / 2)}…${name.slice(1 - to / 2)}`)

/** Returns the box of each label that has room: inside of the area, over no circle, no earlier label and no line. The first labels matter most. */
export function arrange(labels: Label[], circles: Circle[], lines: Line[], width: number, height: number): Map<string, Placed> {
  const taken: Box[] = circles.map((c) => around(c, c.r + 2, c.r + 2))
  const out = new Map<string, Placed>()
  for (const { key, text, w, name, places } of labels) {
    if (out.has(key)) continue
    const free = places.map((p) => ({ on: p.on, box: around({ ...p, x: Math.max(w / 2, Math.min(width - w / 2, p.x)) }, w / 2, high / 2) }))
      .filter(({ box }) => box.top >= 0 && box.bottom <= height && !taken.some((t) => overlaps(t, box)))
    const place = free.find(({ on, box }) => (!on || fits(on, box)) && !lines.some((line) => line !== on && within(line, box))) ?? (name ? free[0] : undefined)
    if (!place) continue
    out.set(key, { ...place.box, text, name })
    taken.push(place.box)
  }
  return out
}

/** Returns the parts of a line that are outside of the boxes. */
export function cut(line: Line, boxes: Box[]): Line[] {
  const at = (t: number) => ({ x: line.from.x + t * (line.to.x - line.from.x), y: line.from.y + t * (line.to.y - line.from.y) })
  const gaps = boxes.map((box) => within(line, { left: box.left - 4, right: box.right + 4, top: box.top, bottom: box.bottom })).filter((gap) => !!gap)
    .sort((a, b) => a[0] - b[0])
  const parts: Line[] = []
  let start = 0
  for (const [enter, leave] of gaps) {
    if (enter > start) parts.push({ from: at(start), to: at(enter) })
    start = Math.max(start, leave)
  }
  if (start < 1) parts.push({ from: at(start), to: at(1) })
  return parts
}

const around = (p: Spot, w: number, h: number): Box => ({ left: p.x - w, right: p.x + w, top: p.y - h, bottom: p.y + h })
const overlaps = (a: Box, b: Box) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom

/** A text on its own line leaves enough of the line visible at both ends, with the arrows. */
function fits(line: Line, box: Box): boolean {
  const gap = within(line, box), length = Math.hypot(line.to.x - line.from.x, line.to.y - line.from.y)
  return !!gap && gap[0] * length > 20 && (1 - gap[1]) * length > 20
}

/** The part of a line that is inside of a box, from 0 to 1. */
function within({ from, to }: Line, box: Box): [number, number] | undefined {
  let [enter, leave] = [0, 1]
  for (const [start, end, low, top] of [[from.x, to.x, box.left, box.right], [from.y, to.y, box.top, box.bottom]] as const) {
    if (Math.abs(end - start) < 1e-6) {
      if (start < low || start > top) return undefined
      continue
    }
    const [a, b] = [(low - start) / (end - start), (top - start) / (end - start)]
    enter = Math.max(enter, Math.min(a, b))
    leave = Math.min(leave, Math.max(a, b))
  }
  return enter < leave ? [enter, leave] : undefined
}
