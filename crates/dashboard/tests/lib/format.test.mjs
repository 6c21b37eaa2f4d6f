import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ago, bytes, duration, interval, money, points, score, share, short } from '../../assets/lib/format.js';

function table(of, rows) {
  for (const [value, expected] of rows) assert.equal(of(value), expected, `${of.name} of ${value}`);
}

test('durations have the unit that people would say', () => {
  table(duration, [[null, '–'], [0, '0 ms'], [0.0004, '<1 ms'], [0.34, '340 ms'], [2.43, '2.4 s'], [59.4, '59 s'], [65, '1 min 5 s'], [120, '2 min'], [3725, '1 h 2 min']]);
});

test('a share is 0 % or 100 % only if it is', () => {
  table(share, [[null, '–'], [0, '0 %'], [1, '100 %'], [0.9999, '>99.9 %'], [0.0001, '<0.1 %'], [0.924, '92.4 %'], [0.5, '50 %'], [0.031, '3.1 %']]);
});

test('differences say their direction', () => {
  table(points, [[null, '–'], [0, '±0 pp'], [0.0001, '±0 pp'], [0.021, '+2.1 pp'], [-0.05, '−5.0 pp']]);
});

test('numbers are short', () => {
  table(score, [[null, '–'], [1, '1'], [0.666, '0.67']]);
  table(money, [[null, '–'], [0, '$0'], [0.00213, '$0.0021'], [12.345, '$12.35']]);
  table(short, [[null, '–'], [9999, '9,999'], [12345, '12.3k'], [2500000, '2.5M']]);
  table(bytes, [[12, '12 B'], [2048, '2.0 KiB'], [3145728, '3.0 MiB']]);
  table(interval, [[[0.861, 0.879], '86–88 %']]);
});

test('time that passed has one unit', () => {
  const now = Date.parse('2026-11-27T10:00:00Z');
  const check = (time, expected) => assert.equal(ago(time, now), expected);
  check('2026-11-27T09:59:58Z', 'now');
  check('2026-11-27T10:00:20Z', 'now');
  check('2026-11-27T09:59:15Z', '45 s ago');
  check('2026-11-27T09:55:00Z', '5 min ago');
  check('2026-11-27T05:00:00Z', '5 h ago');
  check('2026-11-20T05:00:00Z', '7 d ago');
  check('nonsense', '–');
});
