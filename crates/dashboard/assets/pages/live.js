// Evaluations and verdicts of people as they come: pause, filter, and a line where some were left out.
import { html, useRef, useState } from '../lib/html.js';
import { link } from '../lib/filter.js';
import { clock, whole } from '../lib/format.js';
import { useStream } from '../lib/stream.js';
import { agent, verdict, why } from '../parts/columns.js';
import { dim } from '../parts/figure.js';
import { Empty } from '../parts/states.js';
import { Table } from '../parts/table.js';
import { bdi } from '../parts/value.js';
import { Score } from '../parts/verdicts.js';

/** Most lines that are kept. */
const KEPT = 200;

const STATES = { open: 'listening', lost: 'connecting', refused: 'refused: too many listeners, or no right to look', paused: 'paused' };

/** Verdict of a person as a line. */
const said = (it) => ({ ...it, time: it.changed, outcome: it.label && 'scored', explanation: it.comment, by: it.author });

const columns = [
  { head: 'Ended', kind: 'w-short', cell: (it) => (it.missed ? html`<span class="is-not_evaluable">gap</span>` : clock(it.time)) },
  verdict,
  { head: 'Evaluator', kind: 'w-long', cell: (it) => (it.missed ? html`<span class="dim">${it.missed}</span>` : html`<a class="row" href=${link('runs', it.trace_id)}>${bdi(it.evaluator ?? it.name)}</a>${it.by && dim(html` by ${bdi(it.by, 80)}`)}`) },
  { head: 'Score', kind: 'wide w-mid', cell: (it) => !it.missed && !it.by && html`<${Score} evaluation=${it} />` },
  agent, why,
];

export function Live({ route }) {
  const [rows, setRows] = useState([]);
  const [isOn, setOn] = useState(true);
  const [seen, setSeen] = useState(0);
  const next = useRef(0);
  const state = useStream(route.query, ({ events, missed, wasHidden }) => {
    const lines = events.filter(([kind]) => kind !== 'trajectory').map(([kind, data]) => (kind === 'annotation' ? said(data) : data));
    const fresh = lines.map((it) => ({ ...it, key: next.current++ })).reverse();
    const n = missed.evaluation + missed.annotation;
    const gap = n > 0 || wasHidden ? [{ missed: n > 0 ? `${whole(n)} not shown` : 'not listening while hidden', key: next.current++ }] : [];
    if (fresh.length + gap.length === 0) return;
    setSeen((was) => was + fresh.length + n);
    setRows((was) => [...fresh, ...gap, ...was].slice(0, KEPT));
  }, isOn);
  return html`<div class="page-head"><h1>Live</h1><span class="dim" role="status">${STATES[state]}</span><span class="dim">${whole(seen)} since this page was opened</span>
      <span class="end"><button class="button" aria-pressed=${!isOn} onClick=${() => setOn(!isOn)}>${isOn ? 'Pause' : 'Go on'}</button>
      <button class="button" onClick=${() => setRows([])}>Clear</button></span></div>
    ${rows.length === 0
    ? html`<${Empty} title=${isOn ? 'Waiting for evaluations' : 'Paused'}><p>They appear here as runs are judged.</p><//>`
    : html`<${Table} label="Evaluations as they come" columns=${columns} rows=${rows} keyOf=${(it) => it.key} />`}`;
}
