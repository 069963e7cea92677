"""Reads Harbor's trajectories (ATIF 1.x) with the rewards beside them: a jobs folder, one trial, or `trajectory.json`.

A trial is `JOB/TRIAL/agent/trajectory.json`, with `verifier/reward.txt` or `verifier/reward.json` and `result.json`.
An agent's step becomes a model call and its tool calls; its task is the sample, and the trials of one task in one job
are its rollouts. Subagents embedded in a document are trajectories of their own, begun in the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rolltrace.exchange import fields
from rolltrace.exchange.draft import Draft, ImportedRow
from rolltrace.exchange.fields import inside, objects, pick, tool_call
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.source_lines import Line, number_items, open_regular, whole_document
from rolltrace.exchange.text import parse

_VERSION = "ATIF-v1."
_MAX_BESIDE_BYTES = 16 << 20
"""Of a file beside a trajectory."""


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
    trial = _find_trial(source.path)
    if trial.name:
        source.told_by_path(trial.name, source.path.name)
    source.split = _documents
    root_id: str | None = None

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        nonlocal root_id
        version = record.get("schema_version")
        if not isinstance(version, str) or not version.startswith(_VERSION):
            raise fields.Malformed(f"schema_version must be {_VERSION}N, not {fields.shown(version)}")
        steps, agent = objects(record, "steps"), inside(record, "agent")
        is_root = line.number == 0
        own = trial if is_root else _Trial()
        # A subagent is no rollout of the task: it stands in no group.
        draft = source.draft(
            line, str(agent.get("name") or "harbor"), start_ns=own.start_ns or fields.first_time(steps),
            sample_index=own.task, rollout_n=own.number,
        )  # fmt: skip
        for step in steps:
            _add_step(draft, step, agent)
        if is_root:
            root_id = draft.place.trajectory_id
        # The reward of a trial is the one of that name, or the only one.
        only = next(iter(own.rewards.values())) if len(own.rewards) == 1 else None
        draft.reward(own.rewards.get("reward", only), fields.leave(own.rewards, ("reward",)))
        tags = {
            "trial": trial.name or None, "agent": agent.get("name"), "agent_version": agent.get("version"),
            "model": agent.get("model_name"), "atif_trajectory_id": record.get("trajectory_id"),
            **pick(record, "session_id", "notes", "extra", "final_metrics", "continued_trajectory_ref"),
        }  # fmt: skip
        return draft.finish(
            tags, end_ns=own.end_ns, error=own.error, traceback=own.traceback,
            parent_trajectory_id=None if is_root else root_id,
        )  # fmt: skip

    return read


def _documents(path: Path) -> Iterator[Line]:
    """The document, then the subagents embedded in it."""
    for line in whole_document(path):
        embedded = line.value.pop("subagent_trajectories", None) if isinstance(line.value, dict) else None
        yield line
        yield from number_items(embedded if isinstance(embedded, list) else [])


def _add_step(draft: Draft, step: dict[str, Any], agent: dict[str, Any]) -> None:
    message, at = step.get("message"), fields.time_of(step.get("timestamp"))
    results = objects(inside(step, "observation"), "results")
    if step.get("source") != "agent":
        draft.say(str(step.get("source") or "user"), message)
        _add_results(draft, results, {}, at)
        return
    calls = {str(call.get("tool_call_id")): call for call in objects(step, "tool_calls")}
    reply = {"role": "assistant", "content": message, **pick(step, "reasoning_content")}
    if calls:
        reply["tool_calls"] = [
            tool_call(name, call.get("function_name"), call.get("arguments")) for name, call in calls.items()
        ]
    if step.get("is_copied_context") is True:  # recorded in the trajectory that it was copied from
        draft.say(**reply)
        for result in results:
            draft.say("tool", result.get("content"), tool_call_id=result.get("source_call_id"))
        return
    if step.get("llm_call_count") != 0:
        metrics = inside(step, "metrics")
        usage = pick(metrics, "prompt_tokens", "completion_tokens", "cached_tokens")
        more_outputs = {"usage": usage or None, **pick(metrics, "completion_token_ids", "logprobs", "cost_usd")}
        model = step.get("model_name") or agent.get("model_name")
        more_inputs = {**pick(metrics, "prompt_token_ids"), "model": model}
        draft.reply(reply, more_outputs=more_outputs, more_inputs=more_inputs, start_ns=at)
    _add_results(draft, results, calls, None)


def _add_results(draft: Draft, results: list[dict[str, Any]], calls: dict[str, dict[str, Any]], at: int | None) -> None:
    waiting = dict(calls)
    for result in results:
        call = waiting.pop(str(result.get("source_call_id")), {})
        name = str(call.get("function_name") or ("tool" if calls else "environment"))
        outcome: Any = result.get("content")
        if result.get("subagent_trajectory_ref") is not None:
            outcome = {"content": outcome, "subagent_trajectory_ref": result["subagent_trajectory_ref"]}
        draft.tool(result.get("source_call_id"), outcome, name=name, arguments=call.get("arguments"), start_ns=at)
    for call in waiting.values():  # called, and nothing is said about what came of it
        name = call.get("function_name") or "tool"
        draft.tool(call.get("tool_call_id"), None, name=name, arguments=call.get("arguments"))


def _find_trial(path: Path) -> _Trial:
    """The trial that a trajectory file is of, if it stands where Harbor puts it."""
    if path.parent.name != "agent":
        return _Trial()
    own_folder = path.parent.parent  # of the trial, or of one step in it
    folder = own_folder.parent.parent if own_folder.parent.name == "steps" else own_folder
    result = _read_beside(folder / "result.json") or _read_beside(folder / "results.json")
    steps = result.get("step_results")
    own = result
    for each in steps if isinstance(steps, list) else ():
        if isinstance(each, dict) and each.get("step_name") == own_folder.name:
            own = each
    prefix, mark, _ = folder.name.rpartition("__")  # they are called TASK__RANDOM
    task, number = result.get("task_name"), None
    if mark:
        trials = sorted(each.name for each in folder.parent.iterdir() if each.name.rpartition("__")[0] == prefix)
        number = trials.index(folder.name)
    failure = inside(own, "exception_info")
    error = f"{failure['exception_type']}: {failure.get('exception_message')}" if "exception_type" in failure else None
    traceback = failure.get("exception_traceback")
    return _Trial(
        folder.name if own_folder == folder else f"{folder.name}/{own_folder.name}",
        task if isinstance(task, str) else prefix or folder.name,
        number,
        _read_rewards(own_folder / "verifier") or fields.numbers_in(inside(own, "verifier_result", "rewards")),
        error,
        traceback if isinstance(traceback, str) else None,
        fields.time_of(result.get("started_at")),
        fields.time_of(result.get("finished_at")),
    )


def _read_rewards(folder: Path) -> dict[str, float]:
    try:
        with open_regular(folder / "reward.txt") as file:
            text = file.read(100).decode(errors="replace").strip()
    except OSError:
        text = ""
    written = fields.numbers_in(_read_beside(folder / "reward.json"))
    return written or fields.numbers_in({"reward": fields.number_again(text)})


def _read_beside(path: Path) -> dict[str, Any]:
    """A small JSON object beside the trajectory; an empty one if there is none that can be read."""
    try:
        with open_regular(path) as file:
            content = file.read(_MAX_BESIDE_BYTES + 1)
        value = parse(content) if len(content) <= _MAX_BESIDE_BYTES else None
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
