// Sessions: their turns as a strip of verdicts, each a link to its run.
import { html } from '../lib/html.js';
import { useList } from '../lib/api.js';
import { asked, link } from '../lib/filter.js';
import { whole } from '../lib/format.js';
import { toRuns } from '../lib/route.js';
import { visible } from '../lib/text.js';
import { agent, ended, named } from '../parts/columns.js';
import { List } from '../parts/figure.js';
import { Empty } from '../parts/states.js';
import { Counts, signOf, untitled, wordOf } from '../parts/verdict.js';

/** Turns that a line shows, the last ones. */
const TURNS = innerWidth < 720 ? 5 : 16;

function Strip({ session }) {
  const shown = session.runs.slice(-TURNS);
  const before = session.turns - shown.length;
  return html`<span class="strip">${before > 0 && html`<span class="dim">+${before} </span>`}${shown.map((run) => {
    const is = run.verdict ?? 'none';
    const words = `${wordOf(is)}: ${visible(run.title || untitled(run))}`;
    return html`<a class=${`is-${is}`} href=${link('runs', run.trace_id)} title=${words} aria-label=${words}>${signOf(is)}</a>`;
  })}</span>`;
}

const columns = [
  named('Session', (it) => it.session_id, (it) => toRuns([['session_id', it.session_id], ['from', '']]), 'w-long'),
  { head: 'Turns, the last right', kind: 'main', cell: (it) => html`<${Strip} session=${it} />` },
  { head: 'Runs', kind: 'wide w-short num', cell: (it) => whole(it.turns) },
  { head: 'Evaluations', kind: 'wide w-mid', cell: (it) => html`<${Counts} run=${it} />` },
  agent,
  { ...ended('Last', (it) => it.last), kind: 'wide w-short num' },
];

export function Sessions({ route }) {
  const list = useList('/sessions', asked(route.query));
  return html`<div class="page-head"><h1>Sessions</h1><span class="dim" role="status">${list.count ? `${whole(list.count.count)}${list.count.capped ? '+' : ''}` : ''}</span></div>
    <${List} list=${list} label="Sessions" columns=${columns} keyOf=${(it, at) => `${it.session_id} ${at}`}
      empty=${html`<${Empty} title="No session in this time"><p>A session is found where spans carry <code>session.id</code> or <code>gen_ai.conversation.id</code>.</p><//>`} />`;
}
