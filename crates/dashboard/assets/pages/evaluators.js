// List of evaluators with their figures in this time.
import { html } from '../lib/html.js';
import { useFreshAnswer } from '../lib/api.js';
import { asked } from '../lib/filter.js';
import { money, score, whole } from '../lib/format.js';
import { toPage, toRuns } from '../lib/route.js';
import { named, rate } from '../parts/columns.js';
import { Answer, Empty } from '../parts/states.js';
import { Table } from '../parts/table.js';
import { Pick } from '../parts/value.js';

const toThese = (it, more, n) => (n > 0 ? html`<a class="pick" href=${toRuns([['evaluator', it.evaluator], ...more])}>${whole(n)}</a>` : html`<span class="dim">0</span>`);

const num = (head, cell, kind = 'wide w-short num') => ({ head, kind, cell });

const columns = [
  named('Evaluator', (it) => it.evaluator, (it) => toPage('evaluators', it.evaluator), 'main', (it) => it.versions > 1 && html` <span class="tag">${it.versions} settings</span>`),
  { head: 'Level', kind: 'wide w-short', cell: (it) => html`<${Pick} field="level" value=${it.level} />` },
  ...rate('Pass rate', 'pass_rate', 'pass_interval', 'plain'),
  num('Fails', (it) => toThese(it, [['label', 'fail']], it.failed)),
  num('Passes', (it) => whole(it.passed)),
  num('Not evaluable', (it) => toThese(it, [['outcome', 'not_evaluable']], it.not_evaluable), 'wide w-mid num'),
  num('Broken', (it) => toThese(it, [['outcome', 'failed']], it.broken)),
  num('Mean', (it) => score(it.mean)),
  num('Cost', (it) => money(it.cost_usd)),
];

export function Evaluators({ route }) {
  const answer = useFreshAnswer('/evaluators', asked(route.query), 30000);
  const empty = html`<${Empty} title="Nothing was judged in this time"><p>Choose a longer range of time, or take a condition away.</p><//>`;
  return html`<div class="page-head"><h1>Evaluators</h1></div>
    <${Answer} of=${answer} isEmpty=${(data) => data.items.length === 0} empty=${empty}>
      ${(data) => html`<${Table} label="Evaluators" columns=${columns} rows=${data.items} keyOf=${(it) => it.evaluator} />`}<//>`;
}
