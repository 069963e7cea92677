"""`rolltrace export`: files, standard output, choices, and what goes wrong."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.cli import main


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    folder = tmp_path_factory.mktemp("exported") / "store"
    rolltrace.init("p", "e", "rolltrace", store=folder, drain="off")

    @rolltrace.rollout_trace_op(kind="llm")
    def generate(messages: list[dict[str, str]], reply: str) -> dict[str, str]:
        return {"content": reply}

    for n in range(3):
        with rolltrace.rollout_trace_attr(1, step=n, rollout_n=n) as trajectory:
            generate([{"role": "user", "content": "天气? \x1b[31m"}], f"answer {n}")
            trajectory.reward(n)
    rolltrace.shutdown()
    return folder


def test_export_writes_a_file(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.jsonl"
    assert main(["export", "jsonl", str(store), "-o", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 3
    assert "天气" in out.read_text() or "\\u5929" in out.read_text()
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == [out]


def test_export_writes_to_standard_output(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "sft", "-o", "-", "--step", "1", str(store)]) == 0
    captured = capsys.readouterr()
    (record,) = [json.loads(line) for line in captured.out.splitlines()]
    assert record["reward"] == 1.0
    assert "\x1b" not in captured.out
    assert "1 trajectory chosen, 1 written" in captured.err


def test_the_filter_and_the_ids_choose(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLTRACE_STORE", str(store))
    assert main(["export", "jsonl", "--where", "reward > 0.5"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["reward"] for record in found] == [1.0, 2.0]
    assert main(["export", "jsonl", found[1]["trajectory_id"][:10], found[0]["trajectory_id"]]) == 0
    again = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert again == found[::-1]


def test_json_tells_what_was_done(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out.jsonl")
    assert main(["export", "dpo", str(store), "-o", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "format": "dpo", "output": out, "chosen": 3, "written": 0, "skipped": {"fewer than two rewards": 3},
    }  # fmt: skip


@pytest.mark.parametrize("name", ["jsonl", "sft", "dpo", "chrome", "html", "parquet"])
def test_every_format_can_be_written(name: str, store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["export", name, str(store), "-o", str(out)]) == 0
    assert out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["jsonl", "--where", "reward <"], "rolltrace: "),
        (["jsonl", "ffffffff"], "no trajectory has the id"),
        (["parquet", "-o", "-"], "writes a folder"),
        (["html", "--step", "99"], "there is no step 99"),
        (["jsonl", "-o", "/nowhere/at/all"], "cannot write"),
    ],
)
def test_what_goes_wrong_is_one_line(
    arguments: list[str], message: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", arguments[0], str(store), *arguments[1:]]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_a_failed_export_leaves_the_file_as_it_was(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    out.write_text("before")
    assert main(["export", "html", str(store), "--step", "99", "-o", str(out)]) == 1
    assert out.read_text() == "before"
    assert not list(tmp_path.glob(".*"))


def test_a_device_is_written_and_not_replaced(store: Path) -> None:
    assert main(["export", "jsonl", str(store), "-o", "/dev/null"]) == 0
    assert not Path("/dev/null").is_file()


def test_a_file_is_written_over_only_when_told_so(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "sft.jsonl"
    out.write_text("weeks of work")
    assert main(["export", "sft", str(store), "-o", str(out)]) == 1
    assert "already exists; name another file with -o, or add --force to overwrite it" in capsys.readouterr().err
    assert out.read_text() == "weeks of work"
    assert main(["export", "sft", str(store), "-o", str(out), "--force"]) == 0
    assert out.read_text() != "weeks of work"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training and validation rollouts, one of each that crashed. Not to be changed."""
    folder = tmp_path_factory.mktemp("mixed") / "store"
    rolltrace.init("p", "e", "rolltrace", store=folder, drain="off")

    @rolltrace.rollout_trace_op(kind="llm")
    def generate(messages: list[dict[str, str]], reply: str) -> dict[str, str]:
        return {"content": reply}

    for validate in (False, True):
        for n in range(3):
            with (
                contextlib.suppress(ValueError),
                rolltrace.rollout_trace_attr(sample_index=0, step=1, rollout_n=n, validate=validate) as trajectory,
            ):
                generate([{"role": "user", "content": "?"}], f"answer {n}")
                trajectory.reward(n)
                if n == 2:
                    raise ValueError("crashed")
    rolltrace.shutdown()
    return folder


def _exported(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], str]:
    capsys.readouterr()
    assert main(["export", *arguments]) == 0
    printed = capsys.readouterr()
    return [json.loads(line) for line in printed.out.splitlines()], printed.err


def test_sft_is_made_of_training_rollouts_that_ended_well(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, said = _exported(["sft", str(mixed)], capsys)
    assert sorted((line["validate"], line["reward"]) for line in lines) == [(False, 0), (False, 1)]
    assert "2 trajectories chosen, 2 written" in said
    assert "left out 3: validation" in said
    assert "left out 1: status error" in said
    assert "--validate" in said
    assert "--all" in said


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        (["--validate"], [(True, 0), (True, 1)]),
        (["--all"], [(False, 0), (False, 1), (False, 2), (True, 0), (True, 1), (True, 2)]),
        (["--all", "--train"], [(False, 0), (False, 1), (False, 2)]),
        (["--where", "status = 'error'"], [(False, 2)]),
        (["--where", "validate = true and status = 'error'"], [(True, 2)]),
    ],
)
def test_sft_takes_other_rollouts_when_asked_for_them(
    options: list[str], chosen: list[tuple[bool, int]], mixed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, _ = _exported(["sft", str(mixed), *options], capsys)
    assert sorted((line["validate"], line["reward"]) for line in lines) == chosen


def test_a_crashed_rollout_that_is_named_is_exported(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ((crashed,), _) = _exported(["jsonl", str(mixed), "--where", "status = 'error' and validate = true"], capsys)
    lines, _ = _exported(["sft", str(mixed), crashed["trajectory_id"]], capsys)
    assert [line["trajectory_id"] for line in lines] == [crashed["trajectory_id"]]


def test_dpo_pairs_training_rollouts_that_ended_well(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, said = _exported(["dpo", str(mixed)], capsys)
    assert [(line["validate"], line["chosen_reward"], line["rejected_reward"]) for line in lines] == [(False, 1, 0)]
    assert "left out 3: validation" in said
    lines, _ = _exported(["dpo", str(mixed), "--all"], capsys)
    assert sorted((line["validate"], line["chosen_reward"]) for line in lines) == [(False, 2), (True, 2)]


def test_raw_exports_hold_every_rollout(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(_exported(["jsonl", str(mixed)], capsys)[0]) == 6
    assert main(["export", "csv", str(mixed)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--experiment", "E"], "there is no experiment 'E'; did you mean 'e'?"),
        (["--step", "99"], "there is no step 99"),
        (["--where", "reward > 5"], "no trajectories"),
    ],
)
def test_an_export_of_nothing_fails_and_writes_no_file(
    options: list[str], message: str, mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert main(["export", "sft", str(mixed), "-o", str(out), *options]) == 1
    assert message in capsys.readouterr().err
    assert not out.exists()
    assert main(["export", "sft", str(mixed), "-o", str(out)]) == 0
