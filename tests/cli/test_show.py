"""`rolltrace show`: one trajectory as a person reads it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer

import rolltrace
from rolltrace.cli import main
from rolltrace.tables import Place
from tests.draining import add_rows, drain
from tests.nightly import nightly

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


@pytest.fixture(scope="module", params=["undrained", "drained"])
def in_each_state(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store of one trajectory, waiting in the journal or drained, and its id. Not to be changed."""
    return _written(tmp_path_factory.mktemp(request.param), drained=request.param == "drained")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The same, drained, for what does not depend on where it is read from."""
    return _written(tmp_path_factory.mktemp("written"), drained=True)


def _written(store: Path, *, drained: bool) -> tuple[Path, str]:
    rolltrace.init("p", "e", "rolltrace", store=store)
    with rolltrace.rollout_trace_attr(7, step=3, rollout_n=2, validate=True, level=HOSTILE) as trajectory:
        agent("天气 " + HOSTILE)
        trajectory.reward(0.1)
        trajectory.reward(0.5, terms={"format": 0.25, "answer": 0.25})
        trajectory.note("halfway")
    rolltrace.shutdown()
    if drained:
        drain(store)
    return store, trajectory.id


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["show", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_header_says_where_it_stands_and_what_it_got(
    in_each_state: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    store, name = in_each_state
    said = shown(capsys, name[:8], store)
    assert said.startswith(name)
    assert said.replace("\n", "").isprintable(), "traced text is not obeyed"
    for part in (
        "p / e  step 3  sample 7  rollout 2  validation",
        "1 turn, 1 tool call (1 failed), 40 response tokens",
        "reward 0.5  (format 0.25, answer 0.25)",
        "flags tool_error\n    tool_error in search: error=ValueError: no page",
        "  note halfway",
    ):
        assert part in said


def test_scores_are_shown_with_their_history_and_reason(
    in_each_state: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    original, name = in_each_state
    store = shutil.copytree(original, tmp_path / "store")
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


def test_ops_are_a_tree_with_errors(written: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    store, name = written
    tree = shown(capsys, name, store, "--ops").partition("\nops\n")[2].splitlines()
    assert [line[:16].rstrip() for line in tree][1:] == ["  ├─ generate ll", "  └─ search tool"]
    assert tree[0].startswith("  agent ")
    assert "[40 numbers]" in tree[1]
    assert " error (query=" in tree[2]
    assert "✗ ValueError: no page" in tree[2]


def test_the_conversation_is_cut_unless_full(written: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    store, name = written
    short = shown(capsys, name, store, "--conversation")
    assert "[user]\n  天气" in short
    assert "\n  second " in short, "its lines are kept"
    assert short.count("  line\n") == 12
    assert "… 19 more lines; all of it: --full" in short
    assert shown(capsys, name, store, "--conversation", "--full").count("  line\n") == 30


def test_tokens_are_counted_and_cut(written: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    store, name = written
    assert "  response_ids       40  0 1 2 3 4 5 6 7 8 9 10 11 …\n" in shown(capsys, name, store, "--tokens")
    assert " 38 39\n" in shown(capsys, name, store, "--tokens", "--full")


def test_json_is_everything_or_a_line_per_item(
    in_each_state: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    store, name = in_each_state
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


@pytest.mark.parametrize("options", [["--full"], ["--tokens"], ["--json"], ["--json", "--ops"]])
def test_traced_text_is_not_obeyed(
    written: tuple[Path, str], options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    store, name = written
    assert shown(capsys, name, store, *options).replace("\n", "").isprintable()


def test_an_id_that_is_none_is_one_line(written: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("ffffffffff", "xyz", "a", "\x1b[2J"):
        assert main(["show", wrong, str(written[0])]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("rolltrace: ")
        assert said.err[:-1].isprintable()


def test_the_store_may_stand_before_the_id(written: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    store, name = written
    assert main(["show", str(store), name]) == 0
    assert name in capsys.readouterr().out


def test_coordinates_name_a_trajectory(stepped: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    store, name = stepped
    assert main(["show", "--step", "3", "--sample", "7", "--json", str(store)]) == 0
    assert json.loads(capsys.readouterr().out)["trajectory_id"] == name
    assert main(["show", "--step", "4", "--sample", "7", str(store)]) == 1
    assert capsys.readouterr().err.startswith("rolltrace: ")


def test_coordinates_of_several_say_what_to_add(written: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["show", str(written[0])])
    assert stopped.value.code == 2
    assert "by its id, or by --step, --sample and --rollout" in capsys.readouterr().err


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store with a trajectory of four steps, and its id. Not to be changed."""
    store = tmp_path_factory.mktemp("stepped")
    rolltrace.init("p", "e", "rolltrace", store=store)
    with rolltrace.rollout_trace_attr(7, step=3) as trajectory:
        terms = {"format": 1.0, "answer": 0.123456789}
        trajectory.transition(rolltrace.RolloutTrace("p", "left", terms), reward=0.123456789, metrics={"turns": 2})
        trajectory.transition({}, reward=float("nan"), episode_done=True, stop_reason=f"cut {HOSTILE}")
        trajectory.transition(None, error={"message": "it broke"}, stop_reason="ValueError")
        trajectory.transition(rolltrace.RolloutTrace("p", "x" * 1000))
        trajectory.note("halfway", author="me")
    rolltrace.shutdown()
    return store, trajectory.id


