"""Reads Harbor's trajectories (ATIF 1.x) with the rewards beside them: a jobs folder, one trial, or `trajectory.json`.

A trial is `JOB/TRIAL/agent/trajectory.json`, with `verifier/reward.txt` or `verifier/reward.json` and `result.json`.
An agent's step becomes a model call and its tool calls; its task is the sample, and the trials of one task in one job
are its rollouts. Subagents embedded in a document are trajectories of their own, begun in the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.import_rows import (
    ImportedRow,
    Malformed,
    is_number,
    listed,
    number_again,
    row,
    score_row,
)
from rolltrace.exchange.import_turns import Turns, time_of, tool_call
from rolltrace.exchange.importer import BadLine, Line, LineReader, Source, place_of
from rolltrace.exchange.opening import open_regular
from rolltrace.exchange.splitting import as_bytes, whole_document
from rolltrace.exchange.text import parse
from rolltrace.record import TRAJECTORIES

_VERSION = "ATIF-v1."
_MAX_BESIDE_BYTES = 16 << 20
"""Of a file beside a trajectory."""
_USAGE = {"prompt_tokens": "prompt_tokens", "completion_tokens": "completion_tokens", "cached_tokens": "cached_tokens"}


class _Trial(NamedTuple):
    """What stands beside a trajectory."""

    name: str = ""
    task: str | None = None
    number: int | None = None
    """Which of the trials of its task in this job."""
    rewards: dict[str, float] = {}  # noqa: RUF012 (a default of a NamedTuple is never changed)
    error: str | None = None
    traceback: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None


def files(folder: Path) -> list[Path]:
    """The trajectories of all trials below a folder, and those that continue them."""
    return sorted(each for each in folder.rglob("trajectory*.json") if each.is_file())


def recognise(peek: Peek) -> str | None:
    """ATIF says so in each document."""
    return "schema_version is ATIF" if b'"schema_version"' in peek.head and b'"ATIF-v' in peek.head else None


def reader(source: Source) -> LineReader:
    """A reader of one trajectory file."""
    source.target.named()
    trial = _trial_of(source.path)
    if trial.name:
        source.told_by_path(trial.name, source.path.name)
    source.split = _documents
    root: list[str] = []

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        version = record.get("schema_version")
        if not isinstance(version, str) or not version.startswith(_VERSION):
            raise Malformed(f"schema_version must be {_VERSION}N, not {version!r:.60}")
        steps, agent = listed(record, "steps"), record.get("agent")
        agent = agent if isinstance(agent, dict) else {}
        is_root = line.number == 0
        # A subagent is no rollout of the task: it stands in no group.
        where = {"sample_index": trial.task, "rollout_n": trial.number} if is_root else {}
        place = place_of(source, line, validate=source.target.validate, **where)
        start = (trial.start_ns if is_root else None) or _first_time(steps) or line.time_ns
        turns = Turns(place, start)
        for step in steps:
            _add_step(turns, step, agent)
        ops = turns.finished()
        own: dict[str, Any] = {
            "name": str(agent.get("name") or "harbor"), "start_ns": start, "status": "ok",
            "end_ns": max((trial.end_ns if is_root else None) or 0, turns.end_ns), "tags": _tags(record, agent, trial),
        }  # fmt: skip
        if is_root:
            root[:] = [place.trajectory_id]
            if trial.error is not None:
                own.update(status="error", error=trial.error, traceback=trial.traceback)
        elif root:
            own["parent_trajectory_id"] = root[0]
        rows = [row(TRAJECTORIES, place, own), *ops]
        if is_root and trial.rewards:
            terms = {name: value for name, value in trial.rewards.items() if name != "reward"}
            rows.append(score_row(place, _reward(trial.rewards), terms, own["end_ns"]))
        return rows

    return read


def _documents(source: Source) -> Iterator[Line | BadLine]:
    """The document, then the subagents embedded in it."""
    for line in whole_document(source):
        if isinstance(line, Line) and isinstance(line.value, dict):
            embedded = line.value.pop("subagent_trajectories", None)
            yield line
            for number, each in enumerate(embedded if isinstance(embedded, list) else (), start=1):
                yield Line(number, as_bytes(each), each, line.time_ns + number)
        else:
            yield line


def _add_step(turns: Turns, step: dict[str, Any], agent: dict[str, Any]) -> None:
    message, at = step.get("message"), time_of(step.get("timestamp"))
    if step.get("source") != "agent":
        turns.say(str(step.get("source") or "user"), message)
        _add_results(turns, step, {}, at)
        return
    calls = {str(call.get("tool_call_id")): call for call in listed(step, "tool_calls")}
    reply: dict[str, Any] = {"role": "assistant", "content": message}
    if step.get("reasoning_content") is not None:
        reply["reasoning_content"] = step["reasoning_content"]
    if calls:
        reply["tool_calls"] = [
            tool_call(name, call.get("function_name"), call.get("arguments")) for name, call in calls.items()
        ]
    if step.get("is_copied_context") is True:  # recorded in the trajectory that it was copied from
        turns.say(reply.pop("role"), reply.pop("content"), **reply)
        for result in _results(step):
            turns.say("tool", result.get("content"), tool_call_id=result.get("source_call_id"))
        return
    if step.get("llm_call_count") != 0:
        metrics = step.get("metrics")
        more_outputs, more_inputs = _measured(metrics if isinstance(metrics, dict) else {})
        model = step.get("model_name") or agent.get("model_name")
        turns.reply(
            reply,
            more_outputs=more_outputs,
            more_inputs={**more_inputs, **({"model": model} if model else {})},
            start_ns=at,
        )
    _add_results(turns, step, calls, None)


def _add_results(turns: Turns, step: dict[str, Any], calls: dict[str, dict[str, Any]], at: int | None) -> None:
    waiting = dict(calls)
    for result in _results(step):
        call = waiting.pop(str(result.get("source_call_id")), None)
        name = str((call or {}).get("function_name") or ("tool" if calls else "environment"))
        outcome: Any = result.get("content")
        if result.get("subagent_trajectory_ref") is not None:
            outcome = {"content": outcome, "subagent_trajectory_ref": result["subagent_trajectory_ref"]}
        turns.tool(name, (call or {}).get("arguments"), outcome, result.get("source_call_id"), start_ns=at)
    for call in waiting.values():  # called, and nothing is said about what came of it
        turns.tool(str(call.get("function_name") or "tool"), call.get("arguments"), None, call.get("tool_call_id"))


def _results(step: dict[str, Any]) -> list[dict[str, Any]]:
    observation = step.get("observation")
    return listed(observation, "results") if isinstance(observation, dict) else []


def _measured(metrics: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a step's metrics say about the reply, and about what the model was given."""
    more_outputs: dict[str, Any] = {}
    usage = {name: metrics[key] for key, name in _USAGE.items() if metrics.get(key) is not None}
    if usage:
        more_outputs["usage"] = usage
    for name in ("completion_token_ids", "logprobs", "cost_usd"):
        if metrics.get(name) is not None:
            more_outputs[name] = metrics[name]
    prompt_ids = metrics.get("prompt_token_ids")
    return more_outputs, {} if prompt_ids is None else {"prompt_token_ids": prompt_ids}


