// Charts as SVG: curve of shares, bars of counts, histogram; each with words and a table.
import { html, useLayoutEffect, useRef, useState } from '../lib/html.js';
import { moment, share, whole } from '../lib/format.js';
import { merged, pieces, tick, top } from '../lib/scale.js';
import { facts } from './figure.js';
import { wordOf } from './verdict.js';

const LEFT = 44;
const HEIGHT = 132;
const PLOT = HEIGHT - 18;
/** Most points of a curve: more would show noise. */
const POINTS_MAX = 48;

/** Width of an element in pixels, kept up to date. */
function useWidth() {
  const ref = useRef(null);
  const [width, setWidth] = useState(600);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([it]) => setWidth(Math.max(120, Math.floor(it.contentRect.width))));
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  return [ref, width];
}

/**
 * Frame: title, summary or the item under the pointer, axes, drawing, table. `draw` and `place`
 * get what turns a share of the time, or of the scores, into a place.
 */
function Chart({ title, summary, items, wordsOf, heads, rows, labels, ticks, place, draw }) {
  const [box, width] = useWidth();
  const [near, setNear] = useState(-1);
  const x = (share) => LEFT + share * (width - LEFT);
  const move = (event) => {
    const at = event.clientX - event.currentTarget.getBoundingClientRect().left;
    const away = (item) => Math.abs(x(place(item)) - at);
    setNear(items.reduce((best, item, index) => (best < 0 || away(item) < away(items[best]) ? index : best), -1));
  };
  const shown = width > 420 ? ticks : ticks.filter((_, at) => at % 2 === 0);
  return html`<figure class="chart">
    <figcaption><h2>${title}</h2><span class="dim" aria-hidden="true">${items[near] ? wordsOf(items[near]) : summary}</span></figcaption>
    <div ref=${box}><svg width=${width} height=${HEIGHT} role="img" aria-label=${`${title}: ${summary}`} onPointerMove=${move} onPointerLeave=${() => setNear(-1)}>
      <g aria-hidden="true">${[1, 0.5, 0].map((at) => html`<line class="grid" x1=${LEFT} x2=${width} y1=${PLOT * (1 - at)} y2=${PLOT * (1 - at)} /><text x=${LEFT - 6} y=${PLOT * (1 - at) + 4} text-anchor="end">${labels(at)}</text>`)}
      ${shown.map(([at, words]) => html`<text x=${x(at)} y=${HEIGHT - 3} text-anchor=${at === 0 ? 'start' : at === 1 ? 'end' : 'middle'}>${words}</text>`)}</g>
      ${draw(x, items[near])}
    </svg></div>
    <details><summary>Table</summary><div class="scroll" tabindex="0" role="region" aria-label=${`${title}: table`}>${facts(heads, rows)}</div></details>
  </figure>`;
}

/** Points with their place in the time, and the ticks of that time. */
function timed({ points, from, to, bucket }) {
  const place = (point) => (point.at - from) / (to - from);
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((at) => [at, tick(from + at * (to - from), (to - from) / 1000)]);
  return { known: points.map((point) => ({ ...point, at: Date.parse(point.time) })), place, ticks, step: (bucket * 1000) / (to - from) };
}

/** Pass rate over time. */
export function RateCurve({ title, ...frame }) {
  const bucket = frame.bucket * Math.max(1, Math.ceil((frame.to - frame.from) / 1000 / frame.bucket / POINTS_MAX));
  const { known, place, ticks } = timed({ ...frame, points: merged(frame.points, bucket) });
  const y = (point) => PLOT * (1 - point.pass_rate);
  const sum = (of) => known.reduce((total, point) => total + of(point), 0);
  const judged = sum((point) => point.passed + point.failed);
  const cells = (point) => [moment(point.time), share(point.pass_rate), whole(point.passed + point.failed)];
  const draw = (x, near) => {
    const at = (point) => `${x(place(point))},${y(point)}`;
    const dot = (point, r) => html`<circle class="dot" cx=${x(place(point))} cy=${y(point)} r=${r} />`;
    return html`${pieces(known, bucket * 1000).map((piece) => (piece.length === 1 ? dot(piece[0], 2.5)
      : html`<path class="area" d=${`M${x(place(piece[0]))},${PLOT}L${piece.map(at).join('L')}L${x(place(piece.at(-1)))},${PLOT}Z`} /><path class="line" d=${`M${piece.map(at).join('L')}`} />`))}${near && dot(near, 4)}`;
  };
  return html`<${Chart} title=${title} summary=${judged ? `${share(sum((point) => point.passed) / judged)} of ${whole(judged)} pass` : 'nothing was judged'} items=${known} place=${place} ticks=${ticks} labels=${(at) => `${at * 100} %`}
    wordsOf=${(point) => `${moment(point.time)}: ${share(point.pass_rate)} of ${whole(point.passed + point.failed)}`} heads=${['time', 'pass rate#', 'n#']} rows=${known.map(cells)} draw=${draw} />`;
}

