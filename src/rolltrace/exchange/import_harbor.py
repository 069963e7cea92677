"""Reads Harbor's trajectories (ATIF 1.x) with the rewards beside them: a jobs folder, one trial, or `trajectory.json`.

A trial is `JOB/TRIAL/agent/trajectory.json`, with `verifier/reward.txt` or `verifier/reward.json` and `result.json`.
An agent's step becomes a model call and its tool calls; its task is the sample, and the trials of one task in one job
are its rollouts. Subagents embedded in a document are trajectories of their own, begun in the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rolltrace.exchange.draft import Draft, first_time, time_of, tool_call
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.import_rows import ImportedRow, Malformed, inside, is_number, listed, number_again, shown
from rolltrace.exchange.importer import BadLine, Line, LineReader, Source
from rolltrace.exchange.opening import open_regular
from rolltrace.exchange.splitting import whole_document
from rolltrace.exchange.text import as_bytes, parse

_VERSION = "ATIF-v1."
_MAX_BESIDE_BYTES = 16 << 20
"""Of a file beside a trajectory."""
_USAGE = ("prompt_tokens", "completion_tokens", "cached_tokens")


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


def recognise(peek: Peek) -> str | None:
    """ATIF says so in each document."""
    return "schema_version is ATIF" if b'"schema_version"' in peek.head and b'"ATIF-v' in peek.head else None


def reader(source: Source) -> LineReader:
    """A reader of one trajectory file."""
    trial = _trial_of(source.path)
    if trial.name:
        source.told_by_path(trial.name, source.path.name)
    source.split = _documents
    root_id: str | None = None

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        nonlocal root_id
        version = record.get("schema_version")
        if not isinstance(version, str) or not version.startswith(_VERSION):
            raise Malformed(f"schema_version must be {_VERSION}N, not {shown(version)}")
        steps, agent = listed(record, "steps"), inside(record, "agent")
        is_root = line.number == 0
        own = trial if is_root else _Trial()
        # A subagent is no rollout of the task: it stands in no group.
        draft = source.draft(
            line, str(agent.get("name") or "harbor"), start_ns=own.start_ns or first_time(steps),
            sample_index=own.task, rollout_n=own.number,
        )  # fmt: skip
        for step in steps:
            _add_step(draft, step, agent)
        if is_root:
            root_id = draft.place.trajectory_id
        terms = {name: value for name, value in own.rewards.items() if name != "reward"}
        draft.reward(_reward(own.rewards), terms)
        return draft.finish(
            _tags(record, agent, trial), end_ns=own.end_ns, error=own.error, traceback=own.traceback,
            parent_trajectory_id=None if is_root else root_id,
        )  # fmt: skip

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


def _add_step(draft: Draft, step: dict[str, Any], agent: dict[str, Any]) -> None:
    message, at = step.get("message"), time_of(step.get("timestamp"))
    if step.get("source") != "agent":
        draft.say(str(step.get("source") or "user"), message)
        _add_results(draft, step, {}, at)
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
        draft.say(reply.pop("role"), reply.pop("content"), **reply)
        for result in _results(step):
            draft.say("tool", result.get("content"), tool_call_id=result.get("source_call_id"))
        return
    if step.get("llm_call_count") != 0:
        metrics = inside(step, "metrics")
        usage = {name: metrics[name] for name in _USAGE if metrics.get(name) is not None}
        more_outputs = {name: metrics.get(name) for name in ("completion_token_ids", "logprobs", "cost_usd")}
        model = step.get("model_name") or agent.get("model_name")
        more_inputs = {"prompt_token_ids": metrics.get("prompt_token_ids"), "model": model}
        draft.reply(reply, more_outputs={"usage": usage or None, **more_outputs}, more_inputs=more_inputs, start_ns=at)
    _add_results(draft, step, calls, None)


def _add_results(draft: Draft, step: dict[str, Any], calls: dict[str, dict[str, Any]], at: int | None) -> None:
    waiting = dict(calls)
    for result in _results(step):
        call = waiting.pop(str(result.get("source_call_id")), None)
        name = str((call or {}).get("function_name") or ("tool" if calls else "environment"))
        outcome: Any = result.get("content")
        if result.get("subagent_trajectory_ref") is not None:
            outcome = {"content": outcome, "subagent_trajectory_ref": result["subagent_trajectory_ref"]}
        draft.tool(
            result.get("source_call_id"), outcome, name=name, arguments=(call or {}).get("arguments"), start_ns=at
        )
    for call in waiting.values():  # called, and nothing is said about what came of it
        name = call.get("function_name") or "tool"
        draft.tool(call.get("tool_call_id"), None, name=name, arguments=call.get("arguments"))


def _results(step: dict[str, Any]) -> list[dict[str, Any]]:
    return listed(inside(step, "observation"), "results")


def _tags(record: dict[str, Any], agent: dict[str, Any], trial: _Trial) -> dict[str, Any]:
    return {
        "trial": trial.name or None, "agent": agent.get("name"), "agent_version": agent.get("version"),
        "model": agent.get("model_name"), **{name: record.get(name) for name in ("session_id", "notes", "extra")},
        "atif_trajectory_id": record.get("trajectory_id"), "final_metrics": record.get("final_metrics"),
        "continued_trajectory_ref": record.get("continued_trajectory_ref"),
    }  # fmt: skip


def _reward(rewards: dict[str, float]) -> float | None:
    """The reward of a trial: the one of that name, or the only one."""
    return rewards.get("reward", next(iter(rewards.values())) if len(rewards) == 1 else None)


def _trial_of(path: Path) -> _Trial:
    """The trial that a trajectory file is of, if it stands where Harbor puts it."""
    if path.parent.name != "agent":
        return _Trial()
    own_folder = path.parent.parent  # of the trial, or of one step in it
    folder = own_folder.parent.parent if own_folder.parent.name == "steps" else own_folder
    result = _json_beside(folder / "result.json") or _json_beside(folder / "results.json")
    steps = result.get("step_results")
    own = result
    for each in steps if isinstance(steps, list) else ():
        if isinstance(each, dict) and each.get("step_name") == own_folder.name:
            own = each
    task = result.get("task_name")
    task = task if isinstance(task, str) else folder.name.rpartition("__")[0] or folder.name
    failure = inside(own, "exception_info")
    error = f"{failure['exception_type']}: {failure.get('exception_message')}" if "exception_type" in failure else None
    traceback = failure.get("exception_traceback")
    return _Trial(
        folder.name if own_folder == folder else f"{folder.name}/{own_folder.name}",
        task,
        _number_of(folder),
        _rewards_beside(own_folder) or _numbers(inside(own, "verifier_result", "rewards")),
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


def _rewards_beside(folder: Path) -> dict[str, float]:
    written = _numbers(_json_beside(folder / "verifier" / "reward.json"))
    if written:
        return written
    try:
        with open_regular(folder / "verifier" / "reward.txt") as file:
            text = file.read(100).decode(errors="replace")
    except OSError:
        return {}
    value = number_again(text.strip())
    return {"reward": float(value)} if is_number(value) else {}


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if is_number(value)}


def _json_beside(path: Path) -> dict[str, Any]:
    """A small JSON object beside the trajectory; an empty one if there is none that can be read."""
    try:
        with open_regular(path) as file:
            content = file.read(_MAX_BESIDE_BYTES + 1)
        value = parse(content) if len(content) <= _MAX_BESIDE_BYTES else None
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
