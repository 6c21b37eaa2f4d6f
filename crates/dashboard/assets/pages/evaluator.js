// One evaluator: curve, histogram with threshold, why it could not judge, settings over time.
import { html } from '../lib/html.js';
import { useAnswer, useFreshAnswer } from '../lib/api.js';
import { asked, withValue } from '../lib/filter.js';
import { money, score, share, whole } from '../lib/format.js';
import { toPage, toRuns } from '../lib/route.js';
import { reasonWords, remedy } from '../lib/reasons.js';
import { CountBars, Histogram, RateCurve } from '../parts/chart.js';
import { Meter } from '../parts/meter.js';
import { Answer } from '../parts/states.js';
import { Text } from '../parts/value.js';
import { Verdict } from '../parts/verdict.js';

/** Parts of a full name: `kind/name`, or a kind alone. */
function pathOf(evaluator) {
  const [kind, ...name] = evaluator.split('/');
  return `/evaluators/${encodeURIComponent(kind)}/${encodeURIComponent(name.join('/') || kind)}`;
}

function Figures({ detail }) {
  const { figures } = detail;
  return html`<dl class="figures">
    <div class="figure"><dt>Pass rate</dt><dd class="big">${share(figures.pass_rate)}</dd><dd class="dim">${figures.pass_interval ? `${share(figures.pass_interval[0])} to ${share(figures.pass_interval[1])}` : 'nothing judged'}</dd></div>
    <div class="figure"><dt>Passes, fails</dt><dd class="big">${whole(figures.passed)}, ${whole(figures.failed)}</dd><dd><a href=${toRuns([['evaluator', detail.evaluator], ['label', 'fail']])}>runs that fail</a></dd></div>
    <div class="figure"><dt>Not evaluable</dt><dd class="big">${whole(figures.not_evaluable)}</dd><dd class="dim">${share(figures.count > 0 ? figures.not_evaluable / figures.count : null)} of all</dd></div>
    <div class="figure"><dt>Broken</dt><dd class="big">${whole(figures.broken)}</dd><dd class="dim">the evaluator failed itself</dd></div>
    <div class="figure"><dt>Mean score</dt><dd class="big">${score(figures.mean)}</dd><dd class="dim">${detail.level} level</dd></div>
    <div class="figure"><dt>Cost</dt><dd class="big">${money(figures.cost_usd)}</dd><dd class="dim">${whole(figures.count)} evaluations</dd></div>
  </dl>`;
}

function Charts({ query, threshold }) {
  const series = useFreshAnswer('/series', query, 30000);
  const distribution = useAnswer('/distribution', query);
  return html`<${Answer} of=${series} rows=${4}>${(data) => {
    const frame = { points: data.series[0]?.points ?? [], from: Date.parse(data.from), to: Date.parse(data.to), bucket: data.bucket_s };
    return html`<div class="halves"><section class="card"><${RateCurve} title="Pass rate" ...${frame} /></section><section class="card"><${CountBars} title="Evaluations" ...${frame} /></section></div>`;
  }}<//>
  <${Answer} of=${distribution} rows=${4}>${(data) => html`<section class="card"><${Histogram} title="Scores" bins=${data.bins} threshold=${threshold} /></section>`}<//>`;
}

function Reasons({ detail }) {
  if (detail.reasons.length === 0) return null;
  return html`<section class="card"><h2>Why it did not judge</h2><table class="plain"><thead><tr><th scope="col">verdict</th><th scope="col">reason</th><th scope="col">what helps</th><th scope="col" class="num">n</th></tr></thead>
    <tbody>${detail.reasons.map((it) => html`<tr><td><${Verdict} is=${it.outcome} /></td><td><${Text} value=${reasonWords(it.reason)} /></td><td class="dim">${remedy(it.reason)}</td>
      <td class="num"><a href=${toRuns([['evaluator', detail.evaluator], ['reason', it.reason]])}>${whole(it.count)}</a></td></tr>`)}</tbody></table></section>`;
}

function Versions({ detail }) {
  return html`<section class="card"><h2>Settings over time</h2><table class="plain"><thead><tr><th scope="col">settings</th><th scope="col" class="num">threshold</th><th scope="col">pass rate</th><th scope="col" class="num">n</th></tr></thead>
    <tbody>${[...detail.versions].reverse().map((it, at) => html`<tr><td class="mono"><${Text} value=${it.own_version ?? it.evaluator_version.slice(0, 8)} />${at === 0 && ' (newest)'}</td>
      <td class="num">${score(it.threshold)}</td><td><span class="meter"><${Meter} value=${it.pass_rate} interval=${it.pass_interval} /> ${share(it.pass_rate)}</span></td><td class="num">${whole(it.passed + it.failed)}</td></tr>`)}</tbody></table></section>`;
}

export function Evaluator({ route }) {
  const query = withValue(withValue(asked(route.query), 'evaluator', null), 'kind', null);
  const answer = useFreshAnswer(pathOf(route.id), query, 30000);
  return html`<div class="page-head"><h1><${Text} value=${route.id} /></h1><a href=${toPage('evaluators')}>All evaluators</a></div>
    <${Answer} of=${answer} rows=${8}>${(detail) => html`<div class="stack">
      <${Figures} detail=${detail} /><${Charts} query=${[...query, ['evaluator', detail.evaluator]]} threshold=${detail.versions.at(-1)?.threshold ?? null} />
      <${Reasons} detail=${detail} /><${Versions} detail=${detail} /></div>`}<//>`;
}
