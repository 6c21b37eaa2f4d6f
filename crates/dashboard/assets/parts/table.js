// Table of which only the visible rows are in the document; `j` and `k` walk, Enter opens.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { count } from '../lib/text.js';

/** Rows outside of the window that are there, too. */
const MARGIN = 12;
/** Tables up to this many rows stand whole. */
const WHOLE_MAX = 80;
const NARROW = matchMedia('(max-width: 45rem)');

export const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);

/** First and last row of the window, by the height of one. */
export function useVisible(body, total, height) {
  const [range, setRange] = useState([0, WHOLE_MAX]);
  useLayoutEffect(() => {
    let frame = 0;
    const measure = () => {
      frame = 0;
      if (!body.current) return;
      const top = -body.current.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor(top / height) - MARGIN);
      const last = Math.min(total, Math.ceil((top + innerHeight) / height) + MARGIN);
      setRange((was) => (was[0] === first && was[1] === last ? was : [first, Math.max(last, first)]));
    };
    const soon = () => { frame ||= requestAnimationFrame(measure); };
    measure();
    addEventListener('scroll', soon, { passive: true });
    addEventListener('resize', soon);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener('scroll', soon);
      removeEventListener('resize', soon);
    };
  }, [total, height]);
  return total <= WHOLE_MAX ? [0, total] : range;
}

/** Walk over rows by keys: the row that is chosen gets the focus on its link. */
function useWalk(body, total, height) {
  const [chosen, setChosen] = useState(-1);
  const step = (by) => setChosen((was) => Math.max(0, Math.min(total - 1, was + by)));
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    Enter: () => body.current?.querySelector(`[data-row="${Math.max(0, chosen)}"] a.row`)?.click(),
  });
  useLayoutEffect(() => {
    if (chosen < 0 || !body.current) return;
    const top = body.current.getBoundingClientRect().top + chosen * height;
    if (top < 130) scrollBy(0, top - 130);
    else if (top + height > innerHeight - 20) scrollBy(0, top + height - innerHeight + 20);
    requestAnimationFrame(() => body.current?.querySelector(`[data-row="${chosen}"] a.row`)?.focus({ preventScroll: true }));
  }, [chosen]);
  return chosen;
}

/** Asks for more rows when the end comes near. */
function useMore(end, list) {
  useEffect(() => {
    if (!end.current || !list?.hasMore) return undefined;
    const watch = new IntersectionObserver((seen) => seen.some((it) => it.isIntersecting) && list.more(), { rootMargin: '600px' });
    watch.observe(end.current);
    return () => watch.disconnect();
  }, [list?.hasMore, list?.rows?.length]);
}

/**
 * @param {{ label: string, columns: { head: any, cell: (row: any, at: number) => any, kind?: string }[],
 *   rows: any[], keyOf?: (row: any, at: number) => any, list?: any, narrow?: number, walk?: boolean }} props
 * `kind` of a column: `num`, `main`, `wide` (left out when narrow); `list` grows the rows.
 */
export function Table({ label, columns, rows, keyOf = (_, at) => at, list, narrow = 2.75, walk = true }) {
  const body = useRef(null);
  const end = useRef(null);
  const height = Math.round((NARROW.matches ? narrow : 2.25) * rem());
  const [first, last] = useVisible(body, rows.length, height);
  const chosen = walk ? useWalk(body, rows.length, height) : -1;
  useMore(end, list);
  const gap = (n) => n > 0 && html`<tr class="gap" aria-hidden="true" style=${{ height: `${n * height}px` }}><td></td></tr>`;
  return html`<div class="table-box"><table class="rows" aria-label=${label} aria-rowcount=${rows.length + 1} aria-busy=${Boolean(list?.isLoading)}>
    <thead><tr aria-rowindex="1">${columns.map((it) => html`<th class=${it.kind ?? ''}>${it.head}</th>`)}</tr></thead>
    <tbody ref=${body}>
      ${gap(first)}
      ${rows.slice(first, last).map((row, offset) => {
        const at = first + offset;
        return html`<tr key=${keyOf(row, at)} data-row=${at} aria-rowindex=${at + 2} class=${at === chosen ? 'chosen' : ''} style=${{ height: `${height}px` }}>
          ${columns.map((it) => html`<td class=${it.kind ?? ''}>${it.cell(row, at)}</td>`)}</tr>`;
      })}
      ${gap(rows.length - last)}
    </tbody>
  </table>
  ${list && html`<p class="table-end" ref=${end}>${list.isLoading ? 'Loading…' : list.hasMore ? html`<button class="button" onClick=${list.more}>More</button>` : `${count(rows.length, 'row')}, all there are`}</p>`}
  </div>`;
}
