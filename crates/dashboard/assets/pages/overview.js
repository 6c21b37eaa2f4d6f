// Figures of a time with their change, evaluators from the worst, tools, newest failures.
import { html } from '../lib/html.js';
import { useFreshAnswer } from '../lib/api.js';
import { asked, link, only } from '../lib/filter.js';
import { duration, interval, money, points, share, short, whole } from '../lib/format.js';
import { toPage, toRuns } from '../lib/route.js';
import { CountBars, RateCurve } from '../parts/chart.js';
import { ended, named, rate, verdict, why } from '../parts/columns.js';
import { Answer, Empty, Sampled } from '../parts/states.js';
import { Table } from '../parts/table.js';

/** Milliseconds between two looks. */
const EVERY = 30000;
const ROWS = 8;

function Change({ now, before, words }) {
  if (before === null || before === undefined || now === null) return html`<span class="dim">nothing before</span>`;
  const change = now - before;
  const sign = change > 0.0005 ? 'up' : change < -0.0005 ? 'down' : '';
  return html`<span class=${sign || 'dim'}>${words(change)} <span class="dim">to the time before</span></span>`;
}

function countChange(now, before) {
  if (!before) return 'none in the time before';
  const ratio = now / before - 1;
  return `${ratio >= 0 ? '+' : '−'}${Math.abs(Math.round(ratio * 100))} % to the time before`;
}

function Figures({ data }) {
  const { figures, previous, runs } = data;
  const errorRate = data.calls > 0 ? data.call_errors / data.calls : null;
  return html`<dl class="figures">
    <div class="figure"><dt>Pass rate</dt><dd class="big">${share(figures.pass_rate)}</dd><dd><${Change} now=${figures.pass_rate} before=${previous?.pass_rate} words=${points} /></dd></div>
    <div class="figure"><dt>Runs</dt><dd class="big"><a href=${toPage('runs')}>${whole(runs.count)}${runs.capped ? '+' : ''}</a></dd><dd class="dim">${whole(data.calls)} calls</dd></div>
    <div class="figure"><dt>Evaluations</dt><dd class="big">${short(figures.count)}</dd><dd class="dim">${previous ? countChange(figures.count, previous.count) : ''}</dd></div>
    <div class="figure"><dt>Fails</dt><dd class="big"><a href=${toRuns([['label', 'fail']])}>${short(figures.failed)}</a></dd><dd class="dim">${figures.pass_interval ? `interval ${interval(figures.pass_interval)}` : ''}</dd></div>
    <div class="figure"><dt>Not evaluable</dt><dd class="big"><a href=${toRuns([['outcome', 'not_evaluable']])}>${short(figures.not_evaluable)}</a></dd><dd class="dim">${figures.broken > 0 ? html`<a href=${toRuns([['outcome', 'failed']])}>${whole(figures.broken)} broken</a>` : 'none broken'}</dd></div>
    <div class="figure"><dt>Tool errors</dt><dd class="big"><a href=${toPage('tools')}>${share(errorRate)}</a></dd><dd class="dim">${whole(data.call_errors)} of ${whole(data.calls)} calls</dd></div>
    <div class="figure"><dt>Cost of judges</dt><dd class="big">${money(figures.cost_usd)}</dd><dd class="dim">mean score ${figures.mean === null ? '–' : figures.mean.toFixed(2)}</dd></div>
  </dl>`;
}

function Curves({ query }) {
  const answer = useFreshAnswer('/series', query, EVERY);
  return html`<${Answer} of=${answer} rows=${4}>${(data) => {
    const points = data.series[0]?.points ?? [];
    const frame = { points, from: Date.parse(data.from), to: Date.parse(data.to), bucket: data.bucket_s };
    return html`<div class="halves"><section class="card"><${RateCurve} title="Pass rate" ...${frame} /></section><section class="card"><${CountBars} title="Evaluations" ...${frame} /></section></div>`;
  }}<//>`;
}

const count = { head: 'n', kind: 'w-tiny num wide', cell: (it) => whole(it.passed + it.failed) };
const evaluatorColumns = [named('Evaluator', (it) => it.evaluator, (it) => toPage('evaluators', it.evaluator)), ...rate('Pass rate', 'pass_rate', 'pass_interval', 'plain'), count];

/** Evaluators that judge something, the worst first. */
const worstFirst = (items) => items.filter((it) => it.pass_rate !== null).sort((a, b) => a.pass_rate - b.pass_rate).slice(0, ROWS);

function Evaluators({ query }) {
  const answer = useFreshAnswer('/evaluators', query, EVERY);
  return html`<section class="card"><h2>Evaluators, the worst first</h2><${Answer} of=${answer} isEmpty=${(data) => worstFirst(data.items).length === 0} empty=${html`<p class="dim">Nothing was judged in this time.</p>`}>
    ${(data) => html`<${Table} label="Evaluators" columns=${evaluatorColumns} rows=${worstFirst(data.items)} walk=${false} />`}<//>
    <p><a href=${toPage('evaluators')}>All evaluators</a></p></section>`;
}

const slow = { head: 'p95', kind: 'w-short num wide', cell: (it) => duration(it.p95_s) };
const toolColumns = [named('Tool', (it) => it.tool, (it) => toRuns([['tool', it.tool]])), ...rate('Errors', 'error_rate', 'error_interval', 'fail'), slow];

const worstTools = (items) => [...items].sort((a, b) => b.errors / Math.max(1, b.calls) - a.errors / Math.max(1, a.calls)).slice(0, ROWS);

function Tools({ query }) {
  const answer = useFreshAnswer('/tools', query, EVERY);
  return html`<section class="card"><h2>Tools, most errors first</h2><${Answer} of=${answer} isEmpty=${(data) => data.items.length === 0} empty=${html`<p class="dim">No tool was called in this time.</p>`}>
    ${(data) => html`<${Table} label="Tools" columns=${toolColumns} rows=${worstTools(data.items)} walk=${false} />`}<//>
    <p><a href=${toPage('tools')}>All tools</a></p></section>`;
}

const failureColumns = [verdict, named('Evaluator', (it) => it.evaluator, (it) => link('runs', it.trace_id), 'w-long'), why, ended('Ended')];

function Failures({ query }) {
  const answer = useFreshAnswer('/evaluations', [...only(query, 'label', 'fail'), ['limit', String(ROWS)]], EVERY);
  return html`<section class="card"><h2>Newest fails</h2><${Answer} of=${answer} isEmpty=${(data) => data.items.length === 0} empty=${html`<p class="dim">Nothing failed in this time.</p>`}>
    ${(data) => html`<${Sampled} is=${data.sampled} /><${Table} label="Newest fails" columns=${failureColumns} rows=${data.items} />`}<//>
    <p><a href=${toRuns([['label', 'fail']])}>All runs with a fail</a></p></section>`;
}

export function Overview({ route }) {
  const query = asked(route.query);
  const answer = useFreshAnswer('/summary', query, EVERY);
  const isEmpty = (data) => data.figures.count === 0 && data.runs.count === 0;
  const empty = html`<${Empty} title="Nothing in this time"><p>Choose a longer range of time, or take a condition away. Nothing ever? See <a href="#/setup">Setup</a>.</p><//>`;
  return html`<div class="page-head"><h1>Overview</h1></div>
    <${Answer} of=${answer} isEmpty=${isEmpty} empty=${empty}>${(data) => html`<div class="stack">
      <${Figures} data=${data} /><${Curves} query=${query} />
      <div class="halves"><${Evaluators} query=${query} /><${Tools} query=${query} /></div>
      <${Failures} query=${query} /></div>`}<//>`;
}
