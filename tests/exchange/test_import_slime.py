"""Dumps of slime and miles. tests/integrations/importers has torch write them."""

from __future__ import annotations

import pickle
import sys
import zipfile
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest

from rolltrace.exchange import IMPORTS, ImportTarget
from rolltrace.exchange.fields import Malformed
from rolltrace.exchange.importer import ImportReport, Source
from rolltrace.exchange.source_lines import Line

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
    for row in IMPORTS["slime"].reader(source)(record, Line(1, repr(record).encode(), record)):
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


def test_dumps_are_read_without_torch(into: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert into("slime", FILE) == ImportReport(4, 0, 0)
    assert {tuple(op["tokens"]) for op in into.store.sql("SELECT tokens FROM spans").rows()} == {(5, 6, 1, 2, 3)}


def write_dump(path: Path, *samples: Any, **members: bytes) -> Path:
    """An archive as `torch.save` writes it, of values without tensors."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps({"rollout_id": 7, "samples": list(samples)}, protocol=2))
        for name, content in {
            "version": b"3\n",
            "byteorder": b"little",
            ".data/serialization_id": b"1",
            **members,
        }.items():
            archive.writestr(f"x/{name}", content)
    return path


class Runs:
    """What pickle would run."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


def test_scalars_and_arrays_of_numpy_are_numbers(tmp_path: Path, into: Importer) -> None:
    metadata = {
        "score": np.float32(0.5), "count": np.int64(3), "ok": np.bool_(True), "name": np.str_("é"),
        "values": np.array([[1, 2], [3, 4]], order="F"), "half": np.float16(0.25), "big": np.array([1], ">i4"),
    }  # fmt: skip
    sample = {**SAMPLE, "reward": np.float64(0.75), "metadata": metadata}
    assert into("slime", write_dump(tmp_path / "rollout_7.pt", sample)) == ImportReport(1, 0, 0)
    (row,) = into.store.trajectories().rows()
    assert row["reward"] == 0.75
    tags = into.store.trajectory(row["trajectory_id"]).tags
    assert {name: tags[name] for name in metadata} == {
        "score": 0.5, "count": 3, "ok": True, "name": "é", "values": [[1, 2], [3, 4]], "half": 0.25, "big": [1],
    }  # fmt: skip


def test_an_odd_value_costs_one_sample_at_most(tmp_path: Path, into: Importer) -> None:
    odd = {"when": datetime(2026, 1, 1, tzinfo=timezone.utc), "where": PurePosixPath("x"), "set": {1}, "self": Odd()}
    samples = [
        {**SAMPLE, "metadata": odd},
        {**SAMPLE, "index": 7, "reward": Decimal("0.5")},
        {**SAMPLE, "index": 8},
        Odd(),
    ]
    assert into("slime", write_dump(tmp_path / "rollout_7.pt", *samples)) == ImportReport(2, 0, 2)
    assert [(bad.number, bad.reason) for bad in into.bad] == [
        (2, "reward must be a number or an object, not '<decimal.Decimal: not read>'"),
        (4, "a sample is an object with fields, not tests.exchange.test_import_slime.Odd"),
    ]
    (tags,) = [row["tags"] for row in into.store.trajectories() if "when" in row["tags"]]
    assert tags["when"] == "<datetime.datetime: not read>"
    assert tags["set"] == [1]


class Odd:
    """Of a type that nobody else has."""

    def __init__(self) -> None:
        self.inside = 1


def test_nothing_that_a_dump_names_is_run(tmp_path: Path, into: Importer) -> None:
    runs = Runs(tmp_path / "ran")
    dump = write_dump(tmp_path / "rollout_7.pt", {**SAMPLE, "metadata": {"x": runs}}, runs)
    assert into("slime", dump) == ImportReport(1, 0, 1)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("member", ["constants.pkl", "code/__torch__.py"])
def test_archives_of_torchscript_are_refused_by_their_members(member: str, tmp_path: Path, into: Importer) -> None:
    dump = write_dump(tmp_path / "rollout_7.pt", SAMPLE, **{member: b"\x80\x02)."})
    assert into("slime", dump) == ImportReport(0, 0, 1)
    assert into.bad[0].reason == f"an archive of TorchScript, which holds code (x/{member}): not read"


def test_an_archive_that_grows_when_unpacked_is_refused(tmp_path: Path, into: Importer) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", b"\0" * 1_000_000)
    assert into("slime", tmp_path / "x.pt") == ImportReport(0, 0, 1)
    assert "compressed" in into.bad[0].reason


def test_a_pickle_that_grows_when_written_out_costs_its_sample(tmp_path: Path, into: Importer) -> None:
    laughs: list[Any] = ["ha"] * 10
    for _ in range(12):
        laughs = [laughs] * 10
    endless: list[Any] = []
    endless.append(endless)
    samples = [{**SAMPLE, "metadata": {"x": laughs}}, {**SAMPLE, "metadata": {"x": endless}}, SAMPLE]
    assert into("slime", write_dump(tmp_path / "rollout_7.pt", *samples)) == ImportReport(1, 0, 2)
    assert [bad.reason for bad in into.bad] == ["more than 10,000,000 items", "nested too deeply"]


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02r\xff\xff\xff\x7f",  # an item of the memo far away
        b"\x80\x05\x96\xff\xff\xff\xff\x0f\x00\x00\x00.",  # 64 GiB to come
        b"cos\nsystem\n(S'touch ran'\ntR.",
        b"",
    ],
)
def test_a_hostile_pickle_is_refused(content: bytes, tmp_path: Path, into: Importer) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("x/data.pkl", content)
    assert into("slime", tmp_path / "x.pt") == ImportReport(0, 0, 1)


def test_whatever_is_wrong_in_a_sample_is_refused_by_name_or_read(tmp_path: Path) -> None:
    refused = 0
    for changed in mutated(SAMPLE):
        if isinstance(changed, dict):
            try:
                read(FILE, changed)
            except Malformed:
                refused += 1
    assert refused > 10


def test_a_step_that_is_no_number_comes_from_the_name_of_the_file(tmp_path: Path, into: Importer) -> None:
    with zipfile.ZipFile(tmp_path / "rollout_9.pt", "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps({"rollout_id": Odd(), "samples": [SAMPLE]}, protocol=2))
    assert into("slime", tmp_path / "rollout_9.pt") == ImportReport(1, 0, 0)
    assert into.store.trajectories().rows()[0]["step"] == 9
