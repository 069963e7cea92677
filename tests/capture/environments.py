"""Environments for the tests of `trace_env`: one that changes its history in place, one of each usual kind."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from rolltrace.testing import Recording

Message = dict[str, Any]
FIRST = [{"role": "user", "content": "first"}]
REPLY = {"role": "assistant", "content": "reply"}


@dataclass
class StepResult:
    """Of the shape that tinker-cookbook has."""

    reward: float
    episode_done: bool
    next_observation: Any
    next_stop_condition: list[str] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    logs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FirstOverflow:
    """What tinker-cookbook gives in the place of a first observation that is too long."""

    reward: float
    metrics: dict[str, float]
    logs: dict[str, Any]


class ContextOverflow(Exception):
    stop_reason = "context_overflow"


class History:
    """A conversation kept in one list, which is given away and then changed in place on every path."""

    def __init__(self, path: str = "normal") -> None:
        self.path = path
        self.messages: list[Message] = [{"role": "user", "content": "first"}]
        self.result: Any = None

    def advance(self, message: Message) -> tuple[float, bool, str | None]:
        """reward, done, stop reason; or an exception."""
        self.messages[0]["content"] = "overwritten"
        self.messages.append(message)
        message["content"] = "overwritten too"
        if self.path == "normal":
            self.messages.append({"role": "user", "content": "go on"})
            return 1.0, False, None
        self.messages.clear()
        if self.path in ("parse_error", "context_overflow"):
            return -1.0, True, self.path
        if self.path == "context overflow raised":
            raise ContextOverflow("12 tokens too many")
        if self.path == "interrupt":
            raise KeyboardInterrupt
        raise ValueError("the environment broke")


class TinkerEnv(History):
    """Async, with dataclasses."""

    async def initial_observation(self) -> Any:
        if self.path == "first overflow":
            metrics = {"stop/max_tokens": 1.0}
            self.result = StepResult(-0.1, True, self.messages, metrics=metrics, logs={"tokens": 9})
        elif self.path == "first overflow without observation":
            self.result = FirstOverflow(-0.1, {"stop/max_tokens": 1.0}, {"tokens": 9})
        else:
            self.result = self.messages, ["<stop>"]
        return self.result

    async def step(self, action: Message, *, extra: dict[str, Any] | None = None) -> StepResult:
        if self.path == "cancelled":
            self.messages.clear()
            await asyncio.Event().wait()
        reward, done, reason = self.advance(action)
        metrics = {f"stop/{reason}": 1.0} if reason else {"turns": 1.0}
        self.result = StepResult(reward, done, self.messages, ["<stop>"], metrics, {"seen": len(self.messages)})
        return self.result


class PlainEnv(History):
    """Sync, with gymnasium's tuples."""

    def reset(self, *, seed: int | None = None) -> Any:
        self.messages[:] = [{"role": "user", "content": "first"}]
        info = {"stop_reason": "max_tokens"} if self.path == "first overflow" else {"seeded": seed}
        self.result = self.messages, info
        return self.result

    def step(self, action: Message) -> Any:
        reward, done, reason = self.advance(action)
        self.result = self.messages, reward, done, False, {"stop_reason": reason} if reason else {}
        return self.result


class AwaitableEnv:
    """Its methods are not async, but what they return is to be awaited."""

    def __init__(self, path: str = "normal") -> None:
        self.inner = TinkerEnv(path)

    @property
    def result(self) -> Any:
        return self.inner.result

    @property
    def messages(self) -> list[Message]:
        return self.inner.messages

    def initial_observation(self) -> Any:
        return self.inner.initial_observation()

    def step(self, action: Message) -> Any:
        return self.inner.step(action)


class FutureEnv(AwaitableEnv):
    """Its methods start tasks."""

    def initial_observation(self) -> Any:
        return asyncio.ensure_future(self.inner.initial_observation())

    def step(self, action: Message) -> Any:
        return asyncio.ensure_future(self.inner.step(action))


class ProblemEnv:
    """One question, one answer, a reward of two terms."""

    def __init__(self, question: str, answer: str) -> None:
        self.question, self.answer = question, answer

    async def initial_observation(self) -> tuple[list[Message], list[str]]:
        return [{"role": "user", "content": self.question}], ["<stop>"]

    async def step(self, action: str, *, extra: Any = None) -> StepResult:
        terms = {"format": float(action.strip() != ""), "correct": float(self.answer in action)}
        return StepResult(sum(terms.values()) / 2, True, [], metrics=terms, logs={"reference": self.answer})


class PromptOnlyEnv:
    """Distillation: the prompt is all; the teacher gives the reward elsewhere."""

    def __init__(self, prompt: list[int]) -> None:
        self.prompt = prompt

    async def initial_observation(self) -> tuple[list[int], list[str]]:
        return self.prompt, ["<stop>"]

    async def step(self, action: list[int]) -> StepResult:
        return StepResult(0.0, True, [])


class RubricEnv:
    """A grader gives a number for each line of a rubric."""

    def __init__(self, rubric: dict[str, float]) -> None:
        self.rubric = rubric

    def reset(self) -> str:
        return "Be polite."

    def step(self, action: str) -> dict[str, Any]:
        scores = {line: weight * float(line in action) for line, weight in self.rubric.items()}
        return {
            "observation": None,
            "reward": sum(scores.values()),
            "done": True,
            "reward_data": scores,
            "grader": "g1",
        }


class PreferenceEnv(PromptOnlyEnv):
    """Its reward is known only when the whole group is compared."""


@dataclass
class MessageStep:
    reward: float
    episode_done: bool
    next_messages: list[Message]
    metrics: dict[str, float] = field(default_factory=dict)


class MessageEnv:
    """Messages in, messages out."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.messages: list[Message] = [{"role": "user", "content": "start"}]

    async def initial_observation(self) -> list[Message]:
        return self.messages

    async def step(self, message: Message) -> MessageStep:
        self.messages.append(message)
        self.turns -= 1
        if self.turns:
            self.messages.append({"role": "user", "content": "again"})
        return MessageStep(float(not self.turns), not self.turns, self.messages, {"left": self.turns})


class Table:
    """What the players share."""

    def __init__(self) -> None:
        self.moves: list[str] = []


class PlayerEnv:
    """One player of a game for two."""

    def __init__(self, table: Table, name: str) -> None:
        self.table, self.name = table, name

    async def initial_observation(self) -> tuple[list[str], list[str]]:
        return self.table.moves, ["<stop>"]

    async def step(self, action: str) -> StepResult:
        self.table.moves.append(f"{self.name}: {action}")
        await asyncio.sleep(0)  # the other one moves
        over = len(self.table.moves) >= 4
        return StepResult(float(over and self.name == "a"), over, self.table.moves)


def steps(traced: Recording) -> list[dict[str, Any]]:
    """What was recorded, trace and other fields together."""
    bodies = [event.body for event in traced.events if event.event == "transition"]
    return [{**body.pop("trace"), **body} for body in bodies]
