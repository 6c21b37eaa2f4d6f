"""A loop around Anthropic's SDK, instrumented by OpenInference: no span for any tool, so that the
calls and their results stand in the messages alone."""

from anthropic import Anthropic
from openinference.instrumentation.anthropic import AnthropicInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import model_server
import story

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
AnthropicInstrumentor().instrument(tracer_provider=provider)

TOOLS = {"lookup_order": story.lookup_order, "issue_refund": story.issue_refund}
client = Anthropic(base_url=model_server.serve(model_server.anthropic_messages), api_key="none")
definitions = [{"name": name, "input_schema": {"type": "object"}} for name in TOOLS]
messages = [{"role": "user", "content": story.QUESTION}]
with provider.get_tracer("app").start_as_current_span("refunds"):
    while True:
        reply = client.messages.create(
            model="scripted", max_tokens=100, tools=definitions, messages=messages)
        messages.append({"role": "assistant", "content": [block.model_dump() for block in reply.content]})
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": TOOLS[block.name](**block.input)}
            for block in reply.content if block.type == "tool_use"
        ]
        if not results:
            break
        messages.append({"role": "user", "content": results})
provider.shutdown()
