// Frame of all pages: way around, theme, help, and notes on the state of the store.
import { html, useEffect, useState } from '../lib/html.js';
import { useFreshAnswer } from '../lib/api.js';
import { kept, link } from '../lib/filter.js';
import { nextTheme, setTheme, theme } from '../lib/theme.js';
import { FilterBar } from './filter.js';
import { bdi } from './value.js';

/** Milliseconds between two looks at the collector's state. */
const STATUS_EVERY = 15000;
/** Pages whose figures and lists the filter narrows. */
const FILTERED = new Set(['runs', 'overview', 'evaluators', 'tools', 'compare', 'live', 'sessions']);

const THEME_SIGNS = { system: '◐', light: '○', dark: '●' };

function ThemeButton() {
  const [current, setCurrent] = useState(theme);
  const turn = () => {
    setTheme(nextTheme());
    setCurrent(theme());
  };
  return html`<button class="icon" title=${`Theme: ${current}`} aria-label=${`Theme: ${current}. Change`} onClick=${turn}>${THEME_SIGNS[current]}</button>`;
}

function Pages({ pages, route, isOpen, onChosen }) {
  const query = kept(route.query);
  return html`<nav id="pages" aria-label="Pages" class=${isOpen ? 'open' : ''}>
    ${Object.entries(pages).map(([name, { title }]) => html`
      <a href=${link(name, '', query)} aria-current=${route.page === name ? 'page' : undefined} onClick=${onChosen}>${title}</a>`)}
  </nav>`;
}

/** Line that says what is wrong with the collector or its store. */
function StateNote({ answer }) {
  if (answer.problem) return html`<p class="note bad" role="alert">${bdi(answer.problem.message)}</p>`;
  const store = answer.data?.store;
  if (!store || store.state === 'working' || store.state === 'opening') return null;
  return html`<p class="note bad" role="alert">The store is ${store.state}: ${bdi(store.error ?? 'no reason given')}. The collector runs on.</p>`;
}

export function Shell({ pages, route, onHelp, children }) {
  const [isOpen, setOpen] = useState(false);
  const status = useFreshAnswer('/status', [], STATUS_EVERY);
  useEffect(() => setOpen(false), [route.page, route.id]);
  const isFiltered = FILTERED.has(route.page) && !(route.page === 'runs' && route.id);
  const version = status.data && `${status.data.name} ${status.data.version}`;
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector('#main').focus(); }}>Skip to content</a>
    <header class="top">
      <a class="brand" href=${link('runs', '', kept(route.query))} title=${version}><svg viewBox="0 0 16 16" aria-hidden="true"><rect width="16" height="16" rx="4"/><path d="M3 5h6M5 8h8M3 11h4"/></svg>spanscore</a>
      <button class="icon burger" aria-expanded=${isOpen} aria-controls="pages" aria-label="Pages" onClick=${() => setOpen(!isOpen)}>☰</button>
      <${Pages} pages=${pages} route=${route} isOpen=${isOpen} onChosen=${() => setOpen(false)} />
      <span class="tools">
        <${ThemeButton} />
        <button class="icon" aria-label="Help and keys" title="Help and keys (?)" onClick=${onHelp}>?</button>
      </span>
    </header>
    ${isFiltered && html`<${FilterBar} route=${route} />`}
    <${StateNote} answer=${status} />
    <main id="main" tabindex="-1">${children}</main>`;
}
