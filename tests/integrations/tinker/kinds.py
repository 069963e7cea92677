"""One of each kind of environment that tinker-cookbook has, and of each way in which its episode can end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from tinker_cookbook import renderers
from tinker_cookbook.distillation.datasets import PromptOnlyEnv
from tinker_cookbook.recipes.multiplayer_rl.guess_number.env import GuessNumberEnv
from tinker_cookbook.recipes.multiplayer_rl.twenty_questions.env import TwentyQuestionsEnv
from tinker_cookbook.recipes.rubric.data import Rubric, RubricBasedDatapoint
from tinker_cookbook.recipes.rubric.env import RubricGradedEnv
from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult
from tinker_cookbook.rl.problem_env import ProblemEnv
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy, RolloutLimits
from tinker_cookbook.tool_use import build_agent_tool_env, simple_tool_result, tool

from .stand_ins import END, RENDERER, Says, Scripted

Messages = list[dict[str, Any]]


class AddEnv(ProblemEnv):
    def __init__(self, one: int, other: int, **more: Any) -> None:
        super().__init__(RENDERER, **more)
        self.one, self.other = one, other

    def get_question(self) -> str:
        return f"{self.one}+{self.other}?"

    def check_answer(self, sample_str: str) -> bool:
        return str(self.one + self.other) in sample_str

    def check_format(self, sample_str: str) -> bool:
        return bool(sample_str.strip())

    def get_reference_answer(self) -> str:
        return str(self.one + self.other)


class Appending(MessageEnv):
    """Hands out its own history, and goes on appending to it."""

    def __init__(self, turns: int, said_between: str = "again", fails_at: int | None = None) -> None:
        self.left, self._said_between, self._fails_at = turns, said_between, fails_at
        self.history: Messages = [{"role": "user", "content": "start"}]

    async def initial_observation(self) -> Any:
        return self.history

    async def step(self, message: Any) -> MessageStepResult:
        self.history.append(message)
        self.left -= 1
        if self.left == self._fails_at:
            raise ConnectionError("the sandbox is gone")
        done = self.left == 0
        if not done:
            self.history.append({"role": "user", "content": self._said_between})
        return MessageStepResult(
            reward=float(done) / 3,
            episode_done=done,
            next_messages=self.history,
            metrics={"left": float(self.left)},
            logs={"said": renderers.get_text_content(message)},
        )

    async def add_messages(self, messages: Any) -> Any:
        self.history.extend(messages)
        return self.history


class Slow(Appending):
    """Never comes back from its second step."""

    async def step(self, message: Any) -> MessageStepResult:
        if self.left < 3:
            await asyncio.sleep(3600)
        return await super().step(message)


@tool
async def add(a: int, b: int) -> Any:
    """Add two numbers."""
    return simple_tool_result(str(a + b))


async def graded(history: Any) -> Any:
    return 1.0, {"graded": 1.0}


def message_env(inner: MessageEnv, **more: Any) -> EnvFromMessageEnv:
    return EnvFromMessageEnv(RENDERER, inner, **more)


def agent(**more: Any) -> EnvFromMessageEnv:
    question: Any = [{"role": "user", "content": "2+3?"}]
    return build_agent_tool_env(RENDERER, [add], question, graded, **{"max_turns": 4, **more})


def rubric(*criteria: str) -> RubricGradedEnv:
    prompt: Any = [{"role": "user", "content": "hi"}]
    items = [Rubric(rubric_str=each) for each in criteria]
    return RubricGradedEnv(RENDERER, RubricBasedDatapoint(prompt, items), Says("good: <score>0.5</score>"))


CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>' + END
BAD_CALL = "<tool_call>\n{bad\n</tool_call>" + END


class Kind(NamedTuple):
    """An environment, who plays it, and what is expected of the record besides that it equals the `Trajectory`."""

    env: Callable[[], Any]
    policy: Callable[[], Scripted]
    prompts: list[int]
    """How many messages the policy saw at each transition."""
    fails: bool = False


def limited(**limits: Any) -> EnvFromMessageEnv:
    return message_env(Appending(9), rollout_limits=RolloutLimits(**limits))


KINDS = {
    "problem": Kind(lambda: AddEnv(2, 2), lambda: Scripted("4" + END), [1]),
    "problem, wrong": Kind(lambda: AddEnv(2, 2), lambda: Scripted("5" + END), [1]),
    "problem, no end mark": Kind(lambda: AddEnv(2, 2), lambda: Scripted("no end"), [1]),
    "problem after a prefix": Kind(
        lambda: AddEnv(2, 2, convo_prefix=[{"role": "system", "content": "Add."}]), lambda: Scripted("4" + END), [2]
    ),
    "prompt only": Kind(lambda: PromptOnlyEnv("say", RENDERER), lambda: Scripted("word" + END), [1]),
    "rubric": Kind(lambda: rubric("polite", "short"), lambda: Scripted("hello" + END), [1]),
    "guess number": Kind(
        lambda: GuessNumberEnv(7, RENDERER),
        lambda: Scripted(*(f"Guess: {n}{END}" for n in (3, 9, "?", 7))),
        [1, 3, 5, 7],
    ),
    "twenty questions": Kind(
        lambda: TwentyQuestionsEnv(Says("yes"), "apple", RENDERER),
        lambda: Scripted("fruit?" + END, "Guess: apple" + END),
        [1, 3],
    ),
    "message, appending": Kind(lambda: message_env(Appending(3)), lambda: Scripted("hi" + END, "bye" + END), [1, 3, 5]),
    "message, parse error": Kind(lambda: message_env(Appending(3)), lambda: Scripted("hi" + END, "no end"), [1, 3]),
    "message, goes on after a parse error": Kind(
        lambda: message_env(Appending(3), parse_error_policy=ParseErrorPolicy(max_consecutive=1)),
        lambda: Scripted("hi" + END, "no end"),
        [1, 3],
    ),
    "message, length": Kind(lambda: message_env(Appending(3)), lambda: Scripted("hi" + END, ("cut", "length")), [1, 3]),
    "message, overflow": Kind(
        lambda: message_env(Appending(3, "x" * 80), max_trajectory_tokens=80), lambda: Scripted("hi" + END), [1]
    ),
    "message, overflow at the first observation": Kind(
        lambda: message_env(Appending(3), max_trajectory_tokens=5), lambda: Scripted("hi" + END), [1]
    ),
    "agent with a tool": Kind(agent, lambda: Scripted(CALL, "It is 5." + END), [1, 3]),
    "agent, bad tool call": Kind(agent, lambda: Scripted(BAD_CALL), [1]),
    "agent, bad tool call put right": Kind(
        lambda: agent(parse_error_policy=ParseErrorPolicy(max_consecutive=1, mask_error_turns=True)),
        lambda: Scripted(BAD_CALL, "It is 5." + END),
        [1, 3],
    ),
    "agent, out of turns": Kind(lambda: agent(max_turns=1), lambda: Scripted(CALL), [1]),
    "agent, goes on after a cut": Kind(
        lambda: agent(terminate_on_length=False), lambda: Scripted(("cut", "length"), "done" + END), [1, 2]
    ),
    "runner: too many turns": Kind(lambda: limited(max_turns=2), lambda: Scripted("hi" + END), [1, 3]),
    "runner: too many tokens sampled": Kind(
        lambda: limited(max_sampled_tokens=7), lambda: Scripted("hi" + END), [1, 3]
    ),
    "runner: stops before the first turn": Kind(
        lambda: limited(max_trajectory_tokens=20), lambda: Scripted("hi" + END), [1]
    ),
    "runner: out of time in a step": Kind(
        lambda: message_env(Slow(3), rollout_limits=RolloutLimits(rollout_timeout_seconds=0.3)),
        lambda: Scripted("hi" + END),
        [1],
    ),
    "the environment raises": Kind(
        lambda: message_env(Appending(3, fails_at=1)), lambda: Scripted("hi" + END), [1, 3], fails=True
    ),
    "the policy raises": Kind(
        lambda: message_env(Appending(3)),
        lambda: Scripted("hi" + END, ConnectionError("no server")),
        [1, 3],
        fails=True,
    ),
}
