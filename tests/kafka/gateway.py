#!/usr/bin/env python3
"""The gateway and the `kafka` exporter against brokers in memory.

    tests/kafka/gateway.py target/debug/spanscore

The binary must be built with `--features kafka`; Go builds the brokers (`tests/kafka/kfake`).
"""

import atexit
import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Longest wait for anything that must come.
SOON = 60


def build_kfake():
    program = Path(os.environ.get("KFAKE", HERE / "../../target/kfake")).resolve()
    if "KFAKE" not in os.environ:
        subprocess.run(["go", "build", "-o", program, "."], cwd=HERE / "kfake", check=True)
    return program


# What still runs when the test ends, however it ends.
RUNNING = []
atexit.register(lambda: [process.kill() for process in RUNNING if process.poll() is None])


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(condition, what):
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise SystemExit(f"not within {SOON} s: {what}")


class Brokers:
    """One broker at a fixed port, which can be stopped and started again, then empty."""

    def __init__(self, program, topics, *options):
        self.program, self.topics, self.port = program, topics, free_port()
        self.options = options
        self.process = None

    def start(self):
        topics = [part for topic in self.topics for part in ("--topic", topic)]
        self.process = subprocess.Popen(
            [self.program, "serve", "--port", str(self.port), *topics, *self.options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        RUNNING.append(self.process)
        assert self.process.stdout.readline().strip() == self.address()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def address(self):
        return f"127.0.0.1:{self.port}"

    def read(self, topic, count):
        """The first records of a topic, their values as bytes."""
        command = [self.program, "read", "--brokers", self.address(), "--topic", topic,
                   "--count", str(count), "--within", f"{SOON}s"]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        records = [json.loads(line) for line in lines]
        return [{**record, "value": base64.b64decode(record["value"])} for record in records]


class Process:
    """A `spanscore` with a config of its own."""

    def __init__(self, program, command, config):
        self.http, self.health, self.metrics = free_port(), free_port(), free_port()
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "config.json"
        config = {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{self.http}"}}}},
            "telemetry": {
                "health": {"endpoint": f"127.0.0.1:{self.health}"},
                "metrics": {"endpoint": f"127.0.0.1:{self.metrics}"},
            },
            **config,
        }
        if "grpc" in config:
            config["receivers"]["otlp"]["protocols"]["grpc"] = {"endpoint": config.pop("grpc")}
        if "auth" in config:
            config["receivers"]["otlp"]["auth"] = config.pop("auth")
        if "kafka" in config and command == "serve":
            config["receivers"]["kafka"] = config.pop("kafka")
        path.write_text(json.dumps(config))
        self.log = open(Path(self.folder.name) / "log", "w+")
        self.process = subprocess.Popen(
            [program, command, "--config", path], stdout=self.log, stderr=self.log
        )
        RUNNING.append(self.process)
        until(self.listens, f"{command} listens: {self.text()}")

    def listens(self):
        if self.process.poll() is not None:
            raise SystemExit(f"it has ended: {self.text()}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.http)) == 0

    def text(self):
        return Path(self.log.name).read_text()

    def get(self, path):
        port = self.metrics if path == "metrics" else self.health
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            if self.process.poll() is not None:
                raise SystemExit(f"it has ended: {self.text()}")
            return 0, str(error)

    def is_ready(self):
        return self.get("readyz")[0] == 200

    def post(self, what, body, token=None):
        headers = {"content-type": "application/json"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        url = f"http://127.0.0.1:{self.http}/v1/{what}"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=SOON) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, error.headers.get("retry-after")

    def metric(self, name, **labels):
        """The sum of a metric over all series with these labels."""
        total = 0.0
        for line in self.get("metrics")[1].splitlines():
            found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if found and found[1] == name:
                if all(f'{key}="{value}"' in (found[2] or "") for key, value in labels.items()):
                    total += float(found[3])
        return total

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(SOON)
        self.log.close()
        self.folder.cleanup()
        return code


def spans(*items, name="s"):
    """Spans of these traces, every second one of another resource."""
    def span(place, trace):
        return {"traceId": trace * 16, "spanId": f"{place + 1:016x}", "name": name,
                "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    groups = [[], []]
    for place, trace in enumerate(items):
        groups[place % 2].append(span(place, trace))
    return {"resourceSpans": [
        {"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": f"s{place}"}}]},
         "scopeSpans": [{"spans": group}]}
        for place, group in enumerate(groups) if group
    ]}


