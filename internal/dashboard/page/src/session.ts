// The session with liqoctl. The token in the address opens it. Its key is sent with each request.
import type { Update } from './model'

export type Link = 'opening' | 'live' | 'lost' | 'refused'

// The key is kept where only pages of this very port can read it. A cookie would go to all ports of this machine, also those of other users.
const kept = 'session'
// liqoctl sends a comment every 15 seconds. After this time, in milliseconds, a stream without any is dead, for example behind a broken SSH forward.
const silence = 45_000
const retry = 2_000

const isToken = (fragment: string) => /^#[A-Z2-7]{26}$/.test(fragment)

// An address with another token that is opened in the same tab does not load the page again by itself.
addEventListener('hashchange', () => isToken(location.hash) && location.reload())

/** Exchanges the token in the address for the key of a session. Without a token, an earlier session may still be open. */
async function openSession(): Promise<void> {
  if (!isToken(location.hash)) return
  const body = JSON.stringify({ token: location.hash.slice(1) })
  history.replaceState(null, '', location.pathname) // the token is valid once, and nobody should copy it from the address bar
  const response = await fetch('api/session', { method: 'POST', body })
  if (response.ok) localStorage.setItem(kept, ((await response.json()) as { session: string }).session)
}

/** Sends a request with the key of the session. */
export function request(path: string, signal?: AbortSignal): Promise<Response> {
  return fetch(path, { signal, headers: { Authorization: `Bearer ${localStorage.getItem(kept) ?? ''}` } })
}

/** Follows the stream of documents until the signal, and connects again whenever it ends. */
export async function follow(signal: AbortSignal, onUpdate: (update: Update) => void, onLink: (link: Link) => void): Promise<void> {
  await openSession().catch(() => undefined)
  while (!signal.aborted) {
    const connection = new AbortController()
    const end = () => connection.abort()
    signal.addEventListener('abort', end)
    try {
      const response = await request('api/stream', connection.signal)
      if (!response.ok) return onLink('refused')
      onLink('live')
      await read(response.body!, onUpdate, end)
    } catch {
      // Nobody responds: the link says so.
    }
    signal.removeEventListener('abort', end)
    onLink('lost')
    await new Promise((again) => setTimeout(again, retry))
  }
}

/** Reads server-sent events until the stream ends. It gives up a stream that is silent. */
async function read(stream: ReadableStream<Uint8Array>, onUpdate: (update: Update) => void, giveUp: () => void): Promise<void> {
  const reader = stream.getReader(), decoder = new TextDecoder()
  let text = ''
  for (;;) {
    const late = setTimeout(giveUp, silence)
    const { value, done } = await reader.read().finally(() => clearTimeout(late))
    if (done) return
    const events = (text + decoder.decode(value, { stream: true })).split('\n\n')
    text = events.pop()!
    for (const event of events) if (event.startsWith('data: ')) onUpdate(JSON.parse(event.slice('data: '.length)) as Update)
  }
}
