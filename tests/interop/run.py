#!/usr/bin/env python3
"""Runs real SDKs and agent frameworks against a spanscore binary, and reads the scores at an
independent OTLP receiver. What the SDKs sent must reach a backend behind spanscore byte by byte,
through a restart of either.

    run.py PATH-TO-SPANSCORE

Prints a line for each check and ends with `N passed, N failed`; exits 1 if any failed.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from recorder import Recorder
from sink import Sink, attributes

HERE = os.path.dirname(os.path.abspath(__file__))
EVALUATORS = {
    "tool_error", "tool_efficiency", "tool_call_order/story", "tool_call_count/story",
    "tool_call_args/refund", "tool_call_output/refund",
}
PYTHON = sys.executable
# OpenLIT wants older clients than the others.
OPENLIT_PYTHON = os.path.join(HERE, "..", "..", "target", "interop-openlit", "bin", "python")
GZIP = {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}
EVENTS = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
AGENTS = [
    # name, program, protocol of its exporter, further environment
    ("sdk-grpc", [PYTHON, "otel_sdk.py"], "grpc", {}),
    ("sdk-http-gzip", [PYTHON, "otel_sdk.py"], "http/protobuf", GZIP),
    ("sdk-go", ["go", "run", "-C", "go/", "."], "grpc", {}),
    ("langchain", [PYTHON, "langchain_agent.py"], "grpc", {}),
    ("langgraph-parallel", [PYTHON, "langgraph_parallel_agent.py"], "grpc", {}),
    ("pydantic-ai", [PYTHON, "pydantic_agent.py"], "http/protobuf", GZIP),
    ("openai-agents", [PYTHON, "openai_agent.py"], "grpc", GZIP),
    ("openai-events", [PYTHON, "openai_events_agent.py"], "http/protobuf", EVENTS),
    ("anthropic", [PYTHON, "anthropic_agent.py"], "http/protobuf", {}),
    ("openlit", [OPENLIT_PYTHON, "openlit_agent.py"], "http/protobuf", {}),
    ("vercel-ai", ["node", "vercel/agent.mjs"], "http/protobuf", {}),
    ("langchain-js", ["node", "langchainjs/agent.mjs"], "http/protobuf", {}),
]
passed, failed = 0, 0


def check(what, good, found=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok  " if good else "FAIL", what, "" if good else found, flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def run_agent(name, program, protocol, extra, ports):
    agents = os.path.join(HERE, "agents")
    is_ours = lambda part: part.endswith((".py", ".mjs", "/")) and part[0] != "/"
    command = [os.path.join(agents, part) if is_ours(part) else part for part in program]
    port = ports["grpc"] if protocol == "grpc" else ports["http"]
    environment = dict(
        os.environ, OTEL_SERVICE_NAME=name, OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}", **extra,
    )
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    check(f"{name}: the agent ran", ended.returncode == 0, ended.stderr[-1000:])


def service(resource):
    return resource.get("service.name", (None, None))[1]


def check_events(sink, name):
    mine = lambda: [(scope, record) for resource, scope, record in sink.events() if service(resource) == name]
    # Each event comes twice: over gRPC and over HTTP.
    check(f"{name}: every score arrived over both transports",
          wait_for(lambda: len(mine()) >= 2 * len(EVALUATORS)), f"{len(mine())} events")
    found = {}
    for scope, record in mine():
        values = attributes(record.attributes)
        evaluator = values["gen_ai.evaluation.name"]
        found[evaluator[1]] = values.get("gen_ai.evaluation.score.value")
        shape = (
            record.event_name == "gen_ai.evaluation.result" and scope == "spanscore"
            and len(record.trace_id) == 16 and len(record.span_id) == 8
            and evaluator[0] == "string_value"
            and values["gen_ai.evaluation.score.value"][0] == "double_value"
            and values["gen_ai.evaluation.score.label"][0] == "string_value"
            and values["gen_ai.evaluation.explanation"][0] == "string_value"
        )
        if not shape:
            check(f"{name}: {evaluator} has the form of the conventions", False, str(record))
    check(f"{name}: the configured evaluators judged it, the others did not", set(found) == EVALUATORS, str(found))
    for evaluator in sorted(EVALUATORS & set(found)):
        check(f"{name}: {evaluator} is 1.0", found[evaluator] == ("double_value", 1.0), str(found[evaluator]))


def check_spans(sink, name):
    # Spans leave in requests of their own, which may come after those of the events.
    mine = lambda: [span for resource, _, span in sink.spans() if service(resource) == name]
    wait_for(lambda: len(mine()) >= len(EVALUATORS))
    events = {(r.trace_id, r.span_id) for resource, _, r in sink.events() if service(resource) == name}
    spans = mine()
    names = {span.name for span in spans}
    check(f"{name}: each score is a span", names == {f"evaluate {e}" for e in EVALUATORS}, str(names))
    parents = {(span.trace_id, span.parent_span_id) for span in spans}
    check(f"{name}: score spans are children of the judged span", parents == events, f"{parents} {events}")
    kinds = {attributes(span.attributes).get("openinference.span.kind") for span in spans}
    check(f"{name}: score spans are evaluators", kinds == {("string_value", "EVALUATOR")}, str(kinds))


def check_forwarded(tap, backend):
    sent = tap.all()
    check("the SDKs sent over both transports", all(tap.bodies.values()), str(len(sent)))
    for transport, bodies in backend.bodies.items():
        missing, invented = sent - bodies, bodies - sent
        check(f"what the SDKs sent reached the {transport} backend byte by byte, {sum(sent.values())} requests",
              bodies == sent, f"{sum(missing.values())} missing, {sum(invented.values())} not sent")


class Collector:
    """The program, which goes on where it was after a restart."""

    def __init__(self, binary, environment, ports, log):
        self.command = [binary, "serve", "--config", os.path.join(HERE, "config.yaml")]
        self.environment, self.ports, self.log = environment, ports, log
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.command, env=self.environment, stdout=self.log, stderr=subprocess.STDOUT)
        up = wait_for(lambda: all(listens(port) for port in self.ports.values()), 10)
        check("the collector listens", up)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        check("the collector ends with 0 on SIGTERM", code == 0, str(code))


def main():
    binary, sink = os.path.abspath(sys.argv[1]), Sink()
    ports = {"grpc": free_port(), "http": free_port()}
    tap, backend = Recorder(ports), Recorder()
    environment = dict(
        os.environ, INTEROP_GRPC_PORT=str(ports["grpc"]), INTEROP_HTTP_PORT=str(ports["http"]),
        INTEROP_SINK_GRPC_PORT=str(sink.grpc_port), INTEROP_SINK_HTTP_PORT=str(sink.http_port),
        INTEROP_BACKEND_GRPC_PORT=str(backend.grpc_port), INTEROP_BACKEND_HTTP_PORT=str(backend.http_port),
    )
    with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as data:
        collector = Collector(binary, dict(environment, INTEROP_DATA=data), ports, log)
        try:
            run = lambda agents: [run_agent(*agent, tap_ports) for agent in agents]
            tap_ports = {"grpc": tap.grpc_port, "http": tap.http_port}
            third = len(AGENTS) // 3
            run(AGENTS[:third])
            collector.stop()
            collector.start()
            backend.stop()
            run(AGENTS[third:2 * third])
            backend.start()
            run(AGENTS[2 * third:])
            for agent in AGENTS:
                check_events(sink, agent[0])
                check_spans(sink, agent[0])
            wait_for(lambda: all(bodies == tap.all() for bodies in backend.bodies.values()))
        finally:
            collector.stop()
        check_forwarded(tap, backend)
        wanted = {"spanscore.evaluation.score", "spanscore.evaluation.count"}
        check("score metrics arrived", wanted <= sink.metric_names(), str(sink.metric_names()))
        if failed:
            log.seek(0)
            print(log.read().decode(errors="replace")[-4000:])
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
