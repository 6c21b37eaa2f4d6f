"""A sender that floods: requests on the streams of HTTP/2 connections, as many as it is told.

It keeps to the protocol (windows, streams at once) and to nothing else: what is refused it does not
send later, and it never waits.
"""

import collections
import multiprocessing
import os
import socket
import struct
import time

from harness import PREFACE, agent, frame, literal, request, tool

HEADERS = b"".join(literal(*pair) for pair in [
    (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/v1/traces"), (b":authority", b"x"),
    (b"content-type", b"application/x-protobuf")])
DIGITS = {f"{n:05b}": str(n) for n in range(3)} | {f"{n + 22:06b}": str(n) for n in range(3, 10)}


class Template:
    """A request of one trace, made anew by the id of its trace alone."""

    def __init__(self, text_bytes):
        sentence = "The parcel of Ms. Jones left Hull on 12 March, weighs 3 kg and costs 4.20. "
        text = (sentence * (text_bytes // len(sentence) + 1))[:text_bytes]
        trace, root = os.urandom(16), os.urandom(8)
        spans = [agent(trace, root, **{"output.value": text}), tool(trace, root, "track_parcel")]
        self.body = request(spans, "flood")
        self.parts = self.body.split(trace)

    def make(self):
        return os.urandom(16).join(self.parts)


def status_of(headers):
    """The status of an answer whose headers use no dynamic table, and whether it says when to retry."""
    while headers[0] & 0xE0 == 0x20:
        headers = headers[1:]
    retry = b"\x0f\x26" in headers or b"\x75" in headers
    known = {0x88: "200", 0x8C: "400", 0x8D: "404", 0x8E: "500"}
    if headers[0] in known:
        return known[headers[0]], retry
    length = headers[1] & 0x7F
    value = headers[2:2 + length]
    if not headers[1] & 0x80:
        return value.decode(), retry
    bits, text = "".join(f"{byte:08b}" for byte in value), ""
    while len(text) < 3:
        size = next(n for n in (5, 6) if bits[:n] in DIGITS)
        text, bits = text + DIGITS[bits[:size]], bits[size:]
    return text, retry


class Connection:
    """One HTTP/2 connection; `counts` says what was answered."""

    def __init__(self, port, counts):
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        settings = struct.pack(">HI", 1, 0)
        self.socket.sendall(PREFACE + frame(4, 0, 0, settings)
                            + frame(8, 0, 0, struct.pack(">I", 1 << 30)))
        self.socket.setblocking(False)
        self.counts, self.read, self.unsent = counts, b"", b""
        self.window, self.number, self.open, self.is_closed = 65535, 1, set(), False

    def send(self, bodies):
        """Sends requests, a stream each."""
        for body in bodies:
            self.unsent += frame(1, 4, self.number, HEADERS) + frame(0, 1, self.number, body)
            self.open.add(self.number)
            self.number, self.window = self.number + 2, self.window - len(body)
        self.flush()

    def flush(self):
        try:
            sent = self.socket.send(self.unsent) if self.unsent else 0
            self.unsent = self.unsent[sent:]
        except BlockingIOError:
            pass
        except OSError:
            self.is_closed = True

    def receive(self):
        try:
            more = self.socket.recv(1 << 18)
            self.is_closed |= not more
            self.read += more
        except BlockingIOError:
            return
        except OSError:
            self.is_closed = True
        at = 0
        while len(self.read) >= at + 9:
            length = int.from_bytes(self.read[at:at + 3], "big")
            if len(self.read) < at + 9 + length:
                break
            kind, flags = self.read[at + 3], self.read[at + 4]
            stream = int.from_bytes(self.read[at + 5:at + 9], "big")
            self.took(kind, flags, stream, self.read[at + 9:at + 9 + length])
            at += 9 + length
        self.read = self.read[at:]

    def took(self, kind, flags, stream, payload):
        if kind == 1:
            status, retry = status_of(payload)
            self.counts[status if status == "200" or retry else f"{status} without Retry-After"] += 1
        elif kind == 3:
            self.counts[f"reset {int.from_bytes(payload, 'big')}"] += stream in self.open
            self.open.discard(stream)
        elif kind == 4 and not flags & 1:
            self.unsent += frame(4, 1, 0)
        elif kind == 6 and not flags & 1:
            self.unsent += frame(6, 1, 0, payload)
        elif kind == 7:
            self.counts["goaway"] += 1
        elif kind == 8 and stream == 0:
            self.window += int.from_bytes(payload, "big")
        if kind in (0, 1) and flags & 1:
            self.open.discard(stream)


class Flood:
    """Requests on the streams of some connections."""

    def __init__(self, port, streams, template):
        self.port, self.streams, self.template = port, streams, template
        self.size, self.counts, self.sent = len(template.body), collections.Counter(), 0
        self.connection = Connection(port, self.counts)

    def go_on(self, most):
        """Sends at most so many, takes what was answered, and gives how many it sent."""
        if self.connection.is_closed:
            self.counts["closed without an answer"] += len(self.connection.open)
            self.connection = Connection(self.port, self.counts)
        connection = self.connection
        room = min(self.streams - len(connection.open), connection.window // self.size)
        count = max(0, min(room, most, 20)) if not connection.unsent else 0
        connection.send([self.template.make() for _ in range(count)])
        connection.receive()
        self.sent += count
        return count


def flood(port, seconds, rate, streams, body_bytes, connections=1):
    """Sends until the time is over and all is answered; what was answered, and how many were sent."""
    template, began = Template(body_bytes), time.monotonic()
    floods = [Flood(port, streams, template) for _ in range(connections)]
    sent = 0
    while (now := time.monotonic()) < began + seconds + 20:
        is_over = now > began + seconds
        if is_over and not any(flood.connection.open for flood in floods):
            break
        due = 0 if is_over else int((now - began) * rate) - sent if rate else 1 << 30
        # What could not be sent in time is not sent later.
        sent = max(sent, int((now - began) * rate) - 1000)
        before = sent
        for flood in floods:
            count = flood.go_on(due)
            due, sent = due - count, sent + count
        if sent == before:
            time.sleep(0.0005)
    counts = sum((flood.counts for flood in floods), collections.Counter())
    counts["unanswered"] += sum(len(flood.connection.open) for flood in floods)
    return dict(+counts), sum(flood.sent for flood in floods), min(now - began, seconds)


def child(pipe, *arguments):
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    pipe.send(flood(*arguments))


class Flooder:
    """A flood in a process of its own."""

    def __init__(self, port, seconds, rate=0, streams=100, body_bytes=6000, connections=1):
        self.pipe, theirs = multiprocessing.Pipe()
        arguments = (theirs, port, seconds, rate, streams, body_bytes, connections)
        self.process = multiprocessing.get_context("fork").Process(target=child, args=arguments)
        self.process.start()

    def finish(self):
        found = self.pipe.recv()
        self.process.join()
        return found
