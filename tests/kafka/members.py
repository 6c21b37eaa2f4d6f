#!/usr/bin/env python3
"""The Collector's load-balancing exporter in front of scorers that come and go while traces come.

    tests/kafka/members.py BINARY COLLECTOR [--rate 20] [--folder DIR]

COLLECTOR is built of `tests/kafka/collector.yaml`. Needs root, for a file of hosts of its own: its
resolver reads the members from there. Says what was split by each change, and how that is counted.
"""

import argparse
import json
import re
import signal
import subprocess
import threading
import time
import urllib.request
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from broker import free_port
from senders import CALLS, new_trace, request, span

# Time between the requests of a trace, four of which have two spans each.
STEP = 0.2
COLLECTOR = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{http}"}}}}}}}}
exporters:
  loadbalancing:
    routing_key: traceID
    protocol: {{otlp: {{tls: {{insecure: true}}, timeout: 2s}}}}
    resolver: {{dns: {{hostname: members.test, port: "{port}", interval: 1s, timeout: 1s}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [loadbalancing]}}}}
"""
SCORER = """
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "{address}"}}}}}}}}
traces: {{quiet_period: 1s, idle_timeout: 6s, remember_period: 5s}}
evaluators: {{tool_call_count/calls: {{criteria: {{tool_calls_count: {{search: ["=", 6]}}}}}}}}
exporters: {{file: {{path: {out}}}}}
telemetry: {{metrics: {{endpoint: "127.0.0.1:0"}}, health: {{endpoint: null}}}}
store: false
dashboard: false
"""


class Scorer:
    """A member with an address of its own."""

    def __init__(self, setting, number):
        self.host = f"127.0.0.{number}"
        self.out = setting.folder / f"member-{number}.jsonl"
        self.out.unlink(missing_ok=True)
        config = setting.folder / f"member-{number}.yaml"
        config.write_text(SCORER.format(address=f"{self.host}:{setting.port}", out=self.out))
        self.log = setting.folder / f"member-{number}.log"
        self.process = subprocess.Popen([setting.binary, "--config", str(config)],
                                        stdout=open(self.log, "w"), stderr=subprocess.STDOUT)
        while "metrics=" not in self.log.read_text():
            time.sleep(0.1)

    def completions(self):
        """Judged traces by completion."""
        address = re.search(r"metrics=(\S+)", self.log.read_text())[1]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found = re.findall(r'judged_traces_total\{completion="(\w+)"[^}]*\} (\d+)', text)
        return Counter({word: int(count) for word, count in found if int(count)})


class Setting:
    """A Collector, its members, and what was sent."""

    def __init__(self, arguments):
        self.binary, self.folder = arguments.binary, arguments.folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port, self.http = free_port(), free_port()
        self.hosts = self.folder / "hosts"
        self.members, self.gone, self.started = [], [], 1
        self.sent, self.completed = [], Counter()
        for _ in range(2):
            self.add()
        config = self.folder / "collector.yaml"
        config.write_text(COLLECTOR.format(http=self.http, port=self.port))
        own_hosts = f"mount --bind {self.hosts} /etc/hosts && exec {arguments.collector}"
        self.collector = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", f"{own_hosts} --config {config}"],
            stdout=open(self.folder / "collector.log", "w"), stderr=subprocess.STDOUT)

    def show(self):
        """Tells the resolver who is a member; the file stays the same one."""
        lines = [f"{it.host} members.test\n" for it in self.members]
        self.hosts.write_text("127.0.0.1 localhost\n" + "".join(lines))

    def add(self):
        self.started += 1
        self.members.append(Scorer(self, self.started))
        self.show()

    def remove(self):
        """Takes a member out of the resolver, then stops it in order."""
        self.leave(3, signal.SIGTERM)

    def kill(self):
        """Kills a member; the resolver hears of it two seconds later."""
        self.leave(-2, signal.SIGKILL)

    def leave(self, wait, number):
        member = self.members.pop(0)
        self.gone.append(member)
        if wait > 0:
            self.show()
            time.sleep(wait)
            self.completed += member.completions()
        member.process.send_signal(number)
        if wait < 0:
            time.sleep(-wait)
            self.show()
        member.process.wait()

    def post(self, body):
        url = f"http://127.0.0.1:{self.http}/v1/traces"
        sending = urllib.request.Request(url, json.dumps(body).encode(),
                                         {"content-type": "application/json"})
        for _ in range(50):
            try:
                return urllib.request.urlopen(sending, timeout=10).read()
            except OSError:
                time.sleep(0.2)
        raise SystemExit("the Collector takes nothing")

    def send(self, trace):
        for number in (1, 3, 5):
            self.post(request(span(trace, number), span(trace, number + 1)))
            time.sleep(STEP)
        self.post(request(span(trace, 0)))
        self.sent.append(trace)

    def load(self, rate, stop):
        with ThreadPoolExecutor(4 * rate) as pool:
            while not stop.is_set():
                pool.submit(self.send, new_trace())
                time.sleep(1 / rate)

    def verdicts(self):
        found = defaultdict(set)
        for member in self.members + self.gone:
            for line in member.out.read_text().splitlines() if member.out.exists() else []:
                if line.endswith("}"):
                    it = json.loads(line)
                    found[it["trace_id"]].add((it["evaluation_id"], it["label"]))
        return found

    def all_completions(self):
        return sum((it.completions() for it in self.members), Counter(self.completed))


def phase(setting, name, change, rate):
    """Ten seconds of load, with a change after five; what came of its traces."""
    before, sent = setting.all_completions(), len(setting.sent)
    stop = threading.Event()
    loading = threading.Thread(target=setting.load, args=(rate, stop))
    loading.start()
    time.sleep(5)
    change()
    time.sleep(5)
    stop.set()
    loading.join()
    time.sleep(15)
    traces, found = setting.sent[sent:], setting.verdicts()
    whole = sum(any(label == "pass" for _, label in found[it]) for it in traces)
    split = sum(bool(found[it]) and all(label != "pass" for _, label in found[it]) for it in traces)
    counted = setting.all_completions() - before
    print(f"{name}: {len(traces)} traces, {whole} judged whole, {split} on parts alone, "
          f"{sum(not found[it] for it in traces)} not at all; counted {dict(counted)}", flush=True)
    return len(traces), whole


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("collector")
    parser.add_argument("--rate", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=Path("target/members"))
    arguments = parser.parse_args()
    setting = Setting(arguments)
    try:
        steady = phase(setting, "two members", lambda: None, arguments.rate)
        phase(setting, "a third comes", setting.add, arguments.rate)
        phase(setting, "one leaves in order", setting.remove, arguments.rate)
        phase(setting, "one is killed", setting.kill, arguments.rate)
    finally:
        setting.collector.kill()
        for member in setting.members:
            member.process.kill()
    if steady[0] != steady[1]:
        raise SystemExit("without a change every trace must be judged whole")


if __name__ == "__main__":
    main()
