// One evaluator: curve, histogram with threshold, why it could not judge, settings over time.
import { html } from '../lib/html.js';
import { useAnswer, useFreshAnswer } from '../lib/api.js';
import { asked, link, withValue } from '../lib/filter.js';
import { money, score, share, whole } from '../lib/format.js';
import { toPage, toRuns } from '../lib/route.js';
import { reasonWords, remedy } from '../lib/reasons.js';
import { Histogram } from '../parts/chart.js';
import { card, dim, facts, figure, likely } from '../parts/figure.js';
import { Meter } from '../parts/meter.js';
import { Answer } from '../parts/states.js';
import { bdi } from '../parts/value.js';
import { Verdict } from '../parts/verdict.js';
import { Curves, NewestFails } from './overview.js';

/** Parts of a full name: `kind/name`, or a kind alone. */
function pathOf(evaluator) {
  const [kind, ...name] = evaluator.split('/');
  return `/evaluators/${encodeURIComponent(kind)}/${encodeURIComponent(name.join('/') || kind)}`;
}

function Figures({ detail: { figures, evaluator, level } }) {
  return html`<dl class="figures">
    ${figure('Pass rate', share(figures.pass_rate), likely(figures.pass_interval))}
    ${figure('Fails', html`<a href=${toRuns([['evaluator', evaluator], ['label', 'fail']])}>${whole(figures.failed)}</a>`, `${whole(figures.passed)} passes`)}
    ${figure('Not evaluable', whole(figures.not_evaluable), `${share(figures.count > 0 ? figures.not_evaluable / figures.count : null)} of all`)}
    ${figure('Broken', whole(figures.broken), 'the evaluator itself failed')}
    ${figure('Mean score', score(figures.mean), `${level} level`)}
    ${figure('Cost', money(figures.cost_usd), `${whole(figures.count)} evaluations`)}
  </dl>`;
}

function Scores({ query, threshold }) {
  const answer = useAnswer('/distribution', query);
  return html`<${Answer} of=${answer} rows=${4}>${(data) => html`<section class="card"><${Histogram} title="Scores" bins=${data.bins} threshold=${threshold} /></section>`}<//>`;
}

const reasons = (detail) => facts(['verdict', 'reason', 'what helps', 'n#'], detail.reasons.map((it) => [
  html`<${Verdict} is=${it.outcome} />`, bdi(reasonWords(it.reason)), dim(remedy(it.reason)),
  html`<a href=${toRuns([['evaluator', detail.evaluator], ['reason', it.reason]])}>${whole(it.count)}</a>`,
]));

const versions = (detail) => facts(['settings', 'threshold#', 'pass rate', 'n#'], [...detail.versions].reverse().map((it, at) => [
  html`<span class="mono">${bdi(it.own_version ?? it.evaluator_version.slice(0, 8))}</span>${at === 0 && ' newest'}`, score(it.threshold),
  html`<span class="meter"><${Meter} value=${it.pass_rate} interval=${it.pass_interval} /> ${share(it.pass_rate)}</span>`, whole(it.passed + it.failed),
]));

/** Agreement of two in words. */
const agreed = (it) => [share(it.accuracy), it.kappa === null ? '–' : score(it.kappa), it.kappa_interval?.map(score).join(' to ') ?? '–', whole(it.labels)];

/** Labels of people beside the verdicts of this evaluator, and the people beside each other. */
function People({ query, evaluator }) {
  const answer = useAnswer('/agreement', query);
  const own = answer.data?.evaluators.find((it) => it.evaluator === evaluator);
  if (!own) return null;
  const head = ['agree#', 'kappa#', 'interval', 'labels#'];
  const pairs = [['all', 'it', own], ...answer.data.people.map((it) => [bdi(it.a), bdi(it.b), it])];
  return card('Verdicts of people', html`<div class="halves">
    ${facts(['people say', 'it says pass#', 'it says fail#'], ['pass', 'fail'].map((is) => [html`<${Verdict} is=${is} />`, whole(own[`${is}_pass`]), whole(own[`${is}_fail`])]))}
    ${facts(['one', 'other', ...head], pairs.map(([a, b, it]) => [a, b, ...agreed(it)]))}</div>
    ${own.disagreements.length > 0 && facts(['differs on', 'person', 'says', 'it says'], own.disagreements.map((it) => [html`<a class="mono" href=${link('runs', it.trace_id)}>${it.trace_id.slice(0, 8)}</a>`, bdi(it.author, 80), html`<${Verdict} is=${it.label} />`, html`<${Verdict} is=${it.verdict} />`]))}`);
}

export function Evaluator({ route }) {
  const query = withValue(withValue(asked(route.query), 'evaluator', null), 'kind', null);
  const answer = useFreshAnswer(pathOf(route.id), query, 30000);
  const own = [...query, ['evaluator', route.id]];
  return html`<div class="page-head"><h1>${bdi(route.id)}</h1><a href=${toPage('evaluators')}>All evaluators</a></div>
    <${Answer} of=${answer} rows=${8}>${(detail) => html`<div class="stack">
      <${Figures} detail=${detail} /><${Curves} query=${own} /><${Scores} query=${own} threshold=${detail.versions.at(-1)?.threshold ?? null} />
      ${detail.figures.failed > 0 && html`<${NewestFails} query=${own} head="Run" of=${(it) => it.case || it.trace_id.slice(0, 8)} all=${[['evaluator', detail.evaluator], ['label', 'fail']]} />`}
      <${People} query=${own} evaluator=${detail.evaluator} />
      ${detail.reasons.length > 0 && card('Why it did not judge', reasons(detail))}${card('Settings over time', versions(detail))}</div>`}<//>`;
}
