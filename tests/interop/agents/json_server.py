"""A server on the loopback address that answers each POST in JSON."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def serve(answer):
    """Starts it; `answer(path, headers, asked)` returns status and value. Returns the address."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, value = answer(self.path, self.headers, asked)
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
