// A Vercel AI SDK agent with a scripted model and its OpenTelemetry integration.
import { OpenTelemetry } from '@ai-sdk/otel';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { generateText, registerTelemetry, stepCountIs, tool } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { z } from 'zod';

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ 'service.name': process.env.OTEL_SERVICE_NAME }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
provider.register();
registerTelemetry(new OpenTelemetry());

const steps = [
  ['call_1', 'lookup_order', { order_id: 'A-17', verbose: true }],
  ['call_2', 'issue_refund', { order: 'A-17', amount: 129.5 }],
];
const usage = {
  inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 5, text: 5, reasoning: 0 },
};
const model = new MockLanguageModelV4({
  doGenerate: async () => {
    const step = steps.shift();
    const content = step
      ? [{ type: 'tool-call', toolCallId: step[0], toolName: step[1], input: JSON.stringify(step[2]) }]
      : [{ type: 'text', text: 'Order A-17 was refunded.' }];
    const reason = step ? 'tool-calls' : 'stop';
    return { content, usage, finishReason: { unified: reason, raw: reason }, warnings: [] };
  },
});

const { text } = await generateText({
  model,
  prompt: 'Please refund my order A-17.',
  stopWhen: stepCountIs(5),
  telemetry: { functionId: 'refunds' },
  tools: {
    lookup_order: tool({
      inputSchema: z.object({ order_id: z.string(), verbose: z.boolean() }),
      execute: async ({ order_id }) => ({ order_id, total: 129.5 }),
    }),
    issue_refund: tool({
      inputSchema: z.object({ order: z.string(), amount: z.number() }),
      execute: async ({ order, amount }) => ({ order, refunded: amount }),
    }),
  },
});
console.log(text);
await provider.shutdown();
