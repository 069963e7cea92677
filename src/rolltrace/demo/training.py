"""GRPO on one core: rollouts in groups, advantages within each group, one step of policy gradient, and again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, pstdev

import rolltrace
from rolltrace.demo.policy import Choice, Policy
from rolltrace.demo.rollout import RolloutResult, Task
from rolltrace.demo.task import MathProblem, problems
from rolltrace.demo.tokenizer import PATH
from rolltrace.demo.workers import Workers

PROJECT, EXPERIMENT = "demo", "calculator"
_TRAINING_PROBLEMS = 32
_VALIDATION_PROBLEMS = 24
_VALIDATE_EVERY = 5
_RATE = 6.0


@dataclass(frozen=True)
class DemoSettings:
    store: Path
    steps: int = 30
    seed: int = 1
    samples: int = 8
    rollouts: int = 8
    workers: int = 2
    pause: float = 0.0
    """Seconds for a token, to watch it live."""

    def samples_of(self, step: int) -> list[int]:
        """Which problems a step trains on: all in turn, and again."""
        first = (step - 1) * self.samples
        return [(first + at) % _TRAINING_PROBLEMS for at in range(self.samples)]


@dataclass(frozen=True)
class Step:
    """What happened in one step."""

    number: int
    reward: float
    correct: float
    validation: float | None
    killed: list[Task]
    rollouts: int
    """Begun, validation included."""


def train(settings: DemoSettings) -> Iterator[Step]:
    """Train and trace; a worker is killed in the middle of the run."""
    rolltrace.init(
        PROJECT, EXPERIMENT, "rolltrace", store=settings.store, tokenizer=str(PATH), token2text=True, quiet=True,
        limits={"pass_term": "correct"},  # the reward also pays for a format, and for a hack
    )  # fmt: skip
    policy = Policy()
    training = problems(_TRAINING_PROBLEMS, settings.seed)
    validation = problems(_VALIDATION_PROBLEMS, settings.seed + 1, first=_TRAINING_PROBLEMS)
    try:
        with Workers(settings.workers, settings.pause) as workers:
            for step in range(1, settings.steps + 1):
                batch = [training[sample] for sample in settings.samples_of(step)]
                yield _step(step, batch, validation, settings, policy, workers)
    finally:
        rolltrace.flush()
        rolltrace.shutdown()


def _step(
    step: int,
    batch: list[MathProblem],
    validation: list[MathProblem],
    settings: DemoSettings,
    policy: Policy,
    workers: Workers,
) -> Step:
    tasks = [Task(step, problem, n, False, settings.seed) for problem in batch for n in range(settings.rollouts)]
    if step == (settings.steps + 1) // 2:
        middle = len(tasks) // 2
        tasks[middle] = replace(tasks[middle], killed=True)
    before = len(workers.killed)
    outcomes = list(workers.make(tasks, policy))
    killed = workers.killed[before:]
    for task in killed:
        rolltrace.score(task.coordinates, "fate", "filtered", reason="its worker was killed")
    policy.learn(_weighted(outcomes), _RATE)
    right = None
    rollouts = len(tasks)
    if step % _VALIDATE_EVERY == 0 or step == settings.steps:
        asked = [Task(step, problem, 0, True, settings.seed) for problem in validation]
        right = fmean(outcome.reward for outcome in workers.make(asked, policy))
        rollouts += len(asked)
    return Step(
        number=step,
        reward=fmean(outcome.reward for outcome in outcomes),
        correct=fmean(outcome.terms["correct"] for outcome in outcomes),
        validation=right,
        killed=killed,
        rollouts=rollouts,
    )


def _weighted(outcomes: list[RolloutResult]) -> list[tuple[Choice, float]]:
    """Every token with its weight: the advantage of its rollout within the group. The store is told of it."""
    groups: dict[int, list[RolloutResult]] = defaultdict(list)
    for outcome in sorted(outcomes, key=lambda each: each.task.coordinates):
        groups[outcome.task.problem.index].append(outcome)
    weighted: list[tuple[Choice, float]] = []
    for group in groups.values():
        rewards = [outcome.reward for outcome in group]
        mean, spread = fmean(rewards), pstdev(rewards)
        for outcome, reward in zip(group, rewards, strict=True):
            if spread < 1e-6:
                rolltrace.score(outcome.trajectory_id, "fate", "filtered", reason="all rewards of the group are equal")
                continue
            advantage = (reward - mean) / spread
            rolltrace.score(outcome.trajectory_id, "advantage", advantage)
            rolltrace.score(outcome.trajectory_id, "fate", "trained")
            weighted += [(choice, advantage / len(outcomes)) for choice in outcome.choices]
    return weighted
