"""What the real packages write is imported: counts and values equal to what went in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rolltrace.exchange import IMPORTS, ImportTarget, guess, import_files
from rolltrace.exchange.importer import BadLine, ImportReport
from rolltrace.query import Store, open_store

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "exchange" / "samples"


def imported(path: Path, store: Path, name: str) -> tuple[ImportReport, Store]:
    """Import what is there as what it is taken for, twice: the second time adds nothing."""
    assert guess(path).format == name
    form, bad = IMPORTS[name], list[BadLine]()
    target = ImportTarget(store, "p", "e")
    report = import_files(form.reader, [path], target, files_of=form.files, on_bad=bad.append)
    again = import_files(form.reader, [path], target, files_of=form.files)
    assert (bad, again) == ([], ImportReport(0, report.imported, 0))
    return report, open_store(store)


def run(script: str, folder: Path, *arguments: str, python: str = sys.executable) -> None:
    """Another program, in a home of its own and without a network; it writes into a folder."""
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "HOME": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True", "WEAVE_DISABLED": "true"}
    command = [python, str(HERE / script), *arguments, str(folder)]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_log_of_inspect(tmp_path: Path) -> None:
    run("make_inspect.py", tmp_path / "logs")
    report, store = imported(tmp_path / "logs", tmp_path / "store", "inspect")
    assert report.imported == 2
    rows = store.trajectories(order="sample_index").rows()
    assert [(row["sample_index"], row["reward"], row["turns"], row["tool_calls"]) for row in rows] == [
        ("q-1", 1.0, 2, 1), ("q-2", 0.0, 1, 0),
    ]  # fmt: skip


def test_trajectories_of_art(tmp_path: Path) -> None:
    run("make_art.py", tmp_path / "art")
    report, store = imported(tmp_path / "art", tmp_path / "store", "art")
    assert report.imported == 4
    rows = store.trajectories(order="sample_index,rollout_n").rows()
    assert [(row["step"], row["sample_index"], row["rollout_n"], row["reward"], row["turns"]) for row in rows] == [
        (3, 0, 0, 0.0, 2), (3, 0, 1, 1.0, 2), (3, 1, 0, 0.0, 2), (3, 1, 1, 1.0, 2),
    ]  # fmt: skip
    (op, tool, _) = store.trajectory(rows[0]["trajectory_id"]).ops
    assert (op.kind, tool.kind, tool.name, tool.outputs) == ("llm", "tool", "add", "42")


def test_a_trajectory_of_mini_swe_agent(tmp_path: Path) -> None:
    run("make_mini_swe_agent.py", tmp_path / "mini")
    report, store = imported(tmp_path / "mini", tmp_path / "store", "mini-swe-agent")
    assert report.imported == 1
    (row,) = store.trajectories().rows()
    assert (row["sample_index"], row["status"], row["turns"], row["tool_calls"]) == ("sums", "ok", 2, 1)
    trajectory = store.trajectory(row["trajectory_id"])
    commands = [op for op in trajectory.ops if op.kind == "tool"]
    assert "42" in str(commands[0].outputs)
    assert trajectory.tags["submission"].strip() == "42"


HARBOR = HERE.parents[2] / ".venvs" / "harbor" / "bin" / "python"


@pytest.mark.skipif(not HARBOR.exists(), reason="Harbor needs Python 3.12: make environment-harbor")
def test_trials_of_harbor(tmp_path: Path) -> None:
    run("make_harbor.py", tmp_path / "job", str(SAMPLES), python=str(HARBOR))
    report, store = imported(tmp_path / "job", tmp_path / "store", "harbor")
    assert report.imported == 2
    codex, claude = store.trajectories(order="-reward").rows()
    assert [(row["sample_index"], row["reward"], row["status"]) for row in (codex, claude)] == [
        ("sums", 1.0, "ok"), ("sums", 0.5, "ok"),
    ]  # fmt: skip
    for row, name in ((codex, "codex"), (claude, "claude-code")):
        form, sessions = IMPORTS[name], SAMPLES / name.replace("-", "_")
        target = ImportTarget(tmp_path / name, "p", "e")
        assert import_files(form.reader, [sessions], target, files_of=form.files).imported == 1
        sessions_store = open_store(tmp_path / name)
        (session,) = sessions_store.trajectories().rows()
        columns = ("turns", "tool_calls", "prompt_tokens", "response_tokens")
        assert [row[column] for column in columns] == [session[column] for column in columns]
        (tool,) = [op for op in store.trajectory(row["trajectory_id"]).walk() if op.kind == "tool"]
        (called,) = [op for op in sessions_store.trajectory(session["trajectory_id"]).walk() if op.kind == "tool"]
        assert tool.name == called.name
        assert tool.outputs.startswith(called.outputs)  # Harbor adds that the tool failed


@pytest.mark.parametrize("name", ["rollout_7.pt", "rollout_eval_7.pt"])
def test_dumps_of_slime_are_the_samples_that_are_committed(name: str, tmp_path: Path) -> None:
    import torch

    dump = torch.load(SAMPLES / "slime" / name, weights_only=True)
    torch.save({**dump, "samples": [_as_tensors(each) for each in dump["samples"]]}, tmp_path / name)
    report, store = imported(tmp_path / name, tmp_path / "store", "slime")
    assert report.imported == len(dump["samples"])
    calls = store.sql("SELECT tokens, logprobs, response_mask, policy_version FROM spans").rows()
    assert {tuple(call["tokens"]) for call in calls} == {(5, 6, 1, 2, 3)}
    assert {tuple(call["logprobs"]) for call in calls} == {(-0.125, 0.0, -0.25)}
    assert {call["policy_version"] for call in calls} == {3}
    assert {row["validate"] for row in store.trajectories().rows()} == {"eval" in name}


def _as_tensors(sample: dict[str, Any]) -> dict[str, Any]:
    import torch

    return {**sample, "tokens": torch.tensor(sample["tokens"]), "multimodal_train_inputs": {"x": torch.zeros(1000)}}


class Runs:
    """What pickle would run."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


