// Place in the pages, as the address has it.
import { useEffect, useState } from './html.js';
import { kept, link, parse } from './filter.js';

export const here = () => parse(location.hash);

/** Goes to a link of the pages; `replace` leaves no step back. */
export function go(to, replace = false) {
  if (to === location.hash) return;
  if (!replace) {
    location.hash = to;
    return;
  }
  history.replaceState(null, '', to);
  dispatchEvent(new HashChangeEvent('hashchange'));
}

/** Place, and again whenever it changes. */
export function useRoute() {
  const [route, setRoute] = useState(here);
  useEffect(() => {
    const changed = () => setRoute(here());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return route;
}

/** Changes the query of the page that is open. */
export function setQuery(query, replace = false) {
  const { page, id } = here();
  go(link(page, id, query), replace);
}

/** Link to another page that keeps the filter and the range of time. */
export const toPage = (page, id = '', more = []) => link(page, id, [...kept(here().query), ...more]);

/** Link to the runs of this filter and one more condition, which replaces another value of its field, but not those that are excluded. */
export function toRuns(conditions) {
  const names = new Set(conditions.map(([name]) => name));
  return link('runs', '', [...kept(here().query).filter(([name, value]) => !names.has(name) || value.startsWith('!')), ...conditions]);
}
