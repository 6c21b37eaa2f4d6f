// List of runs: the newest or the worst first, a column per evaluator, new ones announced.
import { html, useMemo, useState } from '../lib/html.js';
import { useList } from '../lib/api.js';
import { asked, conditions, link, valueOf, withValue } from '../lib/filter.js';
import { duration, money, score, short, whole } from '../lib/format.js';
import { setQuery } from '../lib/route.js';
import { useArrivals } from '../lib/stream.js';
import { visible } from '../lib/text.js';
import { agent, ended } from '../parts/columns.js';
import { List } from '../parts/figure.js';
import { Empty } from '../parts/states.js';
import { addItem, ChangeForm, datasetField, toDataset } from '../parts/people.js';
import { bdi, Pick } from '../parts/value.js';
import { signOf, untitled, Verdict, wordOf, worstOf } from '../parts/verdict.js';

const SORTS = [['newest', 'Newest first'], ['arrived', 'Last arrived first'], ['worst', 'Worst first'], ['slowest', 'Slowest first'], ['costliest', 'Costliest first']];
/** Columns of evaluators that a window of this width has room for; the others are in the counts. */
const evaluatorsMax = () => Math.max(0, Math.min(6, Math.floor((innerWidth - 940 - 170 * extrasMax()) / 110)));
/** Columns of models and users that it has room for. */
const extrasMax = () => Math.max(0, Math.min(2, Math.floor((innerWidth - 1270) / 170)));

const nameOf = (evaluator) => evaluator.split('/').slice(1).join('/') || evaluator;

/** Evaluators that are asked for, then those that fail most runs of the list, then those that most have. */
function evaluatorsOf(rows, wanted) {
  const ranks = new Map();
  for (const run of rows.slice(0, 200)) {
    for (const { evaluator, verdict } of run.verdicts) {
      const rank = ranks.get(evaluator) ?? [Number(wanted.includes(evaluator)), 0, 0];
      ranks.set(evaluator, [rank[0], rank[1] + Number(verdict === 'fail' || verdict === 'failed'), rank[2] + 1]);
    }
  }
  const order = ([a, one], [b, other]) => other.map((it, at) => it - one[at]).find((it) => it !== 0) ?? (a < b ? -1 : 1);
  return [...ranks].sort(order).slice(0, evaluatorsMax()).map(([name]) => name).sort();
}

function Cell({ run, evaluator }) {
  const found = run.verdicts.find((it) => it.evaluator === evaluator);
  if (!found) return html`<span class="dim">·</span>`;
  const words = `${evaluator}: ${wordOf(found.verdict)}`;
  return html`<span class=${`is-${found.verdict}`} title=${visible(words)}><span class="sign" aria-hidden="true">${signOf(found.verdict)}</span><span class="unseen">${wordOf(found.verdict)} </span>${found.score === null ? '' : score(found.score)}</span>`;
}

function Title({ run }) {
  const words = run.title || untitled(run);
  return html`<span class="cell"><a class="row" href=${link('runs', run.trace_id)} title=${visible(words)}>${run.title ? bdi(run.title) : html`<span class="dim">${words}</span>`}</a>
    ${run.case && html` <span class="tag"><${Pick} field="case" value=${run.case} /></span>`}
    <span class="sub">${bdi([run.case, run.agent || run.service, run.version, ...run.models, `${run.calls} calls`, duration(run.duration_s)].filter(Boolean).join(' · '))}</span></span>`;
}

/** Verdict of a run, and how many of its evaluations say so. */
function RunVerdict({ run }) {
  const is = worstOf(run);
  const all = run.passed + run.failed + run.not_evaluable + run.broken;
  const of = { fail: run.failed, failed: run.broken, not_evaluable: run.not_evaluable, pass: run.passed }[is];
  return html`<${Verdict} is=${is} />${all > 0 && html` <span class="dim wide" title=${`${of} of ${all} evaluations`}>${of}/${all}</span>`}`;
}

function Calls({ run }) {
  return html`${run.errors > 0 && html`<span class="is-fail" title=${`${run.errors} of them failed`}>${run.errors}<span class="unseen"> failed of</span> / </span>`}${whole(run.calls)}`;
}

function Choice({ run, chosen, onChoose }) {
  const turn = (event) => onChoose(event.target.checked ? [...chosen, run.trace_id] : chosen.filter((id) => id !== run.trace_id));
  return html`<input type="checkbox" class="choice" aria-label=${`Choose ${visible(run.title || untitled(run)).slice(0, 80)}`} checked=${chosen.includes(run.trace_id)} onChange=${turn} />`;
}

