// Setup: what to set in an agent, and how far the first span has come.
import { html, useState } from '../lib/html.js';
import { useFreshAnswer } from '../lib/api.js';
import { whole } from '../lib/format.js';
import { Answer } from '../parts/states.js';
import { bdi } from '../parts/value.js';

/** Steps in order: the title, and what to do where the first span stands still. */
const STEPS = {
  requests: ['Something connected', 'Set the two variables on this page in your agent, and run it once. Or send the sample.'],
  spans: ['Spans accepted', 'Requests came without spans: look whether the SDK samples them away (OTEL_TRACES_SAMPLER).'],
  traces: ['A run of an agent is complete', 'A trace is complete some seconds after its root span has ended. Wait, or look whether the root is sent.'],
  calls: ['Tool calls found', 'The runs called no tool, or no dialect knows how: paste spans on the page Inspect, which says why, span by span.'],
  evaluations: ['Evaluated', 'No evaluator fits: look at `when` in the config, and at the log.'],
  stored: ['In the store, ready to look at', 'The store has not written it: look at the state above and at `store` in the config.'],
};

/** Remedy where traces are complete and none is that of an agent. */
const IGNORED = 'Complete traces came, and no dialect found an agent in them: paste spans on the page Inspect, which says why, span by span.';

/** Snippets that point an agent here, by the way it is instrumented. */
function snippets(host) {
  const http = `http://${host}:4318`;
  return {
    'Try it': ['A recorded agent from another terminal:', 'spanscore send --sample'],
    'Any SDK': ['Variables that every OpenTelemetry SDK reads:', `export OTEL_EXPORTER_OTLP_ENDPOINT=${http}\nexport OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf\nexport OTEL_SERVICE_NAME=my-agent`],
    'One command': ['The runs of one command, on pages of their own:', 'spanscore run --open -- python agent.py'],
    Python: ['OpenInference, here for LangChain and LangGraph:', `pip install openinference-instrumentation-langchain opentelemetry-sdk opentelemetry-exporter-otlp-proto-http\n\nfrom openinference.instrumentation.langchain import LangChainInstrumentor\nfrom opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter\nfrom opentelemetry.sdk.trace import TracerProvider\nfrom opentelemetry.sdk.trace.export import BatchSpanProcessor\n\nprovider = TracerProvider()\nprovider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter("${http}/v1/traces")))\nLangChainInstrumentor().instrument(tracer_provider=provider)`],
    JavaScript: ['Vercel AI SDK, after the SDK of OpenTelemetry is started:', 'const answer = await generateText({\n  model, tools, prompt,\n  experimental_telemetry: { isEnabled: true },\n});'],
    Java: ['Spring AI, application.properties:', `management.opentelemetry.tracing.export.otlp.endpoint=${http}/v1/traces\nmanagement.tracing.sampling.probability=1.0\nspring.ai.tools.observations.include-content=true`],
  };
}

function Snippets() {
  const all = snippets(location.hostname || '127.0.0.1');
  const names = Object.keys(all);
  const [current, setCurrent] = useState(names[0]);
  const [words, text] = all[current];
  const pressed = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = names[(names.indexOf(current) + step + names.length) % names.length];
    setCurrent(next);
    event.currentTarget.querySelector(`#tab-${names.indexOf(next)}`).focus();
  };
  return html`<section class="card"><h2>Point an agent here</h2>
    <div class="tabs" role="tablist" aria-label="Ways" onKeyDown=${pressed}>${names.map((name, at) => html`<button role="tab" id=${`tab-${at}`} aria-selected=${name === current} aria-controls="snippet" tabindex=${name === current ? 0 : -1} onClick=${() => setCurrent(name)}>${name}</button>`)}</div>
    <div id="snippet" role="tabpanel" aria-labelledby=${`tab-${names.indexOf(current)}`} class="stack"><p class="dim">${words}</p>
    <pre class="snippet" tabindex="0" role="region" aria-label="Snippet">${text}</pre>
    <p><button class="button" onClick=${() => navigator.clipboard?.writeText(text).catch(() => {})}>Copy</button> <span class="dim">Without other ports in the config: 4318 for HTTP, 4317 for gRPC.</span></p></div></section>`;
}

function Steps({ status }) {
  const counts = Object.fromEntries(status.steps.map((it) => [it.step, it.count]));
  const known = Object.keys(STEPS).map((step) => ({ step, count: counts[step] ?? 0 }));
  const stands = known.findIndex((it) => it.count === 0);
  return html`<section class="card" aria-live="polite"><h2>How far the first span has come</h2><ol class="steps">${known.map((it, at) => {
    const [title, help] = STEPS[it.step];
    const todo = it.step === 'traces' && counts.ignored_traces > 0 ? IGNORED : help;
    const isDone = it.count > 0;
    return html`<li class=${at === stands ? 'stands' : ''}><span class=${isDone ? 'is-pass' : 'dim'} aria-hidden="true">${isDone ? '✓' : at === stands ? '→' : '·'}</span>
      <span>${title}<span class="unseen">${isDone ? ': done' : at === stands ? ': stands here' : ': not yet'}</span></span><span class="num dim">${whole(it.count)}</span>
      ${at === stands && html`<span class="todo">${todo}</span>`}</li>`;
  })}</ol>
  ${counts.stored > 0 && html`<p><a class="button main" href="#/runs">See the runs</a></p>`}
  <p class="dim">Counted since the collector started.</p></section>`;
}

function StoreFacts({ status }) {
  const { store } = status;
  return html`<section class="card"><h2>Store</h2><div class="facts"><span>state <b>${store.state}</b></span><span>content <b>${store.content}</b></span><span>runs written <b>${whole(store.written_trajectories)}</b></span>
    <span>left out under load <b>${whole(store.shed_trajectories)} runs, ${whole(store.shed_evaluations)} evaluations</b></span><span>file <b class="mono">${bdi(store.path)}</b></span><span>version <b>${bdi(status.version)}</b></span></div></section>`;
}

export function Setup() {
  const answer = useFreshAnswer('/status', [], 1000);
  return html`<div class="page-head"><h1>Setup</h1></div>
    <div class="stack"><div class="halves"><${Snippets} />
    <${Answer} of=${answer}>${(status) => html`<${Steps} status=${status} />`}<//></div>
    ${answer.data && html`<${StoreFacts} status=${answer.data} />`}</div>`;
}
