// What people add to a run: verdicts of their own, and items of datasets.
import { html, useRef, useState } from '../lib/html.js';
import { change } from '../lib/api.js';
import { link, valueOf } from '../lib/filter.js';
import { ago, moment, score } from '../lib/format.js';
import { useKeys } from '../lib/keys.js';
import { remember, remembered } from '../lib/memory.js';
import { cut, visible } from '../lib/text.js';
import { bdi } from './value.js';
import { Verdict } from './verdict.js';

/** Form that sends a change: its fields as an object, what became of it in words. */
export function ChangeForm({ label, send, children, focusRef, button }) {
  const [said, setSaid] = useState(null);
  const [isSending, setSending] = useState(false);
  const submitted = async (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    setSending(true);
    try {
      setSaid({ words: await send(Object.fromEntries(new FormData(form)), form) });
    } catch (problem) {
      setSaid({ words: bdi(problem.message), isBad: true });
    }
    setSending(false);
  };
  return html`<form class="change" aria-label=${label} ref=${focusRef} onSubmit=${submitted}>${children}
    <button class="button main" disabled=${isSending}>${button}</button>
    <span role="status" class=${said?.isBad ? 'is-fail' : 'dim'}>${said?.words}</span></form>`;
}

/** Button that deletes, or says why not; what is gone already is as good as deleted. */
export function Delete({ path, revision, label, onDone }) {
  const [problem, setProblem] = useState(null);
  const remove = () => change('DELETE', path, undefined, revision).then(onDone, (it) => (it.status === 404 ? onDone() : setProblem(it)));
  return html`<button type="button" class="quiet" aria-label=${label} onClick=${remove}>Delete</button>
    ${problem && html`<span role="alert" class="is-fail">${bdi(problem.message)}</span>`}`;
}

function Said({ it, reload }) {
  const about = it.evaluator ?? (it.call ? `call ${it.call}` : it.session_id ? 'the session' : 'the run');
  return html`<li>${it.label && html`<${Verdict} is=${it.label} />`} ${it.score !== null && score(it.score)} <span class="dim">on</span> ${bdi(about, 120)}
    ${it.comment && html` <span class="said">${bdi(it.comment, 600)}</span>`}
    <span class="dim">${bdi(it.author, 80)}, <time datetime=${it.changed} title=${moment(it.changed)}>${ago(it.changed)}</time></span>
    <${Delete} path=${`/annotations/${it.annotation_id}`} revision=${it.revision} label=${`Delete the verdict on ${visible(about)}`} onDone=${reload} /></li>`;
}

/** Verdicts of people on a run, and the form for another. */
export function Annotations({ run, evaluations, query, reload }) {
  const form = useRef(null);
  useKeys({ a: () => form.current?.querySelector('select').focus() });
  const call = valueOf(query, 'call');
  const send = async ({ target, label, comment, author }, sent) => {
    remember('author', author || null);
    const [is, id] = target.split(':');
    const { trace_id, session_id } = run;
    const about = { evaluation: { trace_id, evaluation_id: id }, call: { trace_id, call: Number(id) }, session: { trace_id, session_id }, trace: { trace_id } }[is];
    await change('POST', '/annotations', { ...about, ...(label && { label }), comment, author });
    sent.querySelector('[name="comment"]').value = '';
    reload();
    return 'Kept.';
  };
  return html`<section class="card" aria-label="Verdicts of people"><h2>Verdicts of people</h2>
    ${run.annotations.length > 0 && html`<ul class="notes">${run.annotations.map((it) => html`<${Said} key=${it.annotation_id} it=${it} reload=${reload} />`)}</ul>`}
    <${ChangeForm} label="Add a verdict" button="Keep" send=${send} focusRef=${form}>
      <label>on <select name="target"><option value="trace">the run</option>${run.session_id && html`<option value="session">the session</option>`}${call && html`<option value=${`call:${call}`} selected>call ${call}</option>`}
        ${evaluations.slice(0, 100).map((it) => html`<option value=${`evaluation:${it.evaluation_id}`}>${cut(visible(it.evaluator), 60)}${it.tool ? ` at ${cut(visible(it.tool), 40)}` : ''}</option>`)}</select></label>
      <label>verdict <select name="label"><option value="fail">✕ fail</option><option value="pass">✓ pass</option><option value="">none</option></select></label>
      <label class="long">comment <input type="text" name="comment" maxlength="4000" /></label>
      <label>by <input type="text" name="author" maxlength="100" size="10" value=${remembered('author') ?? ''} /></label>
    <//></section>`;
}

/** Field for the name of a dataset; the last one stays. */
export const datasetField = () => html`<label>dataset <input type="text" name="dataset" required maxlength="200" size="14" value=${remembered('dataset') ?? 'golden'} /></label>`;

/** Makes an item of a run; returns its dataset. */
export function addItem(dataset, trace_id, more = {}) {
  remember('dataset', dataset);
  return change('POST', `/datasets/${encodeURIComponent(dataset)}/items`, { trace_id, ...more });
}

export const toDataset = (name) => html`In <a href=${link('datasets', name)}>${bdi(name, 80)}</a>.`;

/** Form that makes an item of one run. */
export function ToDataset({ run }) {
  const form = useRef(null);
  useKeys({ d: () => form.current?.querySelector('input').focus() });
  const send = async ({ dataset, key }) => {
    const item = await addItem(dataset, run.trace_id, { key });
    return toDataset(item.dataset);
  };
  return html`<section class="card" aria-label="To a dataset"><h2>To a dataset</h2>
    <${ChangeForm} label="Make an item" button="Add" send=${send} focusRef=${form}>
      ${datasetField()}<label class="long">as <input type="text" name="key" maxlength="200" placeholder=${visible(run.cases[0] ?? run.trace_id.slice(0, 12))} /></label>
    <//></section>`;
}
