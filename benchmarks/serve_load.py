"""The load generator of serve.py: clients in one process that ask as fast as they are answered, or at a given rate.

It speaks HTTP over plain sockets, with bodies made before the clock starts, so that it takes little of the processor
that the service shares with it. It prints one line of JSON: the seconds that every answer took, and what went wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import dataclass, field

import numpy as np

BODIES = 500  # different queries


@dataclass
class Taken:
    """The latencies of all answers, in seconds, and the number of answers that were not 200."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0


def bodies(dimensions: int, k: int) -> list[bytes]:
    """Return requests as they go over the wire."""
    rows = np.random.default_rng(7).standard_normal((BODIES, dimensions)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    written = [json.dumps({"vector": [round(float(x), 5) for x in row], "k": k}).encode() for row in rows]
    head = "POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
    return [head.format(len(body)).encode() + body for body in written]


class Client:
    """One connection that is kept open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> int:
        """Send a request and return the status of its answer, read to the end."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        return int(head.split(None, 2)[1])


async def in_turn(port: int, clients: int, seconds: float, requests: list[bytes]) -> Taken:
    """Let each client ask again as soon as it is answered."""
    taken, end = Taken(), time.perf_counter() + seconds

    async def one(number: int) -> None:
        client, at = Client(port), number * 17
        while time.perf_counter() < end:
            began = time.perf_counter()
            status = await client.ask(requests[at % len(requests)])
            taken.seconds.append(time.perf_counter() - began)
            taken.failed += status != 200
            at += 1

    await asyncio.gather(*(one(number) for number in range(clients)))
    return taken


async def at_a_rate(port: int, rate: float, seconds: float, requests: list[bytes]) -> Taken:
    """Ask at random moments, so many times a second, whether earlier ones are answered or not."""
    taken, free, draws = Taken(), [], np.random.default_rng(3)  # type: ignore[var-annotated]
    tasks = set()

    async def one(request: bytes, due: float) -> None:
        client = free.pop() if free else Client(port)
        status = await client.ask(request)
        free.append(client)
        taken.seconds.append(time.perf_counter() - due)
        taken.failed += status != 200

    due = time.perf_counter()
    end = due + seconds
    while due < end:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(one(requests[len(taken.seconds) % len(requests)], due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        due += draws.exponential(1 / rate)
    await asyncio.gather(*tasks)
    return taken


def main() -> None:
    """Ask, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dimensions", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--rate", type=float, help="requests a second, in place of clients that take turns")
    parser.add_argument("-k", type=int, default=10)
    given = parser.parse_args()
    requests = bodies(given.dimensions, given.k)
    began = time.perf_counter()
    if given.rate is None:
        taken = asyncio.run(in_turn(given.port, given.clients, given.seconds, requests))
    else:
        taken = asyncio.run(at_a_rate(given.port, given.rate, given.seconds, requests))
    lasted = time.perf_counter() - began
    print(json.dumps({"seconds": taken.seconds, "failed": taken.failed, "lasted": lasted}))


if __name__ == "__main__":
    main()
