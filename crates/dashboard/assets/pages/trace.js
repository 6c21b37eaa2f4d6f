// One run: the trajectory first, beside what was expected, then verdicts, content, completion.
import { html, useEffect, useMemo } from '../lib/html.js';
import { useAnswer } from '../lib/api.js';
import { aligned, rowsOf, stepsOf } from '../lib/align.js';
import { link, valueOf, withValue } from '../lib/filter.js';
import { duration, moment, money, score, short } from '../lib/format.js';
import { here, setQuery } from '../lib/route.js';
import { count, visible } from '../lib/text.js';
import { Calls } from '../parts/calls.js';
import { Field } from '../parts/content.js';
import { Answer } from '../parts/states.js';
import { Id, Nothing, Text } from '../parts/value.js';
import { signOf, Verdict, verdictOf, wordOf } from '../parts/verdict.js';
import { Verdicts } from '../parts/verdicts.js';

const RANK = { fail: 0, failed: 1, not_evaluable: 2, none: 3, pass: 4 };

const byRank = (a, b) => RANK[verdictOf(a)] - RANK[verdictOf(b)] || (a.score ?? 2) - (b.score ?? 2);

/** Evaluations that count now, or those of one revision. */
function evaluationsOf(run, revision) {
  const kept = run.evaluations.filter((it) => (revision === undefined ? it.current : it.revision === Number(revision)));
  return kept.sort(byRank);
}

const revisionsOf = (run) => [...new Set(run.evaluations.map((it) => it.revision))].sort((a, b) => b - a);

function Fact({ name, children }) {
  return html`<span>${name} <b>${children}</b></span>`;
}

function Other({ field, value }) {
  if (!value) return html`<${Nothing}>not said<//>`;
  return html`<a href=${link('runs', '', [['from', ''], [field, value]])} title="Runs with this value"><${Text} value=${value} max=${80} /></a>`;
}

