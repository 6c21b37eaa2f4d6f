"""An OpenAI Agents SDK agent against a local server that speaks the chat completions format."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import story


class Model(BaseHTTPRequestHandler):
    script = iter(story.STEPS)

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        step = next(Model.script, None)
        message = {"role": "assistant", "content": story.ANSWER if step is None else None}
        if step is not None:
            call_id, name, arguments = step
            function = {"name": name, "arguments": json.dumps(arguments)}
            message["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
        reason = "stop" if step is None else "tool_calls"
        body = json.dumps({
            "id": "c", "object": "chat.completion", "created": 1, "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)

client = AsyncOpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
agent = Agent(
    name="refunds",
    model=OpenAIChatCompletionsModel("scripted", client),
    tools=[function_tool(story.lookup_order), function_tool(story.issue_refund)],
)
print(Runner.run_sync(agent, story.QUESTION).final_output)
provider.shutdown()
