"""Ten times the load that a collector sustains, for a minute: one flooding sender beside nine others.

    cargo build --release
    python3 tests/load/overload.py [--limit 128] [--seconds 60] [--times 10] [--connections 1]

The collector has one core, all senders together another. First the load is found that is sustained
without a refusal; then nine ordinary senders with half of it are measured alone (the latency of an
acknowledgement at half load), then beside the flood, then after it. It ends with 1 where the peak is
above the limit plus a tenth and the idle size, a refusal does not say when to come again, the p99 of
the nine more than doubled, something acknowledged was not judged, or the p99 is not back to twice
what it was five seconds after the flood.
"""

import argparse
import collections
import os
import time

from flooder import Flooder, Template
from harness import Collector, Sender, go_first, percentile, what_bit

SENDERS = 9
CONFIG = """evaluators:
  tool_error:
  tool_efficiency:
{rules}
exporters: {{prometheus: }}
limits: {{memory_mib: {limit}}}"""
RULES = 12
TEXT_BYTES = 20_000


def judged(collector):
    page = collector.metrics()
    return sum(value for key, value in page.items() if "assemble_judged_traces_total" in key)


def sustained(collector):
    """Requests a second that are judged while a few are always under way."""
    flooder = Flooder(collector.http, 10, streams=4, body_bytes=TEXT_BYTES)
    time.sleep(5)
    before, began = judged(collector), time.monotonic()
    time.sleep(4)
    rate = (judged(collector) - before) / (time.monotonic() - began)
    answers, sent, _ = flooder.finish()
    print(f"sustained {rate:.0f} requests/s, closed loop of 4: {answers}", flush=True)
    return rate, answers.get("200", 0)


class Nine:
    """Ordinary senders, and what they saw."""

    def __init__(self, collector, rate):
        make = Template(TEXT_BYTES).make
        self.senders = [Sender(collector, rate / SENDERS, make) for _ in range(SENDERS)]

    def between(self, start, end):
        """Latencies of what was sent between two times, milliseconds."""
        return [1000 * latency for sender in self.senders
                for at, latency in zip(sender.times, sender.latencies) if start <= at < end]

    def finish(self):
        codes = collections.Counter()
        for sender in self.senders:
            sender.going = False
        for sender in self.senders:
            codes.update(sender.finish()[1])
        return dict(codes)


def wait_until_judged(collector, expected):
    for _ in range(60):
        if judged(collector) >= expected:
            break
        time.sleep(0.5)
    return int(judged(collector))


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--limit", type=int, default=128, help="limits.memory_mib")
    options.add_argument("--seconds", type=float, default=60, help="of the flood")
    options.add_argument("--times", type=float, default=10, help="of the load that is sustained")
    options.add_argument("--connections", type=int, default=1, help="of the flood, 100 streams each")
    options = options.parse_args()
    os.sched_setaffinity(0, {1})
    rules = "\n".join(f"  output_rules/{n}:" for n in range(RULES))
    collector = Collector(CONFIG.format(rules=rules, limit=options.limit), cores="0")
    go_first()
    time.sleep(2)
    idle = collector.status("VmRSS")
    rate, taken = sustained(collector)
    wait_until_judged(collector, taken)

    nine = Nine(collector, rate / 2)
    time.sleep(1)
    began = time.monotonic()
    time.sleep(10)
    flooded, before = time.monotonic(), collector.metrics()
    collector.forget_peak()
    flooder = Flooder(collector.http, options.seconds, rate * options.times, 100, TEXT_BYTES,
                      options.connections)
    answers, sent, took = flooder.finish()
    ended = time.monotonic()
    peak, bit = collector.status("VmHWM"), what_bit(before, collector.metrics())
    time.sleep(10)
    codes = nine.finish()
    acknowledged = taken + codes.get(200, 0) + answers.get("200", 0)
    seen = wait_until_judged(collector, acknowledged)
    code, last = collector.stop()

    alone = nine.between(began, flooded)
    beside = nine.between(flooded + 1, ended)
    p50, p99 = percentile(alone, 0.5), percentile(alone, 0.99)
    now50, now99 = percentile(beside, 0.5), percentile(beside, 0.99)
    seconds = [percentile(nine.between(ended + n, ended + n + 1), 0.99) for n in range(9)]
    back = next((n for n, after in enumerate(seconds) if after <= 2 * p99), None)
    refused = {status for status in answers if status not in ("200", "503")}
    allowed = 1.1 * options.limit + idle
    checks = {
        f"peak {peak:.0f} MiB of {allowed:.0f} (idle {idle:.0f})": peak <= allowed,
        f"flood: {sent} requests, {sent / took:.0f}/s, answers {answers}": not refused,
        f"nine: {codes}": set(codes) <= {200},
        f"nine alone p50 {p50:.1f} p99 {p99:.1f} ms, beside it p50 {now50:.1f} p99 {now99:.1f} ms":
            now99 <= 2 * p99,
        f"acknowledged {acknowledged}, judged {seen}": seen == acknowledged,
        f"p99 of each second after it, ms: {[round(after, 1) for after in seconds]}":
            back is not None and back <= 5,
        f"exit {code}: {last}": code == 0,
    }
    for what, is_well in checks.items():
        print(f"{'ok   ' if is_well else 'WRONG'} {what}")
    print(f"      {bit}")
    raise SystemExit(0 if all(checks.values()) else 1)


if __name__ == "__main__":
    main()
