"""`rolltrace store prune`: by filter, by age, down to a size; groups whole."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from tests.draining import drain

from .conftest import pruned


def test_a_filter_prunes_whole_groups(store: Path) -> None:
    assert main(["store", "prune", str(store), "--where", "reward = 1 and step = 2", "--yes"]) == 0
    assert pruned(store) == {(2, 1)}
    assert len(rolltrace.open(store).trajectories()) == 12


def test_nothing_young_is_pruned_by_age(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "prune", str(store), "--older-than", "1h"]) == 0
    assert "pruned 0 trajectories" in capsys.readouterr().out
    assert main(["store", "prune", str(store), "--older-than", "0m", "--yes"]) == 0
    assert len(pruned(store)) == 6


def test_the_oldest_steps_go_first_when_a_size_is_given(store: Path) -> None:
    size = sum(file.stat().st_size for file in store.rglob("*.parquet"))
    assert main(["store", "prune", str(store), "--max-size", str(size - 100), "--yes"]) == 0
    assert pruned(store) == {(1, 0), (1, 1)}


def test_a_dry_run_only_says(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "prune", str(store), "--where", "step = 1", "--dry-run", "--json"]) == 0
    foreseen = json.loads(capsys.readouterr().out)
    assert (foreseen["would_prune"], foreseen["groups"]) == (4, 2)
    assert pruned(store) == set()


def test_what_was_removed_is_in_the_losses(store: Path) -> None:
    main(["store", "prune", str(store), "--where", "step = 1", "--whole", "--yes"])
    (loss,) = rolltrace.open(store).losses().rows()
    assert (loss["reason"], loss["step"], loss["count"]) == ("pruned_whole", 1, 4)


def test_a_wrong_age_is_one_clear_line(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "prune", str(store), "--older-than", "soon"]) == 1
    assert capsys.readouterr().err == "rolltrace: --older-than must be an age such as 30m, 12h, 7d or 8w, not 'soon'\n"


@pytest.mark.parametrize("where", ["", "  "])
def test_an_empty_filter_is_an_error(store: Path, where: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "prune", str(store), "--where", where, "--yes"]) == 1
    assert "the filter is empty; leave it out to mean all trajectories" in capsys.readouterr().err
    assert pruned(store) == set()


def test_where_nobody_can_be_asked_it_says_what_would_go_and_needs_yes(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ["store", "prune", "--where", "step = 1"],
        ["store", "retain", "--keep", "none"],
        ["store", "retain", "--keep", "none", "--now"],
    ):
        assert main([*words, "--store", str(store)]) == 1
        error = capsys.readouterr().err
        assert re.search(r"remove the payloads of \d trajectories \(\d whole groups, about [\d.]+ k?B\)", error)
        assert "there is no terminal to ask on: add --yes, or --dry-run to preview" in error
    assert pruned(store) == set()
    assert not (store / "retention.json").exists()


# One process for all of them: most of a command's time is Python's start.
COMMANDS = """
import json, sys
from rolltrace.cli import main
for words in json.loads(sys.argv[1]):
    print("[exit code", main(words), end="]\\n", flush=True)
"""


def on_a_terminal(*commands: tuple[str, list[str]]) -> list[tuple[int, str]]:
    """The exit code of each command, and what it wrote to its terminal, on which somebody types an answer."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-c", COMMANDS, json.dumps([each for _, each in commands])]
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    answers = iter([answer for answer, _ in commands])
    shown = b""
    while True:
        try:
            some = os.read(ours, 1000)
        except OSError:  # Linux: nobody is left at the other end
            break
        if not some:
            break
        shown += some
        if shown.endswith(b"[y/N] "):
            os.write(ours, next(answers).encode() + b"\n")
    os.close(ours)
    assert process.wait() == 0
    return [(int(code), text) for text, code in re.findall(r"(.*?)\[exit code (\d)\]\r\n", shown.decode(), re.DOTALL)]


def test_a_person_is_asked(store: Path) -> None:
    prune = ["store", "prune", str(store), "--where", "step = 1"]
    *refused, retained = on_a_terminal(
        ("", prune), ("n", prune), ("n", ["store", "retain", str(store), "--keep", "none"])
    )
    for code, shown in refused:
        assert code == 1
        assert "This will remove the payloads of 4 trajectories (2 whole groups, about" in shown
        assert "nothing was removed" in shown
    assert (retained[0], (store / "retention.json").exists()) == (1, False)
    assert pruned(store) == set()
    ((code, shown),) = on_a_terminal(("y", prune))
    assert (code, "pruned 4 trajectories" in shown) == (0, True)
    assert pruned(store) == {(1, 0), (1, 1)}


