"""Faults of the brokers, while traces come."""

import signal
import time

from broker import Broker
from fleet import alone, judge, load, sent, wait_for_all, wait_until
from proxy import Proxy

FAILURES = "spanscore_receiver_kafka_commit_failures_total"


def broker_restarts(arguments, broker, folder):
    """The broker is killed three times, and each time away for some seconds."""
    fleet, out = alone(arguments, broker, "restarts")
    loading = load(broker, fleet.topic, 20, 40, out)
    wait_until(lambda: len(sent(out)) > 20)
    for _ in range(3):
        broker.kill()
        time.sleep(3)
        broker.start()
        time.sleep(5)
    loading.wait()
    missing = wait_for_all(fleet, out, 90)
    lost = fleet.members[0].metric("spanscore_receiver_kafka_rebalances_total", 'event="lost"')
    fleet.stop()
    shown = judge(fleet, sent(out))
    print(f"broker restarts: lost the membership {lost:.0f} times,", shown)
    return (loading.returncode == 0 and not missing
            and shown["whole verdicts with more than one id"] == 0
            and shown["of them not revised"] == 0)


def gone_before_commit(arguments, broker, folder):
    """The broker goes while there is much to commit, and the scorer before it is back."""
    fleet, out = alone(arguments, broker, "gone")
    load(broker, fleet.topic, 20, 3, out).wait()
    broker.kill()
    wait_for_all(fleet, out, 30)
    fleet.remove(fleet.members[0], signal.SIGKILL)
    broker.start()
    fleet.add()
    is_past = wait_until(lambda: broker.lag(fleet.topic)[0] == 0, 90)
    missing = wait_for_all(fleet, out, 60)
    fleet.stop()
    shown = judge(fleet, sent(out))
    print(f"gone before the commit: positions {'at the end' if is_past else 'stuck'},", shown)
    return is_past and not missing and shown["whole verdicts with more than one id"] == 0


def commits_fail(arguments, _, folder):
    """Commits that do not arrive, or come from a member that the group does not know."""
    proxy = Proxy()
    broker = Broker(folder / "commits", proxy=proxy)
    cases = {proxy.closes: "no_coordinator", proxy.swallows: "no_coordinator",
             proxy.outdates: "no_member", proxy.renames: "no_member", proxy.delays: "rebalance"}
    try:
        return all([fails(arguments, broker, proxy, *case) for case in cases.items()])
    finally:
        broker.kill()


def metadata_too_large(arguments, _, folder):
    """A broker that takes less metadata with a position than is usual."""
    proxy = Proxy()
    broker = Broker(folder / "metadata", "offset.metadata.max.bytes=16", proxy=proxy)
    try:
        return fails(arguments, broker, proxy, None, "metadata_too_large")
    finally:
        broker.kill()


def fails(arguments, broker, proxy, fault, reason):
    """Commits fail for a while, as traces come and are judged; true if nothing came of it."""
    name = fault.__name__ if fault else "none"
    fleet, out = alone(arguments, broker, name, address=proxy.address)
    member = fleet.members[0]
    loading = load(broker, fleet.topic, 20, 12, out)
    wait_until(lambda: len(sent(out)) > 60)
    proxy.fault = fault
    if reason == "rebalance":
        fleet.add()
    is_counted = wait_until(lambda: member.metric(FAILURES, f'reason="{reason}"'), 90)
    proxy.heal()
    loading.wait()
    missing = wait_for_all(fleet, out, 90)
    is_past = wait_until(lambda: broker.lag(fleet.topic)[0] == 0, 90)
    counted = member.metric(FAILURES, f'reason="{reason}"')
    lost = member.metric("spanscore_receiver_kafka_rebalances_total", 'event="lost"')
    fleet.stop()
    shown = judge(fleet, sent(out))
    print(f"a proxy that {name}: {counted:.0f} commits failed ({reason}), membership lost {lost:.0f} times, "
          f"positions {'at the end' if is_past else 'stuck'},", shown, flush=True)
    return (is_counted and is_past and not missing and shown["of them not revised"] == 0
            and shown["whole verdicts with more than one id"] == 0)


def fenced(arguments, broker, folder):
    """Two members under one `group_instance_id`: the first one has to go."""
    fleet, out = alone(arguments, broker, "fenced", more="    group_instance_id: one")
    loading = load(broker, fleet.topic, 20, 12, out)
    wait_until(lambda: len(sent(out)) > 60)
    first = fleet.members[0]
    fleet.add()
    fatal = lambda: first.metric("spanscore_receiver_kafka_errors_total", 'reason="fatal"')
    is_fenced = wait_until(fatal)
    loading.wait()
    missing = wait_for_all(fleet, out, 90)
    is_past = wait_until(lambda: broker.lag(fleet.topic)[0] == 0, 90)
    counted = first.metric(FAILURES, 'reason="no_member"')
    fleet.stop()
    shown = judge(fleet, sent(out))
    print(f"fenced: the first reads {'no more' if is_fenced else 'on'}, {counted:.0f} commits failed (no_member), "
          f"positions {'at the end' if is_past else 'stuck'},", shown)
    return (is_fenced and is_past and not missing
            and shown["whole verdicts with more than one id"] == 0)


ALL = [broker_restarts, gone_before_commit, commits_fail, metadata_too_large, fenced]
