// One stream of events for the tab, closed while it is hidden; arrivals are handed on in batches.
import { useCallback, useEffect, useMemo, useRef, useState } from './html.js';
import { address } from './api.js';
import { kept } from './filter.js';

/** Milliseconds between two batches. */
const BATCH_EVERY = 250;
/** Most events of a batch; the oldest go, and are counted as missed. */
const BATCH_MAX = 200;
/** Kinds of events. */
const KINDS = ['trajectory', 'evaluation', 'stats', 'gap'];

/** Query of a stream: it knows no range of time. */
const streamed = (query) => kept(query).filter(([key]) => key !== 'from' && key !== 'to');

/** Opens a stream; `take` gets batches `{ events: [kind, data][], missed, wasHidden }`. Returns what closes it. */
function open(path, take, tell) {
  let source = null;
  let events = [];
  let missed = 0;
  let wasHidden = false;
  const arrived = (kind) => (event) => {
    let data;
    try {
      data = JSON.parse(event.data);
    } catch {
      return;
    }
    if (kind === 'gap') missed += Number(data.missed) || 0;
    else events.push([kind, data]);
    if (events.length > BATCH_MAX) {
      missed += events.length - BATCH_MAX;
      events = events.slice(-BATCH_MAX);
    }
  };
  const connect = () => {
    source = new EventSource(path);
    source.onopen = () => tell('open');
    source.onerror = () => tell(source.readyState === EventSource.CLOSED ? 'refused' : 'lost');
    KINDS.forEach((kind) => source.addEventListener(kind, arrived(kind)));
  };
  const turn = () => {
    if (document.hidden) {
      source?.close();
      source = null;
      wasHidden = true;
      tell('paused');
    } else if (!source) connect();
  };
  const timer = setInterval(() => {
    if (events.length === 0 && missed === 0) return;
    take({ events, missed, wasHidden });
    wasHidden = false;
    events = [];
    missed = 0;
  }, BATCH_EVERY);
  document.addEventListener('visibilitychange', turn);
  turn();
  return () => {
    clearInterval(timer);
    document.removeEventListener('visibilitychange', turn);
    source?.close();
  };
}

/** Listens while the component stands; `state` is open, lost, refused or paused. */
export function useStream(query, take, isOn = true) {
  const [state, setState] = useState('lost');
  const latest = useRef(take);
  latest.current = take;
  const path = address('/stream', streamed(query));
  useEffect(() => (isOn ? open(path, (batch) => latest.current(batch), setState) : undefined), [path, isOn]);
  return isOn ? state : 'paused';
}

/** Number of events of a kind since the list was read, and what reads it again. */
export function useArrivals(kind, query, reload) {
  const [count, setCount] = useState(0);
  const key = useMemo(() => JSON.stringify(query), [query]);
  useEffect(() => setCount(0), [key]);
  useStream(query, ({ events }) => {
    const more = events.filter(([it]) => it === kind).length;
    if (more > 0) setCount((was) => was + more);
  });
  const take = useCallback(() => {
    setCount(0);
    reload();
  }, [reload]);
  return { count, take };
}
