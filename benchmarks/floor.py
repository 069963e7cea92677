"""The floor: encode every payload once, copy the bytes once, and do nothing else.

Two places to copy to. `fresh_file` is what any journal must pay: one write to the end of a file. `warm_memory` is a
buffer used over and over, which stays in the CPU's cache and survives no kill; it shows how much of the first figure
belongs to the kernel.
"""

import os
import time
from collections.abc import Sequence
from typing import Any

from msgspec import msgpack

from benchmarks.rounds import Round
from benchmarks.tracers import scratch_folder


def fresh_file(payloads: Sequence[Any], *, ops: int) -> Round:
    """One round: encode, and write to the end of a new file."""
    encode = msgpack.Encoder().encode

    def run() -> float:
        with scratch_folder() as folder:
            file = os.open(os.path.join(folder, "journal"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                begin = time.perf_counter_ns()
                for payload in payloads:
                    os.write(file, encode(payload))
                return (time.perf_counter_ns() - begin) / 1e3 / ops
            finally:
                os.close(file)

    return run


def warm_memory(payloads: Sequence[Any], *, ops: int, size_bytes: int) -> Round:
    """One round: encode, and copy to the start of one and the same buffer each time."""
    target = bytearray(size_bytes)

    def run() -> float:
        return _encode_and_copy(payloads, target) / ops

    return run


def encoding_alone(payloads: Sequence[Any], *, ops: int) -> Round:
    """One round: encode, and let the bytes go."""
    encode = msgpack.Encoder().encode

    def run() -> float:
        begin = time.perf_counter_ns()
        for payload in payloads:
            encode(payload)
        return (time.perf_counter_ns() - begin) / 1e3 / ops

    return run


def _encode_and_copy(payloads: Sequence[Any], target: bytearray) -> float:
    encode = msgpack.Encoder().encode
    begin = time.perf_counter_ns()
    for payload in payloads:
        data = encode(payload)
        target[: len(data)] = data
    return (time.perf_counter_ns() - begin) / 1e3
