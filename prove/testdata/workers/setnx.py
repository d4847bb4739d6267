#!/usr/bin/env python3
"""A worker of `holdfast prove` in Python, of a lock by SET NX PX on one Redis.

    holdfast prove --store redis://localhost:6379 -- python3 setnx.py

It needs no package. With the argument "naive" it has two classic bugs: it
releases by DEL, without looking whose lock it is, and never looks at the time.
"""
import os
import socket
import sys
import time
import uuid
from urllib.parse import urlsplit

URL = urlsplit(os.environ["HOLDFAST_PROVE_URL"])
TTL = int(os.environ["HOLDFAST_PROVE_TTL_MS"])
NAIVE = "naive" in sys.argv[1:]
RELEASE = """if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"""


class Redis:
    """A connection, made when it is needed. What takes half a second fails, so that
    a lock that is given up is not late by more than that."""

    def __init__(self):
        self.file = None

    def call(self, *args):
        try:
            if self.file is None:
                conn = socket.create_connection((URL.hostname, URL.port), timeout=min(TTL / 1000, 0.5))
                self.file = conn.makefile("rwb")
                conn.close()  # the file keeps it
            words = [str(a).encode() for a in args]
            self.file.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
            self.file.flush()
            line = self.file.readline()
            if not line.endswith(b"\r\n"):
                raise OSError("the connection is gone")
            kind, rest = line[:1], line[1:-2]
            if kind == b"$":
                if rest == b"-1":
                    return None
                return self.file.read(int(rest) + 2)[:-2].decode()
            if kind == b"-":
                raise OSError(rest.decode())
            return rest.decode()
        except OSError:
            self.file = None  # whatever comes on it later is no answer to the next call
            raise


redis = Redis()
held = {}  # by name: our value, and until when it is ours


def lock(name, wait_ms):
    end = time.monotonic() + wait_ms / 1000
    while True:
        value, asked = uuid.uuid4().hex, time.monotonic()
        try:
            if redis.call("SET", name, value, "NX", "PX", TTL) == "OK":
                held[name] = value, asked + TTL / 1000
                return "granted"
        except OSError as e:
            if wait_ms == 0:
                return f"error {e}"
        if time.monotonic() >= end:
            return "refused"
        time.sleep(0.005)


def check(name):
    return "held" if NAIVE or time.monotonic() < held[name][1] else "lost"


def release(name):
    value, _ = held.pop(name)
    try:
        if NAIVE:
            redis.call("DEL", name)
            return "released"
        return "released" if redis.call("EVAL", RELEASE, 1, name, value) == "1" else "lost"
    except OSError as e:
        return f"error {e}"


print("ready", flush=True)
for line in sys.stdin:
    what, name, *rest = line.split()
    if what == "lock":
        answer = lock(name, int(rest[0]))
    elif what == "check":
        answer = check(name)
    else:
        answer = release(name)
    print(answer, flush=True)
