// Scales of charts: places of times, steps of an axis, gaps of a curve.

/** Extent of calls in time: start and end, as milliseconds. */
export function extent(calls) {
  let start = Infinity;
  let end = -Infinity;
  for (const call of calls) {
    const from = Date.parse(call.time);
    if (Number.isNaN(from)) continue;
    start = Math.min(start, from);
    end = Math.max(end, from + (call.duration_s ?? 0) * 1000);
  }
  return start <= end ? { start, end: Math.max(end, start + 1) } : { start: 0, end: 1 };
}

/** Bar of a call, as shares of the extent: `{ left, width }`. */
export function bar(call, { start, end }) {
  const from = Date.parse(call.time);
  const span = end - start;
  const left = Number.isNaN(from) ? 0 : Math.max(0, Math.min(1, (from - start) / span));
  const width = Math.max(0, Math.min(1 - left, ((call.duration_s ?? 0) * 1000) / span));
  return { left, width };
}

/** Points in buckets of so many seconds: their passes and fails together. */
export function merged(points, bucket) {
  const out = new Map();
  for (const { time, passed, failed } of points) {
    const start = Math.floor(Date.parse(time) / 1000 / bucket) * bucket;
    const was = out.get(start) ?? { passed: 0, failed: 0 };
    out.set(start, { passed: was.passed + passed, failed: was.failed + failed });
  }
  return [...out].filter(([, it]) => it.passed + it.failed > 0).sort(([a], [b]) => a - b)
    .map(([start, it]) => ({ time: new Date(start * 1000).toISOString(), pass_rate: it.passed / (it.passed + it.failed), ...it }));
}

/** Pieces of a curve without gaps: points that lie at most one and a half buckets apart. */
export function pieces(points, bucket) {
  const out = [];
  for (const point of points) {
    const last = out.at(-1);
    if (last && point.at - last.at(-1).at <= bucket * 1.5) last.push(point);
    else out.push([point]);
  }
  return out;
}

/** Round number at or above a count, for the top of an axis. */
export function top(max) {
  if (max <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(max));
  return [1, 2, 4, 5, 10].map((it) => it * power).find((it) => it >= max);
}

/** Words of a moment on an axis that is so many seconds long. */
export function tick(time, seconds) {
  const at = new Date(time);
  const two = (n) => String(n).padStart(2, '0');
  const day = `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  if (seconds > 3 * 86400) return day;
  const minute = `${two(at.getHours())}:${two(at.getMinutes())}`;
  return seconds > 86400 ? `${day} ${minute}` : minute;
}