def test_a_dump_that_would_run_code_is_refused_and_runs_none(tmp_path: Path) -> None:
    import torch

    torch.save({"samples": [Runs(tmp_path / "ran")]}, tmp_path / "rollout_1.pt")
    bad: list[BadLine] = []
    target = ImportTarget(tmp_path / "store", "p", "e")
    report = import_files(IMPORTS["slime"].reader, [tmp_path / "rollout_1.pt"], target, on_bad=bad.append)
    assert report == ImportReport(0, 0, 1)
    assert bad[0].reason.startswith("a sample is an object with fields, not ")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("content", [b"", b"\x80\x02.", b"PK\x03\x04", b"cos\nsystem\n(S'touch ran'\ntR."])
def test_what_torch_did_not_write_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(content)
    report = import_files(IMPORTS["slime"].reader, [tmp_path / "x.pt"], ImportTarget(tmp_path / "store", "p", "e"))
    assert report == ImportReport(0, 0, 1)
    assert not Path("ran").exists()


def test_tensors_are_read_as_torch_has_them(tmp_path: Path) -> None:
    import numpy as np
    import torch

    dtypes = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
    tensors = {name: torch.arange(12).reshape(3, 4).to(getattr(torch, name)) for name in dtypes}
    tensors.update(
        part=tensors["float32"][1:, 1:3], turned=tensors["int32"].T, spread=torch.ones(1).expand(2, 3),
        scalar=torch.tensor(0.5), empty=torch.zeros(0, 3), parameter=tensors["int64"][0],
    )  # fmt: skip
    metadata = {**tensors, "numpy": np.float32(0.5), "size": tensors["part"].shape}
    sample = {"prompt": "q", "response": "a", "metadata": metadata, "reward": np.float64(0.5)}
    torch.save({"rollout_id": 1, "samples": [sample]}, tmp_path / "rollout_1.pt")
    report, store = imported(tmp_path / "rollout_1.pt", tmp_path / "store", "slime")
    assert report == ImportReport(1, 0, 0)
    (row,) = store.trajectories().rows()
    assert {name: row["tags"][name] for name in tensors} == {name: each.tolist() for name, each in tensors.items()}
    assert (row["reward"], row["tags"]["numpy"], row["tags"]["size"]) == (0.5, 0.5, [2, 2])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_archive_of_torchscript_is_refused(tmp_path: Path) -> None:
    import torch

    module = torch.jit.script(torch.nn.Linear(2, 2))
    torch.jit.save(module, tmp_path / "rollout_1.pt")
    bad: list[BadLine] = []
    target = ImportTarget(tmp_path / "store", "p", "e")
    report = import_files(IMPORTS["slime"].reader, [tmp_path / "rollout_1.pt"], target, on_bad=bad.append)
    assert report == ImportReport(0, 0, 1)
    assert bad[0].reason.startswith("an archive of TorchScript, which holds code")


def test_other_archives_of_torch_are_refused(tmp_path: Path) -> None:
    import torch

    for number, value in enumerate(
        ({"samples": 5}, [1], {"weights": torch.zeros(3)}, {"samples": [5, {"response": 1}]})
    ):
        torch.save(value, tmp_path / f"{number}.pt")
        report = import_files(
            IMPORTS["slime"].reader, [tmp_path / f"{number}.pt"], ImportTarget(tmp_path / "s", "p", "e")
        )
        assert report.imported == 0
        assert report.malformed >= 1
