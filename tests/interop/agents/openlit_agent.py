"""A loop around OpenAI's SDK, instrumented by OpenLIT: no span for any tool."""

import openlit
from openai import OpenAI
from opentelemetry import trace

import chat_loop
import model_server

openlit.init(disable_metrics=True)
client = OpenAI(base_url=model_server.serve(model_server.openai_chat) + "/v1", api_key="none")
with trace.get_tracer("app").start_as_current_span("refunds"):
    chat_loop.run(client)
trace.get_tracer_provider().shutdown()
