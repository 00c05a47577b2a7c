// Small parts of the page.
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Health, Point } from './model'

const symbols: Record<Health, string> = { ok: '✔', warn: '!', fail: '✖', none: '–' }
const words: Record<Health, string> = { ok: 'well', warn: 'warning', fail: 'failed', none: 'nothing to judge' }

/** A state, with a color and a symbol for its health. */
export function Badge({ health, children }: { health: Health; children: ComponentChildren }) {
  return (
    <span class={`badge ${health}`}>
      <span aria-hidden="true">{symbols[health]}</span> {children}
      <span class="hidden"> ({words[health]})</span>
    </span>
  )
}

/** The course of a measurement. The current value stands next to it in the text, so it is hidden from screen readers. */
export function Sparkline({ points }: { points?: Point[] }) {
  const [width, height] = [96, 24]
  let path = ''
  if (points && points.length > 1) {
    const first = points[0]!.at, last = points[points.length - 1]!.at
    const most = Math.max(...points.map((p) => p.value)) || 1
    path = points
      .map((p, i) => {
        const x = ((p.at - first) / Math.max(1, last - first)) * width
        const y = height - 2 - (p.value / most) * (height - 4)
        return `${i ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`
      })
      .join('')
  }
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} width={width} height={height} aria-hidden="true">
      <path d={path} />
    </svg>
  )
}

/** What is used of an amount, and what is free. */
export function Meter({ used, free, of, label }: { used: number; free: number; of: number; label: string }) {
  const share = (value: number) => (of > 0 ? Math.min(100, (100 * value) / of) : 0)
  return (
    <svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={label}>
      <rect class="rest" width="100" height="8" />
      <rect class="free" x={share(used)} width={Math.min(share(free), 100 - share(used))} height="8" />
      <rect class="used" width={share(used)} height="8" />
    </svg>
  )
}

/** A section of the page. Its place in the navigation has the same name. The tools are next to its title. */
export function Section({ id, title, note, tools, children }: { id: string; title: string; note?: string; tools?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section id={id} aria-labelledby={`${id}-title`} tabIndex={-1}>
      <div class="head">
        <h2 id={`${id}-title`}>
          {title} {note && <span class="note">{note}</span>}
        </h2>
        {tools}
      </div>
      {children}
    </section>
  )
}

/** Says that a list is empty, unless its content is not known yet. */
export function Empty({ reading, children }: { reading?: boolean; children: ComponentChildren }) {
  return <p class="note">{reading ? 'The clusters are being read.' : children}</p>
}

const urgency: Record<Health, number> = { fail: 0, warn: 1, ok: 2, none: 2 }

/** The worst come first: those are looked for. */
export const worstFirst = <T extends { health: Health; volumes?: { health: Health } }>(items: T[]) => {
  const rank = (item: T) => Math.min(urgency[item.health], urgency[item.volumes?.health ?? 'none'])
  return [...items].sort((a, b) => rank(a) - rank(b))
}

/** A list. If it is long, only its beginning is shown until more is wanted. */
export function List<T extends { key: string }>({ items, what, limit = 20, item }: { items: T[]; what: string; limit?: number; item: (item: T) => ComponentChildren }) {
  const [all, setAll] = useState(false)
  return (
    <>
      <ul class="list">{(all ? items : items.slice(0, limit)).map((i) => <li key={i.key}>{item(i)}</li>)}</ul>
      {items.length > limit && (
        <button type="button" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? `Show ${limit} ${what} only` : `Show all ${items.length} ${what}`}
        </button>
      )}
    </>
  )
}

/** An object in one line: its title, and up to three cells. Its details are rendered when they are opened. */
export function Row({ title, cells, details }: { title: ComponentChildren; cells: ComponentChildren[]; details: () => ComponentChildren }) {
  const [open, setOpen] = useState(false)
  return (
    <details onToggle={(event) => event.target === event.currentTarget && setOpen(event.currentTarget.open)}>
      <summary class="row"><strong>{title}</strong>{cells.map((cell, i) => <span key={i} class="cell">{cell}</span>)}</summary>
      {open && <div class="details">{details()}</div>}
    </details>
  )
}

/** A field whose words a line must have to be shown. */
export function Filter({ what, text, setText }: { what: string; text: string; setText: (text: string) => void }) {
  return <input type="search" aria-label={`Filter ${what}`} placeholder={`Filter ${what}`} value={text} onInput={(e) => setText(e.currentTarget.value)} />
}

/** Reports whether the fields have all words of a filter. */
export function matches(filter: string, ...fields: (string | undefined)[]): boolean {
  const text = fields.join(' ').toLowerCase()
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word))
}
