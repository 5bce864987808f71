"""A rank's part of the rendezvous, written from docs/decisions/0019-the-rendezvous-knows-its-ranks.md rather than from braid's source: a braid
of another version. rendezvous_client.py ADDRESS PORT PROTOCOL VERSION, with the secret in BRAID_RUN_SECRET, joins as rank 3 and prints
what rank 0 says to that."""
import hashlib
import hmac
import os
import socket
import struct
import sys
import time

GREETING = b"BRAIDRV1"


def code(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def number(value):
    return struct.pack(">Q", value)


def text(value):
    return number(len(value)) + value


class Rank:
    """A connection that has proved to know the secret. Raises PermissionError if rank 0 says that it does not."""

    def __init__(self, address, port, secret, seconds=60):
        end = time.monotonic() + seconds
        while True:
            try:
                self.socket = socket.create_connection((address, port), timeout=seconds)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
        greeting = self.receive(len(GREETING) + 32)
        if not greeting.startswith(GREETING):
            raise ConnectionError("no braid answers")
        nonces = greeting[len(GREETING):] + (own := os.urandom(32))
        self.socket.sendall(own + code(secret, b"braid joiner proof", nonces))
        if self.receive(1) != b"y":
            raise PermissionError("rank 0 rejects the proof")
        if self.receive(32) != code(secret, b"braid host proof", nonces):
            raise PermissionError("rank 0 does not know the secret")
        self.keys = [code(secret, purpose, nonces) for purpose in (b"braid frames to host", b"braid frames to joiner")]
        self.counts = [0, 0]

    def receive(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("rank 0 closed the connection")
            data += piece
        return data

    def _code(self, direction, length, body):
        self.counts[direction] += 1
        return code(self.keys[direction], number(self.counts[direction] - 1), length, body)

    def exchange(self, body):
        self.socket.sendall(number(len(body)) + body + self._code(0, number(len(body)), body))
        length = self.receive(8)
        reply = self.receive(struct.unpack(">Q", length)[0])
        if self.receive(32) != self._code(1, length, reply):
            raise ConnectionError("a frame with a wrong code")
        return reply


def main():
    address, port, protocol, version = sys.argv[1:]
    rank = Rank(address, int(port), os.environ["BRAID_RUN_SECRET"].encode())
    reply = rank.exchange(number(0) + number(int(protocol)) + number(3) + text(version.encode()))
    outcome, other = struct.unpack(">QQ", reply[:16])
    if outcome != 2:
        sys.exit(f"rank 0 accepts protocol {protocol}")
    sys.exit(f"rank 0 runs braid {reply[24:].decode()} with startup protocol {other}")


if __name__ == "__main__":
    main()
