// Start of the pages: the page of the address in the shell, and the keys that hold everywhere.
import { html, render, useEffect, useErrorBoundary, useState } from './lib/html.js';
import { useKeys } from './lib/keys.js';
import { go, here, toPage, useRoute } from './lib/route.js';
import { ask } from './lib/api.js';
import { Shell } from './parts/shell.js';
import { Help } from './parts/help.js';
import './lib/theme.js';
import { Menu } from './parts/menu.js';
import { Empty, Problem } from './parts/states.js';
import { Compare } from './pages/compare.js';
import { Dataset, Datasets } from './pages/datasets.js';
import { Evaluator } from './pages/evaluator.js';
import { Evaluators } from './pages/evaluators.js';
import { Inspect } from './pages/inspect.js';
import { Live } from './pages/live.js';
import { Overview } from './pages/overview.js';
import { Runs } from './pages/runs.js';
import { Sessions } from './pages/sessions.js';
import { Setup } from './pages/setup.js';
import { Tools } from './pages/tools.js';
import { Trace } from './pages/trace.js';

/** Pages by their place in the address; those with `one` show one thing where an id follows. */
const PAGES = {
  runs: { title: 'Runs', page: Runs, one: Trace },
  overview: { title: 'Overview', page: Overview },
  evaluators: { title: 'Evaluators', page: Evaluators, one: Evaluator },
  tools: { title: 'Tools', page: Tools },
  compare: { title: 'Compare', page: Compare },
  live: { title: 'Live', page: Live },
  sessions: { title: 'Sessions', page: Sessions },
  inspect: { title: 'Inspect', page: Inspect },
  datasets: { title: 'Datasets', page: Datasets, one: Dataset },
  setup: { title: 'Setup', page: Setup },
};

/** Keys after `g`: the first letter of a page that no other has before it. */
const PLACES = { r: 'runs', o: 'overview', e: 'evaluators', t: 'tools', c: 'compare', l: 'live', s: 'sessions', d: 'datasets', i: 'inspect', u: 'setup' };

/** Logs in by the one-time code of a link, which goes out of the address. */
async function logIn(query) {
  history.replaceState(null, '', '#/');
  await fetch('login', { method: 'POST', body: new URLSearchParams(query) }).catch(() => null);
  location.reload();
}

/** Opens the runs, of all time if none is of the last day; Setup if nothing was ever received. */
async function choosePage() {
  const first = async (query) => (await ask('/traces', [...query, ['limit', '1']]).catch(() => null))?.items.length;
  if (await first([['from', '-24h']]) !== 0) return 'runs';
  if (await first([])) return 'runs?from=';
  const status = await ask('/status').catch(() => null);
  return status?.steps.every((step) => step.count === 0) && !status.store.written_trajectories ? 'setup' : 'runs';
}

function Page({ route }) {
  const [problem, reset] = useErrorBoundary();
  useEffect(() => reset(), [route.page, route.id]);
  if (problem) return html`<${Problem} problem=${problem} retry=${reset} />`;
  const known = Object.hasOwn(PAGES, route.page) ? PAGES[route.page] : null;
  if (!known) return html`<${Empty} title="No such page"><a href="#/runs">All runs</a><//>`;
  const part = route.id && known.one ? known.one : known.page;
  return html`<${part} key=${`${route.page}/${route.id}`} route=${route} />`;
}

/** Takes the next key as the letter of a page. */
function goByLetter() {
  addEventListener('keydown', (event) => {
    if (!Object.hasOwn(PLACES, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    go(toPage(PLACES[event.key]));
  }, { capture: true, once: true });
}

function App() {
  const route = useRoute();
  const [isHelp, setHelp] = useState(false);
  useKeys({ '?': () => setHelp(true), '/': () => document.querySelector('#filter')?.focus(), g: goByLetter });
  const isLogin = route.page === 'login';
  useEffect(() => {
    if (isLogin) logIn(route.query);
    else if (route.page) {
      const title = Object.hasOwn(PAGES, route.page) ? PAGES[route.page].title : 'No such page';
      document.title = `${route.id ? `${route.id.slice(0, 12)} · ` : ''}${title} · spanscore`;
      if (!location.hash.includes('at=')) scrollTo(0, 0);
    } else choosePage().then((page) => here().page || go(`#/${page}`, true));
  }, [route.page, route.id]);
  return html`
    <${Shell} pages=${PAGES} route=${route} onHelp=${() => setHelp(true)}>${route.page && !isLogin && html`<${Page} route=${route} />`}<//>
    <${Menu} />
    ${isHelp && html`<${Help} onClose=${() => setHelp(false)} />`}`;
}

render(html`<${App} />`, document.querySelector('#app'));
