"""Every flipped byte of a part, and every cut, is found."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rolltrace.record.tables import SCORES
from rolltrace.store import Partition, checksum_problem, prepare, write_part


@pytest.fixture
def part(tmp_path: Path) -> Path:
    prepare(tmp_path)
    where = {"project": "p", "experiment": "e", "step": 1}
    rows = [{**where, "trajectory_id": f"{n:032x}", "name": "reward", "value": n / 7} for n in range(50)]
    return write_part(tmp_path, Partition("p", "e", 1), SCORES, "w-0", rows)


def test_a_part_as_it_was_written_has_no_problem(part: Path) -> None:
    assert checksum_problem(part) is None


def test_every_flipped_byte_is_found(part: Path) -> None:
    data = part.read_bytes()
    chance = random.Random(0)
    missed = []
    for at in range(len(data)):
        part.write_bytes(data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :])
        if checksum_problem(part) is None:
            missed.append(at)
    assert missed == []


@pytest.mark.parametrize("seed", range(50))
def test_every_cut_is_found(part: Path, seed: int) -> None:
    data = part.read_bytes()
    part.write_bytes(data[: random.Random(seed).randrange(len(data))])
    assert checksum_problem(part) is not None
