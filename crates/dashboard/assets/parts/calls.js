// Trajectory: calls in order with their bars in time, beside what was expected; a line unfolds.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib/html.js';
import { differing } from '../lib/align.js';
import { link, valueOf, withValue } from '../lib/filter.js';
import { clock, duration } from '../lib/format.js';
import { useKeys } from '../lib/keys.js';
import { here } from '../lib/route.js';
import { bar, extent } from '../lib/scale.js';
import { argumentLine, json, visible } from '../lib/text.js';
import { Field, Value } from './content.js';
import { Text } from './value.js';
import { Verdict, verdictOf } from './verdict.js';

/** Lines beyond which only those near the window are in the document. */
const WHOLE_MAX = 150;
const LINE_REM = 2.25;

const SIGNS = { same: '=', differs: '~', moved: '↕', missing: '−', extra: '+' };
const WORDS = { same: 'as expected', differs: 'other arguments', moved: 'at another place', missing: 'missing', extra: 'not expected' };

const valueOfField = (field) => (field && typeof field === 'object' && 'value' in field ? field.value : undefined);

/** One line for what is known of the arguments. */
function argumentsOf(call) {
  if (call.arguments?.absent) return call.arguments.absent === 'not_recorded' ? 'arguments not recorded' : `arguments ${call.arguments.absent.replaceAll('_', ' ')}`;
  return argumentLine(valueOfField(call.arguments));
}

/** Expected side of a line. */
function Expected({ step }) {
  if (!step) return html`<span class="dim">·</span>`;
  const changes = step.is === 'differs' ? differing(step.expected, step.actual) : [];
  const words = changes.map((it) => `${it.name}: ${it.expected === undefined ? 'none' : json(it.expected)}`).join('  ');
  const name = step.is === 'missing' || step.is === 'moved' ? `${step.name} ${step.is === 'missing' ? argumentLine(step.expected) : ''}` : '';
  return html`<span class=${`align-${step.is}`} title=${WORDS[step.is]}><b aria-hidden="true">${SIGNS[step.is]}</b><span class="unseen">${WORDS[step.is]}</span> <${Text} value=${words || name || (step.is === 'extra' ? WORDS.extra : step.is === 'same' ? 'as expected' : WORDS[step.is])} max=${160} /></span>`;
}

function Bar({ call, scale }) {
  const { left, width } = bar(call, scale);
  const percent = (share) => `${(share * 100).toFixed(3)}%`;
  const kind = call.status === 'error' ? 'bar error' : call.duration_s === null ? 'bar open' : 'bar';
  return html`<svg class="bar-lane" aria-hidden="true"><rect class="rail" x="0" y="9" width="100%" height="2" />
    <rect class=${kind} x=${percent(Math.min(left, 0.994))} y="4" width=${percent(Math.max(width, 0.006))} height="12" rx="2" /></svg>`;
}

/** Evaluations of the call itself. */
const judgedAt = (evaluations, call) => evaluations.filter((it) => it.level === 'call' && it.span_id === call.span_id && (!it.tool || it.tool === call.tool));

function Tags({ call, evaluations }) {
  const bad = judgedAt(evaluations, call).filter((it) => verdictOf(it) !== 'pass');
  return html`${call.undeclared && html`<span class="tag is-fail" title="The tool was not among those offered">undeclared</span> `}
    ${call.repeated && html`<span class="tag" title="Only the history of a request records it">repeated</span> `}
    ${bad.slice(0, 2).map((it) => html`<span class=${`badge is-${verdictOf(it)}`}><${Verdict} is=${verdictOf(it)}><${Text} value=${it.evaluator} max=${40} /><//></span> `)}`;
}

/** What was expected, argument by argument. */
function Difference({ step }) {
  if (!step || step.is === 'same' || step.is === 'extra') return null;
  const changes = differing(step.expected, step.actual);
  if (step.is === 'moved') return html`<p>Expected as number ${step.place} of the run.</p>`;
  if (changes.length === 0) return html`<div class="field"><h3>Expected arguments</h3><${Value} value=${step.expected ?? null} label="Expected arguments" /></div>`;
  return html`<div class="field"><h3>Arguments that differ</h3><table class="plain"><thead><tr><th scope="col">argument</th><th scope="col">expected</th><th scope="col">was</th></tr></thead>
    <tbody>${changes.map((it) => html`<tr><th scope="row"><${Text} value=${it.name} /></th>
      <td class="mono"><${Text} value=${it.expected === undefined ? 'none' : json(it.expected)} /></td><td class="mono is-fail"><${Text} value=${it.actual === undefined ? 'none' : json(it.actual)} /></td></tr>`)}</tbody></table></div>`;
}

function Body({ call, step, evaluations }) {
  const judged = judgedAt(evaluations, call);
  return html`<div class="call-body">
    <div class="facts"><span>${WORDS[step?.is] ?? 'nothing is said of it'}</span><span>started <b><time datetime=${call.time}>${clock(call.time)}</time></b></span><span>took <b>${call.duration_s === null ? 'unknown' : duration(call.duration_s)}</b></span><span>status <b>${call.status}</b></span><span>span <b class="mono"><${Text} value=${call.span_id} /></b></span></div>
    ${judged.map((it) => html`<p><${Verdict} is=${verdictOf(it)} /> <${Text} value=${it.evaluator} max=${80} />: <${Text} value=${it.explanation ?? it.error ?? ''} max=${600} /></p>`)}
    <${Difference} step=${step} />
    <div class="fields"><${Field} title="Arguments" field=${call.arguments} />
      ${call.error !== null && call.error !== undefined && html`<${Field} title="Error" field=${call.error} bad=${true} />`}
      <${Field} title="Result" field=${call.result} /></div>
  </div>`;
}

