// Two versions, or two times, side by side: intervals, verdicts in words, new failures.
import { html, useMemo } from '../lib/html.js';
import { useAnswer } from '../lib/api.js';
import { asked, link, valueOf, withValue } from '../lib/filter.js';
import { points, share, whole } from '../lib/format.js';
import { here, setQuery } from '../lib/route.js';
import { visible } from '../lib/text.js';
import { named } from '../parts/columns.js';
import { DifferenceBar } from '../parts/meter.js';
import { Answer, Empty, Loading, Problem } from '../parts/states.js';
import { Table } from '../parts/table.js';
import { Text } from '../parts/value.js';

const WORDS = {
  better: ['pass', '▲', 'better'], worse: ['fail', '▼', 'worse'],
  no_evidence: ['none', '=', 'no evidence'], too_few: ['none', '·', 'too few'],
};
const ORDER = ['worse', 'better', 'no_evidence', 'too_few'];

function Word({ verdict }) {
  const [is, sign, word] = WORDS[verdict] ?? WORDS.no_evidence;
  return html`<span class=${`verdict is-${is}`}><span class="sign" aria-hidden="true">${sign}</span> ${word}</span>`;
}

const byVerdict = (a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict);
const widest = (differences) => Math.max(0.05, ...differences.filter(Boolean).flatMap((it) => [it.value, ...(it.interval ?? [])]).map(Math.abs));
const kindOf = (verdict) => ({ better: 'pass', worse: 'fail' })[verdict] ?? 'plain';
const side = (figures) => html`${share(figures.pass_rate)} <span class="dim">of ${whole(figures.passed + figures.failed)}</span>`;
const toolSide = (it) => html`${share(it.error_rate)} <span class="dim">of ${whole(it.calls)}</span>`;

const evaluatorColumns = (max) => [
  { head: 'Verdict', kind: 'w-verdict', cell: (it) => html`<${Word} verdict=${it.verdict} />` },
  named('Evaluator', (it) => it.evaluator, (it) => link('evaluators', it.evaluator), 'main', (it) => it.definitions_differ && html` <span class="tag is-not_evaluable" title="The settings were not the same on both sides">settings differ</span>`),
  { head: 'A', kind: 'wide w-mid num', cell: (it) => side(it.a) },
  { head: 'B', kind: 'wide w-mid num', cell: (it) => side(it.b) },
  { head: 'Difference of pass rates', kind: 'wide w-bar', cell: (it) => html`<${DifferenceBar} difference=${it.pass_rate_difference} max=${max} is=${kindOf(it.verdict)} />` },
  { head: 'B − A', kind: 'w-short num', cell: (it) => points(it.pass_rate_difference?.value) },
];

const toolColumns = (max) => [
  { head: 'Verdict', kind: 'w-verdict', cell: (it) => html`<${Word} verdict=${it.verdict} />` },
  { head: 'Tool', kind: 'main', cell: (it) => html`<${Text} value=${it.tool} />` },
  { head: 'A', kind: 'wide w-mid num', cell: (it) => toolSide(it.a) },
  { head: 'B', kind: 'wide w-mid num', cell: (it) => toolSide(it.b) },
  { head: 'Difference of error rates', kind: 'wide w-bar', cell: (it) => html`<${DifferenceBar} difference=${it.error_rate_difference} max=${max} is=${kindOf(it.verdict)} />` },
  { head: 'B − A', kind: 'w-short num', cell: (it) => points(it.error_rate_difference?.value) },
];

const failureColumns = [
  { head: 'Case', kind: 'main', cell: (it) => (it.trace_id ? html`<a class="row" href=${link('runs', it.trace_id)}><${Text} value=${it.case} /></a>` : html`<${Text} value=${it.case} />`) },
  { head: 'Evaluator', kind: 'w-long', cell: (it) => html`<${Text} value=${it.evaluator} />` },
  { head: 'Passed in A', kind: 'wide w-short num', cell: (it) => whole(it.passed_before) },
  { head: 'Fails in B', kind: 'w-short num', cell: (it) => whole(it.failed_now) },
];

