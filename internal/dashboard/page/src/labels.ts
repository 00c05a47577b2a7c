// Where the texts of the graph are drawn.
import type { Spot } from './layout'

/** A text, and the places where it may stand, the best first. A place is the middle of its base line. */
export interface Label { key: string; text: string; places: Spot[] }
export interface Circle extends Spot { r: number }
interface Box { left: number; right: number; top: number; bottom: number }

const perLetter = 7.5, ascent = 13, descent = 4 // of a text of 14 pixels
const most = 22

/** Shortens a name in its middle: names of clusters often differ at their ends. */
export const shorten = (name: string) => (name.length <= most ? name : `${name.slice(0, most - 10)}…${name.slice(-9)}`)

/**
 * Returns the place of each label that has room: inside of the width, and over no circle and no earlier label. The first labels matter most.
 * The label named must is placed in any case.
 */
export function arrange(labels: Label[], circles: Circle[], width: number, must: string): Map<string, Spot> {
  const taken: Box[] = circles.map((c) => ({ left: c.x - c.r, right: c.x + c.r, top: c.y - c.r, bottom: c.y + c.r }))
  const out = new Map<string, Spot>()
  for (const label of labels) {
    const half = (label.text.length * perLetter) / 2
    const inside = (x: number) => Math.max(half, Math.min(width - half, x))
    const spots = label.places.map((p) => ({ x: inside(p.x), y: p.y }))
    const spot = spots.find((p) => !taken.some((t) => overlaps(t, box(p, half)))) ?? (label.key === must ? spots[0] : undefined)
    if (!spot) continue
    out.set(label.key, spot)
    taken.push(box(spot, half))
  }
  return out
}

const box = (p: Spot, half: number): Box => ({ left: p.x - half, right: p.x + half, top: p.y - ascent, bottom: p.y + descent })
const overlaps = (a: Box, b: Box) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
