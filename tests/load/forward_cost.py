"""What passing requests on costs: processor time for a million spans, with a forward and without.

    cargo build --release
    python3 tests/load/forward_cost.py [--rounds 3] [--requests 1500]

A collector without evaluators takes requests of 252 spans over OTLP/HTTP and passes them on, byte by
byte, to a second one over gRPC. Printed is the median over the rounds of its own processor time, and
that beside the same without a forward, measured in the same round. It ends with 1 where a span did
not arrive. `cargo bench --bench pipeline -- 5 3 assemble forward` gives both as multiples of a server
that only acknowledges.
"""

import argparse
import http.client
import os
import statistics
import time

from harness import Collector, agent, request, tool

TRACES = 21
CALLS = 11
RESULT = "The parcel left Hull on 12 March and weighs 3 kg. " * 24
TICKS = os.sysconf("SC_CLK_TCK")
MARK = b"\xab" * 14
WAYS = {
    "no forward": "",
    "forward": "forward: {{otlp_grpc: {{endpoint: 'http://127.0.0.1:{port}', compression: none}}}}",
    "forward, gzip": "forward: {{otlp_grpc: {{endpoint: 'http://127.0.0.1:{port}'}}}}",
}


def parts():
    spans = []
    for number in range(TRACES):
        own = MARK + number.to_bytes(2, "big")
        spans.append(agent(own, b"\xcd" * 8))
        spans += [tool(own, b"\xcd" * 8, "track_parcel", result=RESULT, number=n) for n in range(CALLS)]
    return request(spans).split(MARK)


def processor_seconds(collector):
    with open(f"/proc/{collector.process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def accepted(collector):
    page = collector.metrics()
    return sum(value for key, value in page.items() if "receiver_accepted_spans" in key)


def measure(way, requests):
    """Processor seconds for a million spans."""
    quiet = "evaluators: {}\nexporters: {prometheus: }\nlimits: {memory_mib: 1024}\n"
    backend = Collector(quiet)
    collector = Collector(quiet + WAYS[way].format(port=backend.grpc))
    pieces, spans = parts(), requests * TRACES * (CALLS + 1)
    connection = http.client.HTTPConnection("127.0.0.1", collector.http, timeout=60)
    before, sent = processor_seconds(collector), 0
    while sent < requests:
        body = os.urandom(14).join(pieces)
        connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
        answer = connection.getresponse()
        answer.read()
        sent += answer.status == 200
    for _ in range(600):
        if way == "no forward" or accepted(backend) >= spans:
            break
        time.sleep(0.1)
    arrived = way == "no forward" or accepted(backend) >= spans
    cost = (processor_seconds(collector) - before) / spans * 1e6
    collector.stop()
    backend.stop()
    if not arrived:
        raise SystemExit(f"{way}: not all of {spans} spans arrived")
    return cost


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=1500)
    options = parser.parse_args()
    print(f"requests of {TRACES * (CALLS + 1)} spans, {sum(map(len, parts())) / 1024:.0f} KiB")
    costs = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way in WAYS:
            costs[way].append(measure(way, options.requests))
    for way, found in costs.items():
        ratios = [own / without for own, without in zip(found, costs["no forward"])]
        print(f"{way:14} {statistics.median(found):6.2f} s/M   x {statistics.median(ratios):.2f} "
              f"({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
