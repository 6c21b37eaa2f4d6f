// Tools that agents called: calls, errors with their interval, durations, calls nobody offered.
import { html } from '../lib/html.js';
import { useAnswer, useFreshAnswer } from '../lib/api.js';
import { asked, link, valueOf, withValue } from '../lib/filter.js';
import { duration, whole } from '../lib/format.js';
import { setQuery, toRuns } from '../lib/route.js';
import { named, rate } from '../parts/columns.js';
import { card, facts } from '../parts/figure.js';
import { Answer, Empty } from '../parts/states.js';
import { Table } from '../parts/table.js';
import { bdi } from '../parts/value.js';

const SORTS = {
  calls: ['Most calls first', (a, b) => b.calls - a.calls],
  errors: ['Most errors first', (a, b) => (b.error_rate ?? 0) - (a.error_rate ?? 0) || b.calls - a.calls],
  slow: ['Slowest first', (a, b) => (b.p95_s ?? 0) - (a.p95_s ?? 0)],
};

const columns = (about) => [
  named('Tool', (it) => it.tool, (it) => toRuns([['tool', it.tool]])),
  { head: 'Calls', kind: 'w-tiny num', cell: (it) => whole(it.calls) },
  ...rate('Errors', 'error_rate', 'error_interval', 'fail', 'wide'),
  { head: `p50${about}`, kind: 'wide w-mid num', cell: (it) => duration(it.p50_s) },
  { head: `p95${about}`, kind: 'wide w-mid num', cell: (it) => duration(it.p95_s) },
  { head: 'Not offered', kind: 'wide w-mid num', cell: (it) => (it.undeclared > 0 ? html`<span class="is-not_evaluable">${whole(it.undeclared)}</span>` : html`<span class="dim">0</span>`) },
];

/** Faults of arguments by path, each with the newest run that has one. */
function Faults({ query }) {
  const { data } = useAnswer('/argument_errors', query);
  return data?.items.length > 0 && card('Argument errors', facts(['tool', 'fault', 'calls#'], data.items.map((it) => [
    bdi(it.tool, 60), html`<a href=${link('runs', it.trace_id)}>${bdi(it.error, 200)}</a>`, whole(it.count),
  ])));
}

export function Tools({ route }) {
  const answer = useFreshAnswer('/tools', asked(route.query), 30000);
  const wanted = valueOf(route.query, 'sort');
  const sort = Object.hasOwn(SORTS, wanted ?? '') ? wanted : 'calls';
  const empty = html`<${Empty} title="No tool was called in this time"><p>Choose a longer range of time, or take a condition away.</p><//>`;
  return html`<div class="page-head"><h1>Tools</h1><span class="end"><select aria-label="Order" onChange=${(event) => setQuery(withValue(route.query, 'sort', event.target.value))}>
      ${Object.entries(SORTS).map(([value, [words]]) => html`<option value=${value} selected=${value === sort}>${words}</option>`)}</select></span></div>
    <${Answer} of=${answer} isEmpty=${(data) => data.items.length === 0} empty=${empty}>
      ${(data) => html`<${Table} label="Tools" columns=${columns(data.approximate ? ', about' : '')} rows=${[...data.items].sort(SORTS[sort][1])} keyOf=${(it) => it.tool} />
      <br /><${Faults} query=${asked(route.query)} />`}<//>`;
}
