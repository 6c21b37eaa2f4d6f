// Trajectory: calls in order with their bars in time, beside what was expected; a line unfolds.
import { html, useEffect, useMemo, useRef, useState } from '../lib/html.js';
import { differing } from '../lib/align.js';
import { link, valueOf, withValue } from '../lib/filter.js';
import { clock, duration } from '../lib/format.js';
import { useKeys } from '../lib/keys.js';
import { here } from '../lib/route.js';
import { bar, extent } from '../lib/scale.js';
import { argumentLine, json, visible } from '../lib/text.js';
import { Field, Value } from './content.js';
import { facts } from './figure.js';
import { rem, useVisible } from './table.js';
import { bdi } from './value.js';
import { Verdict, verdictOf } from './verdict.js';

/** Height of a line that is not unfolded. */
const LINE_REM = 2.25;

/** Sign and words of a step. */
const STEPS = {
  same: ['=', 'as expected'], differs: ['~', 'other arguments'], moved: ['↕', 'at another place'],
  missing: ['−', 'missing'], extra: ['+', 'not expected'],
};

const orNone = (value) => (value === undefined ? 'none' : json(value));

/** One line for what is known of the arguments. */
function argumentsOf({ arguments: given }) {
  if (given?.absent) return `arguments ${given.absent.replaceAll('_', ' ')}`;
  return argumentLine(given && typeof given === 'object' ? given.value : undefined);
}

/** Words for the expected side of a line. */
function expectedOf({ is, name, expected, actual }) {
  const changes = is === 'differs' ? differing(expected, actual) : [];
  if (changes.length > 0) return changes.map((it) => `${it.name}: ${orNone(it.expected)}`).join('  ');
  if (is === 'missing') return `${name} ${argumentLine(expected)}`;
  return STEPS[is][1];
}

function Expected({ step }) {
  if (!step) return html`<span class="dim">·</span>`;
  const [sign, words] = STEPS[step.is];
  return html`<span class=${`align-${step.is}`} title=${words}><b aria-hidden="true">${sign}</b><span class="unseen">${words}</span> ${bdi(expectedOf(step), 160)}</span>`;
}

function Bar({ call, scale }) {
  const { left, width } = bar(call, scale);
  const percent = (share) => `${(share * 100).toFixed(2)}%`;
  const kind = call.status === 'error' ? 'bar error' : call.duration_s === null ? 'bar open' : 'bar';
  return html`<svg class="bar-lane" aria-hidden="true"><rect class="rail" x="0" y="9" width="100%" height="2" />
    <rect class=${kind} x=${percent(Math.min(left, 0.994))} y="4" width=${percent(Math.max(width, 0.006))} height="12" rx="2" /></svg>`;
}

/** Evaluations of the call itself. */
const judgedAt = (evaluations, call) => evaluations.filter((it) => it.level === 'call' && it.span_id === call.span_id && (!it.tool || it.tool === call.tool));

function Tags({ call, judged }) {
  const bad = judged.filter((it) => verdictOf(it) !== 'pass').slice(0, 2);
  return html`${call.undeclared && html`<span class="tag is-fail" title="The tool was not among those offered">undeclared</span> `}
    ${call.repeated && html`<span class="tag" title="Only the history of a request records it">repeated</span> `}
    ${bad.map((it) => html`<span class=${`badge is-${verdictOf(it)}`}><${Verdict} is=${verdictOf(it)}>${bdi(it.evaluator, 40)}<//></span> `)}`;
}

/** Expected values, argument by argument. */
function Difference({ step }) {
  if (step?.is === 'moved') return html`<p>Expected as number ${step.place} of the run.</p>`;
  if (step?.is !== 'differs') return null;
  const changes = differing(step.expected, step.actual);
  if (changes.length === 0) return html`<div class="field"><h3>Expected arguments</h3><${Value} value=${step.expected ?? null} label="Expected arguments" /></div>`;
  return html`<div class="field"><h3>Arguments that differ</h3>${facts(['argument', 'expected', 'was'], changes.map((it) => [bdi(it.name), html`<code>${bdi(orNone(it.expected))}</code>`, html`<code class="is-fail">${bdi(orNone(it.actual))}</code>`]))}</div>`;
}

function Body({ call, step, judged }) {
  return html`<div class="call-body">
    <div class="facts">${step && html`<span>${STEPS[step.is][1]}</span>`}<span>started <b><time datetime=${call.time}>${clock(call.time)}</time></b></span><span>took <b>${call.duration_s === null ? 'unknown' : duration(call.duration_s)}</b></span><span>status <b>${call.status}</b></span><span>span <b class="mono">${bdi(call.span_id)}</b></span></div>
    ${judged.map((it) => html`<p><${Verdict} is=${verdictOf(it)} /> ${bdi(it.evaluator, 80)}: ${bdi(it.explanation ?? it.error, 600)}</p>`)}
    <${Difference} step=${step} />
    <div class="fields"><${Field} title="Arguments" field=${call.arguments} />
      ${call.error !== null && call.error !== undefined && html`<${Field} title="Error" field=${call.error} bad=${true} />`}
      <${Field} title="Result" field=${call.result} /></div>
  </div>`;
}

