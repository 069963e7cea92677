"""token2text from the traced call to the reader: every shape of op, and every way a program can end."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
from tokenizers import Tokenizer

import rolltrace
from rolltrace.query import Op, Trajectory, open_store
from tests.draining import drain

PROMPT, REPLY = "<|im_start|>什么是 reward?\x00 🚀", "It is 奖励 🎉<|im_end|>"


@dataclasses.dataclass
class Output:
    token_ids: list[int]
    stop_reason: str = "completed"


class Model(pydantic.BaseModel):
    token_ids: list[int]


SHAPES: dict[str, Callable[[list[int]], Any]] = {
    "dict": lambda ids: {"token_ids": ids},
    "dataclass": lambda ids: Output(ids),
    "pydantic": lambda ids: Model(token_ids=ids),
    "choices": lambda ids: {"choices": [{"token_ids": ids, "finish_reason": "stop"}]},
}


class Loop:
    """An agent loop as verl has them."""

    def __init__(self, tokenizer: Any, shape: Callable[[list[int]], Any] = SHAPES["dict"]) -> None:
        self.tokenizer = tokenizer
        self.shape = shape

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text).ids)

    @rolltrace.rollout_trace_op(kind="llm")
    def generate(self, prompt_ids: list[int], reply: str = REPLY) -> Any:
        return self.shape(self.ids(reply))

    @rolltrace.rollout_trace_op(kind="llm")
    async def generate_async(self, prompt_ids: list[int]) -> Any:
        return self.shape(self.ids(REPLY))

    @rolltrace.rollout_trace_op
    async def run(self) -> dict[str, Any]:
        await self.generate_async(self.ids(PROMPT))
        return {"prompt_ids": self.ids(PROMPT), "response_ids": self.ids(REPLY), "response_mask": [1]}


class Letters:
    """A tokenizer that can only encode and decode."""

    def encode(self, text: str) -> Any:
        return type("Encoding", (), {"ids": list(map(ord, text))})

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


def start(store: Path, **settings: Any) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store, **{"drain": "off", "token2text": True, **settings})


Read = Callable[[str], Iterator[Trajectory]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Ends tracing, and reads a trajectory back: from its journal, and once more when that is drained."""

    def trajectories(trajectory_id: str) -> Iterator[Trajectory]:
        rolltrace.shutdown()
        store = open_store(tmp_path)
        yield store.trajectory(trajectory_id)
        drain(tmp_path)
        store.refresh()
        yield store.trajectory(trajectory_id)

    return trajectories


def only_op(trajectory: Trajectory) -> Op:
    (op,) = trajectory.ops
    return op


def test_a_model_call_has_its_text_whatever_its_output_is(tmp_path: Path, byte_level: Tokenizer, read: Read) -> None:
    start(tmp_path)
    with rolltrace.rollout_trace_attr(1, step=1) as handle:
        for shape in SHAPES.values():
            loop = Loop(byte_level, shape)
            loop.generate(loop.ids(PROMPT))
    for trajectory in read(handle.id):
        texts = [(op.prompt_text, op.response_text) for op in trajectory.ops]
        assert dict(zip(SHAPES, texts, strict=True)) == dict.fromkeys(SHAPES, (PROMPT, REPLY))


async def test_a_whole_agent_loop_has_its_text_and_so_have_its_model_calls(
    tmp_path: Path, byte_level: Tokenizer, read: Read
) -> None:
    start(tmp_path)
    with rolltrace.rollout_trace_attr(1, step=1) as handle:
        await Loop(byte_level).run()
    for trajectory in read(handle.id):
        run = only_op(trajectory)
        (generate,) = run.children
        assert (run.prompt_text, run.response_text) == (PROMPT, REPLY)
        assert (generate.prompt_text, generate.response_text) == (PROMPT, REPLY)


