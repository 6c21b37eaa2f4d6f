// Exports spans until a file says stop, with the JavaScript SDK over HTTP, and reads its token anew when
// that changes: prints how many exports went well and how many failed. The last token that an export went
// well with stands in the token's file with `.used` behind its name.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';

const counts = { exported: 0, failed: 0, tokens: 0 };

// The SDK's exporter, made anew with each token.
class Rotating {
  export(spans, done) {
    const token = readFileSync(process.env.TOKEN_FILE, 'utf8').trim();
    if (token !== this.token) {
      this.inner?.shutdown();
      this.inner = new OTLPTraceExporter({ headers: { authorization: `Bearer ${token}` } });
      this.token = token;
      counts.tokens += 1;
    }
    this.inner.export(spans, (result) => {
      counts[result.code === 0 ? 'exported' : 'failed'] += 1;
      if (result.code === 0) writeFileSync(`${process.env.TOKEN_FILE}.used`, token);
      done(result);
    });
  }

  async shutdown() {
    await this.inner?.shutdown();
  }
}

const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(new Rotating())] });
const tracer = provider.getTracer('rotation');
while (!existsSync(process.env.STOP_FILE)) {
  const span = tracer.startSpan('execute_tool search');
  span.setAttributes({ 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'search' });
  span.end();
  // One export at a time: none is under way with an older token.
  await provider.forceFlush();
  await new Promise((done) => setTimeout(done, 20));
}
await provider.shutdown();
console.log(JSON.stringify(counts));
