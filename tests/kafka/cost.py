#!/usr/bin/env python3
"""Processor time of the gateway and of a scorer behind Kafka, beside OTLP/gRPC and the Collector.

    tests/kafka/cost.py BINARY PIPELINE [COLLECTOR] [--seconds 3] [--rounds 3] [--compression lz4 none]

BINARY is built with `--release --features kafka`, PIPELINE is the pipeline's benchmark, which sends the load (`cargo bench
--bench pipeline --no-run` names it), COLLECTOR is built of `tests/kafka/collector.yaml`. The broker is `kfake`. What the
gateway took over gRPC, 252 spans a request, is what the scorer and the Collector then read, 12 spans a record; of both
what they take to start and to read an empty topic is left out. Prints processor seconds of a million spans, each round
and the median.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from gateway import Brokers, Process, RUNNING, build_kfake, free_port, until

COUNT = {"criteria": {"tool_calls_count": {"find_order": ["<=", 2]}}}
ORDER = {"criteria": {"tool_calls_order": ["find_order", "refund_order"]}}
EVALUATORS = {"tool_call_count": COUNT, "tool_call_order": ORDER}
COLLECTOR = """
receivers:
  otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{grpc}"}}}}}}
  kafka: {{brokers: ["{brokers}"], group_id: collector-{topic}, initial_offset: earliest, traces: {{topics: [{topic}]}}}}
exporters:
  nop:
  kafka: {{brokers: ["{brokers}"], traces: {{topic: others}}, partition_traces_by_id: true}}
service:
  telemetry: {{metrics: {{readers: [{{pull: {{exporter: {{prometheus: {{host: 127.0.0.1, port: {metrics}}}}}}}}}]}}}}
  pipelines: {{traces: {{receivers: [{receiver}], exporters: [{exporter}]}}}}
"""
# Seconds without work after which a process has read everything.
IDLE = 2.0


def seconds_of(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(pipeline, port, process, seconds):
    """Sends to a port; returns the processor seconds of a million spans."""
    words = [pipeline, "load", "grpc", f"127.0.0.1:{port}", str(process.pid), "0.5", str(seconds)]
    spent, spans, *_ = map(float, subprocess.run(words, check=True, capture_output=True, text=True).stdout.split())
    return spent / spans * 1e6


def scorer(binary, **config):
    return Process(binary, "serve", {"store": False, "dashboard": False, "exporters": {}, "evaluators": EVALUATORS, **config})


def until_idle(process):
    """Waits until a process has nothing to do any more; returns its processor seconds."""
    spent, since = seconds_of(process), time.monotonic()
    while time.monotonic() - since < IDLE:
        time.sleep(0.1)
        now = seconds_of(process)
        if now > spent + 0.02:
            spent, since = now, time.monotonic()
    return spent


class Collector:
    """A Collector with one pipeline."""

    def __init__(self, program, brokers, receiver, exporter, topic="spans"):
        self.grpc, self.metrics = free_port(), free_port()
        text = COLLECTOR.format(grpc=self.grpc, metrics=self.metrics, brokers=brokers.address(), topic=topic,
                                receiver=receiver, exporter=exporter)
        self.config = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        self.config.write(text)
        self.config.flush()
        self.process = subprocess.Popen([program, "--config", self.config.name], stderr=subprocess.DEVNULL)
        RUNNING.append(self.process)
        time.sleep(2)

    def spans(self):
        page = urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=5).read().decode()
        return sum(float(line.split()[-1]) for line in page.splitlines()
                   if line.startswith("otelcol_receiver_accepted_spans"))

    def stop(self):
        self.process.kill()
        self.process.wait()


def round_of(arguments, kfake):
    topics = {compression: f"spans-{compression}" for compression in arguments.compression}
    brokers = Brokers(kfake, [*(f"{topic}:12" for topic in topics.values()), "others:12", "empty:12"])
    brokers.start()
    found, port = {}, free_port()
    direct = scorer(arguments.binary, grpc=f"127.0.0.1:{port}")
    found["scorer, OTLP/gRPC"] = load(arguments.pipeline, port, direct.process, arguments.seconds)
    direct.process.kill()
    idle = scorer(arguments.binary, kafka=receiver(brokers, "empty"))
    idle_seconds = until_idle(idle.process)
    idle.process.kill()
    for compression, topic in topics.items():
        spans = fill(arguments, brokers, topic, compression, found)
        behind = scorer(arguments.binary, kafka=receiver(brokers, topic))
        taken = lambda: behind.metric("spanscore_receiver_accepted_spans_total")
        until(taken, "the scorer reads")
        spent = until_idle(behind.process) - idle_seconds
        read = taken()
        found[f"scorer, Kafka, {compression}"] = spent / read * 1e6
        # Calls that the load broke off at its end were written too, and not counted as taken.
        assert read >= spans > 0, f"{read} of {spans} spans were read"
        behind.process.kill()
        if arguments.collector:
            collector_reads(arguments, brokers, topic, read, found, compression)
    if arguments.collector:
        taker = Collector(arguments.collector, brokers, "otlp", "kafka")
        found["Collector, OTLP/gRPC to Kafka"] = load(arguments.pipeline, taker.grpc, taker.process, arguments.seconds)
        taker.stop()
    brokers.stop()
    return found


def receiver(brokers, topic):
    return {"brokers": [brokers.address()], "traces": {"topics": [topic]}, "logs": {"topics": []},
            "initial_offset": "earliest", "group_id": topic}


def fill(arguments, brokers, topic, compression, found):
    """Writes a topic through a gateway; returns the spans that it took."""
    port = free_port()
    kafka = {"brokers": [brokers.address()], "topic": topic, "producer": {"compression": compression}}
    gateway = Process(arguments.binary, "gateway", {"kafka": kafka, "grpc": f"127.0.0.1:{port}"})
    until(gateway.is_ready, "the gateway is ready")
    found[f"gateway, {compression}"] = load(arguments.pipeline, port, gateway.process, arguments.seconds)
    spans = gateway.metric("spanscore_receiver_accepted_spans_total")
    gateway.stop()
    return spans


def collector_reads(arguments, brokers, topic, read, found, compression):
    idle = Collector(arguments.collector, brokers, "kafka", "nop", "empty")
    idle_seconds = until_idle(idle.process)
    idle.stop()
    reader = Collector(arguments.collector, brokers, "kafka", "nop", topic)
    until(reader.spans, "the Collector reads")
    spent = until_idle(reader.process) - idle_seconds
    found[f"Collector, Kafka to nothing, {compression}"] = spent / read * 1e6
    assert reader.spans() == read, f"the Collector read {reader.spans()} of {read} spans"
    reader.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("pipeline")
    parser.add_argument("collector", nargs="?")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compression", nargs="+", default=["lz4", "none"], help="of the records")
    arguments = parser.parse_args()
    kfake = build_kfake()
    rounds = []
    for _ in range(arguments.rounds):
        rounds.append(round_of(arguments, kfake))
        print(json.dumps({name: round(value, 2) for name, value in rounds[-1].items()}), flush=True)
    for name in rounds[0]:
        values = [one[name] for one in rounds]
        print(f"{name:34} {statistics.median(values):6.2f} ({min(values):.2f} to {max(values):.2f})")


main()
