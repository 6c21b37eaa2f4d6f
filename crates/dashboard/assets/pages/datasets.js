// Datasets: the list, and one with its items, which are edited here and written as a file.
import { html, useState } from '../lib/html.js';
import { change, ROOT, useAnswer, useList } from '../lib/api.js';
import { link } from '../lib/filter.js';
import { go } from '../lib/route.js';
import { count, visible } from '../lib/text.js';
import { dim } from '../parts/figure.js';
import { ChangeForm, Delete } from '../parts/people.js';
import { Answer, Empty } from '../parts/states.js';
import { bdi } from '../parts/value.js';

export function Datasets() {
  const answer = useAnswer('/datasets');
  const empty = html`<${Empty} title="No dataset yet"><p>Open a <a href="#/runs">run</a> and add it to one, or choose several in the list.</p><//>`;
  return html`<div class="page-head"><h1>Datasets</h1></div>
    <${Answer} of=${answer} isEmpty=${(it) => it.items.length === 0} empty=${empty}>
      ${(it) => html`<ul class="card notes">${it.items.map((row) => html`<li><a href=${link('datasets', row.dataset)}>${bdi(row.dataset, 120)}</a> ${dim(count(row.items, 'item'))}</li>`)}</ul>`}<//>`;
}

/** Items of a page: each may have 192 KiB, and an answer 8 MiB. */
const PAGE = 40;
const pathOf = (name) => `/datasets/${encodeURIComponent(name)}`;

/** Item with its criteria as JSON, which can be changed. */
function Item({ of, onDelete }) {
  const [item, setItem] = useState(of);
  const path = `${pathOf(item.dataset)}/items/${encodeURIComponent(item.key)}`;
  const send = async ({ criteria, note }) => {
    let read;
    try {
      read = JSON.parse(criteria);
    } catch (error) {
      throw new Error(`The criteria are no JSON: ${error.message}`);
    }
    setItem(await change('PATCH', path, { criteria: read, note }, item.revision));
    return 'Kept.';
  };
  return html`<li class="card"><h2>${bdi(item.key, 120)}</h2>
    <p class="dim">of <a href=${link('runs', item.trace_id)}>run ${item.trace_id.slice(0, 8)}</a>${item.user_input && html`: ${bdi(item.user_input, 240)}`}</p>
    <${ChangeForm} label="Change the item" button="Keep" send=${send}>
      <label class="long">criteria <textarea name="criteria" rows="8" spellcheck="false" class="mono">${JSON.stringify(of.criteria, null, 2)}</textarea></label>
      <label class="long">note <input type="text" name="note" maxlength="4000" value=${of.note ?? ''} /></label>
      <${Delete} path=${path} revision=${item.revision} label=${`Delete ${visible(item.key)}`} onDone=${onDelete} />
    <//></li>`;
}

export function Dataset({ route }) {
  const list = useList(pathOf(route.id), [], PAGE);
  const onDelete = () => (list.rows.length === 1 ? go(link('datasets')) : list.reload());
  return html`<div class="page-head"><h1>${bdi(route.id, 120)}</h1>${list.count && dim(count(list.count.count, 'item'))}
      <span class="end"><a class="button" href=${`${ROOT}${pathOf(route.id)}/items.jsonl`} download="items.jsonl">Save as a file</a></span></div>
    <p class="note">A config reads the file: <code>${'expect: {file: items.jsonl, match: auto}'}</code></p>
    <${Answer} of=${{ ...list, data: list.rows }}>${(rows) => html`<ul class="stack items">${rows.map((item) => html`<${Item} key=${`${item.key} ${item.revision}`} of=${item} onDelete=${onDelete} />`)}</ul>
      ${list.hasMore && html`<button class="button" onClick=${list.more}>More</button>`}`}<//>`;
}
