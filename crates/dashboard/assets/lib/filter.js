// Filter and place as they stand in the address: `#/runs?outcome=fail&service=!shop`.

/** Fields that every list and figure understands, with words for people. */
export const FIELDS = {
  evaluator: 'evaluator', kind: 'kind', outcome: 'outcome', label: 'verdict', level: 'level',
  service: 'service', agent: 'agent', version: 'version', environment: 'environment', tool: 'tool',
  case: 'case', model: 'model', user_id: 'user', answer: 'answer', session_id: 'session', trace_id: 'trace', completion: 'completion', text: 'text',
  reason: 'reason', evaluator_version: 'settings', annotated: 'annotated', score_gte: 'score from', score_lt: 'score below',
};

/** Fields of which one value is taken, and none is excluded. */
const SINGLE = new Set(['text', 'score_gte', 'score_lt']);

/** Values of fields that have a fixed set. */
export const VALUES = {
  label: ['pass', 'fail'],
  outcome: ['scored', 'not_evaluable', 'failed'],
  level: ['call', 'trace', 'session'],
  completion: ['root_ended', 'idle', 'age_max', 'shutdown', 'evicted', 'end_of_input', 'open'],
  annotated: ['yes', 'no'],
  answer: ['recorded', 'empty', 'not_recorded', 'unknown'],
};

/** Ranges of time that the page offers, with words. */
export const RANGES = [
  ['-24h', 'last 24 hours'], ['-15m', 'last 15 minutes'], ['-1h', 'last hour'],
  ['-7d', 'last 7 days'], ['-30d', 'last 30 days'], ['', 'all time'],
];

/**
 * Reads `#/page/id?field=value`.
 * @returns {{ page: string, id: string, query: [string, string][] }}
 */
export function parse(hash) {
  const [path, query = ''] = hash.replace(/^#?\/?/, '').split(/\?(.*)/s);
  const [page = '', ...rest] = path.split('/').map(decode);
  return { page, id: rest.join('/'), query: [...new URLSearchParams(query)] };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Writes what `parse` reads; an id holds its slashes. */
export function link(page, id = '', query = []) {
  const tail = new URLSearchParams(query.filter(([, value]) => value !== null && value !== undefined));
  const path = [page, ...(id ? id.split('/') : [])].map(encodeURIComponent).join('/');
  return `#/${path}${tail.size ? `?${tail}` : ''}`;
}

/** Value of a name in a query, or undefined. */
export const valueOf = (query, name) => query.find(([key]) => key === name)?.[1];

/** Query with one value for a name; null takes it out. */
export function withValue(query, name, value) {
  const rest = query.filter(([key]) => key !== name);
  return value === null ? rest : [...rest, [name, value]];
}

/** Conditions on fields, as `{ field, value, not }`. */
export function conditions(query) {
  return query
    .filter(([field]) => Object.hasOwn(FIELDS, field))
    .map(([field, raw]) => {
      const not = !SINGLE.has(field) && raw.startsWith('!');
      return { field, value: not ? raw.slice(1) : raw, not };
    });
}

const raw = (value, not) => (not ? `!${value}` : value);

/** Query with one more condition; the opposite one goes. */
export function withCondition(query, field, value, not = false) {
  if (SINGLE.has(field)) return only(query, field, value);
  const rest = query.filter(([key, it]) => key !== field || (it !== raw(value, false) && it !== raw(value, true)));
  return [...rest, [field, raw(value, not)]];
}

/** Query with this condition only, of its field. */
export function only(query, field, value) {
  return [...query.filter(([key]) => key !== field), [field, value]];
}

/** Query without one condition. */
export function without(query, field, value, not) {
  return query.filter(([key, it]) => key !== field || it !== raw(value, not));
}

/** Parts of a query that go from page to page: conditions and the range of time. */
export function kept(query) {
  return query.filter(([key]) => Object.hasOwn(FIELDS, key) || key === 'from' || key === 'to');
}

/** Range of a fresh page: versions are compared over longer than the rest. */
export const freshRange = (page) => (page === 'compare' ? '-30d' : RANGES[0][0]);

/** Query for the API. */
export function asked(query, page = '') {
  const out = kept(query).filter(([key, value]) => value !== '' || (key !== 'from' && key !== 'to'));
  return valueOf(query, 'from') === undefined ? [['from', freshRange(page)], ...out] : out;
}

/** Condition that a person typed: `service:shop`, `-tool:pay`, or words to be searched for. */
export function typed(text) {
  const found = /^([-!]?)([a-z_]+)[:=]\s*(!?)(.+)$/s.exec(text.trim());
  const field = found && fieldOf(found[2]);
  if (!field) return { field: 'text', value: text.trim(), not: false };
  const value = found[4].trim().replace(/^"(.*)"$/s, '$1');
  return { field, value, not: Boolean(found[1] || found[3]) };
}

/** Field of a word, which may be the one for people. */
function fieldOf(word) {
  if (Object.hasOwn(FIELDS, word)) return word;
  return Object.keys(FIELDS).find((field) => FIELDS[field] === word);
}
