"""`rolltrace export`: files, standard output, choices, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path

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
    assert main(["export", "jsonl", "--trajectory", found[1]["trajectory_id"][:10], found[0]["trajectory_id"]]) == 0
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
        (["jsonl", "--trajectory", "ffffffff"], "no trajectory has the id"),
        (["parquet", "-o", "-"], "writes a folder"),
        (["html", "--step", "99"], "no trajectory was chosen"),
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
