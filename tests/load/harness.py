"""A running collector and what is sent to it: OTLP by hand, an ordinary sender, probes.

Loopback only, standard library only. SPANSCORE_BIN names the binary (default: a release build).
"""

import collections
import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SPANSCORE_BIN", str(ROOT / "target/release/spanscore"))
START = 1_790_000_000_000_000_000
LANGCHAIN = "openinference.instrumentation.langchain"


# Protobuf: varints, fields, attributes.
def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fixed(number, value):
    return varint(number << 3 | 1) + struct.pack("<Q", value)


def attribute(key, value):
    return field(1, key) + field(2, field(1, value))


def span(trace, own, parent, name, attributes, start=START, end=START + 10**6):
    body = field(1, trace) + field(2, own)
    if parent:
        body += field(4, parent)
    body += field(5, name) + fixed(7, start) + fixed(8, end)
    return body + b"".join(field(9, attribute(k, v)) for k, v in attributes.items())


def request(spans, service="svc", resource=()):
    attributes = [("service.name", service), *resource]
    resource = field(1, b"".join(field(1, attribute(k, v)) for k, v in attributes))
    scope = field(1, field(1, LANGCHAIN))
    return field(1, resource + field(2, scope + b"".join(field(2, s) for s in spans)))


def agent(trace, own, **attributes):
    kind = {"openinference.span.kind": "AGENT", "input.value": "hi", "output.value": "done"}
    return span(trace, own, None, "agent", kind | attributes, end=START + 10**9)


def tool(trace, parent, name, arguments='{"a": 1}', result="ok", number=0):
    kind = {"openinference.span.kind": "TOOL", "tool.name": name, "input.value": arguments,
            "input.mime_type": "application/json", "output.value": result}
    return span(trace, os.urandom(8), parent, name, kind, START + 1 + number, START + 2 + number)


def ordinary(calls=2):
    trace, root = os.urandom(16), os.urandom(8)
    return request([agent(trace, root)] + [tool(trace, root, f"t{n}", number=n)
                                           for n in range(calls)], "ordinary")


# HTTP/2: frames and headers that are not compressed.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
EXPORT = b"/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


HEADERS = b"".join(literal(*pair) for pair in [
    (b":method", b"POST"), (b":scheme", b"http"), (b":path", EXPORT), (b":authority", b"x"),
    (b"content-type", b"application/grpc"), (b"te", b"trailers")])