/** Line of a call that is missing. */
function MissingLine({ step, isBare }) {
  return html`<div class="call-line"><span class="at align-missing" aria-hidden="true">−</span><span class="what dim">not called</span>${!isBare && html`<span class="what expected"><${Expected} step=${step} /></span>`}<span class="lane"></span><span></span></div>`;
}

function CallLine({ row, scale, isBare, isOpen, onToggle, evaluations }) {
  const { call, step, at } = row;
  return html`<button type="button" class="call-line" aria-expanded=${isOpen} onClick=${onToggle}>
    <span class="at">${at + 1}</span>
    <span class="what" title=${visible(`${call.tool} ${argumentsOf(call)}`)}><b><${Text} value=${call.tool} max=${120} /></b><span class="unseen">${call.status === 'error' ? ' failed' : ''}</span> <${Tags} call=${call} evaluations=${evaluations} /><span class="mono"><${Text} value=${argumentsOf(call)} max=${200} /></span></span>
    ${!isBare && html`<span class="what expected"><${Expected} step=${step} /></span>`}
    <span class="lane"><${Bar} call=${call} scale=${scale} /></span>
    <span class="num dim">${call.duration_s === null ? 'open' : duration(call.duration_s)}</span>
  </button>`;
}

/** Range of lines near the window, by their heights as far as they are known. */
function useNear(box, total, openAt) {
  const [range, setRange] = useState([0, WHOLE_MAX]);
  const isWhole = total <= WHOLE_MAX;
  const height = LINE_REM * parseFloat(getComputedStyle(document.documentElement).fontSize);
  useLayoutEffect(() => {
    if (isWhole) return undefined;
    const measure = () => {
      const above = -(box.current?.getBoundingClientRect().top ?? 0);
      const first = Math.max(0, Math.floor(above / height) - 30);
      setRange((was) => (Math.abs(was[0] - first) < 10 ? was : [first, first + WHOLE_MAX]));
    };
    measure();
    addEventListener('scroll', measure, { passive: true });
    return () => removeEventListener('scroll', measure);
  }, [isWhole, openAt]);
  return isWhole ? [0, total, height] : [range[0], Math.min(total, range[1]), height];
}

export function Calls({ run, rows, evaluations, expectation, query }) {
  const box = useRef(null);
  const asked = Number(valueOf(query, 'call') ?? 0);
  const first = rows.findIndex((row) => row.at !== null && (row.at + 1 === asked || (!asked && row.call.status === 'error')));
  const [open, setOpen] = useState(() => new Set(asked && first >= 0 ? [first] : []));
  const [chosen, setChosen] = useState(asked ? first : -1);
  const [from, to, height] = useNear(box, rows.length, open);
  const scale = extent(run.calls);
  const toggle = (place) => {
    const next = new Set(open);
    const isOpening = !next.delete(place);
    if (isOpening) next.add(place);
    setOpen(next);
    setChosen(place);
    const at = rows[place].at;
    const { page, id, query: now } = here();
    if (at !== null) history.replaceState(null, '', link(page, id, withValue(now, 'call', isOpening ? String(at + 1) : null)));
  };
  const step = (by) => setChosen((was) => Math.max(0, Math.min(rows.length - 1, was + by)));
  useKeys({ j: () => step(1), k: () => step(-1), Enter: () => chosen >= 0 && rows[chosen].call && toggle(chosen) });
  useEffect(() => {
    const top = box.current?.getBoundingClientRect().top;
    const isFar = chosen >= 0 && !box.current?.querySelector(`[data-line="${chosen}"]`);
    if (isFar) scrollBy(0, top + chosen * height - innerHeight / 2);
    const line = box.current?.querySelector(`[data-line="${chosen}"]`);
    line?.scrollIntoView({ block: 'nearest' });
    line?.querySelector('button')?.focus({ preventScroll: true });
  }, [chosen]);
  if (rows.length === 0) return html`<p class="none dim">${run.left_out === 'calls' ? 'The calls were left out under load.' : 'This run called no tool.'}</p>`;
  const isBare = !expectation;
  return html`<div class="call-line head-line dim" aria-hidden="true" data-bare=${isBare}><span class="at">#</span><span>call</span>${!isBare && html`<span>expected</span>`}<span class="axis lane"><span>0 s</span><span>${duration((scale.end - scale.start) / 1000)}</span></span><span></span></div>
    <ol class=${isBare ? 'calls bare' : 'calls'} ref=${box}>
    ${from > 0 && html`<li aria-hidden="true" style=${{ height: `${from * height}px` }}></li>`}
    ${rows.slice(from, to).map((row, offset) => {
      const place = from + offset;
      const kind = `call ${row.call ? '' : 'missing'} ${row.call?.status === 'error' ? 'error' : ''} ${place === chosen ? 'chosen' : ''}`;
      return html`<li key=${place} class=${kind} data-line=${place}>
        ${row.call
    ? html`<${CallLine} row=${row} scale=${scale} isBare=${isBare} isOpen=${open.has(place)} onToggle=${() => toggle(place)} evaluations=${evaluations} />`
    : html`<${MissingLine} step=${row.step} isBare=${isBare} />`}
        ${row.call && open.has(place) && html`<${Body} call=${row.call} step=${row.step} evaluations=${evaluations} />`}
      </li>`;
    })}
    ${to < rows.length && html`<li aria-hidden="true" style=${{ height: `${(rows.length - to) * height}px` }}></li>`}
  </ol>`;
}
