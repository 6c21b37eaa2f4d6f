// Alignment of a run's calls with the expected ones, as the evaluator itself matched them.

const STEPS = new Set(['same', 'differs', 'moved', 'missing', 'extra']);

/** Evaluations that say what was expected call by call, those that fail first. */
export function aligned(evaluations) {
  const rank = (it) => (it.label === 'fail' ? 0 : 1);
  return evaluations.filter((it) => stepsOf(it).length > 0).sort((a, b) => rank(a) - rank(b));
}

/** Steps of an evaluation's evidence that can be read. */
export function stepsOf(evaluation) {
  const diff = evaluation?.details?.diff;
  return Array.isArray(diff) ? diff.filter((step) => STEPS.has(step?.is)) : [];
}

/** Place of the call that a step names: by its number if the tool is the same, else the next free of that tool. */
function placeOf(step, calls, taken) {
  const at = step.call - 1;
  if (calls[at]?.tool === step.name && !taken.has(at)) return at;
  return calls.findIndex((call, place) => call.tool === step.name && !taken.has(place));
}

/**
 * Rows of the trajectory: each call with its step, and what is missing where it was expected.
 * @returns {{ at: number|null, call: any, step: any }[]}
 */
export function rowsOf(calls, steps) {
  const of = new Map();
  const missing = [];
  for (const step of steps) {
    if (step.is === 'missing') {
      missing.push(step);
      continue;
    }
    const at = placeOf(step, calls, of);
    if (at >= 0) of.set(at, step);
  }
  missing.sort((a, b) => (a.place ?? 0) - (b.place ?? 0));
  const rows = [];
  calls.forEach((call, at) => {
    const step = of.get(at) ?? null;
    while (step?.place && missing.length > 0 && missing[0].place < step.place) rows.push({ at: null, call: null, step: missing.shift() });
    rows.push({ at, call, step });
  });
  return [...rows, ...missing.map((step) => ({ at: null, call: null, step }))];
}

/** Names of arguments whose values differ, with both values. */
export function differing(expected, actual) {
  const isMap = (it) => it !== null && typeof it === 'object' && !Array.isArray(it);
  if (!isMap(expected) || !isMap(actual)) return [];
  const names = new Set([...Object.keys(expected), ...Object.keys(actual)]);
  const value = (map, name) => (Object.hasOwn(map, name) ? map[name] : undefined);
  return [...names]
    .map((name) => ({ name, expected: value(expected, name), actual: value(actual, name) }))
    .filter((it) => JSON.stringify(it.expected) !== JSON.stringify(it.actual));
}
