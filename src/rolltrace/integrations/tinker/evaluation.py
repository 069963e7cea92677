"""Evaluations during training: `validate`, with the evaluator's name."""

from __future__ import annotations

from contextvars import ContextVar
from inspect import BoundArguments
from typing import Any, NamedTuple

from rolltrace._guard import caught
from rolltrace.integrations.seams import Steps, hook
from rolltrace.integrations.tinker.coordinates import GroupPosition, Positions, positions

_KEPT = "_rolltrace_positions"
"""The attribute of an evaluator with the step that it was last asked for, and the positions of its builders then."""


class Evaluating(NamedTuple):
    """The evaluation that is going on."""

    step: int | None
    name: str


evaluating: ContextVar[Evaluating | None] = ContextVar("rolltrace_tinker_evaluating", default=None)


def change(module: Any) -> None:
    """Change `tinker_cookbook.rl.metric_util`."""
    for method in ("eval_token_completer", "_eval_with_executor"):
        hook(module.RLTestSetEvaluator, method, _place_evaluation)


def name_evaluation(call: BoundArguments) -> Steps:
    """Hook of `run_single_evaluation`, which alone knows the iteration and what the evaluator is called."""
    token = evaluating.set(Evaluating(call.arguments["i_batch"], call.arguments["evaluator_label"]))
    try:
        yield
    finally:
        evaluating.reset(token)


def _place_evaluation(call: BoundArguments) -> Steps:
    token = positions.set(_positions_of(call.arguments["self"]))
    try:
        yield
    finally:
        positions.reset(token)


def _positions_of(evaluator: Any) -> Positions | None:
    """The test set is flattened once, so its samples are stable: `NAME/POSITION`, since there may be several sets."""
    try:
        around = positions.get()
        step_around = None if around is None else around.next_step  # distillation asks its evaluators directly
        during = evaluating.get() or Evaluating(step_around, str(evaluator.name or "test"))
        builders = evaluator.env_group_builders_P
        step, group_positions = evaluator.__dict__.get(_KEPT, (None, None))
        if group_positions is None or step != during.step:
            name = during.name
            group_positions = [GroupPosition(during.step, f"{name}/{at}", True, name) for at in range(len(builders))]
            evaluator.__dict__[_KEPT] = during.step, group_positions
        test_positions = Positions()
        test_positions.add(builders, group_positions)
        return test_positions
    except Exception:
        caught("tinker evaluation")
        return None
