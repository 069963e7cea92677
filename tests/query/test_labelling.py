"""Labels and notes: whose word counts, how they are asked for, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import rolltrace
from rolltrace.errors import ConfigError, NotFoundError, QueryError
from rolltrace.query import Store, complete_filter, open_store
from tests.draining import drain


@pytest.fixture(scope="module")
def unlabelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two samples with two rollouts of two turns each."""
    folder = tmp_path_factory.mktemp("unlabelled")
    rolltrace.init("p", "e", "rolltrace", store=folder, drain="off")

    @rolltrace.rollout_trace_op(name="generate", kind="llm")
    def generate(messages: list[dict[str, str]]) -> dict[str, str]:
        return {"role": "assistant", "content": f"{messages[-1]['content']}!"}

    for sample in (1, 2):
        for n in (0, 1):
            with rolltrace.rollout_trace_attr(sample, step=3, rollout_n=n) as trajectory:
                generate([{"role": "user", "content": f"question {sample}"}])
                generate([{"role": "user", "content": f"more of {n}"}])
                trajectory.reward(n)
    rolltrace.shutdown()
    drain(folder)
    return folder


@pytest.fixture
def store(unlabelled: Path, tmp_path: Path) -> Store:
    return open_store(shutil.copytree(unlabelled, tmp_path / "store"))


@pytest.fixture(scope="module")
def labelled(unlabelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = open_store(shutil.copytree(unlabelled, tmp_path_factory.mktemp("labelled") / "store"))
    store.label((3, 1, 0), "hack", author="ann", turn=1)
    store.label((3, 1, 1), "hack", "severe", author="bob")
    for name, value in (("good", "yes"), ("odd name", "yes"), ("note", "look here\nand there")):
        store.label((3, 2, 1), name, value, author="ann")
    store.label((3, 2, 0), "hack", author="ann")
    store.label((3, 2, 0), "hack", None, author="ann")
    return store


def ids(store: Store, where: str | None = None) -> list[tuple[int, int]]:
    return [(row["sample_index"], row["rollout_n"]) for row in store.trajectories(where=where)]


@pytest.fixture(scope="module")
def some_id(labelled: Store) -> str:
    """The id of a trajectory, the same in every copy."""
    return str(labelled.trajectories().rows()[0]["trajectory_id"])


def test_each_author_has_the_last_word_of_their_own(store: Store, some_id: str) -> None:
    store.label(some_id, "hack", author="ann")
    store.label(some_id, "hack", "severe", author="bob")
    store.label(some_id, "hack", None, author="ann")
    trajectory = store.trajectory(some_id)
    assert trajectory.labels == ["hack"]
    assert [(each.author, each.label) for each in trajectory.given_labels] == [("bob", "severe")]
    assert [(each.author, each.label) for each in trajectory.scores if each.name == "hack"] == [
        ("ann", "yes"), ("bob", "severe"), ("ann", None),
    ]  # fmt: skip
    store.label(some_id, "hack", None, author="bob")
    assert store.trajectory(some_id).labels == []
    assert "hack" not in store.trajectory(some_id).newest_scores


def test_a_label_given_by_coordinates_is_that_of_the_trajectory(store: Store) -> None:
    store.label((3, 2, 1), "good", author="ann")
    store.label((3, "2", 0, False), "bad", author="ann")
    assert ids(store, "label.good") == [(2, 1)]
    assert [row["labels"] for row in store.trajectories()] == [[], [], ["bad"], ["good"]]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("label.hack", [(1, 0), (1, 1)]),
        ("not label.hack", [(2, 0), (2, 1)]),
        ("label.hack and reward > 0", [(1, 1)]),
        ("(label.hack or label.good)", [(1, 0), (1, 1), (2, 1)]),
        ("label.hack = 'severe'", [(1, 1)]),
        ("label.hack is null", [(2, 0), (2, 1)]),
        ("author.hack = 'bob'", [(1, 1)]),
        ("author = 'ann'", [(1, 0), (2, 1)]),
        ("author in ('ann', 'bob')", [(1, 0), (1, 1), (2, 1)]),
        ("label = 'good'", [(2, 1)]),
        ("label is null", [(2, 0)]),
        ("labels = 'good'", [(2, 1)]),
        ("label.'odd name'", [(2, 1)]),
        ("label.note ~ 'LOOK'", [(2, 1)]),
    ],
)
def test_filters_ask_for_labels_values_and_authors(
    labelled: Store, where: str, expected: list[tuple[int, int]]
) -> None:
    assert ids(labelled, where) == expected