def test_every_token_has_its_piece(tmp_path: Path, byte_level: Tokenizer, read: Read) -> None:
    start(tmp_path)
    loop = Loop(byte_level)
    with rolltrace.rollout_trace_attr(1, step=1) as handle:
        loop.generate(loop.ids(PROMPT))
    for trajectory in read(handle.id):
        (tokens,) = trajectory.tokens
        assert tokens.prompt_pieces is not None
        assert tokens.response_pieces is not None
        assert "".join(tokens.prompt_pieces) == PROMPT
        assert "".join(tokens.response_pieces) == REPLY
        assert tokens.prompt_pieces[0] == "<|im_start|>"
        lengths = [len(tokens.prompt_pieces), len(tokens.response_pieces)]
        assert lengths == [len(loop.ids(PROMPT)), len(loop.ids(REPLY))]


def test_tokenizers_that_are_not_byte_level_are_decoded_too(
    tmp_path: Path, metaspace: Tokenizer, unigram: Tokenizer, read: Read
) -> None:
    start(tmp_path)
    with rolltrace.rollout_trace_attr(1, step=1) as handle:
        for loop in (Loop(metaspace), Loop(unigram)):
            loop.generate(loop.ids("the quick 你好 fox"), "jumps 🎉")
    for trajectory in read(handle.id):
        texts = [(op.prompt_text, str(op.response_text).strip()) for op in trajectory.ops]
        assert texts == [("the quick 你好 fox", "jumps 🎉")] * 2


def test_a_tokenizer_that_can_only_decode_gives_its_text_later(tmp_path: Path, read: Read) -> None:
    start(tmp_path)
    loop = Loop(Letters())
    with rolltrace.rollout_trace_attr(1, step=1) as handle:
        loop.generate(loop.ids(PROMPT))
    for trajectory in read(handle.id):
        op = only_op(trajectory)
        assert (op.prompt_text, op.response_text) == (PROMPT, REPLY)
        assert trajectory.tokens[0].response_pieces == list(REPLY)
        assert "no_text" not in trajectory.flags


def test_a_tokenizer_that_cannot_decode_leaves_ids_and_a_flag(tmp_path: Path, read: Read) -> None:
    class Failing(Letters):
        def decode(self, ids: list[int]) -> str:
            raise ValueError("unknown token")

    start(tmp_path)
    loop = Loop(Failing())
    with rolltrace.rollout_trace_attr(1, step=1) as handle:
        loop.generate(loop.ids("hi"), "yes")
    for trajectory in read(handle.id):
        op = only_op(trajectory)
        assert (op.prompt_text, op.response_text) == (None, None)
        assert trajectory.tokens[0].response_ids == list(map(ord, "yes"))
        assert trajectory.tokens[0].response_pieces is None
        assert trajectory.flags == ["no_text"]
        assert trajectory.findings[0]["detail"] == {"reason": "ValueError: unknown token"}
        assert open_store(tmp_path).losses().rows()[0]["reason"] == "text_failed"


@pytest.mark.parametrize("given", ["object", "file", "folder"])
def test_the_tokenizer_given_to_init_serves_ops_that_have_none(
    tmp_path: Path, byte_level: Tokenizer, read: Read, given: str
) -> None:
    (tmp_path / "model").mkdir()
    byte_level.save(str(tmp_path / "model" / "tokenizer.json"))
    tokenizer = {"object": byte_level, "file": tmp_path / "model" / "tokenizer.json", "folder": str(tmp_path / "model")}
    rolltrace.RolloutTraceConfig.init("p", "e", "rolltrace", store=tmp_path, tokenizer=tokenizer[given])

    @rolltrace.rollout_trace_op(kind="llm")
    def generate(prompt_ids: list[int]) -> dict[str, Any]:
        return {"token_ids": byte_level.encode(REPLY).ids}

    with rolltrace.rollout_trace_attr(1, step=1) as handle:
        generate(byte_level.encode(PROMPT).ids)
    for trajectory in read(handle.id):
        op = only_op(trajectory)
        assert (op.prompt_text, op.response_text) == (PROMPT, REPLY)


