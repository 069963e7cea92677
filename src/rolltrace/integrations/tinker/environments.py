"""What is known of a step besides its messages, for each kind of environment that tinker-cookbook has.

All numbers are raw. An environment of a user's own has what its `StepResult` says; for more, it is wrapped with
`rolltrace.trace_env(env, reward_data=..., extra=...)`, whose functions come before those here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from inspect import BoundArguments
from typing import Any, NamedTuple

from rolltrace.capture import Converters, TracedEnv
from rolltrace.integrations.seams import Steps, hook


class Grade(NamedTuple):
    """What a grader said about one criterion of a rubric."""

    rubric: Any
    score: float
    reply: str


grades: ContextVar[list[Grade] | None] = ContextVar("rolltrace_tinker_grades", default=None)
"""Those of the step that is going on."""

Of = Callable[[Any], Any]
AfterStep = Callable[[Any, Any], Any]


def _nothing(*_: Any) -> None:
    return None


class Adapter(NamedTuple):
    """Functions of an environment; those for after a step get its result too."""

    state: Of = _nothing
    reward_data: AfterStep = _nothing
    extra: AfterStep = _nothing
    parsed_by_group: bool = False
    """Whether the response is read by the group's reward, and not in the step."""


def _problem_reward(env: Any, result: Any) -> dict[str, Any]:
    return {**_chosen(result.metrics, "correct", "format"), "format_coef": env.format_coef}


def _chosen(metrics: Any, *names: str) -> dict[str, Any]:
    return {name: metrics[name] for name in names if name in metrics}


def _rubric_reward(env: Any, result: Any) -> dict[str, Any]:
    return {
        "rubric_scores": [grade.score for grade in _in_order(env)],
        **_chosen(result.metrics, "rubric_score", "format"),
        "format_coef": env.format_coef,
    }


def _rubric_extra(env: Any, result: Any) -> dict[str, Any]:
    return {
        "grades": [
            {"criterion": grade.rubric.rubric_str, "score": grade.score, "reply": grade.reply}
            for grade in _in_order(env)
        ]
    }


def _in_order(env: Any) -> list[Grade]:
    """The grades in the order of the rubric, in whatever order the grader came back."""
    grade_of = {id(grade.rubric): grade for grade in grades.get() or ()}
    return [grade_of[id(rubric)] for rubric in env.rubric_items if id(rubric) in grade_of]


def _message_reward(env: Any, result: Any) -> dict[str, Any] | None:
    """The coefficient that made the reward, where that was not the environment inside."""
    if result.metrics.get("parse_error") and result.reward == env.failed_parse_reward:
        return {"failed_parse_reward": env.failed_parse_reward}
    if result.metrics.get("context_overflow") or result.metrics.get("max_tokens_reached"):
        return {"context_overflow_reward": env.context_overflow_reward}
    return None


def _message_state(env: Any) -> dict[str, Any] | None:
    inner = env.message_env
    attributes = {"turn": "_turn_count", "tool_calls_made": "_tool_calls_made", "max_turns": "max_turns"}
    return {word: getattr(inner, name) for word, name in attributes.items() if hasattr(inner, name)} or None


def _two_players(env: Any) -> dict[str, Any]:
    return {"player_id": env.player_id, "self_play": env.self_play, "game_done": env.coordinator.game_done}


_PROBLEM = Adapter(
    state=lambda env: {"question": env.get_question(), "reference_answer": env.get_reference_answer()},
    reward_data=_problem_reward,
)
_ADAPTERS = {
    "tinker_cookbook.rl.problem_env.ProblemEnv": _PROBLEM,
    "tinker_cookbook.distillation.datasets.PromptOnlyEnv": Adapter(state=lambda env: {"question": env.get_question()}),
    "tinker_cookbook.rl.preference_envs.PreferenceEnv": Adapter(parsed_by_group=True),
    "tinker_cookbook.rl.message_env.EnvFromMessageEnv": Adapter(state=_message_state, reward_data=_message_reward),
    "tinker_cookbook.recipes.rubric.env.RubricGradedEnv": Adapter(reward_data=_rubric_reward, extra=_rubric_extra),
    "tinker_cookbook.recipes.multiplayer_rl.guess_number.env.GuessNumberEnv": Adapter(
        state=lambda env: {"target": env.gold_answer, "turn": len(env.turns) // 2}
    ),
    "tinker_cookbook.recipes.multiplayer_rl.twenty_questions.env.TwentyQuestionsEnv": Adapter(
        state=lambda env: {"answer": env.answer, "turn": len(env.turns) // 2},
        extra=lambda env, result: {"answerer": env.turns[-1]["content"]},
    ),
    "tinker_cookbook.recipes.multiplayer_rl.text_arena.env.TwoPlayerEnv": Adapter(state=_two_players),
}
"""By the full name of the class, so that none is imported for it."""
_OTHER = Adapter()
_NO_CONVERTERS = Converters()


def adapter_of(env: Any) -> Adapter:
    """That of the nearest class of tinker-cookbook's that the environment is of."""
    for base in type(env).__mro__:
        adapter = _ADAPTERS.get(f"{base.__module__}.{base.__qualname__}")
        if adapter is not None:
            return adapter
    return _OTHER


def converters_of(env: Any) -> tuple[Any, Converters]:
    """The environment inside one that the user has wrapped with `trace_env`, and the functions given there."""
    if not issubclass(type(env), TracedEnv):  # it says that it is of the class inside
        return env, _NO_CONVERTERS
    watch = object.__getattribute__(env, "_rolltrace_watch")
    return watch.env, watch.convert


def change_rubric(module: Any) -> None:
    """Change `tinker_cookbook.recipes.rubric.env`: it keeps no grade but their mean."""
    hook(module.RubricGradedEnv, "_grade_with_rubric", _keep_grade)


def _keep_grade(call: BoundArguments) -> Steps:
    result = yield
    of_step = grades.get()
    if of_step is not None:
        of_step.append(Grade(call.arguments["rubric"], *result))
