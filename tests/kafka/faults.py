"""Faults of the brokers, while traces come."""

import signal
import time

from fleet import alone, judge, load, sent, wait_for_all, wait_until


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


ALL = [broker_restarts, gone_before_commit]
