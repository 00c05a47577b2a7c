// The path between two pods, as `liqoctl network explain` explains it.
import { useState } from 'preact/hooks'
import type { Pod } from './model'
import { Badge, Section } from './parts'
import { request } from './session'

interface Hop { cluster?: string; kind: string; name?: string; steps: { before: string; after: string; by: string }[] }
interface End { cluster: string; name?: string; address: string; node?: string }
interface Explanation {
  from: End; to: End; address?: string; seen?: string; there: Hop[]; back: Hop[]; whole: boolean
  fault?: { cluster: string; object: string; text: string }
}

export interface Ends { from: string; to: string }
export const endOf = (pod: Pod) => `${pod.cluster}/${pod.namespace}/${pod.name}`

const suggestions = 30

export function Path({ pods, ends, setEnds }: { pods: Pod[]; ends: Ends; setEnds: (ends: Ends) => void }) {
  const [answer, setAnswer] = useState<{ explanation?: Explanation; error?: string; busy?: boolean }>({})
  const ask = async (event: SubmitEvent) => {
    event.preventDefault()
    setAnswer({ busy: true })
    try {
      const response = await request(`api/explain?${new URLSearchParams({ from: ends.from.trim(), to: ends.to.trim() })}`)
      setAnswer(response.ok ? { explanation: await response.json() } : { error: await response.text() })
    } catch {
      setAnswer({ error: 'liqoctl does not respond: is it still running?' })
    }
  }
  return (
    <Section id="path" title="Path between two pods">
      <form class="path" onSubmit={ask}>
        {(['from', 'to'] as const).map((name) => (
          <label key={name}>
            <span>{name === 'from' ? 'From' : 'To'}</span>
            <input name={name} value={ends[name]} list={`pods-${name}`} autocomplete="off" spellcheck={false} required
              placeholder="cluster/namespace/pod" onInput={(e) => setEnds({ ...ends, [name]: e.currentTarget.value })} />
          </label>
        ))}
        <button type="submit" disabled={answer.busy}>Explain</button>
      </form>
      {(['from', 'to'] as const).map((name) => (
        <datalist key={name} id={`pods-${name}`}>
          {matching(pods, ends[name]).map((end) => <option key={end} value={end} />)}
        </datalist>
      ))}
      <div aria-live="polite">
        {answer.error && <p class="fail-text">{answer.error}</p>}
        {answer.explanation && <Explained e={answer.explanation} />}
      </div>
    </Section>
  )
}

function matching(pods: Pod[], typed: string): string[] {
  const found: string[] = []
  for (const pod of pods) {
    const end = endOf(pod)
    if (end.includes(typed) && found.push(end) === suggestions) break
  }
  return found
}

const named = (end: End) => `${end.name ?? end.address} in ${end.cluster}`

function Explained({ e }: { e: Explanation }) {
  return (
    <div class="explained">
      <p>{e.whole ? <Badge health="ok">the path works</Badge> : <Badge health="fail">the path is broken</Badge>}</p>
      {e.fault && <p class="fail-text"><strong>{e.fault.cluster}: {e.fault.object}:</strong> {e.fault.text}</p>}
      <p>
        {named(e.from)} reaches {named(e.to)} at <span class="code">{e.address ?? 'no address'}</span>
        {e.seen && <>, and is seen as <span class="code">{e.seen}</span></>}.
      </p>
      <div class="ways">
        <Way title="There" hops={e.there} />
        <Way title="Back" hops={e.back} />
      </div>
    </div>
  )
}

function Way({ title, hops }: { title: string; hops: Hop[] }) {
  return (
    <div>
      <h3>{title}</h3>
      {hops.length === 0 && <p class="note">The packet does not get there.</p>}
      <ol class="hops">
        {hops.map((hop, i) => (
          <li key={i}>
            <strong>{hop.kind} {hop.name}</strong> {hop.cluster && <span class="note">in {hop.cluster}</span>}
            {hop.steps.length > 0 && (
              <ul>
                {hop.steps.map((step, j) => (
                  <li key={j}>
                    <span class="code">{step.before === step.after ? step.after : `${step.before} ⇒ ${step.after}`}</span> {step.by}
                  </li>
                ))}
              </ul>
            )}
          </li>
        ))}
      </ol>
    </div>
  )
}