def test_transitions_are_one_line_each_with_raw_numbers(
    stepped: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    store, name = stepped
    main(["show", name, str(store), "--transitions"])
    section = capsys.readouterr().out.partition("transitions\n")[2]
    first, second, third, fourth = section.splitlines()[-4:]
    assert first == "  0 reward 0.123456789 (format 1.0, answer 0.123456789) [turns 2] → left"
    assert second.startswith("  1 reward nan done stopped by cut \\x1b]0;title")
    assert third == "  2 stopped by ValueError ✗ it broke"
    assert fourth.endswith("x…")
    assert len(fourth) <= 200


def test_transitions_are_shown_with_everything_else(
    stepped: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    store, name = stepped
    main(["show", name, str(store), "--full"])
    out = capsys.readouterr().out
    assert "\ntransitions\n  0 reward" in out
    assert "x" * 1000 in out


def test_the_header_names_the_option_for_what_is_not_shown(
    stepped: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    store, name = stepped
    for options in ([], ["--transitions"]):
        assert "  4 transitions\n" in shown(capsys, name, store, *options)
    without_either = shown(capsys, name, store, "--ops")
    assert "  4 transitions (see --transitions)\n" in without_either
    assert "  note halfway  (author me)\n" in without_either


def test_transitions_as_json(stepped: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    store, name = stepped
    main(["show", name, str(store), "--transitions", "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["reward"] for row in rows] == [0.123456789, {"$float": "nan"}, None, None]
    assert rows[0]["trace"]["reward_data"] == {"format": 1.0, "answer": 0.123456789}


def test_a_prefix_break_is_shown_with_the_token_at_which_it_breaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @rolltrace.rollout_trace_op(kind="llm", name="answer")
    def answer(prompt_ids: list[int]) -> dict[str, list[int]]:
        return {"token_ids": [3, 4]}

    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    with rolltrace.rollout_trace_attr(7, step=3) as trajectory:
        for last in range(25):
            answer([1, 2, 3, 100 + last])
    said = shown(capsys, trajectory.id, tmp_path)
    assert "    prefix_break in answer: previous_op_id=" in said
    assert ", previous_tokens=6, prompt_tokens=4, first_difference=3\n" in said
    assert said.count("prefix_break in answer") == 20
    assert "    … 4 more; all of them: --full\n" in said
    assert shown(capsys, trajectory.id, tmp_path, "--full").count("prefix_break in answer") == 24
    whole = json.loads(shown(capsys, trajectory.id, tmp_path, "--json"))
    assert whole["findings"][0]["detail"]["first_difference"] == 3


def test_a_model_call_with_nothing_but_tokens_is_shown_as_text(
    tmp_path: Path, byte_level: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    @rolltrace.rollout_trace_op(kind="llm")
    def complete(prompt_ids: list[int]) -> dict[str, object]:
        return {"token_ids": byte_level.encode("奖励\x1b[2J 🚀").ids}

    rolltrace.init("p", "e", "rolltrace", store=tmp_path, tokenizer=byte_level)
    with rolltrace.rollout_trace_attr(1, step=1) as trajectory:
        complete(byte_level.encode("what is a reward?").ids)
    rolltrace.shutdown()
    said = shown(capsys, trajectory.id, tmp_path)
    assert "[user]\n  what is a reward?\n[assistant]\n  奖励" in said
    assert said.replace("\n", "").isprintable()
    tokens = shown(capsys, trajectory.id, tmp_path, "--tokens", "--full")
    assert "'奖' " in tokens
    assert "'🚀'" in tokens
    assert tokens.replace("\n", "").isprintable()


@rolltrace.rollout_trace_op
def _recurse(depth: int) -> None:
    if depth:
        _recurse(depth - 1)
    raise KeyError(f"deep down {HOSTILE}")


def test_the_traceback_of_a_crash_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    with pytest.raises(KeyError), rolltrace.rollout_trace_attr(1, step=1) as trajectory:
        _recurse(9)
    rolltrace.shutdown()
    assert main(["show", trajectory.id, "--store", str(tmp_path)]) == 0
    brief = capsys.readouterr().out
    assert f'File "{__file__}", line ' in brief
    assert 'raise KeyError(f"deep down {HOSTILE}")' in brief
    assert "earlier lines; all of it: --full" in brief
    assert main(["show", trajectory.id, "--full", "--store", str(tmp_path)]) == 0
    full = capsys.readouterr().out
    assert full.count("_recurse(depth - 1)\n") == 9
    assert "in test_the_traceback_of_a_crash_is_shown" in full
    assert "\x1b" not in full


def test_full_shows_the_traceback_of_an_op_whose_error_was_handled(
    written: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    store, trajectory_id = written
    assert main(["show", trajectory_id, str(store)]) == 0
    assert "Error(f" not in capsys.readouterr().out
    assert main(["show", trajectory_id, str(store), "--full"]) == 0
    assert capsys.readouterr().out.count('raise ValueError(f"no page {HOSTILE}")') == 1


@pytest.mark.parametrize("missing", [(), ("start_ns",), ("name", "kind", "status", "start_ns", "validate")])
def test_a_file_that_expands_a_thousandfold_is_shown(
    tmp_path: Path, missing: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Another tool wrote it: what every row of ours has may be missing."""
    where = {"trajectory_id": "ab" * 16, "project": "p", "experiment": "e", "step": 1, "validate": False}
    own = {**where, "name": "n", "start_ns": 1, "end_ns": 9, "status": "ok"}
    large = json.dumps({"inputs": {"x": "b" * (8 << 20)}, "outputs": "c" * (8 << 20)})
    op = {**own, "op_id": 7, "kind": "llm", "payload": large, **dict.fromkeys(missing)}
    files = add_rows(tmp_path, Place("p", "e", 1), {"ops": [op], "trajectories": [{**own, "status_rank": 4}]})
    assert len(large) > 1000 * files["ops"].size_bytes
    for options in nightly(([], ["--ops"], ["--full"], ["--json"]), ([], ["--json"])):
        assert main(["show", "ab" * 16, *options, "--store", str(tmp_path)]) == 0
        captured = capsys.readouterr()
        assert "ccccc" in captured.out or options in ([], ["--ops"])
        assert captured.err == ""
