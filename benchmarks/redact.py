"""What taking secrets out costs: `python -m benchmarks.redact [--quick] [--json FILE]`.

Text of several kinds goes through the rules once, so that nothing is remembered, on one core (time on the processor).
Beside them stand the rules of the first version: ten words to look for, and a pattern behind each.
"""

import argparse
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.table import Row, at_least, at_most, render, write_json
from benchmarks.workload import WEIGHTS, WORDS, generate
from rolltrace.drain import Redactor
from rolltrace.drain.secret_texts import find_secrets

CHUNK = 20_000
HANZI = "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产"
FIRST_RULES = {
    "openai key": (("sk-",), r"\bsk-(?:proj-|ant-|svcacct-)?[A-Za-z0-9_-]{20,}"),
    "github token": (("gh", "github_pat_"), r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})"),
    "huggingface token": (("hf_",), r"\bhf_[A-Za-z0-9]{30,}"),
    "aws key": (("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    "google key": (("AIza",), r"\bAIza[A-Za-z0-9_-]{35}"),
    "slack token": (("xox",), r"\bxox[abprs]-[A-Za-z0-9-]{10,}"),
    "jwt": (("eyJ",), r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    "private key": (
        ("PRIVATE KEY-----",),
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----",
    ),
    "bearer token": (("earer ", "EARER "), r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{20,}=*"),
    "url password": (("://",), r"(?<=://)[^/\s:@]+:[^/\s:@]+(?=@)"),
}
_first_rules = [(words, re.compile(pattern)) for words, pattern in FIRST_RULES.values()]


def first_rules(text: str) -> None:
    for words, pattern in _first_rules:
        if any(word in text for word in words):
            pattern.sub("", text)


def texts(chunks: int) -> dict[str, list[str]]:
    """Text of each kind, in pieces as long as messages are."""
    rng = random.Random(0)
    sources = "".join(path.read_text() for path in sorted(Path(argparse.__file__).parent.glob("[a-h]*.py")))

    def english() -> str:
        words = rng.choices(WORDS, WEIGHTS, k=CHUNK // 5)
        return " ".join(word + rng.choices((",", ".", ": ", ""), (5, 5, 1, 89))[0] for word in words)[:CHUNK]

    def chinese() -> str:
        return "".join(rng.choices(HANZI + "，。：", k=CHUNK // 3))

    def code() -> str:
        start = rng.randrange(len(sources) - CHUNK)
        return sources[start : start + CHUNK]

    kinds: dict[str, Callable[[], str]] = {"english": english, "chinese": chinese, "code": code}
    pieces = {name: [make() for _ in range(chunks)] for name, make in kinds.items()}
    pieces["mixed"] = [text for three in zip(*pieces.values()) for text in three]
    return pieces


def speed(work: Callable[[str], object], pieces: list[str], rounds: int) -> float:
    """Megabytes of UTF-8 a second, in the best of some rounds."""
    size = sum(len(text.encode()) for text in pieces)
    best = float("inf")
    for _ in range(rounds):
        begin = time.process_time()
        for text in pieces:
            work(text)
        best = min(best, time.process_time() - begin)
    return size / 1e6 / best


def searching(chunks: int, rounds: int) -> Iterator[Row]:
    """Text without secrets, which nearly all text is."""
    section = f"searching text without secrets, in pieces of {CHUNK // 1000} kB"
    for name, pieces in texts(chunks).items():
        target = at_least(100) if name in ("english", "chinese", "mixed") else None
        ours, first = speed(find_secrets, pieces, rounds), speed(first_rules, pieces, rounds)
        yield Row(section, name, ours, "MB/s", target)
        yield Row(section, f"{name}, the first rules", first, "MB/s")
        yield Row(section, f"{name}, time / first rules", first / ours, "x")


def payloads(trajectories: int) -> Iterator[Row]:
    """The realistic workload, as the drainer sees it: each turn says all before it again."""
    values = [payload for each in generate(trajectories) for payload in each.payloads()]
    size = sum(each.size_bytes() for each in generate(trajectories))
    redactor = Redactor()
    begin = time.process_time()
    for value in values:
        redactor.value(value)
    section = f"payloads of {trajectories} trajectories, {size / 1e6:.0f} MB of msgpack"
    yield Row(section, "taking secrets out", size / 1e6 / (time.process_time() - begin), "MB/s")


def hostile() -> Iterator[Row]:
    """A text that made a pattern of the first rules go back again and again: twice as long took four times as long."""
    section = "hostile text: `-eyJ` over and over"
    seconds = []
    for count in (40_000, 80_000):
        begin = time.process_time()
        find_secrets("-eyJ" * count)
        seconds.append(time.process_time() - begin)
    yield Row(section, "320 kB", seconds[1] * 1e3, "ms")
    yield Row(section, "320 kB / 160 kB", seconds[1] / seconds[0], "x", at_most(3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a second or two, figures mean little")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    chunks, rounds = (5, 2) if options.quick else (100, 5)
    rows = [*searching(chunks, rounds), *payloads(2 if options.quick else 16), *hostile()]
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if options.json:
        write_json(rows, options.json)


if __name__ == "__main__":
    main()
