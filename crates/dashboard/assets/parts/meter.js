// Shares and differences with their intervals, in one line of a table.
import { html } from '../lib/html.js';
import { points, share } from '../lib/format.js';

const percent = (value) => `${(Math.max(0, Math.min(1, value)) * 100).toFixed(2)}%`;

/** Share of 0 to 1 as a dot, its interval as a line. */
export function Meter({ value, interval, is = 'plain' }) {
  if (value === null || value === undefined) return html`<span class="dim">–</span>`;
  const words = interval ? `${share(value)}, 95 % interval ${share(interval[0])} to ${share(interval[1])}` : share(value);
  return html`<span class="meter" title=${words}>
    <svg role="img" aria-label=${words}>
      <rect class="base" x="0" y="5" width="100%" height="6" rx="3" />
      <rect class=${`f-${is}`} x="0" y="5" width=${percent(value)} height="6" rx="3" />
      ${interval && html`<line class="whisker" x1=${percent(interval[0])} x2=${percent(interval[1])} y1="8" y2="8" />`}
    </svg></span>`;
}

/** Difference around zero, on an axis from `-max` to `max`. */
export function DifferenceBar({ difference, max, is }) {
  if (!difference) return html`<span class="dim">–</span>`;
  const place = (value) => percent(0.5 + value / (2 * max));
  const { value, interval } = difference;
  const words = interval ? `${points(value)}, 95 % interval ${points(interval[0])} to ${points(interval[1])}` : points(value);
  return html`<span class="meter" title=${words}>
    <svg role="img" aria-label=${words}>
      <line class="grid base" x1="50%" x2="50%" y1="0" y2="16" stroke="currentColor" />
      ${interval && html`<line class="whisker" x1=${place(interval[0])} x2=${place(interval[1])} y1="8" y2="8" />`}
      <circle class=${`f-${is}`} cx=${place(value)} cy="8" r="4.5" />
    </svg></span>`;
}
