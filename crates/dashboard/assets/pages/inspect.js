// Inspect: why a call was found, or not, in spans that are pasted. Nothing of them is stored.
import { html, useState } from '../lib/html.js';
import { ask } from '../lib/api.js';
import { count, cut, visible } from '../lib/text.js';
import { Loading, Problem } from '../parts/states.js';
import { bdi } from '../parts/value.js';

/** Longest request that the collector explains, bytes. */
const BYTES_MAX = 4 << 20;
/** Longest value of a call that is shown, characters. */
const VALUE_MAX = 300;

const posted = (body) => ask('/inspect', [], { method: 'POST', body, headers: { accept: 'application/json', 'content-type': 'application/json' } });

const value = (it) => (it === null || it === undefined ? html`<span class="dim">not recorded</span>` : bdi(typeof it === 'string' ? it : JSON.stringify(it), VALUE_MAX));

function Calls({ trace }) {
  if (trace.tool_calls.length === 0) return html`<p class="dim">No tool call was found: the explanation says why, span by span.</p>`;
  return html`<ol>${trace.tool_calls.map((call) => html`<li><b>${bdi(call.name, 80)}</b> ${bdi(call.status)} <span class="dim">by ${bdi(call.dialect, 80)}</span><br/>arguments ${value(call.arguments)}<br/>${call.error === null || call.error === undefined ? 'result' : 'error'} ${value(call.error ?? call.result)}</li>`)}</ol>`;
}

function Found({ answer }) {
  const { traces, explanation, left_out: leftOut, without_agent: without, message } = answer;
  return html`<p role="status">${count(traces.length, 'run')} found${without > 0 && `, ${count(without, 'trace')} without a span of a tool, an agent or a model`}${leftOut > 0 && `, ${count(leftOut, 'run')} left out`}.</p>
    ${message && html`<p class="note warn">${bdi(message)}</p>`}
    ${traces.map((trace) => html`<section class="card found"><h2>Run ${cut(visible(trace.trace_id ?? ''), 12)}</h2>
      <div class="facts">${trace.agent_name && html`<span>agent <b>${bdi(trace.agent_name, 80)}</b></span>`}${trace.service_name && html`<span>service <b>${bdi(trace.service_name, 80)}</b></span>`}<span>input <b>${value(trace.user_input)}</b></span><span>output <b>${value(trace.final_output)}</b></span></div>
      <${Calls} trace=${trace} /></section>`)}
    <section class="card"><h2>Span by span</h2><pre class="snippet" tabindex="0" role="region" aria-label="Explanation">${explanation.split('\n').map((line) => visible(line)).join('\n')}</pre></section>`;
}

export function Inspect() {
  const [text, setText] = useState('');
  const [state, setState] = useState({});
  const explain = async (body) => {
    setState({ isLoading: true });
    if (body.length > BYTES_MAX) {
      setState({ problem: { title: 'Too long', message: 'At most 4 MiB are explained: paste fewer spans.' } });
      return;
    }
    await posted(body).then((answer) => setState({ answer }), (problem) => setState({ problem }));
  };
  const chosen = async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    // A longer one is refused whole, not read.
    await explain(file.size > BYTES_MAX ? ' '.repeat(BYTES_MAX + 1) : await file.text());
  };
  return html`<div class="page-head"><h1>Inspect</h1></div>
    <div class="stack">
      <section class="card"><h2>Paste spans</h2>
        <p class="dim">Why was my call not found? Paste one request in OTLP/JSON (an object with "resourceSpans"), as the OpenTelemetry Collector's file exporter writes it. Nothing of it is stored.</p>
        <form onSubmit=${(event) => { event.preventDefault(); explain(text); }} class="stack">
          <textarea class="snippet" rows="8" spellcheck="false" aria-label="OTLP/JSON request" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
          <p><button class="button main" disabled=${text.trim() === '' || state.isLoading}>Explain</button> <label>or a file <input type="file" accept=".json,application/json" onChange=${chosen} /></label></p>
        </form></section>
      ${state.isLoading && html`<${Loading} rows=${4} />`}
      ${state.problem && html`<${Problem} problem=${state.problem} />`}
      ${state.answer && html`<${Found} answer=${state.answer} />`}
    </div>`;
}
