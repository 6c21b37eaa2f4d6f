import assert from 'node:assert/strict';
import { test } from 'node:test';
import { argumentLine, count, cut, json, segments, visible } from '../../assets/lib/text.js';

test('what hides, reorders or deceives is shown as an escape', () => {
  const check = (text, expected, lines = false) => assert.equal(visible(text, lines), expected, JSON.stringify(text));
  check('plain', 'plain');
  check('\u202egnp.exe', '\\u202egnp.exe');
  check('pay\u200bpal', 'pay\\u200bpal');
  check('\u0000\u001b[31m', '\\u0000\\u001b[31m');
  check('a\nb\tc', 'a\\nb\\tc');
  check('a\nb\tc\r', 'a\nb\tc\\r', true);
  check('\u{e0041}', '\\u{e0041}');
  check('\ud800x', '\\ud800x');
  check('\u3164\u115f\uffa0\u034f', '\\u3164\\u115f\\uffa0\\u034f');
  check('\u2028', '\\u2028', true);
  check('مرحبا שלום', 'مرحبا שלום');
  check('👨\u200d👩\u200d👧 ❤\ufe0f', '👨\u200d👩\u200d👧 ❤\ufe0f');
  check('a\u200db', 'a\\u200db');
  check('\u3000', 'blank');
  check(' \n', ' \\n');
  check(null, '');
});

test('escapes are segments of their own', () => {
  assert.deepEqual(segments('a\u202eb'), [{ text: 'a', hidden: false }, { text: '\\u202e', hidden: true }, { text: 'b', hidden: false }]);
  assert.deepEqual(segments(''), []);
});

test('a cut never falls within a character', () => {
  const check = (text, max, expected) => assert.equal(cut(text, max), expected);
  check('abc', 3, 'abc');
  check('abcd', 3, 'abc…');
  check('ab😀', 3, 'ab…');
  check('', 0, '');
});

test('arguments fit one line', () => {
  const check = (value, expected) => assert.equal(argumentLine(value, 40), expected);
  check({ id: '1234', amount: 90 }, 'id="1234"  amount=90');
  check({}, '');
  check(null, '');
  check([1, 2], '[1,2]');
  check('text', '"text"');
  check(JSON.parse('{"__proto__": 1}'), '__proto__=1');
  assert.ok(argumentLine({ a: 'x'.repeat(500), b: 1 }, 40).length <= 41);
});

test('what is too deep to write is said', () => {
  let deep = [];
  for (let at = 0; at < 100000; at += 1) deep = [deep];
  assert.match(json(deep), /too deeply/);
});

test('counts have their plural', () => {
  assert.equal(count(1, 'call'), '1 call');
  assert.equal(count(12345, 'call'), '12,345 calls');
});
