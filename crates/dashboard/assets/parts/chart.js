// Charts as SVG: curve of shares, bars of counts, histogram; each with words and a table.
import { html, useLayoutEffect, useRef, useState } from '../lib/html.js';
import { moment, share, whole } from '../lib/format.js';
import { pieces, tick, top } from '../lib/scale.js';
import { wordOf } from './verdict.js';

const LEFT = 44;
const HEIGHT = 132;
const FOOT = 18;

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

/** Frame of a chart: title, the value under the pointer, drawing, table. */
function Chart({ title, summary, readout, head, rows, children, box }) {
  return html`<figure class="chart">
    <figcaption><h2>${title}</h2><span class="dim" aria-hidden="true">${readout ?? summary}</span></figcaption>
    <div ref=${box}>${children}</div>
    <details><summary>Table</summary><div class="scroll" tabindex="0" role="region" aria-label=${`${title}: table`}><table class="plain">
      <thead><tr>${head.map((it) => html`<th scope="col">${it}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr>${row.map((it) => html`<td>${it}</td>`)}</tr>`)}</tbody>
    </table></div></details>
  </figure>`;
}

function Axis({ width, labels, from, to }) {
  const plot = HEIGHT - FOOT;
  const seconds = (to - from) / 1000;
  const ticks = width > 420 ? [0, 0.25, 0.5, 0.75] : [0, 0.5];
  return html`<g aria-hidden="true">
    ${labels.map(([at, words]) => html`<line class="grid" x1=${LEFT} x2=${width} y1=${plot * (1 - at)} y2=${plot * (1 - at)} /><text x=${LEFT - 6} y=${plot * (1 - at) + 4} text-anchor="end">${words}</text>`)}
    ${ticks.map((at) => html`<text x=${LEFT + at * (width - LEFT)} y=${HEIGHT - 3}>${tick(from + at * (to - from), seconds)}</text>`)}
    <text x=${width} y=${HEIGHT - 3} text-anchor="end">${tick(to, seconds)}</text>
  </g>`;
}

/** Point nearest to the pointer, and what to bind to the drawing. */
function useNearest(points, place) {
  const [at, setAt] = useState(-1);
  const move = (event) => {
    const x = event.clientX - event.currentTarget.getBoundingClientRect().left;
    let best = -1;
    points.forEach((point, index) => {
      if (best < 0 || Math.abs(place(point) - x) < Math.abs(place(points[best]) - x)) best = index;
    });
    setAt(best);
  };
  return [points[at] ?? null, { onPointerMove: move, onPointerLeave: () => setAt(-1) }];
}

/** Points with their time as a number. */
const timed = (points) => points.map((point) => ({ ...point, at: Date.parse(point.time) }));

/** Pass rate over time. */
export function RateCurve({ title, points, from, to, bucket }) {
  const [box, width] = useWidth();
  const known = timed(points).filter((point) => point.pass_rate !== null);
  const plot = HEIGHT - FOOT;
  const x = (point) => LEFT + ((point.at - from) / (to - from)) * (width - LEFT);
  const y = (point) => plot * (1 - point.pass_rate);
  const [near, pointer] = useNearest(known, x);
  const passed = known.reduce((sum, point) => sum + point.passed, 0);
  const judged = known.reduce((sum, point) => sum + point.passed + point.failed, 0);
  const summary = judged ? `${share(passed / judged)} of ${whole(judged)} pass` : 'nothing was judged';
  const words = near && `${moment(near.time)}: ${share(near.pass_rate)} of ${whole(near.passed + near.failed)}`;
  const rows = known.map((point) => [moment(point.time), share(point.pass_rate), whole(point.passed + point.failed)]);
  return html`<${Chart} box=${box} title=${title} summary=${summary} readout=${words} head=${['time', 'pass rate', 'n']} rows=${rows}>
    <svg width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`} role="img" aria-label=${`${title}: ${summary}`} ...${pointer}>
      <${Axis} width=${width} from=${from} to=${to} labels=${[[1, '100 %'], [0.5, '50 %'], [0, '0 %']]} />
      ${pieces(known, bucket * 1000).map((piece) => (piece.length === 1
        ? html`<circle class="dot" cx=${x(piece[0])} cy=${y(piece[0])} r="2.5" />`
        : html`<path class="area" d=${`M${x(piece[0])},${plot}${piece.map((point) => `L${x(point)},${y(point)}`).join('')}L${x(piece.at(-1))},${plot}Z`} /><path class="line" d=${`M${piece.map((point) => `${x(point)},${y(point)}`).join('L')}`} />`))}
      ${near && html`<circle class="dot" cx=${x(near)} cy=${y(near)} r="4" />`}
    </svg><//>`;
}

