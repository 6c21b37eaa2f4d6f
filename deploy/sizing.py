#!/usr/bin/env python3
"""Size of a fleet over Kafka, from measured inputs: docs/sizing.md.

    deploy/sizing.py                        the table of the page
    deploy/sizing.py --spans-per-second 50000 --spans-per-trace 30 --open-seconds 60
"""

import argparse
import math

# Seconds of a processor for a million spans over gRPC, and bytes of an open trace, for traces of 12
# spans and 22 kB. docs/sizing.md says how both were measured.
MEASURED = {
    "two": {"cpu": 4.9, "open_bytes": 2557},
    "eight": {"cpu": 12.0, "open_bytes": 6473},
}
MEASURED_SPANS = 12
# Not measured yet: the aim for receiving from Kafka, times the cost over gRPC, taken as a bound.
KAFKA_TIMES = 1.5
# Part of a core that is used, so that a fleet of n goes on with n - 1 and works off its lag.
LOAD = 0.5
# Part of a process's memory that open and remembered traces have by default: 176 of 1024 MiB.
TRACES_SHARE = 176 / 1024
# Two would double what the other does when one dies.
MEMBERS_MIN = 3
GIB = 1 << 30


def size(arguments):
    measured = MEASURED[arguments.evaluators]
    spans = arguments.spans_per_second
    traces = spans / arguments.spans_per_trace
    cores_busy = spans * measured["cpu"] * KAFKA_TIMES / 1e6
    cores = cores_busy / LOAD
    open_traces = traces * arguments.open_seconds
    trace_bytes = measured["open_bytes"] * arguments.spans_per_trace / MEASURED_SPANS
    members = max(MEMBERS_MIN, math.ceil(cores / arguments.cores))
    memory = max(open_traces * trace_bytes / members / TRACES_SHARE * 1.1, GIB / 2)
    partitions = 4 * members
    # One member dies: its partitions go to the others, a whole number to each.
    busiest = math.ceil(partitions / (members - 1)) / (partitions / members)
    capacity = max(cores, MEMBERS_MIN * arguments.cores) / cores_busy * traces / members
    behind = traces / members * (arguments.open_seconds + arguments.session_timeout)
    spare = capacity - traces / members * busiest
    catching_up = behind / (members - 1) / spare
    return {
        "spans a second": f"{spans:,.0f}",
        "traces a second": f"{traces:,.0f}",
        "cores busy": f"{cores_busy:,.2f}",
        "processes of %d cores" % arguments.cores: f"{members:,}",
        "open traces": f"{open_traces:,.0f}",
        "memory of a process, GiB": f"{memory / GIB:,.1f}",
        "partitions": f"{partitions:,}",
        "busiest member once one has died, times the mean": f"{busiest:.2f}",
        "seconds until what a dead member held is read again":
            f"{arguments.session_timeout + catching_up:,.0f}",
        "processor seconds of a million traces":
            f"{arguments.spans_per_trace * measured['cpu'] * KAFKA_TIMES:,.0f}",
    }


def parser():
    out = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    out.add_argument("--spans-per-second", type=float)
    out.add_argument("--spans-per-trace", type=float, default=12)
    out.add_argument("--session-timeout", type=float, default=10, help="seconds")
    out.add_argument("--open-seconds", type=float, default=40,
                     help="from the first span of a trace until it is forgotten: its length, and "
                          "`traces.remember_period`")
    out.add_argument("--cores", type=int, default=4, help="of a process")
    out.add_argument("--evaluators", choices=sorted(MEASURED), default="eight")
    return out


def main():
    arguments = parser().parse_args()
    rates = [arguments.spans_per_second] if arguments.spans_per_second else [1e3, 1e5, 1e7]
    columns = []
    for rate in rates:
        arguments.spans_per_second = rate
        columns.append(size(arguments))
    first, *rest = columns[0]
    print("| " + " | ".join([first, *(column[first] for column in columns)]) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for row in rest:
        print("| " + " | ".join([row, *(column[row] for column in columns)]) + " |")


if __name__ == "__main__":
    main()
