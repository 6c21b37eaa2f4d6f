// States of a page: loading, empty, failing, and lists that lack something.
import { html } from '../lib/html.js';
import { bdi } from './value.js';

export function Loading({ rows = 6 }) {
  return html`<div class="skeleton" role="status"><span class="unseen">Loading</span>${Array.from({ length: rows }, () => html`<i></i>`)}</div>`;
}

export function Empty({ title, children }) {
  return html`<div class="state"><h2>${title}</h2><div class="dim">${children}</div></div>`;
}

/** Problem with its remedy; what was shown before may stand below it. */
export function Problem({ problem, retry }) {
  return html`<div class="state problem" role="alert">
    <h2>${bdi(problem.title ?? 'Something broke')}</h2>
    <p>${bdi(problem.message)}</p>
    ${problem.status === 401 ? html`<a class="button main" href="login">Log in</a>` : retry && html`<button class="button" onClick=${retry}>Ask again</button>`}
  </div>`;
}

/** State of an answer: still awaited, refused, empty, or there. */
export function Answer({ of, rows, isEmpty, empty, children }) {
  if (of.problem && !of.data) return html`<${Problem} problem=${of.problem} retry=${of.reload} />`;
  if (!of.data) return html`<${Loading} rows=${rows} />`;
  if (isEmpty?.(of.data)) return empty;
  return html`${of.problem && html`<${Stale} problem=${of.problem} />`}${children(of.data)}`;
}

/** Note that figures are those of before. */
function Stale({ problem }) {
  return html`<p class="note warn" role="status">Not refreshed: ${bdi(problem.message)}</p>`;
}

/** Note that a list lacks rows which the figures hold. */
export function Sampled({ is }) {
  if (!is) return null;
  return html`<p class="note warn">Under load, passing runs were left out of this list. Figures count them all.</p>`;
}
