// Figures side by side, cards, tables of plain facts, states of lists.
import { html } from '../lib/html.js';
import { interval, share } from '../lib/format.js';
import { Loading, Problem, Sampled } from './states.js';
import { Table } from './table.js';

export const dim = (words) => html`<span class="dim">${words}</span>`;

/** Figure with a name above and what it means below. */
export const figure = (name, big, below) => html`<div class="figure"><dt>${name}</dt><dd class="big">${big}</dd><dd class="dim">${below}</dd></div>`;

/** Interval of a pass rate in words. */
export const likely = (it) => (it ? `interval ${interval(it)}` : 'nothing judged');

export const card = (title, content) => html`<section class="card"><h2>${title}</h2>${content}</section>`;

/** Plain table: heads, which are numbers if they end in `#`, and rows of cells. */
export const facts = (heads, rows) => html`<table class="plain"><thead><tr>${heads.map((it) => html`<th class=${it.endsWith('#') ? 'num' : ''}>${it.replace('#', '')}</th>`)}</tr></thead>
  <tbody>${rows.map((row) => html`<tr>${row.map((it, at) => html`<td class=${heads[at].endsWith('#') ? 'num' : ''}>${it}</td>`)}</tr>`)}</tbody></table>`;

/** Share of a whole, and the whole. */
export const of = (rate, n) => html`${share(rate)} ${dim(`of ${n}`)}`;

/** List with its states: awaited, refused, empty, there. */
export function List({ list, empty, ...table }) {
  return html`<${Sampled} is=${list.sampled} />
    ${list.problem && html`<${Problem} problem=${list.problem} retry=${list.reload} />`}
    ${!list.rows && !list.problem && html`<${Loading} rows=${12} />`}
    ${list.rows?.length === 0 && empty}
    ${list.rows?.length > 0 && html`<${Table} rows=${list.rows} list=${list} ...${table} />`}`;
}