def test_a_label_on_a_turn_is_about_its_op(store: Store, some_id: str) -> None:
    trajectory = store.trajectory(some_id)
    op = trajectory.ops[1]
    store.label(trajectory, "good", author="ann", turn=1)
    store.label(trajectory, "good", author="ann")
    store.label(trajectory, "good", None, author="ann")
    assert [(each.name, each.op_id) for each in store.trajectory(trajectory.trajectory_id).given_labels] == [
        ("good", op.op_id)
    ]
    assert [(row["name"], row["op_id"]) for row in store.labels(step=3)] == [("good", op.op_id)]


def test_a_note_of_the_same_author_takes_the_place_of_the_one_before(store: Store, some_id: str) -> None:
    store.score(some_id, "note", "by a program")
    for author, text in (("ann", "first"), ("bob", "mine"), ("ann", "second")):
        store.label(some_id, "note", text, author=author)
    notes = store.trajectory(some_id).human_notes
    assert [(note.text, note.fields.get("author")) for note in notes] == [
        ("by a program", None), ("mine", "bob"), ("second", "ann"),
    ]  # fmt: skip


def test_what_is_said_survives_draining_compaction_and_another_reader(store: Store) -> None:
    kept, taken_back, given_again = (1, 0), (1, 1), (2, 0)
    for place, value in (
        (kept, "yes"), (taken_back, "yes"), (given_again, "yes"), (taken_back, None), (given_again, None),
        (given_again, "yes"),
    ):  # fmt: skip
        store.label((3, *place), "good", value, author="ann")
    store.label((3, *kept), "bad", author="ann")
    expected = {kept: ["bad", "good"], taken_back: [], given_again: ["good"], (2, 1): []}
    for compacted in (False, True):
        drain(store.path, compacted=compacted)
        with open_store(store.path) as read:
            rows = read.trajectories().rows()
            assert {(row["sample_index"], row["rollout_n"]): row["labels"] for row in rows} == expected
            for row in rows:
                assert read.trajectory(row["trajectory_id"]).labels == row["labels"]


@pytest.mark.parametrize(
    ("name", "value", "author", "words"),
    [
        ("", "yes", "ann", "name of a label must be text"),
        ("a\nb", "yes", "ann", "one line of printable characters"),
        ("x" * 81, "yes", "ann", "at most 80 characters, not 81"),
        ("reward", "yes", "ann", "use `rolltrace label ID --score`"),
        ("hack", "", "ann", "value of 'hack' must be text"),
        ("hack", "x" * 501, "ann", "at most 500"),
        ("hack", "yes", " ", "an author must be text"),
        ("hack", "yes", "\x1b[31m", "one line of printable characters"),
        ("note", "x" * 20_001, "ann", "at most 20,000"),
    ],
)
def test_what_makes_no_sense_is_refused(labelled: Store, name: str, value: str, author: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        labelled.label((3, 1, 0), name, value, author=author)


def test_what_is_not_there_is_named(store: Store, some_id: str) -> None:
    with pytest.raises(NotFoundError, match="has no turn 2; turns are model calls, counted from 0"):
        store.label(some_id, "hack", turn=2)
    with pytest.raises(NotFoundError, match="has no op 7"):
        store.label(some_id, "hack", op_id=7)
    with pytest.raises(NotFoundError, match="step 3, sample 9, rollout 0 in p / e"):
        store.label((3, 9, 0), "hack")
    with pytest.raises(QueryError):
        store.label("ffffffffffff", "hack", project="p", experiment="e")
    store.label(some_id, "hack", author="ann")
    with pytest.raises(NotFoundError, match=r"bob gave .* no label 'hack'; it was given by ann: name the author"):
        store.label(some_id, "hack", None, author="bob")


def test_the_filter_bar_offers_labels_and_their_authors(store: Store) -> None:
    store.label((3, 1, 0), "hack", "severe", author="ann")

    def options(text: str) -> list[str]:
        return [each.text for each in complete_filter(store, text).options]

    assert options("label.") == ["label.hack"]
    assert options("author.hack = ") == ["'ann'"]
    assert options("author = ") == ["'ann'"]
    assert options("label = ") == ["'hack'"]
    assert options("label.hack = ") == ["'severe'"]
    assert {"and", "or", "="} <= set(options("label.hack "))