function Line({ row: { call, step, at }, scale, isBare, isOpen, onToggle, evaluations }) {
  const expected = !isBare && html`<span class="what expected"><${Expected} step=${step} /></span>`;
  if (!call) return html`<div class="call-line"><span class="at align-missing" aria-hidden="true">−</span><span class="what dim">not called</span>${expected}<span class="lane"></span><span></span></div>`;
  const judged = judgedAt(evaluations, call);
  const given = argumentsOf(call);
  return html`<button class="call-line" aria-expanded=${isOpen} onClick=${onToggle}>
    <span class="at">${at + 1}</span>
    <span class="what" title=${visible(`${call.tool} ${given}`)}><b>${bdi(call.tool, 120)}</b><span class="unseen">${call.status === 'error' ? ' failed' : ''}</span> <${Tags} call=${call} judged=${judged} /><span class="mono">${bdi(given, 200)}</span></span>
    ${expected}
    <span class="lane"><${Bar} call=${call} scale=${scale} /></span>
    <span class="num dim">${call.duration_s === null ? 'open' : duration(call.duration_s)}</span>
  </button>${isOpen && html`<${Body} call=${call} step=${step} judged=${judged} />`}`;
}

/** Lines that are open, and the one that is chosen; the address holds the last that was opened. */
function useOpen(rows, query) {
  const asked = rows.findIndex((row) => row.at !== null && String(row.at + 1) === valueOf(query, 'call'));
  const [open, setOpen] = useState(() => new Set(asked < 0 ? [] : [asked]));
  const [chosen, setChosen] = useState(asked);
  const toggle = (place) => {
    const next = new Set(open);
    const isOpening = !next.delete(place);
    if (isOpening) next.add(place);
    setOpen(next);
    setChosen(place);
    const now = here();
    history.replaceState(null, '', link(now.page, now.id, withValue(now.query, 'call', isOpening ? String(rows[place].at + 1) : null)));
  };
  return { open, chosen, setChosen, toggle };
}

/** Calls beside the steps of an expectation; without one (`isBare`) the calls alone. */
export function Calls({ run, rows, evaluations, isBare, query }) {
  const box = useRef(null);
  const { open, chosen, setChosen, toggle } = useOpen(rows, query);
  const height = LINE_REM * rem();
  const [from, to] = useVisible(box, rows.length, height);
  const scale = useMemo(() => extent(run.calls), [run]);
  const step = (by) => setChosen((was) => Math.max(0, Math.min(rows.length - 1, was + by)));
  useKeys({ j: () => step(1), k: () => step(-1), Enter: () => rows[chosen]?.call && toggle(chosen) });
  useEffect(() => {
    if (chosen < 0 || !box.current) return;
    if (chosen < from || chosen >= to) scrollBy(0, box.current.getBoundingClientRect().top + chosen * height - innerHeight / 2);
    requestAnimationFrame(() => {
      const line = box.current?.querySelector(`[data-line="${chosen}"]`);
      line?.scrollIntoView({ block: 'nearest' });
      line?.querySelector('button')?.focus({ preventScroll: true });
    });
  }, [chosen]);
  if (rows.length === 0) return html`<p class="none dim">${run.revision === null ? 'The run is not here.' : run.left_out === 'calls' ? 'The calls were left out under load.' : 'This run called no tool.'}</p>`;
  const gap = (n) => n > 0 && html`<li aria-hidden="true" style=${{ height: `${n * height}px` }}></li>`;
  return html`<div class=${isBare ? 'bare' : ''}>
    <div class="call-line head-line dim" aria-hidden="true"><span class="at">#</span><span>call</span>${!isBare && html`<span>expected</span>`}<span class="axis"><span>0 s</span><span>${duration((scale.end - scale.start) / 1000)}</span></span><span></span></div>
    <ol class="calls" ref=${box}>${gap(from)}
      ${rows.slice(from, to).map((row, offset) => {
    const place = from + offset;
    const kind = row.call ? row.call.status : 'missing';
    return html`<li key=${place} class=${`call ${kind} ${place === chosen ? 'chosen' : ''}`} data-line=${place}><${Line} row=${row} scale=${scale} isBare=${isBare} isOpen=${open.has(place)} onToggle=${() => toggle(place)} evaluations=${evaluations} /></li>`;
  })}${gap(rows.length - to)}</ol></div>`;
}