def test_strange_tokens_are_no_error(tmp_path: Path, byte_level: Tokenizer, read: Read) -> None:
    cases: list[tuple[Any, Any]] = [
        ([], []), ([1 << 40], [5]), ([-3, 5], []), (None, [5]), ([5], None), ("no ids", [5]),
    ]  # fmt: skip
    start(tmp_path, tokenizer=byte_level)

    @rolltrace.rollout_trace_op(kind="llm")
    def generate(prompt_ids: Any, number: int) -> dict[str, Any]:
        return {"token_ids": cases[number][1]}

    with rolltrace.rollout_trace_attr(1, step=1) as handle:
        for number, (prompt, _) in enumerate(cases):
            generate(prompt, number)
    for trajectory in read(handle.id):
        texts = [op.response_text for op in trajectory.ops]
        assert texts == [None if reply is None else byte_level.decode(reply) for _, reply in cases]


def test_a_failed_call_has_the_text_of_its_prompt(tmp_path: Path, byte_level: Tokenizer, read: Read) -> None:
    start(tmp_path, tokenizer=byte_level)

    @rolltrace.rollout_trace_op(kind="llm")
    def generate(prompt_ids: list[int]) -> dict[str, Any]:
        raise TimeoutError("no answer")

    with rolltrace.rollout_trace_attr(1, step=1) as handle, pytest.raises(TimeoutError):
        generate(byte_level.encode(PROMPT).ids)
    for trajectory in read(handle.id):
        op = only_op(trajectory)
        assert (op.prompt_text, op.response_text, op.status) == (PROMPT, None, "error")


def test_text_is_read_while_the_op_is_still_in_a_live_journal(tmp_path: Path, byte_level: Tokenizer) -> None:
    start(tmp_path)
    loop = Loop(byte_level)
    with rolltrace.rollout_trace_attr(1, step=1):
        loop.generate(loop.ids(PROMPT))
    assert rolltrace._runtime._active is not None
    assert rolltrace._runtime._active.recorder is not None
    assert rolltrace._runtime._active.recorder.tokenizers is not None
    for thread in rolltrace._runtime._active.recorder.tokenizers._saving:
        thread.join()
    store = open_store(tmp_path)
    assert store.sql("SELECT prompt_text FROM spans").rows() == [{"prompt_text": PROMPT}]
    loop.generate(loop.ids("more"))
    store.refresh()
    assert store.sql("SELECT prompt_text FROM spans ORDER BY start_ns").rows()[-1] == {"prompt_text": "more"}


def test_the_drainer_waits_for_a_tokenizer_that_is_being_written(tmp_path: Path, byte_level: Tokenizer) -> None:
    start(tmp_path)
    Loop(byte_level).generate([5])
    rolltrace.shutdown()
    marker = tmp_path / "tokenizers" / "ffff.pending"
    marker.touch()
    drainer = drain(tmp_path)
    assert (drainer.batches, drainer.postponed) == (0, True)
    marker.unlink()
    drainer = drain(tmp_path)
    assert (drainer.batches, drainer.postponed) == (1, False)


