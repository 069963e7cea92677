"""Files that would make an import wait, or fill the memory."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rolltrace.errors import ConfigError
from rolltrace.exchange import IMPORTS, guess
from rolltrace.exchange.importer import ImportReport
from rolltrace.exchange.source_lines import MAX_DOCUMENT_BYTES

from .conftest import CHAT, Importer, write

NAMES = {
    "slime": "rollout_1.pt", "trl": "completions_00001.parquet", "art": "0001.parquet", "inspect": "x.eval",
    "harbor": "trajectory.json", "mini-swe-agent": "x.traj.json", "nemo-rl": "train_data_step1.jsonl",
}  # fmt: skip
FORMATS = [name for name, form in IMPORTS.items() if not form.is_remote]


@pytest.mark.parametrize("name", FORMATS)
def test_a_named_pipe_is_refused_by_each_format(name: str, tmp_path: Path, into: Importer) -> None:
    pipe = tmp_path / NAMES.get(name, "x.jsonl")
    os.mkfifo(pipe)
    assert into(name, pipe) == ImportReport(0, 0, 1)
    assert into.bad[0].reason == "a named pipe; write its content to a file first"


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_a_device_is_refused(device: str, into: Importer) -> None:
    assert into("chat", Path(device)) == ImportReport(0, 0, 1)


def test_pipes_in_a_folder_cost_nothing_but_themselves(tmp_path: Path, into: Importer) -> None:
    write(tmp_path / "b.jsonl", [{"messages": CHAT}])
    for name in ("a.jsonl", "rollout_1.pt", "completions_00001.parquet", "trajectory.json"):
        os.mkfifo(tmp_path / name)
    assert guess(tmp_path).format == "chat"
    assert into("chat", tmp_path) == ImportReport(1, 0, 1)


def test_the_format_of_a_pipe_is_not_guessed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jsonl")
    with pytest.raises(ConfigError, match="a named pipe; write its content to a file first"):
        guess(tmp_path / "x.jsonl")


def test_a_reward_that_is_a_pipe_is_no_reward(tmp_path: Path, into: Importer) -> None:
    trial = tmp_path / "jobs" / "task__x"
    (trial / "agent").mkdir(parents=True)
    (trial / "verifier").mkdir()
    steps = [{"step_id": 1, "source": "agent", "message": "a"}]
    agent = {"name": "a", "version": "1"}
    document = {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": agent, "steps": steps}
    (trial / "agent" / "trajectory.json").write_text(json.dumps(document))
    for name in ("verifier/reward.txt", "verifier/reward.json", "result.json"):
        os.mkfifo(trial / name)
    assert into("harbor", tmp_path / "jobs") == ImportReport(1, 0, 0)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_empty_on_the_disk_is_refused_by_each_format(name: str, tmp_path: Path, into: Importer) -> None:
    file = tmp_path / NAMES.get(name, "x.jsonl")
    with file.open("wb") as sparse:
        sparse.truncate(8 << 40)
    assert into(name, file) == ImportReport(0, 0, 1)
    assert into.bad[0].reason == "a sparse file: of its 8,796,093,022,208 bytes, most are not on the disk"


def test_a_line_as_long_as_all_memory_is_named_and_the_rest_is_read(tmp_path: Path, into: Importer) -> None:
    good = json.dumps({"messages": CHAT}).encode() + b"\n"
    with (tmp_path / "x.jsonl").open("wb") as file:
        file.write(good)
        for _ in range((MAX_DOCUMENT_BYTES >> 20) + 2):
            file.write(b"x" * (1 << 20))
        file.write(b"\n" + good.replace(b"done", b"other"))
    assert into("chat", tmp_path / "x.jsonl") == ImportReport(2, 0, 1)
    assert str(into.bad[0]) == f"{tmp_path / 'x.jsonl'}:2: longer than {MAX_DOCUMENT_BYTES:,} bytes"
