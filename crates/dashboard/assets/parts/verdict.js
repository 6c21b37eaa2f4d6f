// Verdicts by word, sign and colour: never by colour alone.
import { html } from '../lib/html.js';

const SIGNS = { pass: '✓', fail: '✕', not_evaluable: '○', failed: '!', none: '·' };
const WORDS = { pass: 'pass', fail: 'fail', not_evaluable: 'not evaluable', failed: 'broken', none: 'not judged' };

/** Verdict of an evaluation: pass, fail, not evaluable, or failed (the evaluator broke). */
export function verdictOf(evaluation) {
  if (evaluation.outcome === 'scored') return evaluation.label ?? 'none';
  return evaluation.outcome;
}

/** Words for a run whose input has no beginning to show. */
export const untitled = (run) => (run.title === '' ? 'empty input' : 'input not recorded');

/** Worst verdict of a run, from its counts. */
export function worstOf(run) {
  if (run.failed > 0) return 'fail';
  if (run.broken > 0) return 'failed';
  if (run.passed > 0) return 'pass';
  return run.not_evaluable > 0 ? 'not_evaluable' : 'none';
}

export const wordOf = (verdict) => WORDS[verdict] ?? verdict;
export const signOf = (verdict) => SIGNS[verdict] ?? '·';

export function Verdict({ is, children }) {
  return html`<span class=${`verdict is-${is}`}><span class="sign" aria-hidden="true">${signOf(is)}</span> ${children ?? wordOf(is)}</span>`;
}

/** Counts of a run: `✕ 1 ✓ 3`, with the words for who hears them. */
export function Counts({ run }) {
  const parts = [['fail', run.failed], ['failed', run.broken], ['pass', run.passed], ['not_evaluable', run.not_evaluable]];
  return html`<span class="counts">${parts.filter(([, n]) => n > 0).map(([is, n]) => html`
    <span class=${`count is-${is}`} title=${`${n} ${wordOf(is)}`}><span aria-hidden="true">${signOf(is)} </span>${n}<span class="unseen"> ${wordOf(is)}</span></span>`)}</span>`;
}
