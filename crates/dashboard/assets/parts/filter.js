// Filter of lists and figures: conditions as chips, a field to type more, the range of time.
import { html, useId, useMemo, useRef, useState } from '../lib/html.js';
import { conditions, FIELDS, freshRange, RANGES, typed, VALUES, valueOf, withCondition, without, withValue } from '../lib/filter.js';
import { setQuery } from '../lib/route.js';
import { useAnswer } from '../lib/api.js';
import { visible } from '../lib/text.js';
import { bdi } from './value.js';

/** Most suggestions at once. */
const SUGGESTED_MAX = 8;
/** Fields whose values the store is asked for. */
const ASKED = new Set(['evaluator', 'kind', 'service', 'agent', 'version', 'environment', 'reason', 'case', 'model', 'user_id']);

const WIDE = [['from', '-30d']];
const VERDICTS = [['', 'All'], ['fail', '✕ Fail'], ['pass', '✓ Pass']];

function Chip({ query, field, value, not }) {
  const words = `${FIELDS[field]} ${not ? 'is not' : 'is'} ${visible(value)}`;
  const turn = () => setQuery(withCondition(query, field, value, !not));
  return html`<span class=${not ? 'chip not' : 'chip'}>
    <button class="chip-words" title=${`${words}. Turn around`} onClick=${turn}><span class="dim">${FIELDS[field]}${not ? ' ≠' : ''}</span> ${bdi(value, 60)}</button>
    <button class="chip-off" aria-label=${`Remove: ${words}`} onClick=${() => setQuery(without(query, field, value, not))}>×</button>
  </span>`;
}

/** Suggestions for what is typed: fields first, then values of the field. */
function useSuggestions(text) {
  const [head, tail] = text.split(/[:=](.*)/s);
  const condition = tail === undefined ? null : typed(`${head}:${tail || ' .'}`);
  const field = condition && condition.field !== 'text' ? condition.field : null;
  const answer = useAnswer(ASKED.has(field) ? '/summary' : null, [...WIDE, ['group_by', field]]);
  return useMemo(() => {
    const begins = (value, start) => value.toLowerCase().includes(start.trim().toLowerCase());
    if (!text) return [];
    if (!field) return tail === undefined ? Object.keys(FIELDS).filter((it) => begins(FIELDS[it], head.replace(/^[-!]/, ''))).map((it) => `${it}:`) : [];
    const known = VALUES[field] ?? (answer.data?.groups ?? []).map((group) => group.keys[field]).filter(Boolean);
    return known.filter((it) => begins(it, tail ?? '')).map((it) => `${head}:${it}`);
  }, [text, answer.data]).slice(0, SUGGESTED_MAX);
}

function Typing({ query }) {
  const [text, setText] = useState('');
  const [chosen, setChosen] = useState(-1);
  const input = useRef(null);
  const list = useId();
  const suggestions = useSuggestions(text);
  const take = (value) => {
    setChosen(-1);
    if (value.endsWith(':')) return setText(value);
    const { field, value: wanted, not } = typed(value);
    setText('');
    return wanted && setQuery(withCondition(query, field, wanted, not));
  };
  const pressed = (event) => {
    if (event.key === 'Enter') take(chosen >= 0 ? suggestions[chosen] : text);
    else if (event.key === 'ArrowDown') setChosen(Math.min(chosen + 1, suggestions.length - 1));
    else if (event.key === 'ArrowUp') setChosen(Math.max(chosen - 1, -1));
    else if (event.key === 'Escape') text ? setText('') : input.current.blur();
    else return;
    event.preventDefault();
  };
  const isOpen = suggestions.length > 0;
  return html`<span class="typing">
    <input id="filter" ref=${input} type="text" role="combobox" autocomplete="off" spellcheck="false" placeholder="Filter: words, or field:value" aria-label="Filter: words, or field:value"
      aria-expanded=${isOpen} aria-controls=${list} aria-autocomplete="list" aria-activedescendant=${chosen >= 0 ? `${list}-${chosen}` : undefined}
      value=${text} onInput=${(event) => { setText(event.target.value); setChosen(-1); }} onKeyDown=${pressed} onBlur=${() => setTimeout(() => setText((was) => (was.endsWith(':') ? '' : was)), 200)} />
    <ul id=${list} role="listbox" aria-label="Suggestions" class="suggested" hidden=${!isOpen}>
      ${suggestions.map((it, at) => html`<li role="option" id=${`${list}-${at}`} aria-selected=${at === chosen} onMouseDown=${(event) => { event.preventDefault(); take(it); input.current.focus(); }}>${bdi(it)}</li>`)}
    </ul>
  </span>`;
}

function Range({ query, page }) {
  const from = valueOf(query, 'from') ?? freshRange(page);
  const known = RANGES.some(([value]) => value === from);
  return html`<select aria-label="Range of time" value=${from} onChange=${(event) => setQuery(withValue(withValue(query, 'to', null), 'from', event.target.value))}>
    ${!known && html`<option value=${from}>since ${from}</option>`}
    ${RANGES.map(([value, words]) => html`<option value=${value} selected=${value === from}>${words}</option>`)}
  </select>`;
}

function VerdictSwitch({ query }) {
  const current = conditions(query).find((it) => it.field === 'label' && !it.not)?.value ?? '';
  const choose = (value) => setQuery(withValue(query, 'label', value || null));
  return html`<span class="switch" role="group" aria-label="Verdict">
    ${VERDICTS.map(([value, words]) => html`<button aria-pressed=${value === current} onClick=${() => choose(value)}>${words}</button>`)}
  </span>`;
}

export function FilterBar({ route }) {
  const { query, page } = route;
  const shown = conditions(query);
  return html`<section class="filter" aria-label="Filter">
    ${page === 'runs' && html`<${VerdictSwitch} query=${query} />`}
    <${Typing} query=${query} />
    ${page !== 'live' && html`<${Range} query=${query} page=${page} />`}
    ${shown.length > 0 && html`<span class="chips">
      ${shown.map((it) => html`<${Chip} key=${`${it.not}${it.field}${it.value}`} query=${query} ...${it} />`)}
      <button class="quiet" onClick=${() => setQuery(query.filter(([key]) => !Object.hasOwn(FIELDS, key)))}>Clear</button>
    </span>`}
  </section>`;
}
