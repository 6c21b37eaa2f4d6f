// Evaluations of a run, one a line: verdict, score and threshold, why; evidence unfolds.
import { html } from '../lib/html.js';
import { money, score } from '../lib/format.js';
import { link } from '../lib/filter.js';
import { reasonWords, remedy } from '../lib/reasons.js';
import { Value } from './content.js';
import { bdi } from './value.js';
import { Verdict, verdictOf } from './verdict.js';

/** Why it fell so, in a sentence. */
function Why({ evaluation }) {
  if (evaluation.outcome === 'failed') return bdi(evaluation.error ?? reasonWords(evaluation.reason), 600);
  if (evaluation.outcome === 'not_evaluable') return html`${bdi(evaluation.explanation ?? reasonWords(evaluation.reason), 600)} <span class="dim">${remedy(evaluation.reason)}</span>`;
  return evaluation.explanation ? bdi(evaluation.explanation, 600) : html`<span class="dim">–</span>`;
}

/** Score beside its threshold. */
export function Score({ evaluation }) {
  if (evaluation.score === null) return html`<span class="dim">no score</span>`;
  return html`<span>${score(evaluation.score)} <span class="dim">of ${score(evaluation.threshold)}</span></span>`;
}

function Facts({ evaluation }) {
  const facts = [
    ['level', evaluation.level], ['revision', evaluation.revision], ['settings', evaluation.evaluator_version.slice(0, 8)],
    evaluation.tool && ['tool', evaluation.tool], evaluation.judge && ['judge', evaluation.judge],
    evaluation.cost_usd !== null && ['cost', money(evaluation.cost_usd)],
    evaluation.early && ['given', 'while the trace was open'], !evaluation.current && ['state', 'replaced'],
    evaluation.client && ['by', evaluation.client],
  ].filter(Boolean);
  return html`<div class="facts">${facts.map(([name, value]) => html`<span>${name} <b>${bdi(value, 80)}</b></span>`)}
    <a href=${link('evaluators', evaluation.evaluator)}>all of this evaluator</a></div>`;
}

function Line({ evaluation }) {
  return html`<li><details class="evaluation">
    <summary class="verdict-line">
      <${Verdict} is=${verdictOf(evaluation)} />
      <span>${bdi(evaluation.evaluator, 120)}${evaluation.tool && html` <span class="dim">at ${bdi(evaluation.tool, 60)}</span>`}</span>
      <${Score} evaluation=${evaluation} />
      <span class="why"><${Why} evaluation=${evaluation} /></span>
    </summary>
    <div class="evidence"><${Facts} evaluation=${evaluation} />
      ${evaluation.details === null || evaluation.details === undefined ? html`<p class="absent">No evidence is stored for it.</p>` : html`<${Value} value=${evaluation.details} label="Evidence" />`}</div>
  </details></li>`;
}

export function Verdicts({ evaluations }) {
  if (evaluations.length === 0) return html`<p class="none dim">No evaluator has judged this run.</p>`;
  return html`<ul class="verdicts">${evaluations.map((it) => html`<${Line} key=${it.evaluation_id} evaluation=${it} />`)}</ul>`;
}
