"""Reads tinker-cookbook's rollout summaries: files *_rollout_summaries.jsonl, one line a trajectory, or its run folder.

A line tells split, iteration, group and index in it, rewards, metrics, and per step lengths, reward, metrics and logs.
Each step becomes a transition, and a model call. Where the environment gives a `RolloutTrace`, the step has it as
`trace`: it becomes the transition's, and its prompt and response the call's; otherwise there is no text. There are no
tokens. The sample of an evaluation is named `EVALUATOR/GROUP`, as when it is traced: several of them may belong to
one iteration.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rolltrace.drain import is_formatted
from rolltrace.exchange.draft import ImportedRow
from rolltrace.exchange.fields import Malformed, is_number, leave, number_again, numbers_in, objects, shown, whole
from rolltrace.exchange.importer import LineReader, Source, find_files
from rolltrace.exchange.source_lines import Line
from rolltrace.record import FLAGS, TRANSITIONS

_VERSION = 1
_KNOWN = frozenset({
    "schema_version", "iteration", "group_idx", "traj_idx", "sampling_client_step", "total_reward", "final_reward",
    "trajectory_metrics", "steps", "stop_reason",
})  # fmt: skip
"""Fields that become columns; all others become tags."""
_COLUMNS = ("reward", "episode_done", "stop_reason", "trace")
"""Fields of a step that become columns of its transition; all others become its fields."""
_STOP = "stop/"
"""A metric `stop/REASON` of 1 says why an episode ended."""
_EVALUATION = "eval/"
"""How the split of an evaluation begins; its evaluator's name follows."""
_SUMMARIES = "*rollout_summaries*.jsonl"


def files(folder: Path) -> list[Path]:
    """The summaries of a run folder or of one iteration in it; its metrics, checkpoints and timings are left alone."""
    own, inside = find_files(folder, _SUMMARIES), find_files(folder, f"iteration_*/{_SUMMARIES}")
    return own + inside or find_files(folder, "*.jsonl")


def reader(source: Source) -> LineReader:
    """A reader of the summaries of one iteration."""

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        version = record.get("schema_version", _VERSION)
        if version != _VERSION:
            raise Malformed(f"rollout summaries of schema_version {shown(version)} are not supported, only {_VERSION}")
        steps, metrics = objects(record, "steps"), _numbers(record.get("trajectory_metrics") or {})
        if not isinstance(metrics, dict):
            raise Malformed("trajectory_metrics must be an object")
        if any(record.get(name) is None for name in ("iteration", "group_idx", "steps")):
            raise Malformed("iteration, group_idx or steps are missing")
        split, group = str(record.get("split", "train")), _whole(record, "group_idx")
        trains = split.startswith("train")
        draft = source.draft(
            line, "tinker", step=_whole(record, "iteration"),
            sample_index=group if trains else f"{split.removeprefix(_EVALUATION)}/{group}",
            rollout_n=_whole(record, "traj_idx"), validate=not trains,
        )  # fmt: skip
        policy = _whole(record, "sampling_client_step")
        for number, step in enumerate(steps, start=1):
            trace = number_again(step.get("trace"), digits=False, formatted=False)
            tokens: dict[str, Any] = {
                "prompt_tokens": _whole(step, "ob_len"),
                "response_tokens": _whole(step, "ac_len"),
            }
            op_id = draft.op("sample", "llm", policy_version=policy, **tokens, **_call(trace))
            stop_reason = _stop_reason(step) or (record.get("stop_reason") if number == len(steps) else None)
            transition = _transition(step, trace, stop_reason)
            draft.event(TRANSITIONS, op_id=op_id, time_ns=draft.end_ns, **transition)
        rewards = {name: _numbers(record.get(name)) for name in ("total_reward", "final_reward")}
        formatted = {name: value for name, value in {**rewards, **metrics}.items() if is_formatted(value)}
        if formatted:
            draft.event(FLAGS, flag="number_as_text", detail=formatted)
        rewards = {name: value for name, value in rewards.items() if name not in formatted}
        terms = numbers_in(metrics) | numbers_in({"final_reward": rewards.get("final_reward")})
        draft.score("reward", rewards.get("total_reward"), terms)
        return draft.finish({**leave(record, _KNOWN), **formatted, **leave(metrics, terms)})

    return read


def _numbers(value: Any) -> Any:
    """Numbers that tinker-cookbook wrote as text, as numbers again. One that somebody formatted stays text."""
    return number_again(value, formatted=False)


def _whole(record: dict[str, Any], name: str) -> int | None:
    return whole(number_again(record.get(name)), name)


def _transition(step: dict[str, Any], trace: Any, stop_reason: Any) -> dict[str, Any]:
    """The columns of an environment step. A reward that is no number stays among its fields, and is flagged."""
    reward, done = _numbers(step.get("reward")), number_again(step.get("episode_done"))
    fields = leave(step, _COLUMNS)
    if "metrics" in fields:
        fields["metrics"] = _numbers(fields["metrics"])
    if reward is not None and not is_number(reward):
        reward, fields["reward"] = None, reward
    return {
        "trace": trace,
        "reward": reward,
        "fields": fields,
        "episode_done": bool(done) if isinstance(done, int) else None,
        "stop_reason": None if stop_reason is None else str(stop_reason),
    }


def _stop_reason(step: dict[str, Any]) -> Any:
    metrics = step.get("metrics")
    reason = step.get("stop_reason")
    if reason is None and isinstance(metrics, dict):
        reasons = (name for name, value in metrics.items() if name.startswith(_STOP) and number_again(value) == 1)
        reason = next(reasons, None)
    return reason.removeprefix(_STOP) if isinstance(reason, str) else reason


def _call(trace: Any) -> dict[str, Any]:
    """What the model saw and said, from the trace of a step."""
    if not isinstance(trace, dict):
        return {}
    prompt, response = trace.get("prompt"), trace.get("policy_response")
    call: dict[str, Any] = {}
    if prompt is not None:
        call["inputs"] = {"messages" if isinstance(prompt, list) else "prompt": prompt}
    if response is not None:
        call["outputs"] = {"content": response} if isinstance(response, str) else response
    return call
