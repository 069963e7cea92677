"""One traced rollout: the agent loop around the policy, the calculator and the grader."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from dataclasses import dataclass
from typing import Any

from rolltrace import RolloutTrace, rollout_trace_attr, rollout_trace_op
from rolltrace.capture import TrajectoryHandle
from rolltrace.demo.policy import END, WORDS, Choice, Policy
from rolltrace.demo.task import MAX_CALLS, SYSTEM, BadCall, MathProblem, called, compute, grade
from rolltrace.demo.tokenizer import Tokenizer

MAX_TOKENS = 24
"""In one reply."""
_TURN = "<|im_start|>assistant\n"


@dataclass(frozen=True)
class Task:
    """Which rollout to make: its coordinates, its problem, and the chance it has."""

    step: int
    problem: MathProblem
    rollout_n: int
    validate: bool
    seed: int
    killed: bool = False
    """Its process is killed in the middle of it, as if somebody had typed kill -9."""

    @property
    def coordinates(self) -> tuple[int, int, int, bool]:
        return self.step, self.problem.index, self.rollout_n, self.validate


@dataclass(frozen=True)
class RolloutResult:
    task: Task
    trajectory_id: str
    reward: float
    terms: dict[str, float]
    choices: list[Choice]


class Agent:
    """Asks the policy, calls the calculator, until there is an answer."""

    def __init__(self, policy: Policy, tokenizer: Tokenizer, pause: float) -> None:
        self.policy = policy
        self.tokenizer = tokenizer
        self.pause = pause
        self.choices: list[Choice] = []

    @rollout_trace_op(kind="llm", inputs=["prompt_ids", "temperature"])
    async def generate(
        self, prompt_ids: list[int], temperature: float, problem: MathProblem, results: list[int], chance: random.Random
    ) -> dict[str, Any]:
        text, logprobs, finish_reason = "", [], "length"
        for _ in range(MAX_TOKENS):
            choice = self.policy.draw(problem, results, text, chance, temperature)
            self.choices.append(choice)
            logprobs.append(choice.logprob)
            if self.pause:
                await asyncio.sleep(self.pause * chance.uniform(0.5, 1.5))
            text += WORDS[choice.word]
            if WORDS[choice.word] == END:
                finish_reason = "stop"
                break
        return {
            "token_ids": self.tokenizer.encode(text),
            "logprobs": logprobs,
            "finish_reason": finish_reason,
            "policy_version": self.policy.version,
        }

    @rollout_trace_op(kind="tool", name="calculator")
    async def calculate(self, reply: str) -> dict[str, int]:
        if self.pause:
            await asyncio.sleep(8 * self.pause)
        call = called(reply)
        assert call is not None
        return {"result": compute(*call)}

    @rollout_trace_op(name="agent_loop", inputs=["question"])
    async def run(self, question: str, task: Task, trajectory: TrajectoryHandle) -> dict[str, Any]:
        chance = random.Random(f"{task.seed} {task.coordinates}")
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
        sequence = _Sequence(self.tokenizer.encode("".join(map(_written, messages)) + _TURN))
        results: list[int] = []
        replies: list[str] = []
        while True:
            drawn = await self.generate(sequence.ids, 0.6 if task.validate else 1.0, task.problem, results, chance)
            sequence.add(drawn["token_ids"], drawn["logprobs"])
            reply = self.tokenizer.decode(drawn["token_ids"]).removesuffix(END)
            replies.append(reply)
            trace_fields = {"prompt": messages, "policy_response": reply, "env_state": {"results": results}}
            if "<call>" not in reply or len(replies) > MAX_CALLS:
                break
            trajectory.transition(RolloutTrace(**trace_fields), reward=0.0, episode_done=False)
            results, answer = await self._ask(reply, results)
            messages = [*messages, {"role": "assistant", "content": reply}, {"role": "tool", "content": answer}]
            end = "" if drawn["finish_reason"] == "stop" else END
            sequence.add(self.tokenizer.encode(f"{end}\n{_written(messages[-1])}{_TURN}"))
            _die(task)
        _die(task)
        terms = self.grade(task.problem, replies, results)
        # Validation asks whether the answer is right, and nothing else.
        reward = terms["correct"] if task.validate else sum(terms.values())
        stop_reason = "answered" if "<answer>" in reply else "no answer"
        trajectory.transition(
            RolloutTrace(**trace_fields, reward_data=terms), reward=reward, episode_done=True, stop_reason=stop_reason
        )
        trajectory.reward(reward, terms=terms)
        return {**sequence.as_output(), "reward": reward, "terms": terms}

    async def _ask(self, reply: str, results: list[int]) -> tuple[list[int], str]:
        """What the calculator makes of a reply: the results with its own, and what the policy is told."""
        try:
            result = (await self.calculate(reply))["result"]
        except BadCall as error:
            return results, f"error: {error}"
        return [*results, result], str(result)

    @rollout_trace_op(kind="reward")
    def grade(self, problem: MathProblem, replies: list[str], results: list[int]) -> dict[str, float]:
        return grade(problem, replies, results)


class _Sequence:
    """Prompt, replies and what the calculator said, as one sequence of tokens: the mask tells whose is whose."""

    def __init__(self, prompt_ids: list[int]) -> None:
        self.ids = prompt_ids
        self._prompt = len(prompt_ids)
        self._mask: list[int] = []
        self._logprobs: list[float] = []

    def add(self, ids: list[int], logprobs: list[float] | None = None) -> None:
        self.ids = self.ids + ids
        self._mask += [int(logprobs is not None)] * len(ids)
        self._logprobs += logprobs or [0.0] * len(ids)

    def as_output(self) -> dict[str, Any]:
        return {
            "prompt_ids": self.ids[: self._prompt],
            "response_ids": self.ids[self._prompt :],
            "response_mask": self._mask,
            "response_logprobs": self._logprobs,
        }


async def rollout(task: Task, policy: Policy, tokenizer: Tokenizer, pause: float) -> RolloutResult:
    agent = Agent(policy, tokenizer, pause)
    with rollout_trace_attr(
        sample_index=task.problem.index,
        step=task.step,
        rollout_n=task.rollout_n,
        validate=task.validate,
        level="times" if task.problem.then == "*" else "plus",
    ) as trajectory:
        output = await agent.run(task.problem.question, task, trajectory)
    return RolloutResult(task, trajectory.id, output["reward"], output["terms"], agent.choices)


def _die(task: Task) -> None:
    if task.killed:
        os.kill(os.getpid(), signal.SIGKILL)


def _written(message: dict[str, str]) -> str:
    return f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
