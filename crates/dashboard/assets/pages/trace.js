// One run: the trajectory beside what was expected, then verdicts, content, completion.
import { html, useEffect, useMemo } from '../lib/html.js';
import { useAnswer } from '../lib/api.js';
import { aligned, rowsOf, stepsOf } from '../lib/align.js';
import { link, valueOf, withValue } from '../lib/filter.js';
import { duration, moment, money, score, short, whole } from '../lib/format.js';
import { here, setQuery } from '../lib/route.js';
import { useStream } from '../lib/stream.js';
import { count, cut, visible } from '../lib/text.js';
import { Calls } from '../parts/calls.js';
import { Field } from '../parts/content.js';
import { dim } from '../parts/figure.js';
import { Annotations, ToDataset } from '../parts/people.js';
import { Answer } from '../parts/states.js';
import { bdi, Id } from '../parts/value.js';
import { signOf, untitled, Verdict, verdictOf, wordOf } from '../parts/verdict.js';
import { Verdicts } from '../parts/verdicts.js';

const RANK = { fail: 0, failed: 1, not_evaluable: 2, none: 3, pass: 4 };
/** Most verdicts that the head says in words. */
const SAID = 3;

/** Evaluations that count now, or those of one revision, the worst first. */
function evaluationsOf(run, revision) {
  const rank = (it) => RANK[verdictOf(it)];
  return run.evaluations.filter((it) => (revision === undefined ? it.current : it.revision === Number(revision)))
    .sort((a, b) => rank(a) - rank(b) || (a.score ?? 2) - (b.score ?? 2));
}

const fact = (name, value) => value && html`<span>${name} <b>${value}</b></span>`;

/** Fact with a link to the runs that share it. */
const shared = (name, field, value) => fact(name, value && html`<a href=${link('runs', '', [['from', ''], [field, value]])} title="Runs with this value">${bdi(value, 80)}</a>`);

function Head({ run, evaluations }) {
  const worst = evaluations.length > 0 ? verdictOf(evaluations[0]) : 'none';
  return html`<div class="trace-head">
    <div class="facts"><a href="#/runs">Runs</a><span aria-hidden="true">/</span><${Id} value=${run.trace_id} label="trace id" />
      ${run.cases.map((name) => html`<span class="tag">case ${bdi(name, 80)}</span>`)}</div>
    <h1><span class=${`badge is-${worst}`}><${Verdict} is=${worst} /></span> ${run.title ? bdi(run.title) : dim(untitled(run))}</h1>
    <div class="facts">
      ${shared('agent', 'agent', run.agent)}${shared('service', 'service', run.service)}${shared('version', 'version', run.version)}
      ${shared('environment', 'environment', run.environment)}${shared('session', 'session_id', run.session_id)}
      ${run.models.map((it) => shared('model', 'model', it))}${shared('user', 'user_id', run.user_id)}
      ${fact('started', html`<time datetime=${run.started}>${moment(run.started)}</time>`)}${fact('ended', html`<time datetime=${run.time}>${moment(run.time)}</time>`)}${fact('took', duration(run.duration_s))}
      ${run.cost_usd !== null && fact('cost', money(run.cost_usd))}${run.input_tokens !== null && fact('tokens', `${short(run.input_tokens)} in, ${short(run.output_tokens)} out`)}${fact('spans', whole(run.spans))}
      ${run.trace_url && html`<a class="out" href=${run.trace_url} target="_blank" rel="noopener noreferrer">open in the tracing backend</a>`}
    </div>
  </div>`;
}

/** Verdicts in short: those that are no pass in words, all as counts. */
function Short({ evaluations }) {
  const bad = evaluations.filter((it) => ['fail', 'failed'].includes(verdictOf(it))).slice(0, SAID);
  return bad.map((it) => html`<p class="short"><${Verdict} is=${verdictOf(it)} /> <b>${bdi(it.evaluator, 80)}</b>${it.score !== null && html` <b class="num">${score(it.score)}</b>`} · ${dim(bdi(it.explanation ?? it.error, 240))}</p>`);
}

