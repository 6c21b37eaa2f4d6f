"""Path to a broker on which some requests go astray."""

import socket
import struct
import threading

# Kinds of requests, as the protocol numbers them.
OFFSET_COMMIT, SYNC_GROUP = 8, 14


def received(stream, count):
    """Exactly so many bytes; None at the end of the stream."""
    data = b""
    while len(data) < count:
        part = stream.recv(count - len(data))
        if not part:
            return None
        data += part
    return data


class Proxy:
    """Passes connections on to a broker that names this address as its own."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.broker, self.fault = None, None
        self.held = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        host, port = self.broker.split(":")
        with client, socket.create_connection((host, int(port))) as broker:
            threading.Thread(target=self.answer, args=(broker, client), daemon=True).start()
            try:
                while (size := received(client, 4)) and (body := received(client, *struct.unpack(">i", size))):
                    body = self.fault(bytearray(body), broker) if self.fault else body
                    if body is not None:
                        broker.sendall(struct.pack(">i", len(body)) + body)
            except OSError:
                pass

    @staticmethod
    def answer(broker, client):
        try:
            while data := broker.recv(1 << 16):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def heal(self):
        """Passes everything on again, and what was held."""
        self.fault = None
        for broker, body in self.held:
            broker.sendall(struct.pack(">i", len(body)) + body)
        self.held = []

    # Faults: each takes a request, and returns what the broker gets.

    def closes(self, body, _):
        """The connection ends instead of a commit."""
        if kind(body) == OFFSET_COMMIT:
            raise ConnectionError("closed")
        return body

    def swallows(self, body, _):
        """A commit gets no answer."""
        return None if kind(body) == OFFSET_COMMIT else body

    def outdates(self, body, _):
        """A commit names a generation that the group has left."""
        if kind(body) == OFFSET_COMMIT:
            body[membership(body) + 3] ^= 0x40
        return body

    def renames(self, body, _):
        """A commit names a member that the group does not have."""
        if kind(body) == OFFSET_COMMIT:
            body[membership(body) + 10] ^= 1
        return body

    def delays(self, body, broker):
        """No member hears of its partitions: the group goes on dividing them."""
        if kind(body) == SYNC_GROUP:
            self.held.append((broker, bytes(body)))
            return None
        return body


def kind(body):
    return struct.unpack_from(">h", body)[0]


def membership(body):
    """Index of a commit's generation, behind which its member stands."""
    version, client = struct.unpack_from(">h", body, 2)[0], struct.unpack_from(">h", body, 8)[0]
    at = 10 + max(client, 0)
    if version < 8:
        return at + 2 + struct.unpack_from(">h", body, at)[0]
    # Tags of the head, then the group's name; both lengths take one byte.
    return at + 1 + body[at + 1]
