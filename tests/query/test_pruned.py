"""A payload that was pruned says when and by what, wherever it would be."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import pytest

import rolltrace
from rolltrace.backends.otlp.attributes import of_op, of_trajectory
from rolltrace.backends.weave.calls import calls_of
from rolltrace.cli import main
from rolltrace.query import Pruning, Store, compare
from rolltrace.query.finished import survey
from tests.draining import compact, drain
from tests.shared_pages import SharedPage

from .conftest import prune

TEXT = f"payload pruned on {time.strftime('%Y-%m-%d')} by prune --where 'step = 1'"


@rolltrace.rollout_trace_op(kind="llm", name="generate")
def generate(messages: list[dict[str, str]], temperature: int) -> dict[str, object]:
    return {"role": "assistant", "content": f"{40 + temperature}", "token_ids": [4, temperature]}


@rolltrace.rollout_trace_op(kind="tool", name="search")
def search(query: str) -> str:
    return query.upper()


def write(store: Path) -> None:
    """Two rollouts in each of two steps."""
    rolltrace.init("p", "e", "rolltrace", store=store)
    for step in (1, 2):
        for n in range(2):
            with rolltrace.rollout_trace_attr(step=step, sample_index=0, rollout_n=n) as trajectory:
                generate([{"role": "user", "content": "6 times 7?"}], n)
                search("why")
                trajectory.transition(rolltrace.RolloutTrace(prompt="p"), reward=0.1)
                trajectory.reward(float(n))
    rolltrace.shutdown()
    drain(store)


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For tests that only read."""
    path = tmp_path_factory.mktemp("pruned") / "s"
    write(path)
    assert main(["store", "prune", "--where", "step = 1", "--yes", "--store", str(path)]) == 0
    return path


@pytest.fixture
def store(pruned: Path, tmp_path: Path) -> Path:
    """For tests that change it."""
    return Path(shutil.copytree(pruned, tmp_path / "s"))


@pytest.fixture(scope="module")
def opened(pruned: Path) -> Store:
    return rolltrace.open(pruned)


def ids(store: Store, step: int) -> list[str]:
    return [row["trajectory_id"] for row in store.trajectories(step=step)]


@pytest.fixture(scope="module")
def first(opened: Store) -> str:
    """The id of a trajectory that was pruned."""
    return ids(opened, 1)[0]


def test_python_says_so(opened: Store, first: str) -> None:
    trajectory = opened.trajectory(first)
    assert isinstance(trajectory.pruned, Pruning)
    assert str(trajectory.pruned) == TEXT
    assert [op.pruned for op in trajectory.ops] == [trajectory.pruned] * 2
    assert [op.inputs for op in trajectory.ops] == [{"$pruned": TEXT}] * 2
    assert trajectory.ops[0].outputs == trajectory.transitions[0]["trace"] == {"$pruned": TEXT}
    assert (trajectory.conversation, trajectory.notes) == ([], [])
    kept = opened.trajectory(ids(opened, 2)[0])
    assert (kept.pruned, kept.ops[0].pruned, len(kept.conversation)) == (None, None, 3)


@pytest.mark.parametrize("part", [[], ["--ops"], ["--conversation"], ["--tokens"], ["--transitions"], ["--json"]])
def test_show_says_so(pruned: Path, first: str, capsys: pytest.CaptureFixture[str], part: list[str]) -> None:
    assert main(["show", first, "--store", str(pruned), *part]) == 0
    assert TEXT in capsys.readouterr().out


def test_diff_says_so_and_does_not_call_them_alike(
    pruned: Path, opened: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", "--step", "1", "--sample", "0", "--store", str(pruned)]) == 0
    out = capsys.readouterr().out
    assert f"A: {TEXT}\nB: {TEXT}\nnothing else differs, and what was pruned cannot be compared\n" in out
    assert f"? turn 0\n  A ({TEXT})\n    search({TEXT})\n" in out
    assert "0 tokens" not in out
    comparison = opened.compare_group(1, 0)
    assert (comparison.identical, comparison.first_diverging_turn, comparison.turns[0].known) == (False, None, False)
    mixed = compare([opened.trajectory(ids(opened, step)[0]) for step in (1, 2)])
    assert (mixed.identical, mixed.first_diverging_turn, mixed.first_diverging_token) == (False, None, None)


def test_a_shared_page_says_so(pruned: Path, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "html", first, "--store", str(pruned)]) == 0
    page = SharedPage(capsys.readouterr().out)
    assert page.answers[f"/api/trajectory/{first}"]["pruned"] == TEXT


@pytest.mark.parametrize("form", ["jsonl", "chrome"])
def test_exports_say_so(pruned: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    assert main(["export", form, "--step", "1", "--store", str(pruned)]) == 0
    out = capsys.readouterr().out.replace("&#x27;", "'")
    assert out.count(TEXT) >= 4
    assert '"inputs":null' not in out


@pytest.mark.parametrize("form", ["sft", "dpo"])
def test_training_data_is_not_made_of_what_was_pruned(
    pruned: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    assert main(["export", form, "--store", str(pruned)]) == 0
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines
    assert {line["step"] for line in lines} == {2}
    assert TEXT in err


def test_an_exported_store_says_so(pruned: Path, first: str, tmp_path: Path) -> None:
    assert main(["export", "parquet", "--store", str(pruned), "-o", str(tmp_path / "copy")]) == 0
    assert str(rolltrace.open(tmp_path / "copy").trajectory(first).pruned) == TEXT


def test_backends_are_told(opened: Store, first: str) -> None:
    trajectory = opened.trajectory(first)
    assert of_trajectory(trajectory)["rl.pruned"] == TEXT
    assert TEXT in str(of_op(trajectory.ops[0])["input.value"])
    calls = [call.fields for call in calls_of(trajectory)]
    assert calls[0]["attributes"]["pruned"] == TEXT
    assert all(call["inputs"] == {"$pruned": TEXT} for call in calls[1:])


def test_what_was_pruned_is_not_news_for_backends(tmp_path: Path) -> None:
    write(tmp_path)
    store = rolltrace.open(tmp_path)
    before = survey(store)
    prune(tmp_path, set(ids(store, 1)), policy="x")
    store.refresh()
    after = survey(store)
    assert before["records"].to_pylist() == after["records"].to_pylist()


def test_a_policy_is_named_as_the_command_that_sets_it(tmp_path: Path) -> None:
    write(tmp_path)
    assert (
        main(["store", "retain", "--keep", "errors", "--share", "0", "--now", "--yes", "--store", str(tmp_path)]) == 0
    )
    store = rolltrace.open(tmp_path)
    pruned = store.trajectory(ids(store, 1)[0]).pruned
    assert re.fullmatch(r"payload pruned on \d{4}-\d\d-\d\d by retain --keep errors", str(pruned))


def test_pruning_and_merging_again_keeps_what_was_said(store: Path) -> None:
    opened = rolltrace.open(store)
    first = ids(opened, 1)
    assert prune(store, set(first), policy="again").trajectories == 0
    compact(store)
    opened.refresh()
    assert str(opened.trajectory(first[0]).pruned) == TEXT
    prune(store, set(first), whole=True, policy="prune --whole")
    opened.refresh()
    pruned = opened.trajectory(first[0]).pruned
    assert pruned is not None
    assert (pruned.policy, pruned.whole) == ("prune --whole", True)
