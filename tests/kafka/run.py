#!/usr/bin/env python3
"""Scorers on a real Kafka, killed, stopped, paused and added while traces come.

    tests/kafka/run.py BINARY [--moments 60] [--seed N] [--rate 30] [--folder DIR]

Needs a binary with the feature `kafka`, Java 17 and Maven. Every trace sent must be judged with all
its calls and its log record, and distinct evaluation ids must be one per trace and evaluator.
"""

import argparse
import json
import random
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from pathlib import Path

from broker import HERE, Broker

EVALUATORS = 2
MEMBERS_MAX = 5
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

    def metric(self, name):
        """The sum of the series of a metric; none before it can be asked."""
        address = re.search(r"metrics=(\S+)", self.log.read_text())
        if not address:
            return None
        with urllib.request.urlopen(f"http://{address[1]}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        values = [line.split()[-1] for line in lines if re.match(name + r"[{ ]", line)]
        return sum(map(float, values))


class Fleet:
    def __init__(self, binary, folder, broker, topic, age_max="30m"):
        self.binary, self.folder, self.broker, self.topic = binary, folder, broker, topic
        self.age_max = age_max
        self.members, self.gone, self.started = [], [], 0

    def config(self, out):
        return CONFIG.format(broker=self.broker.address, topic=self.topic, group=self.topic,
                             out=out, age_max=self.age_max)

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
        """What all members said; nothing of an earlier run is in their files."""
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


def moment(fleet, dice):
    """One thing that happens to the fleet."""
    what = dice.choice(["kill", "stop", "pause", "add"])
    if what == "add" or len(fleet.members) < 2:
        if len(fleet.members) >= MEMBERS_MAX:
            what = "kill"
        else:
            fleet.add()
            return "add"
    member = dice.choice(fleet.members)
    if what == "pause":
        member.signal(signal.SIGSTOP)
        time.sleep(5)
        member.signal(signal.SIGCONT)
    else:
        fleet.remove(member, signal.SIGKILL if what == "kill" else signal.SIGTERM)
        if len(fleet.members) < 2 or dice.random() < 0.5:
            fleet.add()
    return what


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


def churn(arguments, broker, folder):
    seed = arguments.seed or random.randrange(1 << 32)
    print(f"seed {seed}, {arguments.moments} moments, {arguments.rate} traces a second",
          flush=True)
    dice = random.Random(seed)
    topic = f"churn-{seed}"
    broker.create(topic, 12)
    fleet = Fleet(arguments.binary, folder, broker, topic)
    for _ in range(3):
        fleet.add()
    seconds = arguments.moments * 4 + 10
    out = folder / f"{topic}.sent"
    loading = load(broker, topic, arguments.rate, seconds, out)
    while len(sent(out)) < arguments.rate * 5:
        time.sleep(0.5)
    happened = defaultdict(int)
    for _ in range(arguments.moments):
        time.sleep(dice.uniform(0.5, 5))
        happened[moment(fleet, dice)] += 1
    print(dict(happened), flush=True)
    loading.wait()
    missing = wait_for_all(fleet, out, 180)
    fleet.stop()
    shown = judge(fleet, sent(out))
    for name, count in shown.items():
        print(f"  {name}: {count}")
    if missing:
        print("  missing, for example:", sorted(missing)[:3])
    is_right = (loading.returncode == 0 and not missing
                and shown["whole verdicts with more than one id"] == 0
                and shown["of them not revised"] == 0)
    return is_right


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


def killed_before_commit(arguments, broker, folder):
    """A kill after delivery and before the commit: the same verdicts again, under equal ids."""
    fleet, out = alone(arguments, broker, "kill")
    load(broker, fleet.topic, 20, 2, out).wait()
    missing = wait_for_all(fleet, out, 60)
    fleet.remove(fleet.members[0], signal.SIGKILL)
    fleet.add()
    again = wait_until(lambda: judge(fleet, sent(out))["copies of verdicts, under equal ids"] > 0)
    fleet.stop()
    shown = judge(fleet, sent(out))
    print("killed between delivery and commit:", shown)
    return not missing and again and shown["whole verdicts with more than one id"] == 0


def poison(arguments, broker, folder):
    """Records that are no requests, among others that are."""
    fleet, out = alone(arguments, broker, "poison")
    load(broker, fleet.topic, 0, 2, folder / "poison.sent", "poison").wait()
    load(broker, fleet.topic, 20, 2, out).wait()
    missing = wait_for_all(fleet, out, 60)
    member = fleet.members[0]
    skipped = member.metric("spanscore_receiver_kafka_passed_over_total")
    is_past = wait_until(lambda: broker.lag(fleet.topic)[0] == 0)
    fleet.stop()
    print(f"poison: {skipped:.0f} of 10 skipped, {len(missing)} traces missing, "
          f"positions {'at the end' if is_past else 'stuck'}")
    return not missing and skipped == 10 and is_past


def other_key(arguments, broker, folder):
    """Traces whose key is not their id: taken, counted and warned of."""
    fleet, out = alone(arguments, broker, "key")
    load(broker, fleet.topic, 20, 2, out, "other_key").wait()
    missing = wait_for_all(fleet, out, 60)
    member = fleet.members[0]
    counted = member.metric("spanscore_receiver_kafka_key_mismatches_total")
    warnings = member.log.read_text().count("is not its only trace id")
    fleet.stop()
    records = 5 * len(sent(out))
    print(f"other keys: {counted:.0f} of {records} counted, {warnings} warnings in the log")
    return not missing and counted == records and warnings == 1


def endless(arguments, broker, folder):
    """A trace without an end holds its position back for `age_max` only."""
    fleet, out = alone(arguments, broker, "endless", age_max="8s")
    loading = load(broker, fleet.topic, 0, 40, out, "endless")
    lags, ages = [], []
    while loading.poll() is None:
        time.sleep(2)
        ages.append(fleet.members[0].metric("spanscore_receiver_kafka_oldest_trace_seconds") or 0)
        lags.append(fleet.members[0].metric("spanscore_receiver_kafka_held_back") or 0)
    fleet.stop()
    print(f"endless: records held back {[int(it) for it in lags]}, age {[int(it) for it in ages]}")
    return max(lags) < 5 * 20 and max(ages) < 20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--moments", type=int, default=60, help="0 leaves the fleet out")
    parser.add_argument("--only", help="one of the other scenarios")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--rate", type=int, default=30)
    parser.add_argument("--folder", type=Path, default=Path("target/kafka"))
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    broker = Broker(folder)
    try:
        scenarios = [killed_before_commit, poison, other_key, endless]
        if arguments.only:
            scenarios = [it for it in scenarios if it.__name__ == arguments.only]
        elif arguments.moments > 0:
            scenarios.insert(0, churn)
        results = [scenario(arguments, broker, folder) for scenario in scenarios]
        is_right = all(results)
    finally:
        broker.kill()
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()
