import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aligned, differing, rowsOf, stepsOf } from '../../assets/lib/align.js';

const calls = (...tools) => tools.map((tool) => ({ tool }));

/** Rows in short: `1:same`, `-:missing`, `2:` for a call of which nothing is said. */
const brief = (rows) => rows.map(({ at, step }) => `${at === null ? '-' : at + 1}:${step?.is ?? ''}`).join(' ');

test('what is missing stands where it was expected', () => {
  const check = (tools, steps, expected) => assert.equal(brief(rowsOf(calls(...tools), steps)), expected);
  check(['a', 'c'], [{ is: 'same', name: 'a', place: 1, call: 1 }, { is: 'missing', name: 'b', place: 2 }, { is: 'same', name: 'c', place: 3, call: 2 }], '1:same -:missing 2:same');
  check(['a'], [{ is: 'same', name: 'a', place: 1, call: 1 }, { is: 'missing', name: 'b', place: 2 }], '1:same -:missing');
  check([], [{ is: 'missing', name: 'b', place: 2 }, { is: 'missing', name: 'a', place: 1 }], '-:missing -:missing');
  check(['x', 'a'], [{ is: 'extra', name: 'x', call: 1 }, { is: 'differs', name: 'a', place: 1, call: 2 }], '1:extra 2:differs');
  check(['a', 'b'], [], '1: 2:');
});

test('a step finds its call by name where the numbers leave some calls out', () => {
  const rows = rowsOf(calls('output', 'a', 'a'), [{ is: 'same', name: 'a', place: 1, call: 1 }, { is: 'differs', name: 'a', place: 2, call: 2 }, { is: 'extra', name: 'gone', call: 9 }]);
  assert.equal(brief(rows), '1: 2:same 3:differs');
});

test('evidence of another form has no steps', () => {
  for (const details of [null, undefined, 1, 'x', {}, { diff: 1 }, { diff: [null, 1, { is: '__proto__' }] }]) assert.deepEqual(stepsOf({ details }), []);
  assert.deepEqual(stepsOf(null), []);
});

test('evaluations that fail are aligned with first', () => {
  const details = { diff: [{ is: 'same', name: 'a', call: 1 }] };
  const found = aligned([{ label: 'pass', details }, { label: 'fail', details }, { label: 'fail', details: null }]);
  assert.deepEqual(found.map((it) => it.label), ['fail', 'pass']);
});

test('arguments that differ are named with both values', () => {
  const check = (expected, actual, names) => assert.deepEqual(differing(expected, actual).map((it) => it.name), names);
  check({ a: 1, b: 2 }, { a: 1, b: 3, c: 4 }, ['b', 'c']);
  check({ a: { b: [1] } }, { a: { b: [1] } }, []);
  check('x', { a: 1 }, []);
  check({ toString: 1 }, {}, ['toString']);
});
