"""Journals become rows of tables exactly once, whatever the drainer is interrupted by."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import rolltrace
from rolltrace.drain import Follower
from rolltrace.journal import detach, journal_files, journal_folder, start_drainer
from rolltrace.journal.drainer import _DETACH
from tests.background import eventually, keepers, kill_keepers
from tests.draining import compact, rows
from tests.nightly import nightly


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt_ids: list[int], number: int = 0) -> dict[str, object]:
    return {"token_ids": [number, 2, 3], "logprobs": [-0.5, -1.0, -0.25], "finish_reason": "stop", "weight_version": 7}


def drain(store: Path) -> int:
    follower = Follower(store)
    with follower.working() as alone:
        assert alone
        return follower.drain()


def test_an_op_becomes_a_row_with_typed_tokens(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    with rolltrace.rollout_trace_attr(step=3, sample_index=9, rollout_n=1, difficulty="hard") as trajectory:
        generate([10, 11], 5)
        trajectory.reward(0.5, terms={"format": 0.5})
        trajectory.transition({"prompt": "p"}, reward=1.0, episode_done=True)
        trajectory.note("fine")
    rolltrace.shutdown()
    assert drain(tmp_path) == 1
    (span,) = rows(tmp_path, "spans")
    assert (span["name"], span["kind"], span["status"], span["step"]) == ("generate", "llm", "ok", 3)
    assert (span["tokens"], span["prompt_tokens"], span["response_tokens"]) == ([10, 11, 5, 2, 3], 2, 3)
    assert (span["logprobs"], span["finish_reason"], span["policy_version"]) == ([-0.5, -1.0, -0.25], "stop", 7)
    assert str(span["payload"]).startswith(
        '{"inputs":{"prompt_ids":{"$column":"prompt_ids"},"number":5},"outputs":{"token_ids"'
    )
    assert (span["sample_index"], span["sample_number"], span["project"]) == ("9", 9, "p")
    (row,) = rows(tmp_path, "trajectories")
    assert (row["trajectory_id"], row["tags"]) == (trajectory.id, '{"difficulty":"hard"}')
    (score,) = rows(tmp_path, "scores")
    assert (score["name"], score["value"], score["terms"]) == ("reward", 0.5, '{"format":0.5}')
    (transition,) = rows(tmp_path, "transitions")
    assert (transition["trace"], transition["reward"]) == ('{"prompt":"p"}', 1.0)
    (note,) = rows(tmp_path, "notes")
    assert note["body"] == '{"text":"fine","fields":{}}'


def test_drained_segments_are_removed(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    generate([1])
    rolltrace.shutdown()
    drain(tmp_path)
    assert journal_files(tmp_path) == []
    assert drain(tmp_path) == 0


def test_a_live_journal_is_followed_and_kept(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    with rolltrace.rollout_trace_attr(step=1, sample_index=1):
        generate([1])
        assert drain(tmp_path) == 1
        (running,) = rows(tmp_path, "trajectories")
        assert (running["status"], running["turns"], running["open_ops"]) == ("running", 1, 0)
        generate([1])
        assert drain(tmp_path) == 1
    assert len(journal_files(tmp_path)) == 1
    rolltrace.shutdown()
    drain(tmp_path)
    (ended,) = rows(tmp_path, "trajectories")
    assert (ended["status"], ended["turns"]) == ("ok", 2)
    assert len(rows(tmp_path, "ops")) == 2
    assert journal_files(tmp_path) == []


def test_only_one_drainer_works_at_a_time(tmp_path: Path) -> None:
    with Follower(tmp_path).working() as first, Follower(tmp_path).working() as second:
        assert (first, second) == (True, False)


def test_what_a_killed_process_left_open_is_interrupted(tmp_path: Path) -> None:
    program = (
        "import os, sys, rolltrace\n"
        "rolltrace.init('p', 'e', 'rolltrace', store=sys.argv[1], drain='off', limits={'segment_bytes': '64KiB'})\n"
        "@rolltrace.rollout_trace_op\n"
        "def outer():\n"
        "    for n in range(100): inner('x' * 5000)\n"
        "    os.kill(os.getpid(), 9)\n"
        "@rolltrace.rollout_trace_op\n"
        "def inner(text): pass\n"
        "with rolltrace.rollout_trace_attr(step=1, sample_index='s'): outer()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert drain(tmp_path) == 1
    spans = rows(tmp_path, "spans")
    assert Counter((span["name"], span["status"]) for span in spans) == {
        ("inner", "ok"): 100,
        ("outer", "interrupted"): 1,
    }
    (row,) = rows(tmp_path, "trajectories")
    assert (row["status"], row["end_ns"]) == ("interrupted", None)
    assert not list(tmp_path.glob("journal/*/*.state"))


def test_secrets_are_not_in_the_store(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)

    @rolltrace.rollout_trace_op
    def call(headers: dict[str, str], text: str) -> str:
        raise ValueError(f"refused {text}")

    secret = "sk-" + "a1" * 20
    with pytest.raises(ValueError, match="refused"):
        call({"Authorization": "Basic hunter2", "Accept": "all"}, f"use {secret} now")
    rolltrace.shutdown()
    drain(tmp_path)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*.parquet"))
    (span,) = rows(tmp_path, "spans")
    assert "hunter2" not in str(span)
    assert secret not in str(span)
    assert secret.encode() not in stored
    assert '"Accept":"all"' in str(span["payload"])


def test_losses_become_rows(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, max_samples_per_step_per_worker=1)
    for sample in range(4):
        with rolltrace.rollout_trace_attr(step=2, sample_index=sample):
            pass
    rolltrace.shutdown()
    drain(tmp_path)
    (loss,) = rows(tmp_path, "losses")
    assert (loss["reason"], loss["step"], loss["count"]) == ("sample_limit", 2, 3)


@pytest.mark.parametrize("seed", range(nightly(10, 1)))
def test_a_drainer_killed_at_random_moments_neither_loses_nor_doubles(tmp_path: Path, seed: int) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, limits={"segment_bytes": "64KiB"})
    for number in range(600):
        with rolltrace.rollout_trace_attr(step=number % 5, sample_index=number):
            generate(list(range(300)), number)
    rolltrace.shutdown()
    chance = random.Random(seed)
    for _ in range(nightly(8, 5)):
        process = subprocess.Popen([sys.executable, "-m", "rolltrace.keeper", str(tmp_path)])
        time.sleep(0.3 + chance.random() * 0.5)  # when it is killed is the point; nothing is asserted about time
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    drain(tmp_path)
    found = Counter(span["tokens"][300] for span in rows(tmp_path, "spans"))
    assert found == Counter(range(600))
    assert len(rows(tmp_path, "trajectories")) == 600
    compact(tmp_path)
    assert Counter(span["tokens"][300] for span in rows(tmp_path, "spans")) == Counter(range(600))
    assert [row["turns"] for row in rows(tmp_path, "trajectories")] == [1] * 600


def test_what_another_process_recorded_first_belongs_where_its_trajectory_began(tmp_path: Path) -> None:
    """A reward worker that was set up under another experiment writes about trajectories of this one."""
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    with rolltrace.rollout_trace_attr(step=1, sample_index=1) as trajectory:
        carrier = rolltrace.current_context()
        generate([1])
    rolltrace.shutdown()
    program = (
        "import sys, rolltrace\n"
        "rolltrace.init('p', 'scorer', 'rolltrace', store=sys.argv[1], drain='off')\n"
        "@rolltrace.rollout_trace_op\n"
        "def judge(): return 1\n"
        "with rolltrace.use_context(sys.argv[2]): judge()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path), carrier], check=True)
    for path in journal_files(tmp_path):  # the scorer's journal is read first
        if "scorer" in path.read_bytes()[:2048].decode("latin-1"):
            path.rename(path.with_name(f"0{path.name}"))
    drain(tmp_path)
    assert {(row["name"], row["experiment"]) for row in rows(tmp_path, "ops")} == {("generate", "e"), ("judge", "e")}
    assert [(row["trajectory_id"], row["experiment"]) for row in rows(tmp_path, "trajectories")] == [
        (trajectory.id, "e")
    ]


@pytest.mark.parametrize("is_starting", [False, True])
def test_a_drainer_that_was_wanted_while_a_reader_drained_comes_after_it(tmp_path: Path, is_starting: bool) -> None:
    """A reader drains and does no more: what is drained is sent on, and merged, by a drainer."""
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    generate([1])
    rolltrace.shutdown()
    reader = Follower(tmp_path)
    with reader.working():
        reader.drain()
        if is_starting:  # it found the lock free, and finds it held when it is there
            detach(_DETACH, tmp_path)
            eventually(lambda: (journal_folder(tmp_path) / "drainer.wanted").exists())
            eventually(lambda: not keepers(tmp_path))
        else:
            start_drainer(tmp_path)
            assert not keepers(tmp_path)
    try:
        eventually(lambda: keepers(tmp_path))
        eventually(lambda: not (journal_folder(tmp_path) / "drainer.wanted").exists())
    finally:
        kill_keepers(tmp_path)
    eventually(lambda: not keepers(tmp_path))
    with Follower(tmp_path).working() as alone:
        assert alone
    assert not keepers(tmp_path), "nobody wanted another"
