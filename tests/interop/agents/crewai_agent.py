"""A CrewAI crew of one agent against a local server that speaks the chat completions format."""

import logging
import os

# Neither its own telemetry nor its questions about it.
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false", OTEL_SDK_DISABLED="false")
logging.disable(logging.WARNING)

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from openinference.instrumentation.crewai import CrewAIInstrumentor
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import model_server
import story

server = model_server.serve(model_server.openai_chat)
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
CrewAIInstrumentor().instrument(tracer_provider=provider)


@tool("lookup_order")
def lookup_order(order_id: str, verbose: bool = False) -> str:
    """Looks an order up."""
    return story.lookup_order(order_id, verbose)


@tool("issue_refund")
def issue_refund(order: str, amount: float) -> str:
    """Pays an order back."""
    return story.issue_refund(order, amount)


agent = Agent(
    role="refunds", goal="Pay orders back", backstory="A clerk.", tools=[lookup_order, issue_refund],
    llm=LLM(model="openai/gpt-4o", base_url=f"{server}/v1", api_key="none"),
)
task = Task(description=story.QUESTION, expected_output="What was done.", agent=agent)
print(Crew(agents=[agent], tasks=[task]).kickoff().raw)
provider.shutdown()
