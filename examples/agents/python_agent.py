"""An agent with a scripted model: it looks up an order twice, since the first call times out.

Instrumented by hand with the OpenTelemetry SDK, in the GenAI semantic conventions. Where to send
comes from the environment alone:

    pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
    spanscore run -- python python_agent.py
"""

import json
import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import StatusCode

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("examples.python_agent")

# What the model would say: a call of a tool, or an answer.
SCRIPT = [
    {"call": "find_order", "arguments": {"order": "A-17"}},
    {"call": "find_order", "arguments": {"order": "A-17", "retry": True}},
    {"answer": "Order A-17 is on its way."},
]


def find_order(order, retry=False):
    if not retry:
        raise TimeoutError("the order service did not answer")
    return {"order": order, "state": "shipped"}


def call_tool(number, name, arguments):
    with tracer.start_as_current_span(f"execute_tool {name}") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", name)
        span.set_attribute("gen_ai.tool.call.id", f"call-{number}")
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps(arguments))
        try:
            result = find_order(**arguments)
            span.set_attribute("gen_ai.tool.call.result", json.dumps(result))
        except TimeoutError as error:
            span.set_status(StatusCode.ERROR, str(error))
            span.set_attribute("error.type", "TimeoutError")


with tracer.start_as_current_span("invoke_agent order_agent") as root:
    root.set_attribute("gen_ai.operation.name", "invoke_agent")
    root.set_attribute("gen_ai.agent.name", "order_agent")
    if case := os.environ.get("CASE"):
        root.set_attribute("case", case)
    for number, step in enumerate(SCRIPT):
        if "call" in step:
            call_tool(number, step["call"], step["arguments"])
        else:
            print(step["answer"])

provider.shutdown()
