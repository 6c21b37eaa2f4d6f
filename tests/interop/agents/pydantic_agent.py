"""A Pydantic AI agent with a scripted model and its own instrumentation, over HTTP with gzip."""

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent, InstrumentationSettings
from pydantic_ai.capabilities.instrumentation import Instrumentation
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import story

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
script = iter(story.STEPS)


def reply(messages, info):
    step = next(script, None)
    if step is None:
        return ModelResponse(parts=[TextPart(story.ANSWER)])
    call_id, name, arguments = step
    return ModelResponse(parts=[ToolCallPart(name, arguments, tool_call_id=call_id)])


agent = Agent(
    FunctionModel(reply),
    name="refunds",
    tools=[story.lookup_order, story.issue_refund],
    capabilities=[Instrumentation(InstrumentationSettings(tracer_provider=provider))],
)
print(agent.run_sync(story.QUESTION).output)
provider.shutdown()
