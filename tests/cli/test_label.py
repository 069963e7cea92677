"""`rolltrace label`: by id and by coordinates, taken back, listed; exports of what people marked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.query import open_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    rolltrace.init("p", "e", "rolltrace", store=folder)

    @rolltrace.rollout_trace_op(name="generate", kind="llm")
    def generate(messages: list[dict[str, str]], n: int) -> dict[str, str]:
        return {"role": "assistant", "content": f"answer {n}"}

    for n in range(4):
        with rolltrace.rollout_trace_attr(7, step=1, rollout_n=n):
            generate([{"role": "user", "content": "question"}], n)
    rolltrace.shutdown()
    return folder


def run(*words: object) -> int:
    return main([str(word) for word in words])


def test_labels_are_given_listed_and_taken_back(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trajectory_id = open_store(store).trajectories().rows()[0]["trajectory_id"]
    told = ("--author", "me", "--store", store)
    assert run("label", trajectory_id[:8], "hack", "style=terse", "--note", "prints\x1b[31m", *told) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{trajectory_id[:8]}: hack is yes", f"{trajectory_id[:8]}: style is terse",
        f"{trajectory_id[:8]}: note is prints\\x1b[31m",
    ]  # fmt: skip
    assert run("label", "--step", 1, "--sample", 7, "--rollout", 1, "odd", "--turn", 0, *told) == 0
    assert run("label", trajectory_id[:8], "hack", "--remove", *told) == 0
    capsys.readouterr()
    assert run("label", trajectory_id, "--json", "--store", store) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["name"], row["value"], row["author"]) for row in listed] == [
        ("style", "terse", "me"), ("note", "prints\x1b[31m", "me"),
    ]  # fmt: skip
    assert run("label", "--store", store) == 0
    assert "\x1b" not in (out := capsys.readouterr().out)
    assert "3 labels" in out
    assert run("show", trajectory_id, store) == 0
    assert "label style = terse  by me" in capsys.readouterr().out


def test_what_is_wrong_is_one_line_and_nothing_is_written(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trajectory_id = open_store(store).trajectories().rows()[2]["trajectory_id"]
    for words, told in (
        (("zzz", "hack"), "zzz is not an id"),
        (("--remove", trajectory_id), "--remove needs the labels"),
    ):
        with pytest.raises(SystemExit):
            run("label", *words, "--store", store)
        assert told in capsys.readouterr().err
    assert run("label", trajectory_id, "hack", "--remove", "--author", "me", "--store", store) == 1
    assert "me gave" in capsys.readouterr().err
    assert open_store(store).trajectory(trajectory_id).labels == []


def test_what_people_marked_becomes_training_data(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for n, name in ((0, "good"), (1, "good"), (2, "bad")):
        assert run("label", "--step", 1, "--sample", 7, "--rollout", n, name, "--store", store) == 0
    assert run("export", "sft", store, "--where", "label.good", "-o", tmp_path / "sft.jsonl") == 0
    lines = [json.loads(line) for line in (tmp_path / "sft.jsonl").read_text().splitlines()]
    assert [line["messages"][-1]["content"] for line in lines] == ["answer 0", "answer 1"]
    pairs = ("--chosen", "label.good", "--rejected", "label.bad")
    assert run("export", "dpo", store, *pairs, "-o", tmp_path / "dpo.jsonl") == 0
    assert "left out 1: no counterpart in its group" in capsys.readouterr().err
    (pair,) = [json.loads(line) for line in (tmp_path / "dpo.jsonl").read_text().splitlines()]
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == ("answer 0", "answer 2")
    assert run("export", "dpo", store, *pairs[:2], "-o", tmp_path / "none.jsonl") == 1
    assert "need both filters" in capsys.readouterr().err
