#!/usr/bin/env python3
"""Scorers on a real Kafka, killed, stopped, paused and added while traces come.

    tests/kafka/run.py BINARY [--moments 60] [--seed N] [--rate 30] [--folder DIR]

Needs a binary with the feature `kafka`, Java 17 and Maven. Every trace sent must be judged with all
its calls and its log record, and distinct evaluation ids must be one per trace and evaluator.
"""

import argparse
import random
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path

import faults
import senders
from broker import Broker
from fleet import Fleet, alone, judge, load, sent, wait_for_all, wait_until

MEMBERS_MAX = 5


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
    parser.add_argument("--only", nargs="+", help="some of the other scenarios")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--rate", type=int, default=30)
    parser.add_argument("--folder", type=Path, default=Path("target/kafka"))
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    broker = Broker(folder)
    try:
        scenarios = [killed_before_commit, poison, other_key, endless, *faults.ALL, *senders.ALL]
        if arguments.only:
            scenarios = [it for it in scenarios if it.__name__ in arguments.only]
        elif arguments.moments > 0:
            scenarios.insert(0, churn)
        results = {it.__name__: it(arguments, broker, folder) for it in scenarios}
        failed = [name for name, is_right in results.items() if not is_right]
        print("failed: " + ", ".join(failed) if failed else "all is right")
    finally:
        broker.kill()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
