import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bar, extent, merged, pieces, top } from '../../assets/lib/scale.js';

const at = (seconds, duration) => ({ time: new Date(seconds * 1000).toISOString(), duration_s: duration });

test('bars stand within the extent of all calls', () => {
  const scale = extent([at(10, 2), at(14, null), at(11, 9)]);
  assert.deepEqual(scale, { start: 10000, end: 20000 });
  assert.deepEqual(bar(at(10, 5), scale), { left: 0, width: 0.5 });
  assert.deepEqual(bar(at(14, null), scale), { left: 0.4, width: 0 });
  assert.deepEqual(bar({ time: 'nonsense', duration_s: 1 }, scale), { left: 0, width: 0.1 });
  assert.deepEqual(extent([]), { start: 0, end: 1 });
});

test('a curve breaks where a bucket is empty', () => {
  const points = [0, 60, 120, 300].map((it) => ({ at: it }));
  assert.deepEqual(pieces(points, 60).map((it) => it.length), [3, 1]);
});

test('merged buckets add up, and those without a verdict go', () => {
  const point = (seconds, passed, failed) => ({ time: new Date(seconds * 1000).toISOString(), passed, failed });
  const found = merged([point(120, 1, 1), point(0, 3, 0), point(60, 0, 1), point(240, 0, 0)], 120);
  assert.deepEqual(found.map((it) => [Date.parse(it.time) / 1000, it.passed, it.failed, it.pass_rate]), [[0, 3, 1, 0.75], [120, 1, 1, 0.5]]);
});

test('the top of an axis is a round number', () => {
  for (const [max, expected] of [[1, 4], [4, 4], [7, 10], [12, 20], [180, 200], [999, 1000]]) assert.equal(top(max), expected);
});
