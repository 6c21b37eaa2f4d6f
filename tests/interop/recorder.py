"""An OTLP endpoint that decodes nothing: it keeps the bytes of each request, and may pass it on."""

import collections
import gzip
import threading
import urllib.error
import urllib.request
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc

METHODS = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "/v1/traces",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": "/v1/logs",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": "/v1/metrics",
}


class Recorder:
    """Listens on two free ports of the loopback. With `target`, ports by `grpc` and `http`, each
    request goes there over the same transport, and its answer comes back."""

    def __init__(self, target=None):
        self.target = target
        self.lock = threading.Lock()
        self.bodies = {"grpc": collections.Counter(), "http": collections.Counter()}
        self.grpc_port = self.http_port = 0
        self.start()

    def start(self):
        """Listens, after `stop` where it listened before."""
        self.grpc_port = self._start_grpc()
        self.http_port = self._start_http()

    def stop(self):
        """Ends both servers: nobody listens any more."""
        self.grpc_server.stop(0).wait()
        self.http_server.shutdown()
        self.http_server.server_close()

    def keep(self, transport, path, body):
        with self.lock:
            self.bodies[transport][path, body] += 1

    def all(self):
        """Every body that came, over either transport, with how often it did."""
        with self.lock:
            return self.bodies["grpc"] + self.bodies["http"]

    def _start_grpc(self):
        recorder = self
        channel = grpc.insecure_channel(f"127.0.0.1:{self.target['grpc']}") if self.target else None

        class Handler(grpc.GenericRpcHandler):
            def service(self, details):
                path = METHODS.get(details.method)

                def export(request, context):
                    recorder.keep("grpc", path, request)
                    if channel is None:
                        return b""
                    try:
                        return channel.unary_unary(details.method)(request, timeout=10)
                    except grpc.RpcError as error:
                        context.abort(error.code(), error.details())

                return grpc.unary_unary_rpc_method_handler(export) if path else None

        server = grpc.server(futures.ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers((Handler(),))
        port = server.add_insecure_port(f"127.0.0.1:{self.grpc_port}")
        server.start()
        self.grpc_server = server
        return port

    def _start_http(self):
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.read_body()
                is_packed = self.headers.get("content-encoding") == "gzip"
                recorder.keep("http", self.path, gzip.decompress(body) if is_packed else body)
                status, answer = recorder.pass_on(self.path, self.headers, body)
                self.send_response(status)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def read_body(self):
                if self.headers.get("transfer-encoding") != "chunked":
                    return self.rfile.read(int(self.headers["content-length"]))
                body = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", self.http_port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.http_server = server
        return server.server_port

    def pass_on(self, path, headers, body):
        if not self.target:
            return 200, b""
        names = ("content-type", "content-encoding")
        kept = {name: headers[name] for name in names if headers.get(name)}
        url = f"http://127.0.0.1:{self.target['http']}{path}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, kept), timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
