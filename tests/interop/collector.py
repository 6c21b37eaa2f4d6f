#!/usr/bin/env python3
"""The OpenTelemetry Collector in front of spanscore, and the Collector as its backend.

    collector.py PATH-TO-SPANSCORE PATH-TO-COLLECTOR

The Collector is built of `tests/kafka/collector.yaml`. One sample goes through it over gRPC, another over HTTP; the
scores come back to it by both exporters, in all forms, and it passes on what it took as JSON, to be read here. Exits 1
where something is missing.
"""

import http.server
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

COLLECTOR = """
receivers:
  otlp/grpc: {{protocols: {{http: {{endpoint: "127.0.0.1:{to_grpc}"}}}}}}
  otlp/http: {{protocols: {{http: {{endpoint: "127.0.0.1:{to_http}"}}}}}}
  otlp/back: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{back_grpc}"}}, http: {{endpoint: "127.0.0.1:{back_http}"}}}}}}
exporters:
  otlp_grpc: {{endpoint: "127.0.0.1:{grpc}", tls: {{insecure: true}}}}
  otlp_http: {{endpoint: "http://127.0.0.1:{http}"}}
  otlp_http/taken: {{endpoint: "http://127.0.0.1:{taken}", encoding: json, compression: none}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces/grpc: {{receivers: [otlp/grpc], exporters: [otlp_grpc]}}
    traces/http: {{receivers: [otlp/http], exporters: [otlp_http]}}
    traces/back: {{receivers: [otlp/back], exporters: [otlp_http/taken]}}
    logs/back: {{receivers: [otlp/back], exporters: [otlp_http/taken]}}
    metrics/back: {{receivers: [otlp/back], exporters: [otlp_http/taken]}}
"""
SPANSCORE = """
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{grpc}"}}, http: {{endpoint: "127.0.0.1:{http}"}}}}}}}}
traces: {{quiet_period: 1s}}
exporters:
  otlp_grpc: {{endpoint: "http://127.0.0.1:{back_grpc}", forms: [event, span, metric]}}
  otlp_http: {{endpoint: "http://127.0.0.1:{back_http}", forms: [event, span, metric]}}
telemetry: {{metrics: {{endpoint: null}}, health: {{endpoint: null}}}}
store: false
dashboard: false
"""
# Of each transport to spanscore, and of each exporter: `tool_error` and `tool_efficiency` of the sample.
WANTED = sorted([("tool_efficiency", "fail", 0.6), ("tool_error", "fail", 0.8)] * 4)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def listens(port):
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def wait_for(what, look, seconds=60):
    """What `look` gives, once it gives something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.1)
    sys.exit(f"FAIL: {what} did not come within {seconds} s")


def leaves(value, name):
    """Lists of that name, anywhere in a request, one after the other."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from inner if key == name else leaves(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, name)


def scores(items):
    """Evaluator, label and score of events or spans."""
    found = []
    for item in items:
        values = {it["key"]: next(iter(it["value"].values())) for it in item["attributes"]}
        label = values.get("gen_ai.evaluation.score.label")
        found.append((values.get("gen_ai.evaluation.name"), label, values.get("gen_ai.evaluation.score.value")))
    return sorted(found)


class Taken(http.server.BaseHTTPRequestHandler):
    """Receiver of what the Collector passes on, in JSON."""

    requests = []

    def do_POST(self):
        self.requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass

    @classmethod
    def items(cls, name):
        return list(leaves(list(cls.requests), name))


def check(binary, ports):
    for to in ("to_grpc", "to_http"):
        endpoint = f"http://127.0.0.1:{ports[to]}"
        sent = subprocess.run([binary, "send", "--sample", "--fresh-ids", "--endpoint", endpoint], capture_output=True, text=True)
        if sent.returncode:
            sys.exit(f"FAIL: {sent.stderr}")
    good = True
    for name in ("logRecords", "spans"):
        wait_for(f"{len(WANTED)} {name}", lambda: len(Taken.items(name)) >= len(WANTED))
        found = scores(Taken.items(name))
        print(f"{name}: {len(found)}", *(sorted(set(found)) if found == WANTED else found))
        good &= found == WANTED
    wanted = {"spanscore.evaluation.count", "spanscore.evaluation.score"}
    wait_for("metrics", lambda: {it["name"] for it in Taken.items("metrics")} & wanted == wanted and wanted)
    print("metrics:", *sorted(wanted))
    return good


def modules(collector):
    """Modules of a program that Go built; nothing where Go is not installed."""
    try:
        return subprocess.run(["go", "version", "-m", collector], capture_output=True, text=True).stdout.replace("\t", " ")
    except FileNotFoundError:
        return ""


def main():
    binary, collector = (os.path.abspath(path) for path in sys.argv[1:3])
    print("collector", *re.findall(r"otlpexporter (v\S+)", modules(collector)))
    names = ("to_grpc", "to_http", "back_grpc", "back_http", "grpc", "http")
    ports = {name: free_port() for name in names}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Taken)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ports["taken"] = server.server_port
    with tempfile.TemporaryDirectory() as folder:
        log = open(os.path.join(folder, "log"), "w+")
        started, good = [], False
        try:
            for program, text, ready in ((collector, COLLECTOR, "back_http"), (binary, SPANSCORE, "http")):
                config = os.path.join(folder, os.path.basename(program) + ".yaml")
                with open(config, "w") as out:
                    out.write(text.format(**ports))
                started.append(subprocess.Popen([program, "--config", config], stdout=log, stderr=log))
                wait_for(program, lambda: listens(ports[ready]))
            good = check(binary, ports)
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()
            if not good:
                log.seek(0)
                print(log.read()[-4000:])
    print("ok" if good else "FAIL")
    sys.exit(0 if good else 1)


main()
