"""Exports spans until a file says stop, with the Python SDK over gRPC, and reads its token anew when that
changes: prints how many exports went well and how many failed. The last token that an export went well
with stands in the token's file with `.used` behind its name.
"""

import json
import os
import time

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

counts = {"exported": 0, "failed": 0, "tokens": 0}


class Rotating(SpanExporter):
    """The SDK's exporter, made anew with each token."""

    def __init__(self):
        self.token, self.inner = None, None

    def export(self, spans):
        token = open(os.environ["TOKEN_FILE"]).read().strip()
        if token != self.token:
            self.shutdown()
            headers = (("authorization", f"Bearer {token}"),)
            self.token, self.inner = token, OTLPSpanExporter(headers=headers)
            counts["tokens"] += 1
        result = self.inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            counts["exported"] += 1
            with open(os.environ["TOKEN_FILE"] + ".used", "w") as used:
                used.write(token)
        else:
            counts["failed"] += 1
        return result

    def shutdown(self):
        if self.inner:
            self.inner.shutdown()


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Rotating()))
tracer = provider.get_tracer("rotation")
while not os.path.exists(os.environ["STOP_FILE"]):
    with tracer.start_as_current_span("execute_tool search") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", "search")
    time.sleep(0.02)
provider.shutdown()
print(json.dumps(counts))
