// Two versions, models or times, side by side: intervals, verdicts in words, new failures.
import { html, useMemo } from '../lib/html.js';
import { useAnswer } from '../lib/api.js';
import { asked, link, valueOf, withValue } from '../lib/filter.js';
import { points, whole } from '../lib/format.js';
import { here, setQuery } from '../lib/route.js';
import { cut, visible } from '../lib/text.js';
import { named } from '../parts/columns.js';
import { card, of } from '../parts/figure.js';
import { DifferenceBar } from '../parts/meter.js';
import { Answer, Empty } from '../parts/states.js';
import { Table } from '../parts/table.js';
import { bdi } from '../parts/value.js';

/** Colour, sign and words of a verdict, in the order of the list. */
const WORDS = { worse: ['fail', '▼', 'worse'], better: ['pass', '▲', 'better'], no_evidence: ['none', '=', 'no evidence'], too_few: ['none', '·', 'too few'] };
const ORDER = Object.keys(WORDS);

function word(verdict) {
  const [is, sign, words] = WORDS[verdict] ?? WORDS.no_evidence;
  return html`<span class=${`verdict is-${is}`}><span class="sign" aria-hidden="true">${sign}</span> ${words}</span>`;
}

/** Table of what is on both sides: its name, the share of a side, the difference. */
function Sides({ label, rows, name, side, difference, what }) {
  const max = Math.max(0.05, ...rows.map(difference).filter(Boolean).flatMap((it) => [it.value, ...(it.interval ?? [])]).map(Math.abs));
  const columns = [
    { head: 'Verdict', kind: 'w-verdict', cell: (it) => word(it.verdict) }, name,
    { head: 'A', kind: 'wide w-mid num', cell: (it) => side(it.a) },
    { head: 'B', kind: 'wide w-mid num', cell: (it) => side(it.b) },
    { head: `Difference of ${what}`, kind: 'wide w-bar', cell: (it) => html`<${DifferenceBar} difference=${difference(it)} max=${max} is=${{ better: 'pass', worse: 'fail' }[it.verdict] ?? 'plain'} />` },
    { head: 'B − A', kind: 'w-short num', cell: (it) => points(difference(it)?.value) },
  ];
  return card(label, html`<${Table} label=${label} columns=${columns} rows=${[...rows].sort((a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict))} walk=${label === 'Evaluators'} />`);
}

const EVALUATOR = named('Evaluator', (it) => it.evaluator, (it) => link('evaluators', it.evaluator), 'main', (it) => it.definitions_differ && html` <span class="tag is-not_evaluable" title="The settings were not the same on both sides">settings differ</span>`);
const FAILURES = [
  named('Case', (it) => it.case, (it) => (it.trace_id ? link('runs', it.trace_id) : link('runs', '', [['case', it.case], ['label', 'fail']]))),
  { head: 'Evaluator', kind: 'w-long', cell: (it) => bdi(it.evaluator) },
  { head: 'Passed in A', kind: 'wide w-short num', cell: (it) => whole(it.passed_before) },
  { head: 'Fails in B', kind: 'w-short num', cell: (it) => whole(it.failed_now) },
];

function Result({ data: { evaluators, tools, new_failures: failures } }) {
  if (evaluators.length + tools.length === 0) return html`<${Empty} title="Nothing to compare"><p>Both sides are empty in this time.</p><//>`;
  const counts = ORDER.map((verdict) => [verdict, evaluators.filter((it) => it.verdict === verdict).length]);
  return html`<div class="stack">
    <p class="facts">${counts.filter(([, n]) => n > 0).map(([verdict, n]) => html`<span>${word(verdict)} ${n}</span>`)} <span>by 95 % intervals; under 30 judged on a side is too few</span></p>
    ${evaluators.length > 0 && html`<${Sides} label="Evaluators" rows=${evaluators} name=${EVALUATOR} side=${(it) => of(it.pass_rate, whole(it.passed + it.failed))} difference=${(it) => it.pass_rate_difference} what="pass rates" />`}
    ${failures.length > 0 && card('New failures: passed in A, fail in B', html`<${Table} label="New failures" columns=${FAILURES} rows=${failures} walk=${false} />`)}
    ${tools.length > 0 && html`<${Sides} label="Tools" rows=${tools} name=${{ head: 'Tool', kind: 'main', cell: (it) => bdi(it.tool) }} side=${(it) => of(it.error_rate, whole(it.calls))} difference=${(it) => it.error_rate_difference} what="error rates" />`}
  </div>`;
}

const TIMES = [['from=-24h', 'last 24 hours'], ['from=-48h&to=-24h', 'the day before'], ['from=-7d', 'last 7 days'], ['from=-14d&to=-7d', 'the 7 days before']];

/** Sides that can be chosen: versions, the highest number first, models of the newest runs, and times. */
function sidesOf(groups, runs) {
  const versions = groups.map((it) => it.keys.version).filter(Boolean).sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
  const models = [...new Set(runs.flatMap((it) => it.models))].sort();
  const side = (field) => (it) => [String(new URLSearchParams({ [field]: it })), `${field} ${cut(visible(it), 40)}`];
  return [...versions.map(side('version')), ...models.map(side('model')), ...TIMES];
}

function Choice({ name, value, sides }) {
  const all = sides.some(([side]) => side === value) ? sides : [[value, cut(visible(value), 60)], ...sides];
  return html`<label>${name.toUpperCase()} <select onChange=${(event) => setQuery(withValue(here().query, name, event.target.value))}>
    ${all.map(([side, words]) => html`<option value=${side} selected=${side === value}>${words}</option>`)}</select></label>`;
}

function Compared({ query, groups }) {
  const runs = useAnswer('/traces', [['from', '-30d'], ['limit', '200']]).data?.items;
  const sides = useMemo(() => sidesOf(groups, runs ?? []), [groups, runs]);
  const first = sides.filter(([side]) => side.startsWith('version=')).length > 1 ? 0 : sides.length - TIMES.length;
  const a = valueOf(query, 'a') ?? sides[first + 1][0];
  const b = valueOf(query, 'b') ?? sides[first][0];
  const isTimed = a.includes('from=') || b.includes('from=');
  // A condition of a side stands in place of those of the filter.
  const own = new Set([a, b].flatMap((side) => [...new URLSearchParams(side).keys()]));
  const rest = asked(query, 'compare').filter(([key]) => !own.has(key) && !(isTimed && (key === 'from' || key === 'to')));
  const answer = useAnswer('/compare', [...rest, ['a', a], ['b', b]]);
  const swap = () => setQuery(withValue(withValue(here().query, 'a', b), 'b', a));
  return html`<div class="page-head"><${Choice} name="a" value=${a} sides=${sides} /><button class="button" onClick=${swap} aria-label="Swap the sides" title="Swap">⇄</button><${Choice} name="b" value=${b} sides=${sides} /></div>
    <${Answer} of=${answer} rows=${8}>${(data) => html`<${Result} data=${data} />`}<//>`;
}

export function Compare({ route }) {
  const summary = useAnswer('/summary', [['from', '-30d'], ['group_by', 'version']]);
  return html`<div class="page-head"><h1>Compare</h1><span class="dim">A before, B after</span></div>
    <${Answer} of=${summary}>${(data) => html`<${Compared} query=${route.query} groups=${data.groups} />`}<//>`;
}
