"""Ten times more load than the store takes, for a minute: what is kept, counted and shown.

    cargo build --release
    python3 tests/load/store_overload.py [--seconds 60] [--times 10]

The writer of the store gets a share of what is left of a core that the senders use, so that it takes
a fraction of what is judged, until the minute is over. One run in twenty fails. It ends with 1 where a request is refused or a judged run
is missing, less than ten times came of what was written, fails are not kept longest, what was left
out is not counted to the last run, sums lack an evaluation, or the lists do not tell of it.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import tempfile
import threading
import time

from harness import Collector, agent, field, free_ports, request, tool, varint

SENDERS = 2
# Processes of the lowest priority that spin beside the writer, which is weighed a fifth of each.
SPINNERS = 2
RUNS = 100
FAIL_EVERY = 20
MARK = b"\xa5\x5a\xc3\x3c\x96\x69\xf0\x0f"
CONFIG = """data_dir: {folder}
dashboard: {{endpoint: "127.0.0.1:{port}"}}
store: {{content: full, details: all}}
evaluators: {{tool_error: , tool_efficiency: }}
exporters: {{prometheus: }}"""


def failed(span):
    """A span whose status is an error."""
    return span + field(15, varint(3 << 3) + varint(2))


def batch():
    """A request of runs, whose trace ids all hold the mark."""
    spans = []
    for number in range(RUNS):
        trace, root = MARK + number.to_bytes(8, "big"), os.urandom(8)
        call = tool(trace, root, "pay", json.dumps({"order": number, "words": "x" * 200}))
        spans += [agent(trace, root), failed(call) if number % FAIL_EVERY == 0 else call]
    return request(spans, "shop")


class Sender(threading.Thread):
    """Sends runs one request after the other, and counts the answers."""

    def __init__(self, collector):
        super().__init__(daemon=True)
        self.collector, self.body, self.going, self.answers = collector, batch(), True, {}
        self.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.collector.http, timeout=60)
        while self.going:
            body = self.body.replace(MARK, os.urandom(8))
            connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
            self.answers[answer.status] = self.answers.get(answer.status, 0) + 1


def spin():
    """Takes what nobody else wants of the core."""
    os.nice(19)
    while True:
        pass


def starve(process, is_starved):
    """Puts the writer of the store behind all others on the senders' core, or back; returns true if it is there."""
    core, policy = ({1}, os.SCHED_IDLE) if is_starved else ({0}, os.SCHED_OTHER)
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/comm") as name:
            if name.read().strip() == "store":
                os.sched_setaffinity(int(task), core)
                os.sched_setscheduler(int(task), policy, os.sched_param(0))
                return True
    return False


def total(page, name, label=""):
    return int(sum(value for key, value in page.items() if key.startswith(f"spanscore_{name}") and label in key))


class Asker:
    """Questions to the collector's interface."""

    def __init__(self, folder, port):
        self.port = port
        with open(os.path.join(folder, "dashboard", "header")) as header:
            self.headers = dict([header.read().strip().split(": ", 1)])

    def __call__(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", f"/api/v1{path}", headers=self.headers)
        return json.loads(connection.getresponse().read())


def settled(collector, runs):
    """The metrics once all runs are judged, and the store's queue is empty."""
    for _ in range(600):
        page = collector.metrics()
        if total(page, "assemble_judged_traces_total") >= runs and total(page, "store_queue_held") == 0:
            break
        time.sleep(0.5)
    return page


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--times", type=float, default=10, help="of what the store takes meanwhile")
    options = options.parse_args()
    folder, (port,) = tempfile.mkdtemp(), free_ports(1)
    os.sched_setaffinity(0, {1})
    collector = Collector(CONFIG.format(folder=folder, port=port), cores="0")
    is_starved = starve(collector.process.pid, True)
    spinners = [multiprocessing.Process(target=spin, daemon=True) for _ in range(SPINNERS)]
    for spinner in spinners:
        spinner.start()
    senders = [Sender(collector) for _ in range(SENDERS)]
    time.sleep(options.seconds)
    written = total(collector.metrics(), "store_written_total", "trajectories")
    for sender in senders:
        sender.going = False
    for sender in senders:
        sender.join()
    for spinner in spinners:
        spinner.kill()
    starve(collector.process.pid, False)
    answers = {status: sum(it.answers.get(status, 0) for it in senders) for it in senders for status in it.answers}
    runs = RUNS * answers.get(200, 0)
    page = settled(collector, runs)
    ask = Asker(folder, port)
    judged = total(page, "assemble_judged_traces_total")
    kept = total(page, "store_written_total", "trajectories")
    left_out = total(page, "store_shed_total", "trajectories")
    lost = total(page, "store_inexact_total", '"lost"')
    sums = ask("/summary")["figures"]
    fails = ask("/evaluations?label=fail&evaluator=tool_error&limit=1")
    passes = ask("/evaluations?label=pass&evaluator=tool_error&limit=1")
    share = {"fails": fails["count"]["count"] / (runs / FAIL_EVERY), "passes": passes["count"]["count"] / runs}
    is_capped = fails["count"]["capped"]
    code, last = collector.stop()
    checks = {
        f"the writer is starved: {written} runs written while {runs} came": is_starved and runs >= options.times * written,
        f"answers {answers}": set(answers) == {200},
        f"acknowledged {runs}, judged {judged}": judged == runs,
        f"kept {kept} and left out {left_out} of {judged}": kept + left_out == judged,
        f"sums hold {sums['count']} of {2 * judged} evaluations, {lost} lost": sums["count"] == 2 * judged and lost == 0,
        f"kept {share['fails']:.3f} of the fails, {share['passes']:.3f} of the passes": is_capped or share["fails"] > share["passes"],
        f"lists tell of it: sampled {fails['sampled']}": fails["sampled"] is True,
        f"exit {code}: {last}": code == 0,
    }
    for what, is_well in checks.items():
        print(f"{'ok   ' if is_well else 'WRONG'} {what}")
    raise SystemExit(0 if all(checks.values()) else 1)


if __name__ == "__main__":
    main()
