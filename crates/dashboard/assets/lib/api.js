// Questions to the API: answers, problems in words, lists that grow page by page.
import { useCallback, useEffect, useRef, useState } from './html.js';

/** Root of the API, relative, so that it holds behind a proxy's path. */
export const ROOT = 'api/v1';

/** Error of an answer: its words, and its status (0: no answer at all). */
export class ApiProblem extends Error {
  constructor(status, title, detail) {
    super(detail || title);
    this.status = status;
    this.title = title;
  }
}

/** Address of a question. */
export function address(path, query = []) {
  const tail = new URLSearchParams(query);
  return `${ROOT}${path}${tail.size ? `?${tail}` : ''}`;
}

/** Asks, and reads JSON. */
export async function ask(path, query = [], options = {}) {
  let answer;
  try {
    answer = await fetch(address(path, query), { headers: { accept: 'application/json' }, ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiProblem(0, 'No answer', 'The collector does not answer. It may have stopped, or be starting.');
  }
  const body = await answer.json().catch((error) => {
    if (error.name === 'AbortError') throw error;
    return null;
  });
  if (answer.ok && body) return body;
  throw new ApiProblem(answer.status, body?.title ?? `Status ${answer.status}`, body?.detail ?? wordsOf(answer.status));
}

/** Changes something; with a revision only if that is still the last. Answers with what is stored. */
export async function change(method, path, body, revision) {
  const headers = { 'content-type': 'application/json', ...(revision && { 'if-match': `"${revision}"` }) };
  const answer = await fetch(`${ROOT}${path}`, { method, headers, body: JSON.stringify(body) });
  const stored = await answer.json().catch(() => null);
  if (answer.ok) return stored;
  throw new ApiProblem(answer.status, stored?.title ?? `Status ${answer.status}`, stored?.detail ?? wordsOf(answer.status));
}

function wordsOf(status) {
  return status === 401 ? 'This browser has to log in first.' : 'The collector refuses this question.';
}

/**
 * Answer to a question, asked again when it changes. The last answer stays while the next is awaited.
 * @returns {{ data: any, problem: ApiProblem|null, isLoading: boolean, reload: () => void }}
 */
export function useAnswer(path, query = []) {
  const [state, setState] = useState({ data: null, problem: null, isLoading: true, key: '' });
  const [turn, setTurn] = useState(0);
  const key = path === null ? '' : address(path, query);
  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    setState((was) => ({ ...was, isLoading: true }));
    ask(path, query, { signal: abort.signal }).then(
      (data) => setState({ data, problem: null, isLoading: false, key }),
      (problem) => {
        if (!abort.signal.aborted) setState((was) => ({ ...was, data: was.key === key ? was.data : null, problem, isLoading: false, key }));
      },
    );
    return () => abort.abort();
  }, [key, turn]);
  const reload = useCallback(() => setTurn((it) => it + 1), []);
  return { ...state, reload };
}

/** Like `useAnswer`, and asks again every so many milliseconds while the page is seen. */
export function useFreshAnswer(path, query, every) {
  const answer = useAnswer(path, query);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || answer.reload(), every);
    return () => clearInterval(timer);
  }, [every]);
  return answer;
}

/** Most rows that a list holds in the page. */
const ROWS_MAX = 20000;

/** List that grows by its cursor: `{ rows, more() }`; `rows` is null until the first answer. */
export function useList(path, query, limit = 100) {
  const [state, setState] = useState({ rows: null, next: null, count: null, sampled: false, problem: null, isLoading: true });
  const [turn, setTurn] = useState(0);
  const abort = useRef(null);
  const key = address(path, query);
  const load = useCallback((rows, cursor) => {
    abort.current?.abort();
    const current = new AbortController();
    abort.current = current;
    setState((was) => ({ ...was, isLoading: true, problem: null }));
    const asked = [...query, ['limit', String(limit)], ...(cursor ? [['cursor', cursor]] : [])];
    ask(path, asked, { signal: current.signal }).then(
      (page) => setState((was) => ({
        rows: [...rows, ...page.items], next: page.next, sampled: page.sampled,
        count: page.count ?? was.count, problem: null, isLoading: false,
      })),
      (problem) => current.signal.aborted || setState((was) => ({ ...was, rows: cursor ? was.rows : null, problem, isLoading: false })),
    );
  }, [key]);
  useEffect(() => {
    load([], null);
    return () => abort.current?.abort();
  }, [key, turn]);
  const hasMore = Boolean(state.next) && state.rows.length < ROWS_MAX;
  const more = () => hasMore && !state.isLoading && load(state.rows, state.next);
  const reload = useCallback(() => setTurn((it) => it + 1), []);
  return { ...state, more, hasMore, reload };
}
