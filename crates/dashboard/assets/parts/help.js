// Dialog of keys and words.
import { html, useEffect, useRef, useState } from '../lib/html.js';
import { areKeysOn, setKeysOn } from '../lib/keys.js';
import { Verdict } from './verdict.js';

const KEYS = [
  ['j k', 'next, previous row'], ['Enter', 'open the row'], ['/', 'to the filter'], ['g r', 'to runs; also o overview, e evaluators, t tools, c compare, l live, s sessions, d datasets, i inspect, u setup'],
  ['a d', 'on a run: judge it, add it to a dataset'],
  ['?', 'this help'], ['Esc', 'close'],
];

const WORDS = [
  ['pass', 'The score reaches the threshold of the evaluator.'],
  ['fail', 'The score is below it.'],
  ['not_evaluable', 'It could not be judged, for instance since arguments were not recorded. Neither a pass nor a fail.'],
  ['failed', 'The evaluator itself broke. No score.'],
];

export function Help({ onClose }) {
  const dialog = useRef(null);
  const [isOn, setOn] = useState(areKeysOn);
  useEffect(() => dialog.current.showModal(), []);
  const turn = () => {
    setKeysOn(!isOn);
    setOn(!isOn);
  };
  return html`<dialog ref=${dialog} class="help" aria-labelledby="help-title" onClose=${onClose} onClick=${(event) => event.target === dialog.current && dialog.current.close()}>
    <div class="help-body">
    <h2 id="help-title">Keys</h2>
    <dl class="keys">${KEYS.map(([key, words]) => html`<dt>${key.split(' ').map((it) => html`<kbd>${it}</kbd> `)}</dt><dd>${words}</dd>`)}</dl>
    <label class="check"><input type="checkbox" checked=${isOn} onChange=${turn} /> Keys of one letter are on</label>
    <h2>Verdicts</h2>
    <dl class="keys">${WORDS.map(([is, words]) => html`<dt><${Verdict} is=${is} /></dt><dd>${words}</dd>`)}</dl>
    <p><button class="button" onClick=${() => dialog.current.close()}>Close</button></p>
    </div>
  </dialog>`;
}