const OUTCOMES = [['fail', 'failed'], ['failed', 'broken'], ['not_evaluable', 'not_evaluable'], ['pass', 'passed']];

/** Evaluations over time, stacked by verdict. */
export function CountBars({ title, points, from, to, bucket }) {
  const [box, width] = useWidth();
  const known = timed(points);
  const max = top(Math.max(1, ...known.map((point) => point.count)));
  const plot = HEIGHT - FOOT;
  const step = ((bucket * 1000) / (to - from)) * (width - LEFT);
  const x = (point) => LEFT + ((point.at - from) / (to - from)) * (width - LEFT);
  const [near, pointer] = useNearest(known, (point) => x(point) + step / 2);
  const total = known.reduce((sum, point) => sum + point.count, 0);
  const wordsOf = (point) => OUTCOMES.filter(([, name]) => point[name] > 0).map(([is, name]) => `${whole(point[name])} ${wordOf(is)}`).join(', ');
  const rows = known.map((point) => [moment(point.time), wordsOf(point)]);
  const columns = known.map((point) => {
    let below = 0;
    return OUTCOMES.map(([is, name]) => {
      const tall = (point[name] / max) * plot;
      below += tall;
      return tall > 0 && html`<rect class=${`f-${is}`} x=${Math.max(LEFT, x(point))} y=${plot - below} width=${Math.max(1, step - 1)} height=${tall} />`;
    });
  });
  return html`<${Chart} box=${box} title=${title} summary=${`${whole(total)} in all`} readout=${near && `${moment(near.time)}: ${wordsOf(near)}`} head=${['time', 'evaluations']} rows=${rows}>
    <svg width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`} role="img" aria-label=${`${title}: ${whole(total)} in all`} ...${pointer}>
      <${Axis} width=${width} from=${from} to=${to} labels=${[[1, whole(max)], [0.5, whole(max / 2)], [0, '0']]} />
      ${columns}
    </svg><//>`;
}

/** Histogram of scores with the threshold; the first bin is exactly 0, the last exactly 1. */
export function Histogram({ title, bins, threshold }) {
  const [box, width] = useWidth();
  const max = top(Math.max(1, ...bins.map((bin) => bin.count)));
  const plot = HEIGHT - FOOT;
  const step = (width - LEFT) / bins.length;
  const total = bins.reduce((sum, bin) => sum + bin.count, 0);
  const isPass = (bin) => threshold === null || bin.from >= threshold;
  const name = (bin) => (bin.from === bin.to ? `exactly ${bin.from}` : `${bin.from.toFixed(2)} to ${bin.to.toFixed(2)}`);
  const below = threshold === null ? -1 : bins.findIndex((bin) => bin.from >= threshold);
  const summary = threshold === null ? `${whole(total)} scores` : `${whole(total)} scores, threshold ${threshold}`;
  const [near, pointer] = useNearest(bins, (bin) => LEFT + (bins.indexOf(bin) + 0.5) * step);
  const ticks = [[0, '=0'], [bins.length / 2, '0.5'], [bins.length - 1, '=1']];
  return html`<${Chart} box=${box} title=${title} summary=${summary} readout=${near && `${name(near)}: ${whole(near.count)}`} head=${['score', 'count']} rows=${bins.filter((bin) => bin.count > 0).map((bin) => [name(bin), whole(bin.count)])}>
    <svg width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`} role="img" aria-label=${`${title}: ${summary}`} ...${pointer}>
      <g aria-hidden="true">${[0, 0.5, 1].map((at) => html`<line class="grid" x1=${LEFT} x2=${width} y1=${plot * (1 - at)} y2=${plot * (1 - at)} /><text x=${LEFT - 6} y=${plot * (1 - at) + 4} text-anchor="end">${whole(max * at)}</text>`)}
      ${ticks.map(([at, words]) => html`<text x=${LEFT + (at + (at === bins.length / 2 ? 0 : 0.5)) * step} y=${HEIGHT - 3} text-anchor="middle">${words}</text>`)}</g>
      ${bins.map((bin, at) => bin.count > 0 && html`<rect class=${isPass(bin) ? 'f-pass' : 'f-fail'} x=${LEFT + at * step + 1} y=${plot * (1 - bin.count / max)} width=${Math.max(1, step - 2)} height=${(plot * bin.count) / max} />`)}
      ${below > 0 && html`<line class="mark" x1=${LEFT + below * step} x2=${LEFT + below * step} y1="0" y2=${plot} />`}
    </svg><//>`;
}
