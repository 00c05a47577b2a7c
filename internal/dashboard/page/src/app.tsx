// The page of liqoctl dashboard.
import { render } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { plural } from './format'
import { Graph } from './graph'
import { Store, type Lists, type Update } from './model'
import { Section } from './parts'
import { endOf, Path, type Ends } from './path'
import { follow, type Link } from './session'
import { Events, Findings, Namespaces, Nodes, Peerings, type Choose } from './sections'

/** Follows the documents. */
function useDocuments(): [Lists, Link] {
  const store = useMemo(() => new Store(), [])
  const [lists, setLists] = useState(store.lists)
  const [link, setLink] = useState<Link>('opening')
  useEffect(() => {
    const ended = new AbortController()
    const apply = (update: Update) => {
      store.apply(update)
      setLists(store.lists)
    }
    void follow(ended.signal, apply, setLink)
    return () => ended.abort()
  }, [])
  return [lists, link]
}

const sections = [['findings', 'Findings'], ['topology', 'Topology'], ['peerings', 'Peerings'], ['nodes', 'Nodes'], ['namespaces', 'Namespaces'],
  ['path', 'Path'], ['events', 'Events']] as const

const links: Record<Link, string> = { opening: 'connecting', live: 'live', lost: 'liqoctl does not respond', refused: 'refused' }

type Theme = 'auto' | 'light' | 'dark'
const themes: Theme[] = ['auto', 'light', 'dark']

function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(() => themes.find((t) => t === localStorage.getItem('theme')) ?? 'auto')
  useEffect(() => {
    document.documentElement.dataset['theme'] = theme
    localStorage.setItem('theme', theme)
  }, [theme])
  return [theme, () => setTheme(themes[(themes.indexOf(theme) + 1) % themes.length]!)]
}

function App() {
  const [lists, link] = useDocuments()
  const [theme, nextTheme] = useTheme()
  const [ends, setEnds] = useState<Ends>({ from: '', to: '' })
  const choose: Choose = (end, pod) => {
    setEnds((before) => ({ ...before, [end]: endOf(pod) }))
    document.getElementById('path')?.scrollIntoView()
  }
  const diagnosis = lists.diagnosis[0]
  const reading = lists.cluster.some((c) => c.reading && !c.message)
  // A section is computed again only when one of its documents has changed.
  const topology = useMemo(() => (
    <Section id="topology" title="Topology" note={`${plural(lists.cluster.length, 'cluster')}, ${plural(lists.peering.length, 'peering')}`}>
      <Graph clusters={lists.cluster} peerings={lists.peering} />
    </Section>
  ), [lists.cluster, lists.peering])
  const findings = useMemo(() => <Findings diagnosis={diagnosis} />, [diagnosis])
  const peerings = useMemo(() => <Peerings peerings={lists.peering} reading={reading} />, [lists.peering, reading])
  const nodes = useMemo(() => <Nodes nodes={lists.node} reading={reading} />, [lists.node, reading])
  const namespaces = useMemo(() => (
    <Namespaces namespaces={lists.namespace} pods={lists.pod} claims={lists.claim} reading={reading} choose={choose} />
  ), [lists.namespace, lists.pod, lists.claim, reading])
  const path = useMemo(() => <Path pods={lists.pod} ends={ends} setEnds={setEnds} />, [lists.pod, ends])
  const events = useMemo(() => <Events events={lists.event} reading={reading} />, [lists.event, reading])

  return (
    <>
      <a class="skip" href="#content">Skip to the content</a>
      <header>
        <h1>Liqo</h1>
        <p role="status" class={`link ${link}`}>{links[link]}</p>
        <button type="button" onClick={nextTheme}>Theme: {theme}</button>
        <nav aria-label="Sections">
          <ul>{sections.map(([id, title]) => <li key={id}><a href={`#${id}`}>{title}</a></li>)}</ul>
        </nav>
      </header>
      <main id="content" tabIndex={-1}>
        {link === 'refused' ? (
          <section aria-labelledby="refused">
            <h2 id="refused">This page is closed</h2>
            <p>Run <span class="code">liqoctl dashboard</span> and open the address that it prints. An address opens the page in one browser, once.</p>
          </section>
        ) : lists.cluster.length === 0 ? (
          <section class="first" aria-labelledby="first"><h2 id="first">Reading the clusters</h2></section>
        ) : (
          <>{findings}{topology}{peerings}{nodes}{namespaces}{path}{events}</>
        )}
      </main>
      <footer><p>Read-only. <a href="licenses.txt">Licences</a> of the libraries in this page.</p></footer>
    </>
  )
}

render(<App />, document.getElementById('app')!)
