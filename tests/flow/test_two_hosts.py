"""Several hosts on one folder: whatever the interleaving, nothing is lost, doubled or sent twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.host import can_be_hosts, interleavings
from tests.nightly import nightly


@pytest.mark.skipif(not can_be_hosts(), reason="no namespaces can be made here")
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_host_may_be_suspended_or_killed_at_any_step_of_its_work(tmp_path: Path, how: str) -> None:
    every, first = nightly(1, 1000), nightly(1, 60 if how == "stop" else 150)
    assert interleavings("tests.flow.two_hosts", tmp_path, every, how, first) >= 1
