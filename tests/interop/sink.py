"""An OTLP receiver of its own making: keeps what comes over gRPC and HTTP, decoded."""

import gzip
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class Sink:
    """Listens on two free ports of the loopback; `requests` is a list of decoded requests."""

    def __init__(self):
        self.requests = []
        self.lock = threading.Lock()
        self.grpc_port = self._start_grpc()
        self.http_port = self._start_http()

    def keep(self, request):
        with self.lock:
            self.requests.append(request)

    def _start_grpc(self):
        server = grpc.server(futures.ThreadPoolExecutor(4))
        parts = [
            (trace_service_pb2_grpc, "TraceService", trace_service_pb2.ExportTraceServiceResponse),
            (logs_service_pb2_grpc, "LogsService", logs_service_pb2.ExportLogsServiceResponse),
            (metrics_service_pb2_grpc, "MetricsService", metrics_service_pb2.ExportMetricsServiceResponse),
        ]
        for module, name, response in parts:
            servicer = type(name, (getattr(module, f"{name}Servicer"),), {
                "Export": lambda _, request, context, response=response: (self.keep(request), response())[1],
            })
            getattr(module, f"add_{name}Servicer_to_server")(servicer(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.grpc_server = server
        return port

    def _start_http(self):
        sink = self
        types = {
            "/v1/traces": trace_service_pb2.ExportTraceServiceRequest,
            "/v1/logs": logs_service_pb2.ExportLogsServiceRequest,
            "/v1/metrics": metrics_service_pb2.ExportMetricsServiceRequest,
        }

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                sink.keep(types[self.path].FromString(body))
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port

    def spans(self):
        """Resource attributes, scope name and span of each span that came."""
        with self.lock:
            requests = list(self.requests)
        return [
            (attributes(resource.resource.attributes), scope.scope.name, span)
            for request in requests if hasattr(request, "resource_spans")
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def events(self):
        """Resource attributes, scope name and record of each log record that came."""
        with self.lock:
            requests = list(self.requests)
        return [
            (attributes(resource.resource.attributes), scope.scope.name, record)
            for request in requests if hasattr(request, "resource_logs")
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    def metric_names(self):
        """Names of all metrics that came."""
        with self.lock:
            requests = list(self.requests)
        return {
            metric.name
            for request in requests if hasattr(request, "resource_metrics")
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def attributes(pairs):
    """Attributes as a dictionary of (kind of value, value)."""
    return {
        pair.key: (kind := pair.value.WhichOneof("value"), getattr(pair.value, kind) if kind else None)
        for pair in pairs
    }