function Head({ run, evaluations }) {
  const worst = evaluations.length > 0 ? verdictOf(evaluations[0]) : 'none';
  return html`<div class="trace-head">
    <div class="facts"><a href="#/runs">Runs</a><span aria-hidden="true">/</span><${Id} value=${run.trace_id} label="trace id" />
      ${run.cases.map((name) => html`<span class="tag">case <${Text} value=${name} max=${80} /></span>`)}</div>
    <h1><span class=${`badge is-${worst}`}><${Verdict} is=${worst} /></span> ${run.title ? html`<${Text} value=${run.title} />` : html`<${Nothing}>input not recorded<//>`}</h1>
    <div class="facts">
      <${Fact} name="agent"><${Other} field="agent" value=${run.agent} /><//>
      <${Fact} name="service"><${Other} field="service" value=${run.service} /><//>
      <${Fact} name="version"><${Other} field="version" value=${run.version} /><//>
      ${run.environment && html`<${Fact} name="environment"><${Other} field="environment" value=${run.environment} /><//>`}
      ${run.session_id && html`<${Fact} name="session"><${Other} field="session_id" value=${run.session_id} /><//>`}
      <${Fact} name="ended"><time datetime=${run.time}>${moment(run.time)}</time><//>
      <${Fact} name="took">${duration(run.duration_s)}<//>
      <${Fact} name="cost">${money(run.cost_usd)}<//>
      <${Fact} name="tokens">${short(run.input_tokens)} in, ${short(run.output_tokens)} out<//>
      <${Fact} name="spans">${run.spans}<//>
    </div>
  </div>`;
}

/** Most verdicts that the head says in words. */
const SAID = 3;

/** Verdicts in short: those that are no pass in words, the others as counts. */
function Short({ evaluations }) {
  const bad = evaluations.filter((it) => ['fail', 'failed'].includes(verdictOf(it))).slice(0, SAID);
  const counts = Object.keys(RANK).map((is) => [is, evaluations.filter((it) => verdictOf(it) === is).length]);
  return html`${bad.map((it) => html`<p class="short"><${Verdict} is=${verdictOf(it)} /> <b><${Text} value=${it.evaluator} max=${80} /></b>${it.score !== null && ` ${score(it.score)}`} <span class="dim"><${Text} value=${it.explanation ?? it.error ?? ''} max=${240} /></span></p>`)}
    <p class="facts">${counts.filter(([, n]) => n > 0).map(([is, n]) => html`<span class=${`is-${is}`}><span aria-hidden="true">${signOf(is)}</span> ${n} ${wordOf(is)}</span>`)}</p>`;
}

/** Why the trace counted as complete, and which judgement of it is shown. */
function Completion({ run, revision }) {
  const revisions = revisionsOf(run);
  const shown = revision ?? '';
  return html`<div class="facts">
    <span><${Text} value=${run.completion_sentence} /></span>
    ${run.partial && html`<span class="is-not_evaluable">Partial: some of the trace is known to be missing.</span>`}
    ${run.revision > 0 && html`<span>Judged ${count(run.revision + 1, 'time')}: spans came later.</span>`}
    ${run.left_out && html`<span class="is-not_evaluable">Left out under load: ${run.left_out === 'calls' ? 'calls and content' : 'content'}.</span>`}
    ${revisions.length > 1 && html`<label>Revision <select value=${shown} onChange=${(event) => setQuery(withValue(here().query, 'revision', event.target.value || null), true)}>
      <option value="" selected=${shown === ''}>now valid</option>
      ${revisions.map((it) => html`<option value=${it} selected=${shown === String(it)}>${it}</option>`)}</select></label>`}
  </div>`;
}

/** Choice of the evaluator whose expectations stand beside the calls. */
function AlignedBy({ choices, current }) {
  if (choices.length === 0) return null;
  if (choices.length === 1) return html`<span class="end dim">expected by <${Text} value=${current.evaluator} /></span>`;
  return html`<label class="end">expected by <select value=${current.evaluator} onChange=${(event) => setQuery(withValue(here().query, 'by', event.target.value), true)}>
    ${choices.map((it) => html`<option value=${it.evaluator} selected=${it === current}>${visible(it.evaluator)}</option>`)}</select></label>`;
}

function Found({ run, query }) {
  const revision = valueOf(query, 'revision');
  const evaluations = useMemo(() => evaluationsOf(run, revision), [run, revision]);
  const choices = useMemo(() => aligned(evaluations), [evaluations]);
  const by = valueOf(query, 'by');
  const current = choices.find((it) => it.evaluator === by) ?? choices[0] ?? null;
  const rows = useMemo(() => rowsOf(run.calls, stepsOf(current)), [run, current]);
  useEffect(() => {
    document.title = `${run.title?.slice(0, 60) ?? run.trace_id.slice(0, 12)} · spanscore`;
  }, [run]);
  return html`<${Head} run=${run} evaluations=${evaluations} />
    <div class="stack">
      <section class="summary" aria-label="Verdict"><${Short} evaluations=${evaluations} /><${Completion} run=${run} revision=${revision} /></section>
      <section class="card flush" aria-label="Trajectory">
        <div class="head"><h2>Trajectory</h2><span class="dim">${count(run.calls.length, 'call')}</span><${AlignedBy} choices=${choices} current=${current} /></div>
        <${Calls} run=${run} rows=${rows} evaluations=${evaluations} expectation=${current} query=${query} />
      </section>
      <section class="card flush" aria-label="Evaluations">
        <div class="head"><h2>Evaluations</h2><span class="dim">${evaluations.length}</span></div>
        <${Verdicts} evaluations=${evaluations} />
      </section>
      <section class="card fields" aria-label="Input and output"><${Field} title="User's input" field=${run.input} /><${Field} title="Final output" field=${run.output} /></section>
    </div>`;
}

export function Trace({ route }) {
  const answer = useAnswer(`/traces/${encodeURIComponent(route.id)}`);
  return html`<${Answer} of=${answer} rows=${10}>${(run) => html`<${Found} run=${run} query=${route.query} />`}<//>`;
}
