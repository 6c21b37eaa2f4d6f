// Numbers for people: durations, shares, money, sizes, and time that passed.

/** @param {number|null|undefined} n */
const absent = (n) => n === null || n === undefined || Number.isNaN(n);
const NONE = '–';

/** Duration of so many seconds: `340 ms`, `2.4 s`, `3 min 5 s`. */
export function duration(seconds) {
  if (absent(seconds)) return NONE;
  if (seconds < 0.001) return seconds === 0 ? '0 ms' : '<1 ms';
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60 ? `${whole % 60} s` : ''}`.trim();
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** Share of 0 to 1: `92 %`, `99.7 %`; never 100 % or 0 % unless it is. */
export function share(value) {
  if (absent(value)) return NONE;
  const percent = value * 100;
  if (percent === 0 || percent === 100) return `${percent} %`;
  if (percent > 99.9) return '>99.9 %';
  if (percent < 0.1) return '<0.1 %';
  return `${percent > 90 || percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

/** Interval of shares: `86–88 %`. */
export const interval = ([low, high]) => `${Math.round(low * 100)}–${Math.round(high * 100)} %`;

/** Difference of two shares in points: `+2.1 pp`. */
export function points(value) {
  if (absent(value)) return NONE;
  const rounded = (value * 100).toFixed(1);
  if (Number(rounded) === 0) return '±0 pp';
  return `${value > 0 ? '+' : '−'}${rounded.replace('-', '')} pp`;
}

/** Score of 0 to 1: two digits. */
export const score = (value) => (absent(value) ? NONE : Number(value.toFixed(2)).toString());

/** Whole number with separators: `12,345`. */
export const whole = (value) => (absent(value) ? NONE : Number(value).toLocaleString('en'));

/** Number in few letters: `12.3k`. */
export function short(value) {
  if (absent(value)) return NONE;
  if (value < 10000) return whole(value);
  return value < 1e6 ? `${(value / 1e3).toFixed(1)}k` : `${(value / 1e6).toFixed(1)}M`;
}

/** US dollars: `$0.0021`. */
export function money(value) {
  if (absent(value)) return NONE;
  if (value === 0) return '$0';
  return value < 0.01 ? `$${Number(value.toPrecision(2))}` : `$${value.toFixed(2)}`;
}

/** Bytes: `3.4 KiB`. */
export function bytes(value) {
  if (value < 1024) return `${value} B`;
  return value < 1048576 ? `${(value / 1024).toFixed(1)} KiB` : `${(value / 1048576).toFixed(1)} MiB`;
}

/** Time that passed since a moment: `now`, `5 min ago`. */
export function ago(time, now = Date.now()) {
  const seconds = (now - Date.parse(time)) / 1000;
  if (Number.isNaN(seconds)) return NONE;
  if (seconds < 5) return 'now';
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

const two = (n) => String(n).padStart(2, '0');

/** Moment in local time: `2026-11-27 10:02:03`. */
export function moment(time) {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return NONE;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(time)}`;
}

/** Time of day: `10:02:03`. */
export function clock(time) {
  const at = new Date(time);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
