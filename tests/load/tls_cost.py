"""What TLS costs: processor time of the collector for requests over TLS, beside the same in plain text.

    cargo build --release
    python3 tests/load/tls_cost.py [--rounds 3] [--seconds 4] [--beside PATH-TO-OTELCOL]

A collector without evaluators takes OTLP/HTTP from one sender: large requests (252 spans) and small
ones (3 spans) over one connection, and small ones over a connection each. Printed is the median over
the rounds of its own processor time for a request, and how many times that is of plain text in the
same round: TLS 1.3 with a certificate on P-256, no session resumed. `--beside` measures an OpenTelemetry
Collector in the same rounds, which hands what it receives through `batch` to `nop`; one with the OTLP
receiver, `batchprocessor`, `nopexporter` and `fileprovider` is made by
`go install go.opentelemetry.io/collector/cmd/builder@latest`.
"""

import argparse
import os
import ssl
import statistics
import subprocess
import tempfile
import time

from forward_cost import parts, processor_seconds
from harness import Collector, free_ports, ordinary

QUIET = "evaluators: {}\nexporters: {prometheus: }\nlimits: {memory_mib: 1024}\n"
LOADS = ["large, one connection", "small, one connection", "small, a connection each"]


class Otelcol(Collector):
    """An OpenTelemetry Collector that receives OTLP/HTTP."""

    def __init__(self, binary, is_secure):
        self.folder = tempfile.TemporaryDirectory()
        self.tls, listener = None, ""
        if is_secure:
            certificate, key = self.certificate()
            self.tls = ssl.create_default_context(cafile=certificate)
            self.tls.check_hostname = False
            listener = f", tls: {{cert_file: {certificate}, key_file: {key}}}"
        [self.http] = free_ports(1)
        path = os.path.join(self.folder.name, "otelcol.yaml")
        with open(path, "w") as file:
            file.write(f"""
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{self.http}"{listener}}}}}}}}}
processors: {{batch: }}
exporters: {{nop: }}
service:
  telemetry: {{metrics: {{level: none}}, logs: {{level: error}}}}
  pipelines: {{traces: {{receivers: [otlp], processors: [batch], exporters: [nop]}}}}
""")
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.process = subprocess.Popen([binary, "--config", path], stdout=self.log, stderr=self.log)
        for _ in range(600):
            if self.process.poll() is not None:
                self.log.seek(0)
                raise SystemExit(f"the other collector ended: {self.log.read()}")
            try:
                self.open(self.http).close()
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("the other collector does not listen")


def bodies(load):
    if load.startswith("large"):
        pieces = parts()
        while True:
            yield os.urandom(14).join(pieces)
    while True:
        yield ordinary()


def measure(load, beside, is_secure, seconds):
    """Processor milliseconds for a request, and how many were sent."""
    collector = Otelcol(beside, is_secure) if beside else Collector(QUIET, is_secure=is_secure)
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
    parser.add_argument("--beside", help="an OpenTelemetry Collector to measure, too")
    options = parser.parse_args()
    binaries = {"spanscore": None} | ({"otelcol": options.beside} if options.beside else {})
    for load in LOADS:
        rounds = {name: ([], [], []) for name in binaries}
        for _ in range(options.rounds):
            for name, (plain, secure, sent) in rounds.items():
                for is_secure, costs in ((False, plain), (True, secure)):
                    cost, count = measure(load, binaries[name], is_secure, options.seconds)
                    costs.append(cost)
                    sent.append(count)
        for name, (plain, secure, sent) in rounds.items():
            ratios = [own / without for own, without in zip(secure, plain)]
            print(f"{name:10} {load:26} plain {statistics.median(plain):6.3f} ms  TLS {statistics.median(secure):6.3f} ms  "
                  f"x {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})  {sum(sent)} requests",
                  flush=True)


if __name__ == "__main__":
    main()