/** Counts of verdicts, why the trace counted as complete, which judgement is shown. */
function Completion({ run, evaluations, revision }) {
  const revisions = [...new Set(run.evaluations.map((it) => it.revision))].sort((a, b) => b - a);
  const n = (is) => evaluations.filter((it) => verdictOf(it) === is).length;
  return html`<div class="facts">
    ${Object.keys(RANK).filter((is) => n(is) > 0).map((is) => html`<span class=${`is-${is}`}><span aria-hidden="true">${signOf(is)}</span> ${n(is)} ${wordOf(is)}</span>`)}
    <span>${bdi(run.completion_sentence)}</span>
    ${run.partial && html`<span class="is-not_evaluable">Partial: some of the trace is known to be missing.</span>`}
    ${run.revision > 0 && html`<span>Judged ${count(run.revision + 1, 'time')}: spans came later.</span>`}
    ${run.left_out && html`<span class="is-not_evaluable">Left out: ${run.left_out === 'calls' ? 'calls and content' : 'content'}. Not stored, or the store's queue was filled.</span>`}
    ${revisions.length > 1 && html`<label>revision <select onChange=${(event) => setQuery(withValue(here().query, 'revision', event.target.value || null), true)}>
      <option value="" selected=${revision === undefined}>now valid</option>
      ${revisions.map((it) => html`<option value=${it} selected=${revision === String(it)}>${it}</option>`)}</select></label>`}
  </div>`;
}

/** Choice of the evaluator whose expectations stand beside the calls. */
function AlignedBy({ choices, current }) {
  if (choices.length < 2) return current && html`<span class="end dim">expected by ${bdi(current.evaluator)}</span>`;
  return html`<label class="end">expected by <select onChange=${(event) => setQuery(withValue(here().query, 'by', event.target.value), true)}>
    ${choices.map((it) => html`<option value=${it.evaluator} selected=${it === current}>${cut(visible(it.evaluator), 60)}</option>`)}</select></label>`;
}

function Found({ run, query, reload }) {
  const revision = valueOf(query, 'revision');
  const by = valueOf(query, 'by');
  const evaluations = useMemo(() => evaluationsOf(run, revision), [run, revision]);
  const choices = useMemo(() => aligned(evaluations), [evaluations]);
  const current = choices.find((it) => it.evaluator === by) ?? choices[0] ?? null;
  const rows = useMemo(() => rowsOf(run.calls, stepsOf(current)), [run, current]);
  useEffect(() => {
    document.title = `${visible(run.title ?? run.trace_id).slice(0, 60)} · spanscore`;
  }, [run]);
  return html`<${Head} run=${run} evaluations=${evaluations} />
    <div class="stack">
      <section class="summary" aria-label="Verdict"><${Short} evaluations=${evaluations} /><${Completion} run=${run} evaluations=${evaluations} revision=${revision} /></section>
      <section class="card flush" aria-label="Trajectory">
        <div class="head"><h2>Trajectory</h2>${dim(count(run.calls.length, 'call'))}<${AlignedBy} choices=${choices} current=${current} /></div>
        <${Calls} run=${run} rows=${rows} evaluations=${evaluations} isBare=${!current} query=${query} />
      </section>
      <section class="card flush" aria-label="Evaluations"><div class="head"><h2>Evaluations</h2>${dim(evaluations.length)}</div><${Verdicts} evaluations=${evaluations} /></section>
      <${Annotations} run=${run} evaluations=${evaluations} query=${query} reload=${reload} />
      <${ToDataset} run=${run} />
      <${Offered} run=${run} />
      <section class="card fields" aria-label="Input and output"><${Field} title="User's input" field=${run.input} /><${Field} title="Final output" field=${run.output} /></section>
    </div>`;
}

/** Names of the tools that the run was offered, folded; those that it called are marked. */
function Offered({ run }) {
  if (!run.offered?.length) return null;
  const called = new Set(run.calls.map((it) => it.tool));
  return html`<details class="card"><summary class="quiet">${count(run.offered.length, 'tool')} offered</summary>
    <ul class="notes">${run.offered.map(({ name, agent }) => html`<li>${bdi(name, 120)}${agent && dim(html`to ${bdi(agent, 80)}`)}${called.has(name) && dim('called')}</li>`)}</ul></details>`;
}

export function Trace({ route }) {
  const answer = useAnswer(`/traces/${encodeURIComponent(route.id)}`);
  const run = answer.data;
  const isKnown = ({ annotation_id: id, revision }) => run?.annotations.some((it) => it.annotation_id === id && it.revision >= revision);
  useStream([['trace_id', run?.trace_id ?? '']], ({ events, missed, wasHidden }) => {
    const said = events.some(([kind, data]) => kind === 'annotation' && !isKnown(data));
    if (said || missed.annotation > 0 || wasHidden) answer.reload();
  }, Boolean(run));
  return html`<${Answer} of=${answer} rows=${10}>${(run) => html`<${Found} run=${run} query=${route.query} reload=${answer.reload} />`}<//>`;
}
