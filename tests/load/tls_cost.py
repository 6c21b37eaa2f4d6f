"""What TLS costs: processor time of the collector for requests over TLS, beside the same in plain text.

    cargo build --release
    python3 tests/load/tls_cost.py [--rounds 3] [--seconds 4]

A collector without evaluators takes OTLP/HTTP from one sender: large requests (252 spans) and small
ones (3 spans) over one connection, and small ones over a connection each. Printed is the median over
the rounds of its own processor time for a request, and how many times that is of plain text in the
same round: TLS 1.3 with a certificate on P-256, no session resumed.
"""

import argparse
import os
import statistics
import time

from forward_cost import parts, processor_seconds
from harness import Collector, ordinary

QUIET = "evaluators: {}\nexporters: {prometheus: }\nlimits: {memory_mib: 1024}\n"
LOADS = ["large, one connection", "small, one connection", "small, a connection each"]


def bodies(load):
    if load.startswith("large"):
        pieces = parts()
        while True:
            yield os.urandom(14).join(pieces)
    while True:
        yield ordinary()


def measure(load, is_secure, seconds):
    """Processor milliseconds for a request, and how many were sent."""
    collector = Collector(QUIET, is_secure=is_secure)
    anew = load.endswith("each")
    connection, sent, end = None, 0, time.monotonic() + seconds
    before = processor_seconds(collector)
    for body in bodies(load):
        if time.monotonic() > end:
            break
        connection = connection or collector.client(30)
        connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"{load}: {answer.status}")
        sent += 1
        if anew:
            connection.close()
            connection = None
    cost = (processor_seconds(collector) - before) / sent * 1000
    collector.stop()
    return cost, sent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4, help="of each load")
    options = parser.parse_args()
    for load in LOADS:
        plain, secure, sent = [], [], 0
        for _ in range(options.rounds):
            for is_secure, costs in ((False, plain), (True, secure)):
                cost, count = measure(load, is_secure, options.seconds)
                costs.append(cost)
                sent += count
        ratios = [own / without for own, without in zip(secure, plain)]
        print(f"{load:26} plain {statistics.median(plain):6.3f} ms  TLS {statistics.median(secure):6.3f} ms  "
              f"x {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})  {sent} requests", flush=True)


if __name__ == "__main__":
    main()
