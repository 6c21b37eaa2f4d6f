// Columns that several tables share.
import { html } from '../lib/html.js';
import { ago, moment, share } from '../lib/format.js';
import { visible } from '../lib/text.js';
import { Meter } from './meter.js';
import { Pick, bdi } from './value.js';
import { Verdict, verdictOf } from './verdict.js';

/** Time that passed since; the moment is in the title. */
export const ended = (head, of = (it) => it.time) => ({
  head, kind: 'w-short num', cell: (it) => of(it) && html`<time datetime=${of(it)} title=${moment(of(it))}>${ago(of(it))}</time>`,
});

/** Agent, or its service, with the version. */
export const agent = {
  head: 'Agent', kind: 'wide w-agent',
  cell: (it) => it.service !== undefined && html`<span class="cell"><${Pick} field=${it.agent ? 'agent' : 'service'} value=${it.agent || it.service} />${it.version && html`<span class="dim cell"><${Pick} field="version" value=${it.version} /></span>`}</span>`,
};

/** Name that is the row's link. */
export const named = (head, of, to, kind = 'main', after = () => null) => ({
  head, kind, cell: (it) => html`<span class="cell"><a class="row" href=${to(it)} title=${visible(of(it))}>${of(it) === '' ? html`<span class="esc">empty</span>` : bdi(of(it))}</a>${after(it)}</span>`,
});

/** Verdict of an evaluation. */
export const verdict = { head: 'Verdict', kind: 'w-verdict', cell: (it) => it.outcome && html`<${Verdict} is=${verdictOf(it)} />` };

/** Words for a verdict. */
export const why = {
  head: 'Why', kind: 'wide', cell: (it) => html`<span title=${visible(it.explanation ?? it.error)}>${bdi(it.explanation ?? it.error ?? '')}</span>`,
};

/** Share with its interval, as a bar and as a number; a bar that is only `wide` leaves its head to the number. */
export const rate = (head, value, interval, is, wide = '') => [
  { head, kind: `w-bar ${wide}`, cell: (it) => html`<${Meter} value=${it[value]} interval=${it[interval]} is=${is} />` },
  { head: html`<span class=${wide ? 'unseen seen' : 'unseen'}>${head}</span>`, kind: 'w-short num', cell: (it) => share(it[value]) },
];
