"""A loop around OpenAI's SDK, instrumented by OpenTelemetry itself: what was said travels as log
events, beside the spans."""

from openai import OpenAI
from opentelemetry._logs import set_logger_provider
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import chat_loop
import model_server

provider, logs = TracerProvider(), LoggerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
set_logger_provider(logs)
OpenAIInstrumentor().instrument(tracer_provider=provider, logger_provider=logs)

client = OpenAI(base_url=model_server.serve(model_server.openai_chat) + "/v1", api_key="none")
with provider.get_tracer("app").start_as_current_span("refunds"):
    chat_loop.run(client)
logs.shutdown()
provider.shutdown()