/** Form that makes items of the chosen runs; those that are refused stay chosen. */
function ChosenRuns({ chosen, onAdded }) {
  const send = async ({ dataset }) => {
    const added = [];
    let refusal = null;
    for (const id of chosen) {
      try {
        await addItem(dataset, id);
        added.push(id);
      } catch (problem) {
        refusal = problem;
        if (problem.status !== 409) break;
      }
    }
    onAdded(added);
    if (refusal) throw new Error(`${added.length} of ${chosen.length} added: ${refusal.message}`);
    return toDataset(dataset);
  };
  return html`<${ChangeForm} label="Add runs to a dataset" button=${`Add ${chosen.length || 'runs'}`} send=${send}>${datasetField()}<//>`;
}

const MODEL = { head: 'Model', kind: 'wide w-agent', cell: (run) => html`<span class="cell">${run.models.map((it) => html`<${Pick} field="model" value=${it} />`)}</span>` };
const USER = { head: 'User', kind: 'wide w-agent', cell: (run) => html`<span class="cell"><${Pick} field="user_id" value=${run.user_id} /></span>` };

/** Columns of what at least one run of the list has. */
const extrasOf = (rows) => [rows.some((run) => run.models.length > 0) && MODEL, rows.some((run) => run.user_id) && USER].filter(Boolean).slice(0, extrasMax());

function columnsOf(evaluators, extras, hasCost, chosen, onChoose) {
  return [
    { head: html`<span class="unseen">Choose</span>`, kind: 'wide w-choice', cell: (run) => html`<${Choice} run=${run} chosen=${chosen} onChoose=${onChoose} />` },
    { head: 'Verdict', kind: 'w-verdict', cell: (run) => html`<${RunVerdict} run=${run} />` },
    { head: 'Run', kind: 'main', cell: (run) => html`<${Title} run=${run} />` },
    ...evaluators.map((evaluator) => ({ head: html`<bdi title=${visible(evaluator)}>${bdi(nameOf(evaluator))}</bdi>`, kind: 'wide w-short', cell: (run) => html`<${Cell} run=${run} evaluator=${evaluator} />` })),
    agent, ...extras,
    { head: 'Calls', kind: 'wide w-tiny num', cell: (run) => html`<${Calls} run=${run} />` },
    { head: 'Took', kind: 'wide w-tiny num', cell: (run) => duration(run.duration_s) },
    hasCost && { head: 'Cost', kind: 'wide w-tiny num', cell: (run) => html`<span title=${`${short(run.input_tokens)} tokens in, ${short(run.output_tokens)} out`}>${money(run.cost_usd)}</span>` },
    ended('Started', (run) => run.started),
  ].filter(Boolean);
}

function NoRuns({ query }) {
  const isFiltered = conditions(query).length > 0;
  if (isFiltered) return html`<${Empty} title="No run fits this filter"><p>Take a condition away, or choose a longer range of time.</p><//>`;
  return html`<${Empty} title="No run ended in this time">
    <p>Choose <button class="button" onClick=${() => setQuery(withValue(query, 'from', ''))}>all time</button> or see <a href="#/setup">how far the first span has come</a>.</p><//>`;
}

function countWords(count) {
  if (!count) return '';
  return `${whole(count.count)}${count.capped ? '+' : ''} ${count.count === 1 && !count.capped ? 'run' : 'runs'}`;
}

export function Runs({ route }) {
  const { query } = route;
  const sort = valueOf(query, 'sort') ?? 'newest';
  const list = useList('/traces', [...asked(query), ['sort', sort]]);
  const arrived = useArrivals('trajectory', query, list.reload);
  const evaluators = useMemo(() => evaluatorsOf(list.rows ?? [], query.filter(([field]) => field === 'evaluator').map(([, name]) => name)), [list.rows, query]);
  const extras = useMemo(() => extrasOf(list.rows ?? []), [list.rows]);
  const hasCost = list.rows?.some((run) => run.cost_usd !== null) ?? false;
  const [chosen, setChosen] = useState([]);
  const [isChoosing, setChoosing] = useState(false);
  const choose = (ids) => {
    setChosen(ids);
    setChoosing(true);
  };
  const columns = useMemo(() => columnsOf(evaluators, extras, hasCost, chosen, choose), [evaluators, extras, hasCost, chosen]);
  return html`<div class="page-head"><h1>Runs</h1><span class="dim" role="status">${countWords(list.count)}</span>
      <span class="end">
        ${(arrived.count > 0 || arrived.isMore) && html`<button class="button main" onClick=${arrived.take}>${whole(arrived.count)}${arrived.isMore && '+'} new</button>`}
        <select aria-label="Order" value=${sort} onChange=${(event) => setQuery(withValue(query, 'sort', event.target.value === 'newest' ? null : event.target.value))}>
          ${SORTS.map(([value, words]) => html`<option value=${value} selected=${value === sort}>${words}</option>`)}
        </select>
      </span></div>
    ${isChoosing && html`<${ChosenRuns} chosen=${chosen} onAdded=${(ids) => setChosen((was) => was.filter((id) => !ids.includes(id)))} />`}
    <${List} list=${list} empty=${html`<${NoRuns} query=${query} />`} narrow=${4} label="Runs" columns=${columns} keyOf=${(run) => run.trace_id} />`;
}
