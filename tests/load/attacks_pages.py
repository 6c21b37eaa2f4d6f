"""Attacks on the ports that people and their tools use: pages, questions, streams, changes, probes."""

import contextlib
import http.client
import json
import socket
import time

from attacks_http import plain, until
from harness import close, for_seconds, free_ports, ordinary

TOKEN = "0123456789abcdef"
ANSWERED = contextlib.suppress(OSError)


def config():
    """The config of the store and its pages, with their port."""
    port, = free_ports(1)
    return port, f"store: {{}}\ndashboard: {{endpoint: 127.0.0.1:{port}, token: {TOKEN}}}"


def ask(collector, method, path, body=None):
    """The status of an answer of the interface, with the token."""
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", collector.pages, timeout=20)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__, b""
    finally:
        connection.close()


def stored(collector, count):
    """The id of one of some runs that are stored."""
    for _ in range(count):
        collector.post(ordinary())
    for _ in range(200):
        found = json.loads(ask(collector, "GET", "/api/v1/traces?limit=1")[1] or "{}").get("items")
        if found:
            return found[0]["trace_id"]
        time.sleep(0.1)
    raise SystemExit("no run is stored")


def page_headers(collector, seconds):
    """Headers of 390 KB without an end, on as many connections as the pages, the scrapes and the probes may have."""
    head = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 4000) for n in range(97))
    held, end = [], time.monotonic() + seconds
    for port, count in [(collector.pages, 256), (collector.metrics_port, 64), (collector.health, 48)]:
        for _ in range(count):
            with ANSWERED:
                held.append(plain(port))
                held[-1].settimeout(0.5)
                held[-1].sendall(head)
    time.sleep(max(0.0, end - time.monotonic()))
    return close(held)


def pages(collector, seconds):
    """The largest file of the pages, compressed, one request behind the other over eight connections."""
    head = b"GET /app.js HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\n\r\n" * 20
    def send():
        def ask_on(connection):
            connection.sendall(head)
            return 20
        return until(seconds, lambda: plain(collector.pages), ask_on)
    return for_seconds(seconds, send, 8)


def logins(collector, seconds):
    """Logins with wrong tokens."""
    def send():
        return ask(collector, "POST", "/login", "token=" + "x" * 4000)[0]
    return for_seconds(seconds, send, 8)


def unread_streams(collector, seconds):
    """64 streams of events that nobody reads, while runs are stored."""
    held = []
    for _ in range(64):
        with ANSWERED:
            held.append(plain(collector.pages))
            held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            held[-1].sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n\r\n"
                             % TOKEN.encode())
    counts = for_seconds(seconds, lambda: collector.post(ordinary()), 2)
    close(held)
    return counts


def questions(collector, seconds):
    """Questions over all runs, sixteen at a time."""
    stored(collector, 500)
    paths = iter(range(1 << 30))
    def send():
        kind = ["evaluations?text=zzz", "traces?text=zzz", "series?group_by=service", "agreement"][next(paths) % 4]
        return ask(collector, "GET", f"/api/v1/{kind}")[0]
    return for_seconds(seconds, send, 16)


def changes(collector, seconds):
    """Annotations and items of data sets as fast as they are taken, the largest that are."""
    trace = stored(collector, 3)
    numbers = iter(range(1 << 30))
    def send():
        number = next(numbers)
        item = json.dumps({"key": f"k{number}", "trace_id": trace, "note": "x" * 1000})
        note = json.dumps({"trace_id": trace, "label": "fail", "comment": "y" * 1000, "author": f"a{number}"})
        path, body = [("annotations", note), ("datasets/d/items", item)][number % 2]
        return ask(collector, "POST", f"/api/v1/{path}", body)[0]
    return for_seconds(seconds, send, 16)


PAGES = {"page_headers": page_headers, "pages": pages, "logins": logins, "unread_streams": unread_streams,
         "questions": questions, "changes": changes}
