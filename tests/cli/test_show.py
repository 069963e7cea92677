"""`rolltrace show`: one trajectory as a person reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.drain import Drainer

HOSTILE = "\x1b]0;title\x07 first\nsecond \x9b2J"


@rolltrace.rollout_trace_op(kind="llm")
def generate(messages: list[dict[str, str]]) -> dict[str, object]:
    ids = list(range(40))
    return {"token_ids": ids, "text": "line\n" * 30, "logprobs": [-0.5] * 40}


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> str:
    raise ValueError(f"no page {HOSTILE}")


@rolltrace.rollout_trace_op
def agent(query: str) -> None:
    generate([{"role": "user", "content": query}])
    try:
        search(query)
    except ValueError:
        pass


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(params=["undrained", "drained"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    with rolltrace.rollout_trace_attr(7, step=3, rollout_n=2, validate=True, level=HOSTILE) as trajectory:
        agent("天气 " + HOSTILE)
        trajectory.reward(0.1)
        trajectory.reward(0.5, terms={"format": 0.25, "answer": 0.25})
        trajectory.note("halfway")
    rolltrace.shutdown()
    if request.param == "drained":
        drainer = Drainer(tmp_path)
        with drainer.working():
            drainer.drain()
    return tmp_path


@pytest.fixture
def name(store: Path, capsys: pytest.CaptureFixture[str]) -> str:
    main(["ls", str(store), "--json"])
    return str(json.loads(capsys.readouterr().out)["trajectory_id"])


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["show", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_header_says_where_it_stands_and_what_it_got(
    store: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = shown(capsys, name[:8], store)
    assert said.startswith(name)
    for part in (
        "p / e  step 3  sample 7  rollout 2  validation",
        "1 turn, 1 tool call (1 failed), 40 response tokens",
        "reward 0.5  (format 0.25, answer 0.25)",
        "flags tool_error",
        "0 transitions, 1 note",
    ):
        assert part in said


def test_scores_are_shown_with_their_history_and_reason(
    store: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store)
    rolltrace.score((3, 7, 2, True), "fate", "filtered", reason=f"too long {HOSTILE}")
    rolltrace.score(name, "reward", None)
    for grade in range(7):
        rolltrace.score(name, "grade", grade)
    rolltrace.shutdown()
    said = shown(capsys, name, store).splitlines()
    assert "  reward none  before: 0.1, 0.5" in said
    assert "  grade 6  before: … 1, 2, 3, 4, 5" in said
    (fate,) = (line for line in said if line.startswith("  fate "))
    assert fate.startswith("  fate filtered  because: too long \\x1b]0")


def test_ops_are_a_tree_with_errors(store: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    tree = shown(capsys, name, store, "--ops").partition("\nops\n")[2].splitlines()
    assert [line[:16].rstrip() for line in tree][1:] == ["  ├─ generate ll", "  └─ search tool"]
    assert tree[0].startswith("  agent ")
    assert "[40 numbers]" in tree[1]
    assert " error (query=" in tree[2]
    assert "✗ ValueError: no page" in tree[2]


def test_the_conversation_is_cut_unless_full(store: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    short = shown(capsys, name, store, "--conversation")
    assert "[user]\n  天气" in short
    assert "\n  second " in short, "its lines are kept"
    assert short.count("  line\n") == 12
    assert "… 19 more lines; all of it: --full" in short
    assert shown(capsys, name, store, "--conversation", "--full").count("  line\n") == 30


def test_tokens_are_counted_and_cut(store: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "  response_ids       40  0 1 2 3 4 5 6 7 8 9 10 11 …\n" in shown(capsys, name, store, "--tokens")
    assert " 38 39\n" in shown(capsys, name, store, "--tokens", "--full")


def test_json_is_everything_or_a_line_per_item(store: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(shown(capsys, name, store, "--json"))
    assert (whole["trajectory_id"], whole["reward"], len(whole["scores"])) == (name, 0.5, 2)
    assert [child["name"] for child in whole["ops"][0]["children"]] == ["generate", "search"]
    assert whole["ops"][0]["inputs"]["query"] == "天气 " + HOSTILE
    ops = [json.loads(line) for line in shown(capsys, name, store, "--json", "--ops").splitlines()]
    assert [(op["name"], op["depth"]) for op in ops] == [("agent", 0), ("generate", 1), ("search", 1)]
    messages = [json.loads(line) for line in shown(capsys, name, store, "--json", "--conversation").splitlines()]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    (tokens,) = [json.loads(line) for line in shown(capsys, name, store, "--json", "--tokens").splitlines()]
    assert tokens["response_ids"] == list(range(40))


@pytest.mark.parametrize("options", [[], ["--full"], ["--tokens"], ["--json"], ["--json", "--ops"]])
def test_traced_text_is_not_obeyed(
    store: Path, name: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys, name, store, *options).replace("\n", "").isprintable()


def test_an_id_that_is_none_is_one_line(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("ffffffffff", "xyz", "a", "\x1b[2J"):
        assert main(["show", wrong, str(store)]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("rolltrace: ")
        assert said.err[:-1].isprintable()


def test_store_before_id_is_explained(store: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(store), name]) == 1
    assert f"the id comes first: rolltrace show {name} {store}" in capsys.readouterr().err