def test_nothing_to_remove_needs_no_question(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "prune", str(store), "--where", "step = 99"]) == 0
    assert capsys.readouterr().out.startswith("pruned 0 trajectories, 0 rows, 0 B less; ")


def record_steps(store: Path, *, run: str, nested: bool = False, is_drained: bool = True) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store, run=run, drain="off")

    @rolltrace.rollout_trace_op
    def op(text: str) -> str:
        return text

    for step in (1, 2):
        with rolltrace.rollout_trace_attr(step=step, sample_index=0, rollout_n=0) as trajectory:
            op("outer" * 100)
            trajectory.reward(1.0)
            if nested:
                with rolltrace.rollout_trace_attr(name="inner", step=step):
                    op("inner" * 100)
    rolltrace.shutdown()
    if is_drained:
        drain(store)


def test_a_nested_trajectory_goes_with_its_group_in_prune_and_in_retain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_steps(tmp_path, run="a", nested=True)
    for words in (
        ["store", "prune", "--where", "step = 1 and sample_index = 0"],
        ["store", "retain", "--keep", "none"],
    ):
        assert main([*words, "--dry-run", "--json", "--store", str(tmp_path)]) == 0
        foreseen = json.loads(capsys.readouterr().out)
        assert (foreseen.get("would_prune", foreseen.get("would_drop")), foreseen["groups"]) == (2, 1)


def test_a_filter_means_the_newest_run_and_age_means_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for run in ("a", "b"):
        record_steps(tmp_path, run=run)
    for words, count in ((["--where", "step = 1"], 1), (["--where", "run = 'a'"], 2), (["--older-than", "0m"], 4)):
        assert main(["store", "prune", str(tmp_path), *words, "--dry-run", "--json"]) == 0
        said = capsys.readouterr()
        assert json.loads(said.out)["would_prune"] == count
        hint = "1 trajectory of older runs left out; to include them: --where 'superseded = true and (step = 1)'\n"
        assert (hint in said.err) == (words[1] == "step = 1")


def test_what_is_not_drained_yet_is_drained_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_steps(tmp_path, run="a", is_drained=False)
    assert main(["store", "prune", str(tmp_path), "--older-than", "0m", "--yes"]) == 0
    assert capsys.readouterr().out.startswith("pruned 2 trajectories")


def test_what_still_runs_is_left_alone(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off")
    with rolltrace.rollout_trace_attr(step=3, sample_index=0, rollout_n=2):
        assert main(["store", "prune", str(store), "--where", "step = 3", "--yes"]) == 0
        said = capsys.readouterr()
    rolltrace.shutdown()
    assert said.out.startswith("pruned 2 trajectories")
    assert "3 trajectories left alone, because their groups are still running" in said.err
    assert pruned(store) == {(3, 1)}


def test_what_was_recorded_for_a_group_goes_with_it(tmp_path: Path) -> None:
    @rolltrace.rollout_trace_op
    def compare(text: str) -> str:
        return text

    rolltrace.init("p", "e", store=tmp_path, drain="off", quiet=True)
    for sample in range(2):
        with rolltrace.rollout_trace_attr(sample, step=1, rollout_n=0) as trajectory:
            trajectory.reward(float(sample))
        with rolltrace.rollout_trace_group(sample, 1):
            compare("a long comparison")
    rolltrace.shutdown()
    drain(tmp_path)
    assert main(["store", "prune", str(tmp_path), "--where", "reward = 0", "--yes"]) == 0
    store = rolltrace.open(tmp_path)
    (gone,), (kept,) = store.group_records(1, 0), store.group_records(1, 1)
    assert gone.ops[0].pruned is not None
    assert kept.ops[0].outputs == "a long comparison"
    assert main(["store", "prune", str(tmp_path), "--max-size", "0", "--yes"]) == 0
    assert all(
        record.pruned is not None for sample in range(2) for record in rolltrace.open(tmp_path).group_records(1, sample)
    )
