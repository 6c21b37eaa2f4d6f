// Datasets: the list, and one with its items, which are edited here and written as a file.
import { html } from '../lib/html.js';
import { change, ROOT, useAnswer } from '../lib/api.js';
import { link } from '../lib/filter.js';
import { go } from '../lib/route.js';
import { count } from '../lib/text.js';
import { dim } from '../parts/figure.js';
import { ChangeForm } from '../parts/people.js';
import { Answer, Empty } from '../parts/states.js';
import { bdi } from '../parts/value.js';

export function Datasets() {
  const answer = useAnswer('/datasets');
  const empty = html`<${Empty} title="No dataset yet"><p>Open a <a href="#/runs">run</a> and add it to one, or choose several in the list.</p><//>`;
  return html`<div class="page-head"><h1>Datasets</h1></div>
    <${Answer} of=${answer} isEmpty=${(it) => it.items.length === 0} empty=${empty}>
      ${(it) => html`<ul class="card notes">${it.items.map((row) => html`<li><a href=${link('datasets', row.dataset)}>${bdi(row.dataset, 120)}</a> ${dim(count(row.items, 'item'))}</li>`)}</ul>`}<//>`;
}

const pathOf = (name) => `/datasets/${encodeURIComponent(name)}`;

/** Item with its criteria as JSON, which can be changed. */
function Item({ item, reload }) {
  const path = `${pathOf(item.dataset)}/items/${encodeURIComponent(item.key)}`;
  const send = async ({ criteria, note }) => {
    let read;
    try {
      read = JSON.parse(criteria);
    } catch (error) {
      throw new Error(`The criteria are no JSON: ${error.message}`);
    }
    await change('PATCH', path, { criteria: read, note }, item.revision);
    reload();
    return 'Kept.';
  };
  const remove = () => change('DELETE', path, undefined, item.revision).catch(() => null).then(reload);
  return html`<li class="card"><h2>${bdi(item.key, 120)}</h2>
    <p class="dim">of <a href=${link('runs', item.trace_id)}>run ${item.trace_id.slice(0, 8)}</a>${item.user_input && html`: ${bdi(item.user_input, 240)}`}</p>
    <${ChangeForm} label="Change the item" button="Keep" send=${send}>
      <label class="long">criteria <textarea name="criteria" rows="8" spellcheck="false" class="mono">${JSON.stringify(item.criteria, null, 2)}</textarea></label>
      <label class="long">note <input type="text" name="note" maxlength="4000" value=${item.note ?? ''} /></label>
      <button type="button" class="button" onClick=${remove}>Delete</button>
    <//></li>`;
}

export function Dataset({ route }) {
  const answer = useAnswer(pathOf(route.id));
  if (answer.problem?.status === 404 && answer.data) go(link('datasets'));
  return html`<div class="page-head"><h1>${bdi(route.id, 120)}</h1>${answer.data && dim(count(answer.data.items.length, 'item'))}
      <span class="end"><a class="button" href=${`${ROOT}${pathOf(route.id)}/items.jsonl`} download="items.jsonl">Save as a file</a></span></div>
    <p class="note">A config reads the file: <code>${'expect: {file: items.jsonl, match: auto}'}</code></p>
    <${Answer} of=${answer}>${(it) => html`<ul class="stack items">${it.items.map((item) => html`<${Item} key=${`${item.key} ${item.revision}`} item=${item} reload=${answer.reload} />`)}</ul>`}<//>`;
}
