// Agents that send OTLP/JSON: ordinary runs, a very long one, and one whose every field is hostile.
import { randomBytes } from 'node:crypto';

const hex = (bytes) => randomBytes(bytes).toString('hex');
const nanos = (ms) => `${BigInt(Math.round(ms * 1000)) * 1000n}`;

function attributes(values) {
  return Object.entries(values).filter(([, value]) => value !== undefined).map(([key, value]) => ({ key, value: { stringValue: value } }));
}

const message = (role, content) => JSON.stringify([{ role, parts: [{ type: 'text', content }] }]);

/** Spans of one run in the GenAI semantic conventions: a root, and a span for each call. */
function spansOf({ agent, session, input, output, calls, seconds = 2, model = 'large-1', user = session }) {
  const traceId = hex(16);
  const root = hex(8);
  const end = Date.now();
  const start = end - seconds * 1000;
  const step = (seconds * 1000) / (calls.length + 1);
  const spans = calls.map((call, at) => ({
    traceId, spanId: hex(8), parentSpanId: root, name: `execute_tool ${call.tool}`, kind: 1,
    startTimeUnixNano: nanos(start + at * step), endTimeUnixNano: nanos(start + at * step + step * 0.8),
    attributes: attributes({ 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': call.tool, 'gen_ai.tool.call.id': `call-${at}`, 'gen_ai.tool.call.arguments': call.arguments, 'gen_ai.tool.call.result': call.result, 'error.type': call.error && 'Error' }),
    status: call.error ? { code: 2, message: call.error } : {},
  }));
  const top = {
    traceId, spanId: root, name: `invoke_agent ${agent}`, kind: 1, startTimeUnixNano: nanos(start), endTimeUnixNano: nanos(end),
    attributes: attributes({ 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': agent, 'gen_ai.conversation.id': session, 'gen_ai.request.model': model, 'user.id': user, 'gen_ai.input.messages': message('user', input), 'gen_ai.output.messages': message('assistant', output) }),
  };
  return { traceId, spans: [...spans, top] };
}

/** Request with runs of one source: its body, and their trace ids. */
export function requestOf(source, runs) {
  const made = runs.map(spansOf);
  const resource = { attributes: attributes({ 'service.name': source.service, 'service.version': source.version, 'deployment.environment.name': source.environment }) };
  const body = JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ scope: { name: 'browser' }, spans: made.flatMap((it) => it.spans) }] }] });
  return { body, ids: made.map((it) => it.traceId) };
}

/** Sends runs of one source in one request; returns their trace ids. */
export async function send(endpoint, source, runs) {
  const { body, ids } = requestOf(source, runs);
  const answer = await fetch(`${endpoint}/v1/traces`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  if (!answer.ok) throw new Error(`the collector answered ${answer.status}: ${await answer.text()}`);
  return ids;
}

const call = (tool, given, result, error) => ({ tool, arguments: JSON.stringify(given), result: result && JSON.stringify(result), error });

/** Run of a shop with these words that pays so much. */
export function payment(words, amount) {
  return { agent: 'refund-agent', session: 'people', input: words, output: 'Done', calls: [call('get_order', { order: 'B-1' }, { total: 60 }), call('issue_refund', { order: 'B-1', amount }, { ok: true })] };
}

/** Refund that goes by the book, or pays too much before the policy is read. */
function refund(at) {
  const isGood = at % 3 !== 0;
  const paid = { order: 'A-17', amount: isGood ? 60 : 90, currency: 'EUR' };
  return {
    agent: 'refund-agent', session: `s-${at % 7}`, input: `Refund order A-17, charged twice (ticket ${1000 + at})`, output: 'The refund is on its way.\n\nAnything else?', seconds: 1 + (at % 5),
    calls: [call('get_order', { order: 'A-17' }, { order: 'A-17', total: 129.5 }), ...(isGood ? [call('check_policy', { order: 'A-17' }, { limit: 60 })] : []), call('issue_refund', paid, isGood ? { ok: true } : undefined, isGood ? undefined : 'amount is over the limit of 60')],
  };
}

/** Runs of two versions, so that there is something to compare. */
export async function sendOrdinary(endpoint, count) {
  for (const version of ['1.4.0', '1.5.0']) {
    await send(endpoint, { service: 'shop', version, environment: 'prod' }, Array.from({ length: count }, (_, at) => refund(version === '1.4.0' ? at * 3 + 1 : at)));
  }
}

/** One run of so many calls. */
export async function sendLong(endpoint, calls) {
  const many = Array.from({ length: calls }, (_, at) => call(`step_${at % 12}`, { at }, { ok: true }));
  return (await send(endpoint, { service: 'batch', version: '2', environment: 'prod' }, [{ agent: 'long', session: 'long', input: 'Do all of it', output: 'Done', calls: many, seconds: 60 }]))[0];
}

/** A run for each string, which stands in each of its fields. A surrogate cannot be sent. */
export async function sendHostile(endpoint, corpus) {
  const ids = [];
  for (const text of corpus) {
    const run = { agent: text, model: text, session: text, input: text, output: text, calls: [{ tool: text || 'tool', arguments: JSON.stringify({ [text]: text, list: [text] }), result: JSON.stringify(text) }, { tool: 'raw', arguments: text, result: text, error: text }] };
    ids.push(...await send(endpoint, { service: text, version: text, environment: text }, [run]));
  }
  return ids;
}
