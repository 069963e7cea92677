"""Logs of inspect: archives with zstd inside, hostile ones included."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rolltrace.exchange import source_lines
from rolltrace.exchange.importer import ImportReport
from rolltrace.exchange.packed_files import Archive

from .conftest import Importer
from .mutations import SAMPLES, outcomes

LOG = SAMPLES / "inspect" / "sums.eval"
SAMPLE: dict[str, Any] = {
    "id": "q", "epoch": 2, "input": "6*7?", "target": "42", "scores": {"match": {"value": "C"}},
    "messages": [{"role": "user", "content": "6*7?"}, {"role": "assistant", "content": "42"}],
}  # fmt: skip


def test_a_log_keeps_calls_tools_scores_and_long_texts(into: Importer) -> None:
    assert into("inspect", LOG) == ImportReport(2, 0, 0)
    first, second = into.store.trajectories(order="sample_index").rows()
    names = ("name", "sample_index", "rollout_n", "validate", "reward", "turns", "tool_calls", "response_tokens")
    assert [first[name] for name in names] == ["sums", "q-1", 0, True, 1.0, 2, 1, 10]
    assert [second[name] for name in names] == ["sums", "q-2", 0, True, 0.0, 1, 0, 5]
    trajectory = into.store.trajectory(first["trajectory_id"])
    assert [message["role"] for message in trajectory.conversation] == [
        "system", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert trajectory.conversation[1]["content"].endswith("Think. Think. "), "an attachment is put back"
    tool = trajectory.ops[1]
    assert (tool.name, tool.inputs, tool.outputs) == ("add", {"a": 17, "b": 25}, "42")
    assert [(each["name"], each["value"], each["label"]) for each in trajectory.scores] == [
        ("match", 1.0, "C"), ("reward", 1.0, None),
    ]  # fmt: skip
    assert trajectory.tags["model"] == "mockllm/model"
    assert into("inspect", LOG.parent) == ImportReport(0, 2, 0)


def test_an_older_log_is_one_json_document_and_may_have_no_events(tmp_path: Path, into: Importer) -> None:
    log = {"version": 2, "status": "success", "eval": {"task": "old", "task_id": "t"}, "samples": [SAMPLE]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    assert into("inspect", tmp_path / "log.json") == ImportReport(1, 0, 0)
    (row,) = into.store.trajectories().rows()
    assert (row["name"], row["rollout_n"], row["reward"], row["turns"]) == ("old", 1, 1.0, 1)


def test_several_scorers_are_scores_of_their_own_and_no_reward_is_made_up(tmp_path: Path, into: Importer) -> None:
    scores = {"match": {"value": 1}, "style": {"value": {"tone": 0.5}, "explanation": "dry"}, "safe": {"value": True}}
    (tmp_path / "log.json").write_text(json.dumps({"eval": {}, "samples": [{**SAMPLE, "scores": scores}]}))
    into("inspect", tmp_path / "log.json")
    (row,) = into.store.trajectories().rows()
    trajectory = into.store.trajectory(row["trajectory_id"])
    assert row["reward"] is None
    assert {each["name"]: (each["value"], each["label"], each["reason"]) for each in trajectory.scores} == {
        "match": (1.0, None, None), "style": (None, '{"tone":0.5}', "dry"), "safe": (1.0, None, None),
        "reward": (None, None, None),
    }  # fmt: skip


def archive(path: Path, members: dict[str, bytes], *, zstd: bool = True) -> Path:
    """A log made by hand; zipfile does not write zstd, so it is told that the bytes are."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as out:
        for name, content in members.items():
            out.writestr(name, bytes(pa.compress(content, "zstd", asbytes=True)) if zstd else content)
    if zstd:
        data = bytearray(path.read_bytes())
        for name, content in members.items():
            crc, size = zlib.crc32(content).to_bytes(4, "little"), len(content).to_bytes(4, "little")
            for mark, at_method, at_crc, at_name in ((b"PK\x03\x04", 8, 14, 30), (b"PK\x01\x02", 10, 16, 46)):
                at = data.find(mark)
                while data[at + at_name : at + at_name + len(name)] != name.encode():
                    at = data.find(mark, at + 1)
                data[at + at_method : at + at_method + 2] = (93).to_bytes(2, "little")
                data[at + at_crc : at + at_crc + 4] = crc
                data[at + at_crc + 8 : at + at_crc + 12] = size
        path.write_bytes(data)
    return path


GOOD = json.dumps(SAMPLE).encode()


def test_a_bomb_is_refused_and_the_rest_is_read(
    tmp_path: Path, into: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rolltrace.exchange.import_inspect.MAX_DOCUMENT_BYTES", 100_000)
    bomb = b'"' + b"0" * 20_000_000 + b'"'
    log = archive(tmp_path / "x.eval", {"header.json": b"{}", "samples/a.json": bomb, "samples/b.json": GOOD})
    assert log.stat().st_size < 5_000
    assert into("inspect", log) == ImportReport(1, 0, 1)
    assert into.bad[0].reason == "samples/a.json: more than 100,000 bytes when unpacked"
    assert source_lines.MAX_DOCUMENT_BYTES == 256 << 20


def test_names_that_lead_elsewhere_are_only_names(tmp_path: Path, into: Importer) -> None:
    names = ("../../escaped.json", "samples/../../escaped.json", "/samples/escaped.json", "samples/good.json")
    (tmp_path / "in").mkdir()
    log = archive(tmp_path / "in" / "x.eval", dict.fromkeys(names, GOOD), zstd=False)
    assert into("inspect", log) == ImportReport(1, 0, 0)
    assert not list(tmp_path.rglob("*escaped*"))


def test_damaged_members_are_named(tmp_path: Path, into: Importer) -> None:
    log = archive(tmp_path / "x.eval", {"header.json": b"{}", "samples/a.json": GOOD, "samples/b.json": GOOD[:-5]})
    data = bytearray(log.read_bytes())
    at = data.find(b"samples/a.json") + 20
    data[at : at + 4] = b"\0\0\0\0"
    log.write_bytes(data)
    assert into("inspect", log).imported == 0
    first, second = (bad.reason for bad in into.bad)
    assert first.startswith("samples/a.json: ")
    assert second.startswith("samples/b.json: not JSON")


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x03\x04" + b"\0" * 100, LOG.read_bytes()[:-60]])
def test_what_is_not_an_archive_is_refused(content: bytes, tmp_path: Path, into: Importer) -> None:
    (tmp_path / "x.eval").write_bytes(content)
    assert into("inspect", tmp_path / "x.eval") == ImportReport(0, 0, 1)
    assert into.bad[0].reason.startswith("not a zip archive")


def test_another_archive_is_refused(tmp_path: Path, into: Importer) -> None:
    assert into("inspect", archive(tmp_path / "x.eval", {"a.txt": b"x"})) == ImportReport(0, 0, 1)
    assert "not a log of inspect" in into.bad[0].reason


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    log = archive(tmp_path / "x.eval", {"samples/a.json": GOOD}, zstd=False)
    with Archive(log) as opened:
        opened.members["samples/a.json"].flag_bits |= 1
        with pytest.raises(ValueError, match="encrypted"):
            opened.read("samples/a.json", 1000)


def test_whatever_is_wrong_in_a_sample_is_refused_by_name_or_read(tmp_path: Path) -> None:
    good, refused = outcomes("inspect", LOG, tmp_path)
    assert good > 1000
    assert refused > 10
