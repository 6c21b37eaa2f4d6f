"""Losses of power under load: what was acknowledged is judged, with `durability: disk`.

    cargo build --release
    python3 tests/load/power_loss.py [--losses 20] [--durability disk]

Senders send traces of one call each until the collector is killed. Then every file of its data
directory is cut to what it held when it was last synced (a library that is preloaded notes that;
`cc` builds it), or to nothing where it never was: what a disk may have left, file names aside. A
collector that starts on the rest must judge every trace that was acknowledged. It ends with 1 where
one is missing. With `--durability os` some are, which shows that it is looked for.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import subprocess
import tempfile
import threading
import time

from harness import Collector, agent, request, tool

CONFIG = """data_dir: {folder}/data
durability: {durability}
log: {{segment_mib: 1, sync_interval: 10s}}
evaluators: {{tool_error: }}
exporters: {{file: {{path: {folder}/scores.jsonl}}}}"""
SENDERS = 8
SOURCE = pathlib.Path(__file__).with_name("forgetful.c")


class TraceSender(threading.Thread):
    """Sends traces one by one, and keeps the ids of those that were acknowledged."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.acknowledged = port, []
        self.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            while True:
                own, root = os.urandom(16), os.urandom(8)
                body = request([agent(own, root), tool(own, root, "x")])
                connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
                answer = connection.getresponse()
                answer.read()
                if answer.status == 200:
                    self.acknowledged.append(own.hex())
        except (OSError, http.client.HTTPException):
            pass


def forget(data, synced):
    """Cuts files to what was synced of them; how many bytes went."""
    known = {}
    for line in open(synced) if os.path.exists(synced) else ():
        inode, size = map(int, line.split())
        known[inode] = max(size, known.get(inode, 0))
    gone = 0
    for path in pathlib.Path(data).rglob("*"):
        if path.is_file():
            held = path.stat()
            left = min(held.st_size, known.get(held.st_ino, 0))
            gone += held.st_size - left
            os.truncate(path, left)
    return gone


def judged(folder):
    path = pathlib.Path(folder, "scores.jsonl")
    lines = path.read_text().splitlines() if path.exists() else []
    found = set()
    for line in lines:
        try:
            found.add(json.loads(line)["trace_id"])
        except json.JSONDecodeError:
            pass
    return found


def lose_power(library, durability):
    """One loss: traces that were acknowledged, bytes that were gone, traces that are missing."""
    with tempfile.TemporaryDirectory() as folder:
        config, synced = CONFIG.format(folder=folder, durability=durability), f"{folder}/synced"
        os.environ |= {"LD_PRELOAD": library, "SYNCED": synced}
        collector = Collector(config)
        del os.environ["LD_PRELOAD"]
        senders = [TraceSender(collector.http) for _ in range(SENDERS)]
        time.sleep(random.uniform(0.3, 2.5))
        collector.process.kill()
        collector.process.wait()
        for sender in senders:
            sender.join()
        acknowledged = {own for sender in senders for own in sender.acknowledged}
        gone = forget(f"{folder}/data", synced)
        collector = Collector(config)
        for _ in range(100):
            missing = acknowledged - judged(folder)
            if not missing:
                break
            time.sleep(0.1)
        collector.stop()
        return len(acknowledged), gone, len(acknowledged - judged(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--losses", type=int, default=20)
    parser.add_argument("--durability", default="disk", choices=["disk", "os"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/forgetful.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
        found = [lose_power(library, options.durability) for _ in range(options.losses)]
    acknowledged, gone, missing = (sum(column) for column in zip(*found))
    print(f"{options.losses} losses of power, {options.durability}: {acknowledged} traces acknowledged, "
          f"{gone / 1024:.0f} KiB gone, {missing} traces missing")
    raise SystemExit(1 if missing else 0)


if __name__ == "__main__":
    main()