def http2(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    connection.sendall(PREFACE + frame(4, 0, 0))
    return connection


def drain(connection):
    connection.setblocking(False)
    try:
        while connection.recv(1 << 20):
            pass
    except OSError:
        pass
    connection.setblocking(True)
    connection.settimeout(5)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Collector:
    """A collector with a config of its own; `config` is YAML without receivers and telemetry."""

    def __init__(self, config, cores=None, is_secure=False):
        self.folder = tempfile.TemporaryDirectory()
        self.tls, listener = None, ""
        if is_secure:
            certificate, key = self.certificate()
            self.tls = ssl.create_default_context(cafile=certificate)
            self.tls.check_hostname = False
            listener = f", tls: {{cert_file: {certificate}, key_file: {key}}}"
        self.grpc, self.http, self.metrics_port, self.health = free_ports(4)
        text = f"""
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: 127.0.0.1:{self.grpc}{listener}}}
      http: {{endpoint: 127.0.0.1:{self.http}{listener}}}
telemetry:
  metrics: {{endpoint: 127.0.0.1:{self.metrics_port}}}
  health: {{endpoint: 127.0.0.1:{self.health}}}
{config}"""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
            file.write(text)
        command = [BINARY, "serve", "--config", file.name]
        if cores:
            command = ["taskset", "-c", cores] + command
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        for _ in range(1200):
            if self.process.poll() is not None:
                self.log.seek(0)
                raise SystemExit(f"the collector ended: {self.log.read()}")
            try:
                self.get(self.health, "/readyz", 1)
                break
            except OSError:
                time.sleep(0.05)

    def certificate(self):
        """A certificate for the loopback address, and its key."""
        certificate, key = (os.path.join(self.folder.name, name) for name in ("tls.crt", "tls.key"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-days", "2",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        return certificate, key

    def open(self, port, protocol="http/1.1"):
        """A connection to a receiver, over TLS where it has that."""
        connection = socket.create_connection(("127.0.0.1", port), 5)
        if self.tls:
            self.tls.set_alpn_protocols([protocol])
            connection = self.tls.wrap_socket(connection)
        return connection

    def http2(self):
        """A connection to the gRPC receiver that has been opened."""
        connection = self.open(self.grpc, "h2")
        connection.sendall(PREFACE + frame(4, 0, 0))
        return connection

    def client(self, timeout):
        """A client of the HTTP receiver."""
        if self.tls:
            return http.client.HTTPSConnection("127.0.0.1", self.http, timeout=timeout, context=self.tls)
        return http.client.HTTPConnection("127.0.0.1", self.http, timeout=timeout)

    def get(self, port, path, timeout=60):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=timeout).read()

    def status(self, key):
        """Mebibytes, such as of VmRSS and VmHWM."""
        with open(f"/proc/{self.process.pid}/status") as lines:
            return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key))

    def forget_peak(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as file:
            file.write("5")

    def metrics(self):
        page = self.get(self.metrics_port, "/metrics").decode()
        rows = (line.rsplit(" ", 1) for line in page.splitlines() if line and line[0] != "#")
        return {key: float(value) for key, value in rows}

    def post(self, body, encoding=None, timeout=30):
        """The status of an answer, or the kind of error."""
        headers = {"content-type": "application/x-protobuf"}
        if encoding:
            headers["content-encoding"] = encoding
        connection = self.client(timeout)
        try:
            connection.request("POST", "/v1/traces", body, headers)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            connection.close()

    def stop(self):
        """The exit code and the last line of the log."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.seek(0)
        lines = self.log.read().strip().splitlines()
        return self.process.returncode, lines[-1] if lines else ""


def what_bit(before, after):
    """Counters of limits that have changed."""
    words = ("refused_requests", "closed_connections", "evicted", "waits", "resets", "goaways",
             "limited_targets", "enqueue_failed", "session_losses", "cut_labels", "rejected")
    changed = {key.removeprefix("spanscore_"): after[key] - before.get(key, 0) for key in after
               if any(word in key for word in words) and after[key] != before.get(key, 0)}
    return {key: int(value) for key, value in changed.items()}


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


class Sender(threading.Thread):
    """Sends ordinary requests over a connection of its own, some each second, until stopped."""

    def __init__(self, collector, rate=20, make=ordinary):
        super().__init__(daemon=True)
        self.collector, self.rate, self.make, self.going = collector, rate, make, True
        self.times, self.latencies, self.codes = [], [], collections.Counter()
        self.start()

    def run(self):
        connection = None
        while self.going:
            began = time.monotonic()
            try:
                if connection is None:
                    connection = self.collector.client(35)
                connection.request("POST", "/v1/traces", self.make(),
                                   {"content-type": "application/x-protobuf"})
                answer = connection.getresponse()
                answer.read()
                retryable = answer.status == 200 or answer.getheader("retry-after")
                self.codes[answer.status if retryable else f"{answer.status} for good"] += 1
            except (OSError, http.client.HTTPException) as error:
                self.codes[type(error).__name__] += 1
                connection = None
            self.times.append(began)
            self.latencies.append(time.monotonic() - began)
            time.sleep(max(0, 1 / self.rate - (time.monotonic() - began)))

    def finish(self):
        self.going = False
        self.join(40)
        return self.latencies, dict(self.codes)


def go_first(is_first=True):
    """Lets the threads of this process run before whoever shares their core, where that is allowed."""
    try:
        policy = os.SCHED_RR if is_first else os.SCHED_OTHER
        os.sched_setscheduler(0, policy, os.sched_param(int(is_first)))
    except PermissionError:
        pass


class Probe(threading.Thread):
    """Asks `/livez` ten times a second, until stopped."""

    def __init__(self, collector):
        super().__init__(daemon=True)
        self.collector, self.going, self.latencies = collector, True, []
        self.start()

    def run(self):
        while self.going:
            began = time.monotonic()
            try:
                self.collector.get(self.collector.health, "/livez", 40)
            except OSError:
                pass
            self.latencies.append(time.monotonic() - began)
            time.sleep(0.1)

    def finish(self):
        self.going = False
        self.join(60)
        return max(self.latencies, default=float("nan"))


def for_seconds(seconds, work, threads=1):
    """Repeats some work on threads; counts what it gives."""
    end, counts, lock = time.monotonic() + seconds, collections.Counter(), threading.Lock()

    def run():
        while time.monotonic() < end:
            given = work()
            with lock:
                counts[given] += 1

    running = [threading.Thread(target=run) for _ in range(threads)]
    for one in running:
        one.start()
    for one in running:
        one.join()
    return dict(counts)


def compact(value):
    return json.dumps(value, separators=(",", ":"))
