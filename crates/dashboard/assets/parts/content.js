// Content of a call: JSON or text, cut where it is long; "not recorded" is apart from empty.
import { html, useState } from '../lib/html.js';
import { bytes } from '../lib/format.js';
import { cut, json, segments } from '../lib/text.js';

/** Characters that a field shows at first. */
const SHOWN_MAX = 3000;
/** Characters up to which JSON gets its colours. */
const COLOURED_MAX = 20000;

const ABSENT = {
  not_recorded: 'not recorded: the telemetry holds none',
  redacted: 'redacted: the sender removed it',
  left_out: 'left out: the run holds too much content',
};

const TOKENS = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d[\d.eE+-]*|\btrue\b|\bfalse\b|\bnull\b)/g;

const plain = (text) => segments(text, true).map((it) => (it.hidden ? html`<span class="esc">${it.text}</span>` : it.text));

/** JSON text with keys and numbers in colour. */
function coloured(text) {
  if (text.length > COLOURED_MAX) return plain(text);
  const out = [];
  let end = 0;
  for (const found of text.matchAll(TOKENS)) {
    const kind = found[2] ? 'k' : found[3] ? 'n' : null;
    if (!kind) continue;
    out.push(...plain(text.slice(end, found.index)));
    out.push(html`<span class=${kind}>${plain(found[kind === 'k' ? 1 : 0])}</span>`);
    end = found.index + found[kind === 'k' ? 1 : 0].length;
  }
  return [...out, ...plain(text.slice(end))];
}

/** Value as JSON, or a text as it is. */
export function Value({ value, label }) {
  const [isWhole, setWhole] = useState(false);
  const isText = typeof value === 'string';
  const text = isText ? value : json(value, 2);
  const shown = isWhole ? text : cut(text, SHOWN_MAX);
  if (text === '') return html`<p class="absent">empty text</p>`;
  return html`<pre class="content" tabindex="0" role="region" aria-label=${label}><bdi>${isText ? plain(shown) : coloured(shown)}</bdi></pre>
    ${shown !== text && html`<button class="quiet" onClick=${() => setWhole(true)}>Show all, ${bytes(text.length)}</button>`}`;
}

/** Field as the store gives it: its value, or the reason that it is absent. */
export function Field({ title, field, bad = false }) {
  return html`<div class=${bad ? 'field bad' : 'field'}><h3>${title}</h3><${FieldBody} title=${title} field=${field} /></div>`;
}

function FieldBody({ title, field }) {
  if (field === null || field === undefined) return html`<p class="absent">not kept by the store</p>`;
  if (typeof field !== 'object' || Array.isArray(field)) return html`<${Value} value=${field} label=${title} />`;
  const words = Object.hasOwn(ABSENT, field.absent ?? '') ? ABSENT[field.absent] : null;
  if (words) return html`<p class="absent">${words}</p>`;
  return html`${field.absent === 'unreadable' && html`<p class="absent">not readable as JSON, as it came:</p>`}
    <${Value} value=${field.value} label=${title} />
    ${field.truncated && html`<p class="absent">cut: the store keeps the beginning</p>`}`;
}
