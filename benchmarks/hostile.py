"""What the worst values cost to record, each in a process of its own: `python -m benchmarks.hostile [--quick]`.

CPU seconds and memory over what the value itself takes. The bounds are in docs/design/001-capture.md.
"""

import argparse
import dataclasses
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.table import Row, at_most, render


@dataclasses.dataclass
class Node:
    left: Any
    right: Any


class Thing:
    pass


class Endless(Mapping[int, int]):
    def __getitem__(self, key: int) -> int:
        return key

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1


def _shared(make: Callable[[Any], Any], levels: int = 40) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = make(value)
    return value


VALUES: dict[str, Callable[[int], Any]] = {
    "[l, l], 40 levels": lambda size: _shared(lambda inner: [inner, inner]),
    "[l, l] beside an object": lambda size: [Thing(), _shared(lambda inner: [inner, inner])],
    "dicts shared in 40 levels": lambda size: _shared(lambda inner: {"a": inner, "b": inner}),
    "dataclasses shared in 40 levels": lambda size: _shared(lambda inner: Node(inner, inner)),
    "a thousand times a thousand lists": lambda size: [[["x" * 100] * 1000] * 1000] * 1000,
    "an endless mapping": lambda size: Endless(),
    "2 GB of text": lambda size: "x" * (2 * size),
    "1 GB of Chinese, three levels down": lambda size: {"a": [{"b": "漢" * (size // 2)}]},
    "2 GB in a list of texts": lambda size: [f"{number:01000d}" for number in range(size // 500)],
    "10 million numbers": lambda size: list(range(size // 100)),
    "a dict of 5 million numbers": lambda size: {number: number for number in range(size // 200)},
    "a million objects": lambda size: [Thing() for _ in range(size // 1000)],
    "a million broken texts": lambda size: [f"\ud800{number}" for number in range(size // 1000)],
    "100,000 lists deep": lambda size: _deep(),
}


def _deep() -> Any:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    return value


def _measure(name: str, size: int) -> dict[str, float]:
    from rolltrace.record import Snapshotter

    value = {"value": VALUES[name](size), "after": 2}
    snapshotter = Snapshotter()
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    raw = snapshotter.take(value)
    sec, after = time.process_time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"sec": sec, "mib": (after - before) / 1024, "kept_mib": len(raw) / 2**20}


def rows(size: int) -> Iterator[Row]:
    for name in VALUES:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.hostile", "--value", name, "--size", str(size)],
            cwd=Path(__file__).parent.parent,
            stdout=subprocess.PIPE,
            check=True,
        )
        figures = json.loads(done.stdout)
        yield Row(name, "CPU time", figures["sec"], "s", at_most(2))
        yield Row(name, "memory", figures["mib"], "MiB", at_most(256))
        yield Row(name, "kept", figures["kept_mib"], "MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size, to see that it runs")
    parser.add_argument("--value", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.value:
        json.dump(_measure(arguments.value, arguments.size), sys.stdout)
        return
    sys.stdout.write("\n".join(render(rows(10**7 if arguments.quick else 10**9))) + "\n")


if __name__ == "__main__":
    main()