KILLED = """
import os, sys, rolltrace
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[2])
rolltrace.init("p", "e", "rolltrace", store=sys.argv[1], token2text=True, drain="off")
class Loop:
    def __init__(self): self.tokenizer = tokenizer
    @rolltrace.rollout_trace_op(kind="llm")
    def generate(self, prompt_ids): return {"token_ids": prompt_ids}
Loop().generate(tokenizer.encode("你好 🚀").ids)
if sys.argv[3] == "saved":
    for thread in rolltrace._runtime._active.recorder.tokenizers._saving: thread.join()
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("when", ["saved", "at once"])
def test_a_killed_process_loses_no_op_and_its_text_only_if_its_tokenizer_was_not_written(
    tmp_path: Path, byte_level: Tokenizer, when: str
) -> None:
    byte_level.save(str(tmp_path / "tokenizer.json"))
    store = tmp_path / "store"
    program = [sys.executable, "-c", KILLED, str(store), str(tmp_path / "tokenizer.json"), when]
    assert subprocess.run(program, check=False).returncode == -signal.SIGKILL
    for marker in (store / "tokenizers").glob("*.pending"):
        os.utime(marker, (1, 1))  # half a minute later
    assert drain(store).batches == 1
    (row,) = open_store(store).sql("SELECT prompt_text, response_tokens FROM spans").rows()
    written = list((store / "tokenizers").glob("*.json"))
    assert row["prompt_text"] == ("你好 🚀" if written else None)
    assert row["response_tokens"] is not None
    assert written or when == "at once"


@pytest.mark.parametrize("kind", ["fast", "slow"])
def test_a_forked_child_decodes_its_own_ops(tmp_path: Path, byte_level: Tokenizer, kind: str) -> None:
    start(tmp_path)
    loop = Loop(byte_level if kind == "fast" else Letters())
    with rolltrace.rollout_trace_attr(1, step=1, name="parent"):
        loop.generate(loop.ids("parent 你"))
    pid = os.fork()
    if pid == 0:
        try:
            with rolltrace.rollout_trace_attr(1, step=1, name="child"):
                loop.generate(loop.ids("child 你"))
            rolltrace.shutdown()
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    rolltrace.shutdown()
    drain(tmp_path)
    rows = open_store(tmp_path).sql("SELECT prompt_text FROM spans ORDER BY start_ns").rows()
    assert [row["prompt_text"] for row in rows] == ["parent 你", "child 你"]


def test_flush_leaves_all_text_in_the_store(tmp_path: Path, byte_level: Tokenizer) -> None:
    start(tmp_path, drain="thread")
    for loop in (Loop(byte_level), Loop(Letters())):
        with rolltrace.rollout_trace_attr(1, step=1):
            loop.generate(loop.ids(PROMPT))
    assert rolltrace.flush(60)
    assert not any(path.stat().st_size for path in tmp_path.glob("tokenizers/*.pending"))
    rows = open_store(tmp_path).sql("SELECT prompt_text, response_text FROM spans").rows()
    assert rows == [{"prompt_text": PROMPT, "response_text": REPLY}] * 2


def test_text_is_found_by_filters_and_shown_as_conversation(tmp_path: Path, byte_level: Tokenizer, read: Read) -> None:
    start(tmp_path)
    loop = Loop(byte_level)
    with rolltrace.rollout_trace_attr(1, step=1) as handle:
        first = loop.ids("Question one?")
        loop.generate(first, "Answer one.")
        loop.generate([*first, *loop.ids("Answer one."), *loop.ids(" And two?")], "Answer two.")
    for trajectory in read(handle.id):
        assert trajectory.conversation == [
            {"role": "user", "content": "Question one?"},
            {"role": "assistant", "content": "Answer one."},
            {"role": "user", "content": " And two?"},
            {"role": "assistant", "content": "Answer two."},
        ]
        store = open_store(tmp_path)
        assert len(store.trajectories(where="text ~ 'answer TWO'").rows()) == 1
        assert len(store.trajectories(where="text ~ 'answer three'").rows()) == 0


def test_secrets_are_taken_out_of_the_text(tmp_path: Path, byte_level: Tokenizer, read: Read) -> None:
    secret = "sk-" + "a1" * 20
    start(tmp_path)
    loop = Loop(byte_level)
    with rolltrace.rollout_trace_attr(1, step=1) as handle:
        loop.generate(loop.ids(f"use {secret} now"), f"I use {secret}.")
    for trajectory in read(handle.id):
        op, (tokens,) = only_op(trajectory), trajectory.tokens
        assert op.prompt_text == "use [redacted: openai key, 43 chars] now"
        assert op.response_text == "I use [redacted: openai key, 43 chars]."
        assert tokens.prompt_pieces is not None
        assert "".join(tokens.prompt_pieces) == op.prompt_text
        assert "".join(tokens.response_pieces or ()) == op.response_text
