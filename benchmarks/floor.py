"""The floor: encode every payload once, copy the bytes once, and do nothing else.

Two places to copy to. `fresh_mapping` is what any journal must pay: pages of a reserved file that are
touched for the first time. `warm_memory` is a buffer used over and over, which stays in the CPU's cache
and survives no kill; it shows how much of the first figure belongs to the kernel.
"""

import mmap
import os
import time
from collections.abc import Sequence
from typing import Any

from msgspec import msgpack

from benchmarks.rounds import Round
from benchmarks.tracers import scratch_folder


def fresh_mapping(payloads: Sequence[Any], *, ops: int, size_bytes: int) -> Round:
    """One round: encode, and copy into a new file mapping."""

    def run() -> float:
        with scratch_folder() as folder:
            file = os.open(os.path.join(folder, "journal"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.posix_fallocate(file, 0, size_bytes)
                with mmap.mmap(file, size_bytes) as target:
                    return _encode_and_copy(payloads, target) / ops
            finally:
                os.close(file)

    return run


def warm_memory(payloads: Sequence[Any], *, ops: int, size_bytes: int) -> Round:
    """One round: encode, and copy to the start of one and the same buffer each time."""
    target = bytearray(size_bytes)

    def run() -> float:
        return _encode_and_copy(payloads, target, rewind=True) / ops

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


def _encode_and_copy(payloads: Sequence[Any], target: bytearray | mmap.mmap, *, rewind: bool = False) -> float:
    encode = msgpack.Encoder().encode
    position = 0
    begin = time.perf_counter_ns()
    for payload in payloads:
        data = encode(payload)
        end = position + len(data)
        target[position:end] = data
        if not rewind:
            position = end
    return (time.perf_counter_ns() - begin) / 1e3
