"""`rolltrace diff`: where trajectories part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from tests.shared_pages import SharedPage


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt: str, reply: str) -> dict[str, object]:
    return {"text": reply, "token_ids": [ord(letter) for letter in reply]}


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> str:
    return f"\x1b[31mfound {query}"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A store, not to be changed, and the ids of its trajectories."""
    store, ids = tmp_path_factory.mktemp("compared"), []
    rolltrace.init("p", "e", "rolltrace", store=store)
    for n, queries in enumerate((["a", "b"], ["a", "c"], ["a"], ["a", "b"])):
        with rolltrace.rollout_trace_attr(1, step=1, rollout_n=n) as trajectory:
            for query in queries:
                generate("p", f"I look for {query}")
                search(query)
            trajectory.reward(float(n % 3))
        ids.append(trajectory.id)
    rolltrace.shutdown()
    return store, ids


@pytest.fixture
def store(written: tuple[Path, list[str]]) -> Path:
    return written[0]


@pytest.fixture
def ids(written: tuple[Path, list[str]]) -> list[str]:
    return written[1]


def test_the_first_difference_is_named(store: Path, ids: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", ids[0][:8], ids[1], "--store", str(store)]) == 0
    said = capsys.readouterr().out
    assert "first turn that differs: 1\n" in said
    assert "first token that differs: 11 of turn 1 (A 98, B 99)" in said
    assert "first tool call that differs: 0 of turn 1 (A search(query=b), B search(query=c))" in said
    assert "\n= turn 0\n" in said
    assert "\n≠ turn 1  first difference\n  A I look for b\n" in said
    assert ["score", "reward", "0", "1"] in [line.split() for line in said.splitlines()]
    assert said.replace("\n", "").isprintable()


def test_one_that_ended_before_is_shown(store: Path, ids: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *ids[:3], "--store", str(store)]) == 0
    assert "\n  C (ended before)" in capsys.readouterr().out


def test_the_same_is_said_to_be_the_same(store: Path, ids: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", ids[0], ids[3], "--store", str(store)]) == 0
    assert "model and tools did the same in all of them" in capsys.readouterr().out


def test_json_has_the_whole_comparison(store: Path, ids: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *ids[:3], "--store", str(store), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["trajectory_ids"] == ids[:3]
    assert (found["identical"], found["first_diverging_turn"]) == (False, 1)
    assert found["first_diverging_token"]["values"] == [ord("I"), ord("I"), None]
    assert found["first_diverging_tool_call"]["calls"][1] == {"name": "search", "arguments": {"query": "c"}}
    assert found["scores"] == {"reward": [0.0, 1.0, 2.0]}
    assert [row["same"] for row in found["turns"]] == [True, False]


@pytest.mark.parametrize("extra", [[], ["STORE"]])
def test_wrong_usage_says_what_is_missing(
    store: Path, ids: list[str], extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["diff", ids[0], *[str(store) for _ in extra]])
    assert stopped.value.code == 2
    assert "two or more ids" in capsys.readouterr().err


def test_the_store_may_stand_behind_the_ids(store: Path, ids: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", ids[0], ids[1], str(store)]) == 0
    assert "first turn that differs: 1\n" in capsys.readouterr().out


SAME = "what all of them say, at some length; " * 30


def write_different(store: Path, replies: list[str], results: list[str], reason: list[str]) -> list[str]:
    """One turn each, with a tool call; the ids."""
    rolltrace.init("p", "e", "rolltrace", store=store)

    @rolltrace.rollout_trace_op(kind="tool")
    def ask(query: str) -> str:
        return query

    made = []
    for reply, result, why in zip(replies, results, reason):
        with rolltrace.rollout_trace_attr(1, step=1, why=why) as trajectory:
            generate("p", reply)
            ask(result)
            made.append(trajectory.id)
    rolltrace.shutdown()
    return made


@pytest.mark.parametrize("part", ["reply", "tool", "tag"])
def test_what_differs_is_shown_however_much_is_the_same(
    tmp_path: Path, part: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    texts = [SAME + word + SAME + other + SAME for word, other in (("one", "alpha"), ("two", "omega"))]
    given = [texts if part == each else ["x", "x"] for each in ("reply", "tool", "tag")]
    ids = write_different(tmp_path, *given)
    assert main(["diff", *ids, str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    if part == "tag":
        (row,) = [line for line in lines if line.startswith("tags")]
        assert ("one" in row, "two" in row) == (True, True)
    else:
        joined = "".join(line[4:] for line in lines)
        assert all(word in joined for word in ("one", "two", "alpha", "omega"))
    assert max(map(len, lines)) <= 80 or part != "reply"


def test_what_is_not_shown_of_a_long_difference_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ids = write_different(tmp_path, ["a" * 9000, "b" * 9000], ["x", "x"], ["", ""])
    assert main(["diff", *ids, str(tmp_path)]) == 0
    assert "more lines: --full" in capsys.readouterr().out
    assert main(["diff", *ids, str(tmp_path), "--full"]) == 0
    said = capsys.readouterr().out
    assert (said.count("b") >= 9000, "--full" in said) == (True, False)


def test_turns_are_counted_as_on_the_html_page(
    store: Path, ids: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diff", ids[0], ids[1], str(store)])
    assert "first turn that differs: 1\n" in capsys.readouterr().out
    page = tmp_path / "page.html"
    main(["export", "html", str(store), "-o", str(page), ids[0], ids[1]])
    shared = SharedPage(page.read_text())
    assert "They diverge in turn 1." in shared.plain
    compared = shared.answers[f"/api/compare {','.join(sorted(ids[:2]))}"]
    assert compared["first_diverging_turn"] == 1
    assert [(row["first_turn"], row["equal"]) for row in compared["rows"][:2]] == [(0, True), (1, False)]


def test_a_group_is_compared_by_its_place(store: Path, ids: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "--step", "1", "--sample", "1", "--store", str(store)]) == 0
    said = capsys.readouterr().out
    assert "A diverges from C, the best, at turn 1, token 0\n" in said
    assert "B diverges from C, the best, at turn 1, token 0\n" in said
    assert (
        main(["diff", "--step", "1", "--sample", "1", "--experiment", "e", "--train", "--store", str(store), "--json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert (found["trajectory_ids"], found["best"]) == (ids, 2)
    assert [parting["turn"] for parting in found["partings"]] == [1, 1, None, 1]


def test_one_that_does_what_the_best_does_is_said_to(
    store: Path, ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", ids[1], ids[0], ids[3], ids[1], "--store", str(store)]) == 0
    assert "D is the same as A, the best\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["--step", "1"], ["--sample", "1"], ["abcd", "abce", "--step", "1", "--sample", "1"], ["--train"], []]
)
def test_ids_or_a_whole_group_are_needed(store: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["diff", *arguments, "--store", str(store)])
    assert stopped.value.code == 2
    assert "--step and --sample of a group" in capsys.readouterr().err


def test_a_group_of_one_is_an_error(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "--step", "2", "--sample", "1", "--store", str(store)]) == 1
    assert "comparing needs two or more rollouts; step 2, sample 1 has none" in capsys.readouterr().err
