"""`rolltrace sync`: send by hand, as often as one likes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.cli import main, sync
from rolltrace.keeper.outbox import Outbox, SendingPolicy
from rolltrace.keeper.position import REFUSED, Entry
from rolltrace.keeper.sender_loop import SenderLoop
from rolltrace.tables import note_routes
from tests.draining import drain


@rolltrace.rollout_trace_op
def op(number: int) -> int:
    return number


def write(path: Path) -> None:
    for experiment in ("e", "other"):
        rolltrace.init("p", experiment, "rolltrace", store=path)
        for number in range(6):
            step = 1 if experiment == "other" else number // 3
            with rolltrace.rollout_trace_attr(step=step, sample_index=number) as trajectory:
                op(number)
                trajectory.reward(number)
        rolltrace.shutdown()


@pytest.fixture
def store(tmp_path: Path, copied: Callable[..., Path]) -> Path:
    """Two experiments of six trajectories each, one of two steps, that were traced for the store alone."""
    return copied(tmp_path / "store", write)


def run(store: Path, *options: str) -> int:
    return main(["sync", str(store), "--to", "shipping", *options])


def test_everything_is_sent_once(store: Path, harbour: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(store) == 0
    has = "; shipping has 12 of this store, sent 12 by rolltrace sync\n"
    assert capsys.readouterr().out == f"sent 12 trajectories to shipping{has}"
    assert run(store) == 0
    assert capsys.readouterr().out == f"nothing was left to send{has}"
    assert sorted(harbour.sent().values()) == [1] * 12


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--experiment", "other"], 6),
        (["--where", "reward >= 4"], 4),
        (["--since", "1"], 9),
        (["--since", "1h"], 12),
        (["--since", "0s"], 0),
        (["--where", "reward >= 2", "--since", "1", "--experiment", "e"], 3),
    ],
)
def test_a_dry_run_says_what_is_chosen(
    store: Path, harbour: Any, capsys: pytest.CaptureFixture[str], options: list[str], count: int
) -> None:
    assert run(store, *options, "--dry-run", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["send"], told["update"]) == (count, 0)
    assert (told["bytes"] > 0) == (count > 0)
    assert harbour.sent() == {}, "a dry run sends nothing"


def test_what_is_chosen_is_sent(store: Path, harbour: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(store, "--where", "reward >= 2", "--since", "1", "--experiment", "e", "--project", "p") == 0
    assert len(harbour.sent()) == 3
    assert run(store, "--since", "0s") == 0
    assert len(harbour.sent()) == 3
    assert capsys.readouterr().err == ""
    for options in ([], ["--dry-run"]):
        assert run(store, "--experiment", "nothing", *options) == 1
        assert capsys.readouterr().err.startswith("rolltrace: no trajectories in the store")


def test_a_dry_run_says_how_much(store: Path, harbour: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(store, "--dry-run") == 0
    assert capsys.readouterr().out.startswith("would send 12 trajectories to shipping, about ")
    assert not (store / "outbox").exists(), "looking makes no files"


def test_again_sends_what_is_there_already(store: Path, harbour: Any) -> None:
    run(store)
    assert run(store, "--again", "--where", "step = 1 and experiment = 'e'") == 0
    assert sorted(harbour.sent().values()) == [1] * 9 + [2] * 3


def test_newer_scores_are_sent_as_updates(store: Path, harbour: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rolltrace.init("p", "late", "rolltrace", store=store)
    with rolltrace.rollout_trace_attr(step=9) as trajectory:
        op(1)
    run(store)
    trajectory.reward(0.5)
    capsys.readouterr()
    assert run(store, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["sent"], told["updated"], told["refused"], told["has"]["total"]) == (0, 1, 0, 13)
    assert [(line["id"], line["scores"]) for line in harbour.arrived() if line["call"] == "update"] == [
        (trajectory.id, [0.5])
    ]


def test_an_outage_is_an_error_and_the_same_command_goes_on(
    store: Path, harbour: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync.time, "sleep", lambda seconds: None)
    harbour.let("down")
    assert run(store) == 1
    said = capsys.readouterr().err
    assert said.startswith("rolltrace: shipping: ConnectionError: no ship in the harbour; 0 of 12 were sent before")
    harbour.stop("down")
    assert run(store) == 0
    assert sorted(harbour.sent().values()) == [1] * 12


def test_a_wrong_key_is_one_line(store: Path, harbour: Any, capsys: pytest.CaptureFixture[str]) -> None:
    harbour.let("wrong-key")
    assert run(store) == 1
    assert capsys.readouterr().err.startswith("rolltrace: shipping: the key is wrong: set SHIPPING_KEY; 0 of 12")


def test_an_unknown_backend_is_one_line(store: Path, harbour: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sync", str(store), "--to", "shipping2"]) == 1
    assert "did you mean 'shipping'?" in capsys.readouterr().err


def test_what_is_refused_is_said(store: Path, harbour: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store)
    with rolltrace.rollout_trace_attr(step=1, name="contraband"):
        op(1)
    rolltrace.shutdown()
    assert run(store) == 3
    assert "shipping refused 1 trajectory" in capsys.readouterr().err
    assert main(["stats", str(store)]) == 0
    assert "to shipping   12 sent, 0 pending, 1 refused, 0 held back\n" in capsys.readouterr().out


def test_a_policy_is_kept_for_what_is_sent_by_itself(
    store: Path, harbour: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(store, "--where", "reward < 0.5", "--max-bytes-per-day", "30MiB", "--save") == 0
    assert capsys.readouterr().out == "saved: shipping gets trajectories where reward < 0.5, up to 31.5 MB a day\n"
    assert Outbox(store, "shipping").policy == SendingPolicy("reward < 0.5", 30 << 20)
    assert harbour.sent() == {}
    assert run(store) == 0
    assert len(harbour.sent()) == 12, "what is asked for is sent, policy or not"
    assert run(store, "--save") == 0
    assert Outbox(store, "shipping").policy == SendingPolicy()


def test_a_policy_can_be_saved_before_the_first_run(
    tmp_path: Path, harbour: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "new" / "store"
    assert run(store, "--where", "rewart < 1", "--save") == 1
    assert not store.exists(), "nothing is made for what cannot be saved"
    capsys.readouterr()
    assert run(store, "--where", "reward < 1", "--save") == 0
    assert capsys.readouterr().err == f"rolltrace: created the store {store}\n"
    assert run(store, "--save", "--where", "reward < 0.5") == 0
    assert capsys.readouterr().err == ""
    assert Outbox(store, "shipping").policy == SendingPolicy("reward < 0.5")
    assert len(rolltrace.open(store).trajectories()) == 0


def test_only_saving_makes_a_store(tmp_path: Path, harbour: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--dry-run"]):
        assert run(tmp_path / "mistyped", *options) == 1
        assert "there is no store at" in capsys.readouterr().err
        assert not (tmp_path / "mistyped").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--since", "5x"], "--since must be a step"),
        (["--where", "rewart < 1"], "unknown field"),
        (["--where", "rewart < 1", "--save"], "unknown field"),
        (["--max-bytes-per-day", "5", "--dry-run"], "add --save"),
        (["--max-bytes-per-day", "much", "--save"], "a size such as"),
        (["--experiment", "e", "--save"], "write it into --where"),
    ],
)
def test_wrong_options_are_one_line(
    store: Path, harbour: Any, capsys: pytest.CaptureFixture[str], options: list[str], complaint: str
) -> None:
    assert run(store, *options) == 1
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


def test_somebody_else_who_sends_is_waited_for_and_then_named(
    store: Path, harbour: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "_WAIT_SEC", 0.0)
    with Outbox(store, "shipping").sending():
        assert run(store) == 1
    assert "another process is sending" in capsys.readouterr().err


def doctor(store: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    main(["doctor", str(store), "--json"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [each for each in found if each["check"] == "backends"]


def test_the_doctor_tells_how_sending_goes(store: Path, harbour: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(store)
    capsys.readouterr()
    (found,) = doctor(store, capsys)
    assert (found["level"], found["what"]) == ("ok", "shipping: 12 sent, 0 pending, 0 refused, 0 held back")


def test_the_doctor_finds_what_nobody_sends(store: Path, harbour: Any, capsys: pytest.CaptureFixture[str]) -> None:
    drain(store)
    note_routes(store, {"project": "p", "experiment": "e", "backends": ["shipping"]})
    (found,) = doctor(store, capsys)
    assert (found["level"], found["do"]) == ("problem", f"rolltrace sync --to shipping {store}")
    assert "6 pending" in found["what"]


def test_the_doctor_repeats_why_sending_stopped(store: Path, harbour: Any, capsys: pytest.CaptureFixture[str]) -> None:
    outbox = Outbox(store, "shipping")
    state = outbox.state
    state.stopped = "the key is wrong: set SHIPPING_KEY"
    outbox.state = state
    (found,) = doctor(store, capsys)
    assert found["level"] == "problem"
    assert "stopped: the key is wrong: set SHIPPING_KEY" in found["what"]
    assert run(store) == 0
    capsys.readouterr()
    (found,) = doctor(store, capsys)
    assert found["level"] == "ok", "it works again"


def test_the_doctor_names_reasons_of_refusals(store: Path, harbour: Any, capsys: pytest.CaptureFixture[str]) -> None:
    outbox = Outbox(store, "shipping")
    outbox.folder.mkdir(parents=True)
    outbox.position.add([Entry(REFUSED, "a" * 32, 1, reason="too large")])
    found = doctor(store, capsys)
    assert found[1]["what"] == "shipping refused 1 trajectory: too large"


def test_it_says_what_the_backend_has_when_the_sender_in_the_background_was_faster(
    store: Path, harbour: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    note_routes(store, {"project": "p", "experiment": "e", "backends": ["shipping"]})
    assert SenderLoop(store, "shipping").run(idle_sec=0.0) == 0
    own = Outbox(store, "shipping").own_folder
    assert run(store, "--experiment", "e") == 0
    has = "shipping has 6 of this store, sent 6 in the background\n"
    assert capsys.readouterr().out == f"nothing was left to send; {has}"
    own.rename(own.with_name("another-host"))
    assert run(store) == 0
    has = "shipping has 12 of this store, sent 6 by rolltrace sync, 6 by other hosts\n"
    assert capsys.readouterr().out == f"sent 6 trajectories to shipping; {has}"


def test_a_filter_means_the_newest_run_and_the_others_are_told(
    tmp_path: Path, harbour: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("first", "second"):
        rolltrace.init("p", "e", "rolltrace", store=tmp_path / "runs", run=name)
        with rolltrace.rollout_trace_attr(step=1, sample_index=0) as trajectory:
            trajectory.reward(1)
        rolltrace.shutdown()
    assert run(tmp_path / "runs", "--where", "reward = 1") == 0
    said = capsys.readouterr()
    assert said.out.startswith("sent 1 trajectory to shipping; ")
    hint = "1 trajectory of older runs left out; to include them: --where 'superseded = true and (reward = 1)'"
    assert hint in said.err
    assert run(tmp_path / "runs", "--where", "superseded = true and (reward = 1)") == 0
    assert capsys.readouterr().out.startswith("sent 1 trajectory to shipping; shipping has 2")