const OUTCOMES = [['fail', 'failed'], ['failed', 'broken'], ['not_evaluable', 'not_evaluable'], ['pass', 'passed']];

/** Evaluations over time, stacked by verdict. */
export function CountBars({ title, ...frame }) {
  const { known, place, ticks, step } = timed(frame);
  const max = top(Math.max(1, ...known.map((point) => point.count)));
  const words = (point) => OUTCOMES.filter(([, name]) => point[name] > 0).map(([is, name]) => `${whole(point[name])} ${wordOf(is)}`).join(', ');
  const draw = (x) => known.map((point) => {
    let below = 0;
    const left = Math.max(LEFT, x(place(point)));
    return OUTCOMES.map(([is, name]) => {
      const tall = (point[name] / max) * PLOT;
      below += tall;
      return tall > 0 && html`<rect class=${`f-${is}`} x=${left} y=${PLOT - below} width=${Math.max(1, Math.min(x(1), x(place(point) + step)) - left - 1)} height=${tall} />`;
    });
  });
  return html`<${Chart} title=${title} summary=${`${whole(known.reduce((sum, point) => sum + point.count, 0))} in all`} items=${known} place=${(point) => place(point) + step / 2} ticks=${ticks} labels=${(at) => whole(max * at)}
    wordsOf=${(point) => `${moment(point.time)}: ${words(point)}`} heads=${['time', 'evaluations']} rows=${known.map((point) => [moment(point.time), words(point)])} draw=${draw} />`;
}

/** Histogram of scores with the threshold; the first bin is exactly 0, the last exactly 1. */
export function Histogram({ title, bins, threshold }) {
  const max = top(Math.max(1, ...bins.map((bin) => bin.count)));
  const step = 1 / bins.length;
  const name = (bin) => (bin.from === bin.to ? `exactly ${bin.from}` : `${bin.from.toFixed(2)} to ${bin.to.toFixed(2)}`);
  const below = threshold === null ? -1 : bins.findIndex((bin) => bin.from >= threshold);
  const total = bins.reduce((sum, bin) => sum + bin.count, 0);
  const draw = (x) => html`${bins.map((bin, at) => bin.count > 0 && html`<rect class=${at >= below ? 'f-pass' : 'f-fail'} x=${x(at * step) + 1} y=${PLOT * (1 - bin.count / max)} width=${Math.max(1, x(step) - x(0) - 2)} height=${(PLOT * bin.count) / max} />`)}
    ${below > 0 && html`<line class="mark" x1=${x(below * step)} x2=${x(below * step)} y1="0" y2=${PLOT} />`}`;
  return html`<${Chart} title=${title} summary=${`${whole(total)} scores${threshold === null ? '' : `, threshold ${threshold}`}`} items=${bins} place=${(bin) => (bins.indexOf(bin) + 0.5) * step} labels=${(at) => whole(max * at)}
    ticks=${[[step / 2, '=0'], [0.5, '0.5'], [1 - step / 2, '=1']]} wordsOf=${(bin) => `${name(bin)}: ${whole(bin.count)}`} heads=${['score', 'count#']} rows=${bins.filter((bin) => bin.count > 0).map((bin) => [name(bin), whole(bin.count)])} draw=${draw} />`;
}