def check(what, found, expected):
    if found != expected:
        raise SystemExit(f"{what}: {found!r}, expected {expected!r}")
    print(f"ok: {what}")


def keys(records):
    return sorted(record["key"] for record in records)


def gateway(program, kfake):
    brokers = Brokers(kfake, ["spans:6"])
    process = Process(program, "gateway", {
        "kafka": {"brokers": [brokers.address()], "topic": "spans", "timeout": "3s"},
    })
    until(lambda: process.post("traces", spans("aa"))[0] == 503, "a refusal without brokers")
    began = time.monotonic()
    answers = {process.post("traces", spans("aa")) for _ in range(20)}
    check("without brokers senders are told to come again", answers, {(503, "1")})
    if time.monotonic() - began > 5:
        raise SystemExit("twenty refusals took longer than five seconds")
    check("it is not ready without brokers", process.is_ready(), False)

    brokers.start()
    until(process.is_ready, "readiness with brokers")
    check("a request is taken", process.post("traces", spans("aa", "bb", "aa", "cc")), (200, {}))
    records = brokers.read("spans", 3)
    check("each trace is one record", keys(records), ["aa" * 16, "bb" * 16, "cc" * 16])
    for record in records:
        ids = {trace for trace in ("aa", "bb", "cc") if bytes.fromhex(trace * 16) in record["value"]}
        check("a record holds one trace", ids, {record["key"][:2]})
        check("a record has its signal", record["headers"], {"spanscore-signal": "traces"})

    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [
        {"traceId": "aa" * 16, "body": {"stringValue": "with"}}, {"body": {"stringValue": "without"}},
    ]}]}]}
    check("log records are taken", process.post("logs", logs), (200, {}))
    records = brokers.read("spans", 4)
    of_logs = [it for it in records if it["headers"] == {"spanscore-signal": "logs"}]
    check("only those of a trace are written", keys(of_logs), ["aa" * 16])
    of_trace = {it["partition"] for it in records if it["key"] == "aa" * 16}
    check("both signals of a trace meet in one partition", len(of_trace), 1)
    skipped = process.metric("spanscore_gateway_skipped_items_total", reason="log_without_trace_id")
    check("the others are counted", skipped, 1)

    status, answer = process.post("traces", spans(*["dd"] * 20, name="n" * 100_000))
    check("a large trace is taken", (status, answer), (200, {}))
    records = [it for it in brokers.read("spans", 7) if it["key"] == "dd" * 16]
    check("it is split by size", (len(records), max(len(it["value"]) for it in records) <= 1_000_000),
          (3, True))
    status, answer = process.post("traces", spans("ee", name="n" * 1_500_000))
    check("a span beyond the limit is told", (status, answer["partialSuccess"]["rejectedSpans"]), (200, "1"))
    check("and counted", process.metric("spanscore_gateway_rejected_items_total", reason="too_large"), 1)
    items = process.metric("spanscore_gateway_items_total", signal="traces")
    check("spans that were written are counted", items, 24)

    brokers.stop()
    until(lambda: not process.is_ready(), "no readiness without brokers")
    check("without brokers senders are refused again", process.post("traces", spans("aa"))[0], 503)
    brokers.start()
    until(process.is_ready, "readiness with brokers again")
    check("a request is taken again", process.post("traces", spans("ff")), (200, {}))
    check("it ends in order", process.stop(), 0)
    brokers.stop()


def groups(program, kfake):
    brokers = Brokers(kfake, ["spans:6"])
    brokers.start()
    process = Process(program, "gateway", {
        "kafka": {"brokers": [brokers.address()], "topic": "spans"},
        "auth": {"clients": {"one": {"token": "token-one"}, "two": {"token": "token-two"}}},
    })
    until(process.is_ready, "readiness")
    check("a stranger is refused", process.post("traces", spans("aa"))[0], 401)
    for token in ("token-one", "token-two"):
        check("a client is let in", process.post("traces", spans("aa"), token), (200, {}))
    headers = {record["headers"].get("spanscore-group") for record in brokers.read("spans", 2)}
    is_hex = all(re.fullmatch("[0-9a-f]{16}", header or "") for header in headers)
    check("records of clients carry their groups", (len(headers), is_hex), (2, True))
    process.stop()
    brokers.stop()


