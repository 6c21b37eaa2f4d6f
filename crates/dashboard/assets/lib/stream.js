// One stream of events for all visible tabs with the same filter; arrivals are handed on in batches.
import { useCallback, useEffect, useMemo, useRef, useState } from './html.js';
import { address } from './api.js';
import { kept } from './filter.js';

/** Milliseconds between two batches. */
const BATCH_EVERY = 250;
/** Most events of a batch; the oldest go, and are counted as missed. */
const BATCH_MAX = 200;
/** Milliseconds until a refused stream is asked for again. */
const AGAIN_AFTER = 5000;
/** Kinds of events. */
const KINDS = ['trajectory', 'evaluation', 'annotation', 'stats', 'gap'];

/** Query of a stream: it knows no range of time. */
const streamed = (query) => kept(query).filter(([key]) => key !== 'from' && key !== 'to');

/**
 * Listens to a stream, which one of the visible tabs holds for all: a browser has six connections to
 * an address. `take` gets batches `{ events: [kind, data][], missed: by kind, wasHidden }`. Returns
 * what ends it.
 */
export function open(path, take, tell) {
  let leave = null;
  let events = [];
  const none = () => ({ trajectory: 0, evaluation: 0, annotation: 0 });
  let missed = none();
  let wasHidden = false;
  const hear = (kind, text) => {
    if (kind === 'state') return tell(text);
    // Between two streams something may have come that neither told.
    if (kind === 'new') return (wasHidden = true);
    let data;
    try {
      data = JSON.parse(text);
    } catch {
      return;
    }
    tell('open');
    if (kind === 'gap') {
      missed.trajectory += data.runs;
      missed.evaluation += data.evaluations;
      missed.annotation += data.annotations;
    } else if (kind !== 'stats') events.push([kind, data]);
    if (events.length > BATCH_MAX) missed[events.shift()[0]] += 1;
  };
  const join = () => {
    const name = location.pathname + path;
    const channel = new BroadcastChannel(name);
    const end = new AbortController();
    const { signal } = end;
    let hasFollowed = false;
    channel.onmessage = ({ data }) => {
      hasFollowed = true;
      hear(...data);
    };
    const lead = () => new Promise((resolve) => {
      wasHidden ||= hasFollowed;
      hasFollowed = true;
      channel.postMessage(['new']);
      const source = new EventSource(path);
      const say = (...news) => {
        hear(...news);
        channel.postMessage(news);
      };
      source.onopen = () => say('state', 'open');
      source.onerror = () => {
        const isRefused = source.readyState === EventSource.CLOSED;
        say('state', isRefused ? 'refused' : 'lost');
        if (isRefused) resolve();
      };
      KINDS.forEach((kind) => source.addEventListener(kind, (event) => say(kind, event.data)));
      signal.addEventListener('abort', () => resolve(source.close()));
    });
    // Beyond the own host, without TLS, there are no locks: each tab has a stream then.
    const queue = async () => {
      if (signal.aborted) return;
      await (navigator.locks ? navigator.locks.request(name, { signal }, lead).catch(() => {}) : lead());
      setTimeout(queue, AGAIN_AFTER);
    };
    queue();
    return () => {
      end.abort();
      channel.close();
    };
  };
  const turn = () => {
    if (document.hidden) {
      leave?.();
      leave = null;
      wasHidden = true;
      tell('paused');
    } else leave ??= join();
  };
  const timer = setInterval(() => {
    // Something may have come while the tab was hidden, also if nothing does any more.
    if (document.hidden || (!wasHidden && events.length === 0 && !Object.values(missed).some(Boolean))) return;
    take({ events, missed, wasHidden });
    wasHidden = false;
    events = [];
    missed = none();
  }, BATCH_EVERY);
  document.addEventListener('visibilitychange', turn);
  turn();
  return () => {
    clearInterval(timer);
    document.removeEventListener('visibilitychange', turn);
    leave?.();
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

/** Number of events of a kind since the list was read, `isMore` if others may have come while nobody listened, and what reads it again. */
export function useArrivals(kind, query, reload) {
  const [count, setCount] = useState(0);
  const [isMore, setMore] = useState(false);
  const key = useMemo(() => JSON.stringify(query), [query]);
  const reset = useCallback(() => {
    setCount(0);
    setMore(false);
  }, []);
  useEffect(reset, [key]);
  useStream(query, ({ events, missed, wasHidden }) => {
    if (wasHidden) setMore(true);
    const more = events.filter(([it]) => it === kind).length + missed[kind];
    if (more > 0) setCount((was) => was + more);
  });
  const take = useCallback(() => {
    reset();
    reload();
  }, [reload]);
  return { count, isMore, take };
}
