// Figures of a time with their change, evaluators from the worst, tools, newest failures.
import { html } from '../lib/html.js';
import { useFreshAnswer } from '../lib/api.js';
import { asked, FIELDS, link, only, valueOf, withValue } from '../lib/filter.js';
import { duration, money, points, share, short, whole } from '../lib/format.js';
import { here, setQuery, toPage, toRuns } from '../lib/route.js';
import { CountBars, RateCurve } from '../parts/chart.js';
import { ended, named, rate, verdict, why } from '../parts/columns.js';
import { card, dim, figure } from '../parts/figure.js';
import { Answer, Empty, Sampled } from '../parts/states.js';
import { Table } from '../parts/table.js';

/** Milliseconds between two looks. */
const EVERY = 30000;
const ROWS = 8;

/** Change of a share to the time before. */
function change(now, before) {
  if (now === null || before === null || before === undefined) return 'nothing before';
  const by = now - before;
  return html`<span class=${by > 0.0005 ? 'up' : by < -0.0005 ? 'down' : ''}>${points(by)}</span> to the time before`;
}

/** Change of a count to the time before. */
function growth(now, before) {
  if (!before) return 'none before';
  const percent = Math.round((now / before - 1) * 100);
  return `${percent < 0 ? '−' : '+'}${Math.abs(percent)} % to the time before`;
}

function Figures({ data: { figures, previous, runs, calls, call_errors: errors } }) {
  const to = (name, value, n) => html`<a href=${toRuns([[name, value]])}>${short(n)}</a>`;
  return html`<dl class="figures">
    ${figure('Pass rate', share(figures.pass_rate), change(figures.pass_rate, previous?.pass_rate))}
    ${figure('Runs', html`<a href=${toPage('runs')}>${whole(runs.count)}${runs.capped ? '+' : ''}</a>`, `${whole(calls)} calls`)}
    ${figure('Evaluations', short(figures.count), previous ? growth(figures.count, previous.count) : '')}
    ${figure('Fails', to('label', 'fail', figures.failed), `of ${whole(figures.passed + figures.failed)} judged`)}
    ${figure('Not evaluable', to('outcome', 'not_evaluable', figures.not_evaluable), figures.broken > 0 ? html`${to('outcome', 'failed', figures.broken)} broken` : 'none broken')}
    ${figure('Tool errors', html`<a href=${toPage('tools')}>${share(calls > 0 ? errors / calls : null)}</a>`, `${whole(errors)} of ${whole(calls)} calls`)}
    ${figure('Cost of judges', money(figures.cost_usd), `mean score ${figures.mean === null ? '–' : figures.mean.toFixed(2)}`)}
  </dl>`;
}

/** Least number of buckets that are drawn. */
const BUCKETS_MIN = 12;

/** Curve of the pass rate beside counts, from the first point on: of a long time the last hour may be all. */
export function Curves({ query }) {
  const answer = useFreshAnswer('/series', query, EVERY);
  return html`<${Answer} of=${answer} rows=${4}>${(data) => {
    const points = data.series[0]?.points ?? [];
    const [begun, first, to] = [data.from, points[0]?.time ?? data.from, data.to].map(Date.parse);
    const frame = { points, from: Math.max(begun, Math.min(first, to - BUCKETS_MIN * data.bucket_s * 1000)), to, bucket: data.bucket_s };
    return html`<div class="halves"><section class="card"><${RateCurve} title="Pass rate" ...${frame} /></section><section class="card"><${CountBars} title="Evaluations" ...${frame} /></section></div>`;
  }}<//>`;
}

/** Card of a short table from one question. */
function Part({ title, path, query, rowsOf, columns, none, all }) {
  const answer = useFreshAnswer(path, query, EVERY);
  return card(title, html`<${Answer} of=${answer} isEmpty=${(data) => rowsOf(data.items).length === 0} empty=${html`<p class="dim">${none}</p>`}>
    ${(data) => html`<${Sampled} is=${data.sampled} /><${Table} label=${title} columns=${columns} rows=${rowsOf(data.items).slice(0, ROWS)} walk=${path === '/evaluations'} />`}<//><p>${all}</p>`);
}

