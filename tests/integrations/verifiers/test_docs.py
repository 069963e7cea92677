"""The how-to page is true: its example runs, with an environment such as a reader would have."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.query import open_store

from . import rig

PAGE = Path(__file__).parents[3] / "docs/howto/verifiers.md"


@pytest.mark.filterwarnings("ignore")
def test_the_example_of_the_page_runs(server: rig.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLTRACE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("ROLLTRACE_DRAIN", "off")
    (block,) = re.findall(r"^```python verifiers\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(block, names)
    asyncio.run(names["evaluate"](rig.make_env(), rig.make_context(server), 7))
    rolltrace.shutdown()
    rows = open_store(tmp_path / "store").trajectories(step=7, experiment="eval-1", limit=None)
    assert len(rows) == 4 * len(rig.PROMPTS)
    assert {row["sample_index"] for row in rows} == {f"gsm8k/{at}" for at in range(len(rig.PROMPTS))}