def _tags(record: dict[str, Any], agent: dict[str, Any], trial: _Trial) -> dict[str, Any]:
    tags = {
        "trial": trial.name or None, "agent": agent.get("name"), "agent_version": agent.get("version"),
        "model": agent.get("model_name"), **{name: record.get(name) for name in ("session_id", "notes", "extra")},
        "atif_trajectory_id": record.get("trajectory_id"), "final_metrics": record.get("final_metrics"),
        "continued_trajectory_ref": record.get("continued_trajectory_ref"),
    }  # fmt: skip
    return {name: value for name, value in tags.items() if value is not None}


def _first_time(steps: list[dict[str, Any]]) -> int | None:
    return next((at for step in steps if (at := time_of(step.get("timestamp"))) is not None), None)


def _reward(rewards: dict[str, float]) -> float | None:
    """The reward of a trial: the one of that name, or the only one."""
    return rewards.get("reward", next(iter(rewards.values())) if len(rewards) == 1 else None)


def _trial_of(path: Path) -> _Trial:
    """The trial that a trajectory file is of, if it stands where Harbor puts it."""
    if path.parent.name != "agent":
        return _Trial()
    inside = path.parent.parent  # of the trial, or of one step in it
    folder = inside.parent.parent if inside.parent.name == "steps" else inside
    result = _json_beside(folder / "result.json") or _json_beside(folder / "results.json") or {}
    steps = result.get("step_results")
    own = result
    for each in steps if isinstance(steps, list) else ():
        if isinstance(each, dict) and each.get("step_name") == inside.name:
            own = each
    task = result.get("task_name")
    task = task if isinstance(task, str) else folder.name.rpartition("__")[0] or folder.name
    failure = own.get("exception_info")
    failure = failure if isinstance(failure, dict) else {}
    error = f"{failure['exception_type']}: {failure.get('exception_message')}" if "exception_type" in failure else None
    traceback = failure.get("exception_traceback")
    verified = own.get("verifier_result")
    return _Trial(
        folder.name if inside == folder else f"{folder.name}/{inside.name}",
        task,
        _number_of(folder),
        _rewards_beside(inside) or _numbers(verified.get("rewards") if isinstance(verified, dict) else None),
        error,
        traceback if isinstance(traceback, str) else None,
        time_of(result.get("started_at")),
        time_of(result.get("finished_at")),
    )


def _number_of(folder: Path) -> int | None:
    """Which trial of its task this is: they are called TASK__RANDOM."""
    task, mark, _ = folder.name.rpartition("__")
    if not mark:
        return None
    trials = sorted(each.name for each in folder.parent.iterdir() if each.name.rpartition("__")[0] == task)
    return trials.index(folder.name)


def _rewards_beside(inside: Path) -> dict[str, float]:
    written = _numbers(_json_beside(inside / "verifier" / "reward.json"))
    if written:
        return written
    try:
        with open_regular(inside / "verifier" / "reward.txt") as file:
            text = file.read(100).decode(errors="replace")
    except OSError:
        return {}
    value = number_again(text.strip())
    return {"reward": float(value)} if is_number(value) else {}


def _numbers(value: Any) -> dict[str, float]:
    return {k: float(v) for k, v in value.items() if is_number(v)} if isinstance(value, dict) else {}


def _json_beside(path: Path) -> dict[str, Any] | None:
    """A small JSON object beside the trajectory; None if there is none that can be read."""
    try:
        with open_regular(path) as file:
            content = file.read(_MAX_BESIDE_BYTES + 1)
        value = parse(content) if len(content) <= _MAX_BESIDE_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