def sign_in(program, kfake):
    """TLS with an authority of its own, and each mechanism that the brokers in memory have."""
    tls = HERE.parent / "fixtures/tls"
    certificate = ["--cert", tls / "server.pem", "--key", tls / "server.key"]
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        brokers = Brokers(kfake, ["spans:2"], *certificate, "--sasl", f"{mechanism}:user:secret")
        brokers.start()
        for password, is_right in (("secret", True), ("wrong", False)):
            sasl = {"mechanism": mechanism, "username": "user", "password": password}
            process = Process(program, "gateway", {"kafka": {
                "brokers": [brokers.address()], "topic": "spans", "timeout": "3s",
                "tls": {"ca_file": str(tls / "ca.pem")}, "auth": {"sasl": sasl},
            }})
            if is_right:
                until(process.is_ready, f"readiness by {mechanism}: {process.text()}")
                check(f"{mechanism} over TLS signs in", process.post("traces", spans("aa")), (200, {}))
            else:
                until(lambda: process.post("traces", spans("aa"))[0] == 503, "a refusal")
                check(f"{mechanism} with a wrong password does not", process.is_ready(), False)
            process.stop()
        brokers.stop()


def exporter(program, kfake):
    brokers = Brokers(kfake, ["verdicts:4", "records:4"])
    process = Process(program, "serve", {
        "evaluators": {"tool_error": None, "tool_efficiency": None},
        "exporters": {
            "kafka/otlp": {"brokers": [brokers.address()], "topic": "verdicts"},
            "kafka/json": {"brokers": [brokers.address()], "topic": "records", "encoding": "json",
                           "content": "full"},
        },
        "traces": {"quiet_period": "100ms"},
        "store": False,
    })
    # While the brokers are away, the queue holds what there is.
    send = [program, "send", "--sample", "--endpoint", f"http://127.0.0.1:{process.http}"]
    subprocess.run(send, check=True, capture_output=True)
    held = lambda: process.metric("spanscore_exporter_queued_evaluations", exporter="kafka/json")
    count = int(until(held, "evaluations in the queue"))
    brokers.start()
    records = brokers.read("records", count)
    for record in records:
        written = json.loads(record["value"])
        check("a record's key is its trace", record["key"], written["trace_id"])
    verdicts = brokers.read("verdicts", len(set(keys(records))))
    check("OTLP has one message for each trace", keys(verdicts), sorted(set(keys(records))))
    for record in verdicts:
        is_event = b"gen_ai.evaluation.result" in record["value"]
        check("it holds events of the trace", is_event and bytes.fromhex(record["key"]) in record["value"], True)
    for name in ("kafka/otlp", "kafka/json"):
        sent = lambda: process.metric("spanscore_exporter_sent_evaluations_total", exporter=name) == count
        until(sent, f"all evaluations of {name} counted as sent")
    check("it ends in order", process.stop(), 0)
    brokers.stop()


def foreign_metadata(program, kfake):
    """A position of the group that another program committed, with metadata that is no text."""
    brokers = Brokers(kfake, ["spans:1"])
    brokers.start()
    subprocess.run([kfake, "commit", "--brokers", brokers.address(), "--topic", "spans"], check=True)
    writer = Process(program, "gateway", {"kafka": {"brokers": [brokers.address()], "topic": "spans"}})
    until(writer.is_ready, "readiness")
    check("a request is taken", writer.post("traces", spans("aa")), (200, {}))
    process = Process(program, "serve", {
        "kafka": {"brokers": [brokers.address()], "traces": {"topics": ["spans"]},
                  "logs": {"topics": []}},
        "evaluators": {"tool_error": None}, "store": False,
    })
    read = lambda: process.metric("spanscore_receiver_kafka_records_total") == 1
    until(read, f"the record is read: {process.text()}")
    found = process.metric("spanscore_receiver_kafka_foreign_metadata_total")
    check("metadata of others is counted", found, 1)
    check("it ends in order", (process.stop(), writer.stop()), (0, 0))
    brokers.stop()


def main():
    program = Path(sys.argv[1]).resolve()
    kfake = build_kfake()
    for test in (gateway, groups, sign_in, exporter, foreign_metadata):
        print(f"== {test.__name__}")
        test(program, kfake)


if __name__ == "__main__":
    main()
