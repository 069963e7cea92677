"""Dumps of slime and miles: what does not need torch. tests/integrations/importers reads real ones."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rolltrace.errors import MissingExtraError
from rolltrace.exchange import IMPORTS, ImportTarget
from rolltrace.exchange.import_rows import Malformed
from rolltrace.exchange.import_slime import _check_archive
from rolltrace.exchange.importer import Line, Source

from .conftest import Importer
from .mutations import SAMPLES, mutated

FILE = SAMPLES / "slime" / "rollout_7.pt"
SAMPLE: dict[str, Any] = {
    "group_index": 3, "index": 6, "prompt": [{"role": "user", "content": "17+25?"}], "tokens": [5, 6, 1, 2, 3],
    "response": "42", "response_length": 3, "label": "42", "reward": {"acc": 1.0}, "loss_mask": [1, 0, 1],
    "weight_versions": ["2", "3"], "rollout_log_probs": [-0.125, 0.0, -0.25], "status": "truncated",
    "metadata": {"source": "math"}, "remove_sample": False,
}  # fmt: skip


def read(path: Path, record: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The rows of a sample, by table."""
    source = Source(path, ImportTarget(path / "store", "p", "e"))
    tables: dict[str, list[dict[str, Any]]] = {}
    for row in IMPORTS["slime"].reader(source)(record, Line(1, repr(record).encode(), record, 1)):
        tables.setdefault(row.table.name, []).append(row.fields)
    return tables


def test_a_sample_is_a_model_call_with_its_tokens(tmp_path: Path) -> None:
    rows = read(FILE, SAMPLE)
    (trajectory,), (call,), (score,) = rows["trajectories"], rows["spans"], rows["scores"]
    assert (trajectory["step"], trajectory["sample_index"], trajectory["validate"]) == (7, "3", False)
    assert call["tokens"].to_pylist() == [5, 6, 1, 2, 3]
    assert (call["prompt_tokens"], call["policy_version"], call["finish_reason"]) == (2, 3, "length")
    assert (call["logprobs"].to_pylist(), call["response_mask"].to_pylist()) == ([-0.125, 0.0, -0.25], [1, 0, 1])
    assert (score["value"], score["terms"]) == (1.0, '{"acc":1.0}')


def test_of_several_rewards_the_one_called_so_counts(tmp_path: Path) -> None:
    (score,) = read(FILE, {**SAMPLE, "reward": {"score": 0.5, "format": 1}})["scores"]
    assert score["value"] == 0.5
    (score,) = read(FILE, {**SAMPLE, "reward": {"a": 0.5, "b": 1}})["scores"]
    assert (score["value"], score["terms"]) == (None, '{"a":0.5,"b":1.0}')


def test_without_torch_it_is_said_what_to_install(into: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="pip install torch"):
        into("slime", FILE)


def test_an_archive_that_grows_when_unpacked_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", b"\0" * 1_000_000)
    with pytest.raises(Malformed, match="compressed"):
        _check_archive(tmp_path / "x.pt")


def test_whatever_is_wrong_in_a_sample_is_refused_by_name_or_read(tmp_path: Path) -> None:
    refused = 0
    for changed in mutated(SAMPLE):
        if isinstance(changed, dict):
            try:
                read(FILE, changed)
            except Malformed:
                refused += 1
    assert refused > 10
