"""A fleet of scorers on a real Kafka, what is sent to it, and what it said."""

import json
import random
import re
import signal
import subprocess
import time
import urllib.request
from collections import defaultdict

from broker import HERE

EVALUATORS = 2
CONFIG = """
receivers:
  kafka:
    brokers: ["{broker}"]
    traces: {{topics: [{topic}]}}
    logs: {{topics: [{topic}]}}
    group_id: {group}
    initial_offset: earliest
    session_timeout: 3s
    heartbeat_interval: 1s
{more}
traces: {{quiet_period: 2s, idle_timeout: 6s, remember_period: 5s, age_max: {age_max}}}
evaluators:
  tool_call_count/calls: {{criteria: {{tool_calls_count: {{search: ["=", 6]}}}}}}
  exact_match/answer: {{criteria: {{expected_output: done}}}}
exporters:
  file: {{path: {out}}}
telemetry:
  metrics: {{endpoint: "127.0.0.1:0"}}
  health: {{endpoint: "127.0.0.1:0"}}
store: false
dashboard: false
"""


class Member:
    """A scorer; a file of evaluations for each start."""

    def __init__(self, fleet, number):
        self.out = fleet.folder / f"evaluations-{number}.jsonl"
        self.out.unlink(missing_ok=True)
        config = fleet.folder / f"member-{number}.yaml"
        config.write_text(fleet.config(self.out))
        self.log = fleet.folder / f"member-{number}.log"
        self.metrics = {}
        self.process = subprocess.Popen([fleet.binary, "--config", str(config)],
                                        stdout=open(self.log, "w"), stderr=subprocess.STDOUT)

    def signal(self, number):
        self.process.send_signal(number)

    def metric(self, name, label=""):
        """The sum of the series of a metric with a label; none before it can be asked."""
        address = re.search(r"metrics=(\S+)", self.log.read_text())
        if not address:
            return None
        with urllib.request.urlopen(f"http://{address[1]}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        values = [line.split()[-1] for line in lines if re.match(name + r"[{ ]", line)
                  and label in line]
        return sum(map(float, values))


class Fleet:
    def __init__(self, binary, folder, broker, topic, age_max="30m", more="", address=None):
        """With more lines of the receiver, and another address of the broker."""
        self.binary, self.folder, self.broker, self.topic = binary, folder, broker, topic
        self.age_max, self.more, self.address = age_max, more, address or broker.address
        self.members, self.gone, self.started = [], [], 0

    def config(self, out):
        return CONFIG.format(broker=self.address, topic=self.topic, group=self.topic, out=out,
                             age_max=self.age_max, more=self.more)

    def add(self):
        self.started += 1
        self.members.append(Member(self, f"{self.topic}-{self.started}"))

    def remove(self, member, number):
        self.members.remove(member)
        self.gone.append(member)
        member.signal(number)

    def stop(self):
        for member in list(self.members):
            self.remove(member, signal.SIGTERM)
        for member in self.gone:
            member.process.wait(timeout=40)

    def evaluations(self):
        """Verdicts of all members; nothing of an earlier run is in their files."""
        for member in self.members + self.gone:
            if not member.out.exists():
                continue
            for line in member.out.read_text().splitlines():
                try:
                    yield json.loads(line)
                except ValueError:
                    pass  # A kill in the middle of a line; the evaluation comes again.

    def passed(self):
        passed = defaultdict(set)
        for it in self.evaluations():
            if it["label"] == "pass":
                passed[it["trace_id"]].add(it["evaluator"])
        return passed


def load(broker, topic, rate, seconds, out, kind="whole"):
    command = broker.java(str(HERE / "Load.java"), broker.address, topic, str(rate), str(seconds),
                          kind, heap="256m")
    return subprocess.Popen(command, stdout=open(out, "w"), stderr=subprocess.STDOUT)


def sent(out):
    return {line for line in out.read_text().splitlines() if len(line) == 32}


def wait_for_all(fleet, out, patience):
    """Waits until every trace is judged whole; returns those that are not."""
    until = time.time() + patience
    while True:
        passed = fleet.passed()
        missing = {it for it in sent(out) if len(passed[it]) < EVALUATORS}
        if not missing or time.time() > until:
            return missing
        time.sleep(1)


def judge(fleet, traces):
    """Counts what the fleet said of the traces."""
    ids, whole, copies = defaultdict(set), defaultdict(set), 0
    by_id, revised = {}, set()
    for it in fleet.evaluations():
        place = (it["trace_id"], it["evaluator"])
        copies += it["evaluation_id"] in ids[place]
        ids[place].add(it["evaluation_id"])
        by_id[it["evaluation_id"]] = it
        revised.add(it.get("revises"))
        if it["label"] == "pass":
            whole[place].add(it["evaluation_id"])
    halves = [it for it in by_id.values() if it["label"] != "pass"]
    return {
        "traces sent": len(traces),
        "judged whole": sum(all((t, n) in whole for n in ("tool_call_count/calls",
                                                            "exact_match/answer")) for t in traces),
        "whole verdicts with more than one id": sum(len(it) > 1 for it in whole.values()),
        "copies of verdicts, under equal ids": copies,
        "verdicts on parts": len(halves),
        "of them not revised": sum(it["evaluation_id"] not in revised for it in halves),
    }


def alone(arguments, broker, name, **settings):
    """A topic of its own with one member."""
    topic = f"{name}-{random.randrange(1 << 32)}"
    broker.create(topic, 2)
    fleet = Fleet(arguments.binary, broker.folder, broker, topic, **settings)
    fleet.add()
    return fleet, broker.folder / f"{topic}.sent"


def wait_until(holds, patience=60):
    until = time.time() + patience
    while time.time() < until:
        if holds():
            return True
        time.sleep(0.5)
    return False
