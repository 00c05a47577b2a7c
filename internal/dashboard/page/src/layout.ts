// Where the clusters of the topology are drawn.
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from 'd3-force'

export interface Spot { x: number; y: number }
interface Body extends Spot { id: string; index?: number; vx?: number; vy?: number }

/**
 * Computes a place for each cluster, from 0 to 1 in both directions. The longest extent of the graph lies across, because pages are wider than
 * the graph is high. Clusters that had a place start from it, so that little moves when one is added. The same input gives the same places.
 */
export function layout(ids: string[], links: [string, string][], before: Map<string, Spot>): Map<string, Spot> {
  const bodies: Body[] = ids.map((id, i) => {
    const had = before.get(id)
    const angle = i * 2.4 // the golden angle spreads new ones evenly
    return { id, x: had ? (had.x - 0.5) * 10 : Math.cos(angle) * Math.sqrt(i + 1), y: had ? (had.y - 0.5) * 6 : Math.sin(angle) * Math.sqrt(i + 1) }
  })
  forceSimulation(bodies)
    .force('link', forceLink<Body, { source: string; target: string }>(links.map(([source, target]) => ({ source, target }))).id((b) => b.id).distance(4))
    .force('charge', forceManyBody().strength(-8))
    .force('collide', forceCollide(1))
    .force('x', forceX(0).strength(0.05))
    .force('y', forceY(0).strength(0.08))
    .stop()
    .tick(200)
  return fit(bodies)
}

function fit(bodies: Body[]): Map<string, Spot> {
  const mean = (value: (b: Body) => number) => bodies.reduce((sum, b) => sum + value(b), 0) / Math.max(1, bodies.length)
  const [cx, cy] = [mean((b) => b.x), mean((b) => b.y)]
  // The direction of the largest spread, from the matrix of second moments.
  const xx = mean((b) => (b.x - cx) ** 2), yy = mean((b) => (b.y - cy) ** 2), xy = mean((b) => (b.x - cx) * (b.y - cy))
  const angle = Math.atan2(2 * xy, xx - yy) / 2
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)]
  const turned = bodies.map((b) => ({ id: b.id, x: (b.x - cx) * cos + (b.y - cy) * sin, y: (b.y - cy) * cos - (b.x - cx) * sin }))
  const span = (values: number[]) => {
    const [low, high] = [Math.min(...values), Math.max(...values)]
    return (value: number) => (high - low < 1e-6 ? 0.5 : (value - low) / (high - low))
  }
  const across = span(turned.map((b) => b.x)), down = span(turned.map((b) => b.y))
  return new Map(turned.map((b) => [b.id, { x: across(b.x), y: down(b.y) }]))
}
