// A LangChain.js agent with a scripted model, instrumented by OpenInference. Its calls start in the
// same millisecond as what is around them: the SDK writes no finer starts.
import { LangChainInstrumentation } from '@arizeai/openinference-instrumentation-langchain';
import * as callbacks from '@langchain/core/callbacks/manager';
import { AIMessage } from '@langchain/core/messages';
import { FakeListChatModel } from '@langchain/core/utils/testing';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { createAgent, tool } from 'langchain';
import { z } from 'zod';

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ 'service.name': process.env.OTEL_SERVICE_NAME }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
provider.register();
const instrumentation = new LangChainInstrumentation({ tracerProvider: provider });
instrumentation.manuallyInstrument(callbacks);

const steps = [
  new AIMessage({
    content: '',
    tool_calls: [{ id: 'call_1', name: 'lookup_order', args: { order_id: 'A-17', verbose: true } }],
  }),
  new AIMessage({
    content: '',
    tool_calls: [{ id: 'call_2', name: 'issue_refund', args: { order: 'A-17', amount: 129.5 } }],
  }),
  new AIMessage('Order A-17 was refunded.'),
];

class ScriptedModel extends FakeListChatModel {
  bindTools() {
    return this;
  }

  async _generate() {
    const message = steps.shift();
    return { generations: [{ text: String(message.content), message }] };
  }
}

const tools = [
  tool(async ({ order_id }) => JSON.stringify({ order_id, total: 129.5 }), {
    name: 'lookup_order',
    schema: z.object({ order_id: z.string(), verbose: z.boolean() }),
  }),
  tool(async ({ order, amount }) => JSON.stringify({ order, refunded: amount }), {
    name: 'issue_refund',
    schema: z.object({ order: z.string(), amount: z.number() }),
  }),
];
const agent = createAgent({ model: new ScriptedModel({ responses: [''] }), tools, name: 'refunds' });
await agent.invoke({ messages: [{ role: 'user', content: 'Please refund my order A-17.' }] });
await provider.shutdown();