function Result({ data }) {
  const evaluators = [...data.evaluators].sort(byVerdict);
  const tools = [...data.tools].sort(byVerdict);
  if (evaluators.length === 0 && tools.length === 0) return html`<${Empty} title="Nothing to compare"><p>One of the sides holds no evaluation in this time.</p><//>`;
  const counts = ORDER.map((verdict) => [verdict, evaluators.filter((it) => it.verdict === verdict).length]).filter(([, n]) => n > 0);
  return html`<div class="stack">
    <p class="facts">${counts.map(([verdict, n]) => html`<span><${Word} verdict=${verdict} /> ${n}</span>`)} <span>by 95 % intervals; under 30 judged on a side is too few</span></p>
    ${evaluators.length > 0 && html`<section><h2 class="unseen">Evaluators</h2><${Table} label="Evaluators" columns=${evaluatorColumns(widest(evaluators.map((it) => it.pass_rate_difference)))} rows=${evaluators} keyOf=${(it) => it.evaluator} /></section>`}
    ${data.new_failures.length > 0 && html`<section class="card"><h2>New failures: passed in A, fail in B</h2><${Table} label="New failures" columns=${failureColumns} rows=${data.new_failures} walk=${false} /></section>`}
    ${tools.length > 0 && html`<section class="card"><h2>Tools</h2><${Table} label="Tools" columns=${toolColumns(widest(tools.map((it) => it.error_rate_difference)))} rows=${tools} walk=${false} /></section>`}
  </div>`;
}

/** Sides that can be chosen: versions, and the last week against the one before. */
function sidesOf(groups) {
  const versions = groups.map((it) => it.keys.version).filter(Boolean);
  return [...versions.map((it) => [String(new URLSearchParams({ version: it })), `version ${visible(it)}`]), ['from=-24h', 'last 24 hours'], ['from=-48h&to=-24h', 'the day before'], ['from=-7d', 'last 7 days'], ['from=-14d&to=-7d', 'the 7 days before']];
}

/** Versions in the order of their numbers, so that the last two come first. */
const byNumber = (a, b) => b.keys.version.localeCompare(a.keys.version, 'en', { numeric: true });

function Choice({ name, value, sides }) {
  const known = sides.some(([side]) => side === value);
  return html`<label>${name.toUpperCase()} <select onChange=${(event) => setQuery(withValue(here().query, name, event.target.value))}>
    ${!known && html`<option value=${value} selected>${visible(value)}</option>`}
    ${sides.map(([side, words]) => html`<option value=${side} selected=${side === value}>${words}</option>`)}</select></label>`;
}

function Compared({ query, groups }) {
  const sides = useMemo(() => sidesOf([...groups].sort(byNumber)), [groups]);
  const hasVersions = groups.filter((it) => it.keys.version).length > 1;
  const a = valueOf(query, 'a') ?? (hasVersions ? sides[1][0] : 'from=-48h&to=-24h');
  const b = valueOf(query, 'b') ?? (hasVersions ? sides[0][0] : 'from=-24h');
  const isTimed = a.includes('from=') || b.includes('from=');
  const rest = asked(query).filter(([key]) => key !== 'version' && !(isTimed && (key === 'from' || key === 'to')));
  const answer = useAnswer('/compare', [...rest, ['a', a], ['b', b]]);
  const swap = () => setQuery(withValue(withValue(here().query, 'a', b), 'b', a));
  return html`<div class="page-head"><${Choice} name="a" value=${a} sides=${sides} /><button type="button" class="button" onClick=${swap} aria-label="Swap the sides" title="Swap">⇄</button><${Choice} name="b" value=${b} sides=${sides} /></div>
    <${Answer} of=${answer} rows=${8}>${(data) => html`<${Result} data=${data} />`}<//>`;
}

export function Compare({ route }) {
  const summary = useAnswer('/summary', [['from', '-30d'], ['group_by', 'version']]);
  return html`<div class="page-head"><h1>Compare</h1><span class="dim">A before, B after</span></div>
    ${summary.problem && !summary.data && html`<${Problem} problem=${summary.problem} retry=${summary.reload} />`}
    ${!summary.data && !summary.problem && html`<${Loading} />`}
    ${summary.data && html`<${Compared} query=${route.query} groups=${summary.data.groups} />`}`;
}
