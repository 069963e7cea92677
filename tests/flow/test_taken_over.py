"""Whoever drains a journal, and wherever that is interrupted: the tables have each of its rows once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.host import can_be_hosts, interleavings
from tests.nightly import nightly

FIRST = {"kill": 161, "over": 121, "stop": 125, "both": 105}
"""In `make test` one moment of each, between two tables."""


@pytest.mark.skipif(not can_be_hosts(), reason="no namespaces can be made here")
@pytest.mark.parametrize("how", FIRST)
def test_a_drainer_may_be_interrupted_at_any_step_and_its_journals_be_taken_over(tmp_path: Path, how: str) -> None:
    every, first = nightly(1, 1000), nightly(1, FIRST[how])
    assert interleavings("tests.flow.taken_over", tmp_path, every, how, first) >= 1
