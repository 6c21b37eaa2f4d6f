// Values of strangers: text nodes with visible escapes, set apart in direction, and their menu.
import { html } from '../lib/html.js';
import { cut, segments, visible } from '../lib/text.js';
import { FIELDS, only, withCondition } from '../lib/filter.js';
import { here, setQuery } from '../lib/route.js';
import { openMenu } from './menu.js';

/** Longest text that a line shows. */
const LINE_MAX = 400;

/** Text of a stranger in one line. */
export function bdi(value, max = LINE_MAX) {
  return html`<bdi>${segments(cut(String(value ?? ''), max)).map((it) => (it.hidden ? html`<span class="esc">${it.text}</span>` : it.text))}</bdi>`;
}

/** Text that says that there is none. */
export const Nothing = ({ children = 'none' }) => html`<span class="dim">${children}</span>`;

async function copy(value) {
  await navigator.clipboard?.writeText(value).catch(() => {});
}

/** Value that can be filtered by: a button with "only this" and "not this". */
export function Pick({ field, value, children, plain = false }) {
  if (value === null || value === undefined || value === '') return html`<${Nothing}>–<//>`;
  const text = String(value);
  const items = [
    { label: 'Only this', run: () => setQuery(only(here().query, field, text)) },
    { label: 'Not this', run: () => setQuery(withCondition(here().query, field, text, true)) },
    { label: 'Copy', run: () => copy(text) },
  ];
  const title = `${FIELDS[field] ?? field}: ${visible(text)}`;
  const open = (event) => {
    event.preventDefault();
    openMenu(event.currentTarget, `Filter by ${title}`, items);
  };
  return html`<button class=${plain ? 'pick plain' : 'pick'} aria-haspopup="menu" title=${cut(title, 200)} onClick=${open}>
    ${children ?? bdi(text, 120)}
  </button>`;
}

/** Id in its first digits; the button copies all of it. */
export function Id({ value, label = 'id' }) {
  return html`<button class="pick mono" title=${`Copy ${label} ${visible(value)}`} onClick=${() => copy(value)}>${bdi(String(value).slice(0, 8))}</button>`;
}