const EVALUATORS = [
  named('Evaluator', (it) => it.evaluator, (it) => toPage('evaluators', it.evaluator)), ...rate('Pass rate', 'pass_rate', 'pass_interval', 'plain'),
  { head: 'n', kind: 'w-tiny num wide', cell: (it) => whole(it.passed + it.failed) },
];
const TOOLS = [
  named('Tool', (it) => it.tool, (it) => toRuns([['tool', it.tool]])), ...rate('Errors', 'error_rate', 'error_interval', 'fail'),
  { head: 'p95', kind: 'w-short num wide', cell: (it) => duration(it.p95_s) },
];

/** Newest fails of a filter, with why; `of` names each. */
export function NewestFails({ query, head, of, all }) {
  const columns = [verdict, named(head, of, (it) => link('runs', it.trace_id), 'w-long'), why, ended('Ended')];
  return html`<${Part} title="Newest fails" path="/evaluations" query=${[...only(query, 'label', 'fail'), ['limit', String(ROWS)]]} rowsOf=${(items) => items} columns=${columns} none="Nothing failed in this time." all=${html`<a href=${toRuns(all)}>All runs with a fail</a>`} />`;
}

// Few judged, or few calls, are no proof: what counts is the bound of the interval.
const worst = (items) => items.filter((it) => it.pass_rate !== null).sort((a, b) => (a.pass_interval?.[1] ?? 1) - (b.pass_interval?.[1] ?? 1));
const erring = (items) => [...items].sort((a, b) => (b.error_interval?.[0] ?? 0) - (a.error_interval?.[0] ?? 0));

/** Fields by which figures are grouped, and most groups: for some of them all rows are counted, so only when asked for. */
const GROUPS = ['model', 'user_id', 'service', 'agent', 'version', 'environment'];
const GROUPS_MAX = 50;

function Grouped({ query, by }) {
  const answer = useFreshAnswer('/summary', [...query, ['group_by', by]], EVERY);
  const columns = [named(FIELDS[by], (it) => it.keys[by], (it) => toRuns([[by, it.keys[by]]])), ...EVALUATORS.slice(1)];
  return html`<${Answer} of=${answer} rows=${4}>${({ groups }) => html`<${Table} label=${`By ${FIELDS[by]}`} columns=${columns} rows=${worst(groups).slice(0, GROUPS_MAX)} walk=${false} />`}<//>`;
}

/** Figures by a field that a person chooses, from the worst. */
function Groups({ query, by }) {
  const choose = (event) => setQuery(withValue(here().query, 'by', event.target.value || null), true);
  return card('Groups, the worst first', html`<label>by <select onChange=${choose}>
    ${['', ...GROUPS].map((it) => html`<option value=${it} selected=${it === by}>${FIELDS[it] ?? '–'}</option>`)}</select></label>
    ${by && html`<${Grouped} query=${query} by=${by} />`}`);
}

export function Overview({ route }) {
  const query = asked(route.query);
  const answer = useFreshAnswer('/summary', query, EVERY);
  const by = GROUPS.find((it) => it === valueOf(route.query, 'by')) ?? '';
  const isEmpty = (data) => data.figures.count === 0 && data.runs.count === 0;
  const empty = html`<${Empty} title="Nothing in this time"><p>Choose a longer range of time, or take a condition away. Nothing ever? See <a href="#/setup">Setup</a>.</p><//>`;
  return html`<div class="page-head"><h1>Overview</h1>${answer.data?.from_sums === false && dim('counted from stored rows')}</div>
    <${Answer} of=${answer} isEmpty=${isEmpty} empty=${empty}>${(data) => html`<div class="stack">
      <${Figures} data=${data} /><${Curves} query=${query} /><div class="halves">
      <${Part} title="Evaluators, the worst first" path="/evaluators" query=${query} rowsOf=${worst} columns=${EVALUATORS} none="Nothing was judged in this time." all=${html`<a href=${toPage('evaluators')}>All evaluators</a>`} />
      <${Part} title="Tools, most errors first" path="/tools" query=${query} rowsOf=${erring} columns=${TOOLS} none="No tool was called in this time." all=${html`<a href=${toPage('tools')}>All tools</a>`} /></div>
      <${Groups} query=${query} by=${by} />
      <${NewestFails} query=${query} head="Evaluator" of=${(it) => it.evaluator} all=${[['label', 'fail']]} />
    </div>`}<//>`;
}
