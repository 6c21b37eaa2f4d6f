"""An OpenAI Agents SDK agent against a local server that speaks the chat completions format."""

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import model_server
import story

server = model_server.serve(model_server.openai_chat)
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)

client = AsyncOpenAI(base_url=f"{server}/v1", api_key="none")
agent = Agent(
    name="refunds",
    model=OpenAIChatCompletionsModel("scripted", client),
    tools=[function_tool(story.lookup_order), function_tool(story.issue_refund)],
)
print(Runner.run_sync(agent, story.QUESTION).final_output)
provider.shutdown()
