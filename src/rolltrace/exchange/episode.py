"""What an episode of verifiers says, in our words: one trajectory per trace, one op per model call, tool result, phase.

A trace is a graph of messages: each node has the tokens that it adds, and a path from the root to a node is what the
model saw. Where paths part (compaction, subagents) there are several branches; every call has its own messages and
tokens, and says which branch it belongs to. Used for files and for live runs alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rolltrace.exchange.fields import Malformed, items, objects, shown, text, tool_call
from rolltrace.record import SampleIndex

AGENT = "agent"
"""The phase in which model and tools are called."""
_PHASES = ("boot", "setup", AGENT, "finalize", "scoring")
_MAX_SEC = 9e9
"""As nanoseconds still a number of 64 bits."""
_MAX_FLOAT = 1e300
_TOKEN_IDS = 1 << 31
_MAX_ITEMS = 20_000_000
"""Tokens and messages in all prompts of one trace: a graph may be small and its paths huge."""
_FIRST_TURN = 3
"""Nodes up to the first reply: system, user, assistant."""
_PER_TOKEN = ("logprobs", "advantages", "reference_logprobs", "trainer_logprobs", "entropies")
_KNOWN = frozenset({
    "version", "id", "verifiers", "task", "agent", "tools", "nodes", "calls", "rewards", "metrics", "errors", "timing",
    "ok", "is_completed", "mm_token_type_id_map", "num_input_tokens", "num_output_tokens", "num_total_tokens", "state",
})  # fmt: skip
"""Fields of a trace that stand elsewhere; all others become tags, as far as they say anything."""


@dataclass
class PastOp:
    """Something that happened, with its times."""

    name: str
    kind: str
    start_ns: int
    end_ns: int
    inputs: Any = None
    outputs: Any = None
    status: str = "ok"
    error: str | None = None
    traceback: str | None = None
    is_inside: bool = False
    """It happened while the agent ran."""


@dataclass
class PastTrace:
    """One rollout of one agent."""

    trace_id: str
    name: str
    start_ns: int
    end_ns: int
    status: str
    error: str | None
    traceback: str | None
    tags: dict[str, Any]
    ops: list[PastOp] = field(default_factory=list)
    reward: float | None = None
    terms: dict[str, float | None] = field(default_factory=dict)
    """The score of each reward function, as it gave it; None if it did not run."""
    weights: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)
    advantage: float | None = None
    """The mean over all sampled tokens."""
    errors: list[dict[str, Any]] = field(default_factory=list)
    """Every error, also of attempts that were repeated."""


class PastPlace(NamedTuple):
    """Where an episode stands, as far as it says so itself."""

    sample_index: SampleIndex | None
    step: int | None
    validate: bool
    run: str | None


def place_of_episode(episode: Mapping[str, Any]) -> PastPlace:
    """Where an episode stands."""
    env, task, run = (_object(episode, name) for name in ("env", "task", "run"))
    work = _object(run, "work")
    index = _object(task, "data").get("idx")
    sample = index if isinstance(index, int) and not isinstance(index, bool) else text(task, "key")
    name = text(env, "name") or text(env, "id")
    if name and sample is not None:
        sample = f"{name}/{sample}"
    step = work.get("step")
    if step is not None and (not isinstance(step, int) or isinstance(step, bool)):
        raise Malformed(f"run.work.step must be a whole number, not {shown(step)}")
    validate = "eval" in (run.get("type"), work.get("type"))
    return PastPlace(sample, step, validate, text(run, "id"))


def traces_of(episode: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The traces of an episode. One in which no agent ran has an empty one, with the episode's own errors."""
    traces = objects(episode, "traces")
    if traces:
        return traces
    name = text(_object(episode, "env"), "id") or "episode"
    return [{"id": episode.get("id"), "agent": {"name": name}, "errors": episode.get("errors"), "ok": False}]


def read_trace(trace: Mapping[str, Any], episode: Mapping[str, Any], now_ns: int) -> PastTrace:
    """What a trace says, as `Trace.to_record()` or a line of `traces.jsonl` has it; it began now if it does not say."""
    trace_id = text(trace, "id")
    if not trace_id:
        raise Malformed("a trace has no id")
    timing = _object(trace, "timing")
    start_ns = _ns(timing, "start") or now_ns
    errors = [*(objects(episode, "errors") if trace.get("nodes") else ()), *objects(trace, "errors")]
    last = errors[-1] if errors and not trace.get("ok") else None
    past = PastTrace(
        trace_id,
        text(_object(trace, "agent"), "name") or "agent",
        start_ns,
        start_ns,
        "ok" if trace.get("ok") else "error" if last or trace.get("is_completed") else "ok",
        None if last is None else _error(last),
        None if last is None else text(last, "traceback"),
        _tags(trace, episode),
        errors=errors,
    )
    policy = _object(_object(_object(episode, "run"), "work"), "policy")
    nodes, calls = objects(trace, "nodes"), objects(trace, "calls")
    graph = TraceGraph(nodes, calls, start_ns, tools=trace.get("tools"), policy=policy)
    past.ops = [*phases_of(timing), *graph.ops()]
    if len(graph.leaves) > 1:
        past.tags["branches"] = len(graph.leaves)
    past.end_ns = max([start_ns, *(op.end_ns for op in past.ops)])
    _read_rewards(past, trace)
    past.advantage = mean_advantage(nodes)
    return past


def phases_of(timing: Mapping[str, Any]) -> list[PastOp]:
    """What the time of a rollout went into: booting, setting up, the agent itself, scoring."""
    phases = []
    for name in _PHASES:
        span = _object(timing, name)
        began, ended = _ns(span, "start"), _ns(span, "end")
        if began:
            outputs = {part: span[part] for part in ("model", "harness") if isinstance(span.get(part), dict)}
            phases.append(PastOp(name, "other", began, max(began, ended or began), outputs=outputs or None))
    return phases


class TraceGraph:
    """The messages of a trace, and the calls that made some of them."""

    def __init__(
        self,
        nodes: list[dict[str, Any]],
        calls: list[dict[str, Any]],
        start_ns: int,
        *,
        tools: Any = None,
        policy: Mapping[str, Any] | None = None,
    ) -> None:
        """`policy` are the versions at the `start` and at the `end`."""
        self._nodes, self._calls, self._tools, self._start_ns = nodes, calls, tools, start_ns
        self._policy = policy or {}
        self._counted = 0
        for at, node in enumerate(nodes):
            parent = node.get("parent")
            if parent is not None and (type(parent) is not int or not 0 <= parent < at):
                raise Malformed(f"nodes[{at}].parent must be an earlier node, not {shown(parent)}")
            _role(node, at)
        self.leaves = sorted(set(range(len(nodes))) - {node.get("parent") for node in nodes})
        self._branches = self._branch_of_nodes()

    def ops(self, first_node: int = 0, first_call: int = 0, *, live: bool = False) -> list[PastOp]:
        """What happened, from these nodes and calls on, in its order. Live, a reply is there before its call is."""
        by_node: dict[int, Mapping[str, Any]] = {}
        ops: list[PastOp] = []
        for call in self._calls[first_call:]:
            node = call.get("node")
            if node is None:
                ops.append(self._failed(call))
            elif type(node) is int and 0 <= node < len(self._nodes):
                by_node[node] = call
            else:
                raise Malformed(f"calls.node must be the place of a node, not {shown(node)}")
        new = range(first_node, len(self._nodes))
        sampled = sorted({*by_node, *(at for at in new if self._nodes[at].get("sampled") and not live)})
        for turn, at in enumerate(sampled):
            is_first, is_last = turn == 0 and first_call == 0, turn == len(sampled) - 1
            ops.append(self._turn(at, by_node.get(at, {}), self._version(is_first, is_last)))
        ops += [self._result(at) for at in new if _role(self._nodes[at], at) == "tool"]
        return sorted(ops, key=lambda op: op.start_ns)

    def _turn(self, at: int, call: Mapping[str, Any], version: int | None) -> PastOp:
        node, path = self._nodes[at], self._path(at)
        before = [self._nodes[each] for each in path[:-1]]
        inputs: dict[str, Any] = {"messages": [message_of(each["message"]) for each in before], **_about(call)}
        if len(self.leaves) > 1:
            inputs["branch"] = self._branches[at]
        if self._tools and len(path) <= _FIRST_TURN:
            inputs["tools"] = self._tools
        outputs: dict[str, Any] = {"message": message_of(node["message"])}
        ids, mask = _token_ids(node), [bool(each) for each in items(node, "mask")]
        if len(mask) != len(ids):
            raise Malformed(f"nodes[{at}] has {len(ids)} token_ids and {len(mask)} in its mask")
        if ids:
            prompt_ids = [each for earlier in before for each in _token_ids(earlier)]
            self._count(len(prompt_ids))
            first = mask.index(True) if True in mask else len(mask)
            inputs["prompt_ids"] = prompt_ids + ids[:first]
            outputs["response_ids"] = ids[first:]
            outputs["response_mask"] = [int(each) for each in mask[first:]]
        for name in _PER_TOKEN:
            values = _numbers(node, name)
            if values:
                outputs[name] = _spread(values, mask)
        for name in ("finish_reason", "usage", "acp"):
            if call.get(name) is not None:
                outputs[name] = call[name]
        if call.get("policy") is not None:
            outputs["mediation"] = call["policy"]
        if node.get("semantic_parents"):
            outputs["semantic_parents"] = node["semantic_parents"]
        if version is not None:
            outputs["policy_version"] = version
        return self._call(call, node, inputs, outputs)

    def _failed(self, call: Mapping[str, Any]) -> PastOp:
        """A call that gave no message."""
        return self._call(call, {}, _about(call), None)

    def _call(self, call: Mapping[str, Any], node: Mapping[str, Any], inputs: Any, outputs: Any) -> PastOp:
        start_ns, end_ns = self._times(call, node)
        error = _object(call, "error")
        op = PastOp("generate", "llm", start_ns, end_ns, inputs, outputs, is_inside=True)
        if error:
            op.status, op.error, op.traceback = "error", _error(error), text(error, "traceback")
        return op

    def _result(self, at: int) -> PastOp:
        """What a tool said. Of its call only the request is known, and when the result was seen."""
        message = self._nodes[at]["message"]
        calls = [call for each in self._path(at) for call in _tool_calls(self._nodes[each]["message"])]
        call: Mapping[str, Any] = next(
            (each for each in reversed(calls) if each.get("id") == message.get("tool_call_id")), {}
        )
        name = message.get("name") or _tool_name(call) or "tool"
        when = _ns(self._nodes[at], "timestamp") or self._start_ns
        inputs = {"arguments": call.get("arguments")} if call else None
        return PastOp(str(name), "tool", when, when, inputs, message.get("content"), is_inside=True)

    def _path(self, at: int) -> list[int]:
        """From the root to a node."""
        path = [at]
        while (parent := self._nodes[path[-1]].get("parent")) is not None:
            path.append(parent)
        self._count(len(path))
        return path[::-1]

    def _times(self, call: Mapping[str, Any], node: Mapping[str, Any]) -> tuple[int, int]:
        span = _object(call, "time")
        node_ns = _ns(node, "timestamp") or self._start_ns
        start_ns = _ns(span, "start") or node_ns
        return start_ns, max(start_ns, _ns(span, "end") or node_ns)

    def _version(self, is_first: bool, is_last: bool) -> int | None:
        """Known are the versions at the beginning and at the end."""
        start, end = self._policy.get("start"), self._policy.get("end")
        version = start if is_first or start == end else end if is_last else None
        return version if type(version) is int else None

    def _branch_of_nodes(self) -> dict[int, int]:
        """For each node the first branch, from the root to a leaf, that it is on."""
        branch_of: dict[int, int] = {}
        for branch, leaf in enumerate(self.leaves):
            at: int | None = leaf
            while at is not None and at not in branch_of:
                branch_of[at] = branch
                at = self._nodes[at].get("parent")
        return branch_of

    def _count(self, items: int) -> None:
        self._counted += items
        if self._counted > _MAX_ITEMS:
            raise Malformed(f"the prompts of a trace have over {_MAX_ITEMS:,} tokens and messages")


def _spread(values: list[float], mask: list[bool]) -> list[float]:
    """One value for each token from the first sampled one on; verifiers has them for sampled tokens only."""
    first = mask.index(True) if True in mask else len(mask)
    if sum(mask) != len(values) or all(mask[first:]):
        return values
    rest = iter(values)
    return [next(rest) if is_sampled else 0.0 for is_sampled in mask[first:]]


def _read_rewards(past: PastTrace, trace: Mapping[str, Any]) -> None:
    total, is_scored = 0.0, False
    for name, reward in _object(trace, "rewards").items():
        if reward is None:
            past.terms[name] = None
            continue
        if not isinstance(reward, dict):
            raise Malformed(f"rewards.{name} must be an object with a score, not {shown(reward)}")
        score, weight = _number(reward, "score"), _number(reward, "weight")
        past.terms[name], past.weights[name] = score, 1.0 if weight is None else weight
        if score is not None:
            total, is_scored = total + score * past.weights[name], True
    past.reward = total if is_scored else None
    past.metrics = {name: _number(_object(trace, "metrics"), name) for name in _object(trace, "metrics")}


def mean_advantage(nodes: Sequence[Mapping[str, Any]]) -> float | None:
    values = [each for node in nodes if node.get("advantages") is not None for each in _numbers(node, "advantages")]
    return math.fsum(values) / len(values) if values else None


def _tags(trace: Mapping[str, Any], episode: Mapping[str, Any]) -> dict[str, Any]:
    agent, task, env = _object(trace, "agent"), _object(episode, "task"), _object(episode, "env")
    tags = {
        "env": text(env, "name") or text(env, "id"),
        "task": task.get("key"),
        "task_type": task.get("type"),
        "task_data": task.get("data"),
        "agent": agent.get("name"),
        "trainable": agent.get("trainable"),
        "group": _object(episode, "group").get("id"),
        "episode": episode.get("id"),
        "verifiers": _object(trace, "verifiers").get("version"),
        "is_timeout": (trace.get("is_timeout") or episode.get("is_timeout")) or None,
        **{name: value for name, value in trace.items() if name not in _KNOWN and name != "is_timeout"},
    }
    return {name: value for name, value in tags.items() if value not in (None, [], {}, "")}


def message_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """As OpenAI's chat format has it; verifiers has name and arguments of a tool call beside its id."""
    plain = {name: value for name, value in message.items() if value is not None}
    calls = _tool_calls(message)
    if calls:
        plain["tool_calls"] = [tool_call(call.get("id"), _tool_name(call), call.get("arguments")) for call in calls]
    return plain


def _tool_name(call: Mapping[str, Any]) -> Any:
    space = call.get("namespace")
    return f"{space}.{call.get('name')}" if space else call.get("name")


def _tool_calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("tool_calls")
    return [each for each in calls if isinstance(each, dict)] if isinstance(calls, list) else []


def _role(node: Mapping[str, Any], at: int) -> str:
    message = node.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise Malformed(f"nodes[{at}].message must be an object with a role, not {shown(message)}")
    return str(message["role"])


def _about(call: Mapping[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in ("model", "sampling", "endpoint") if call.get(name) is not None}


def _error(error: Mapping[str, Any]) -> str:
    return f"{error.get('type') or 'Error'}: {error.get('message') or ''}"


def _object(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = record.get(name)
    if value is not None and not isinstance(value, dict):
        raise Malformed(f"{name} must be an object, not {shown(value)}")
    return value or {}


def _is_float(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) <= _MAX_FLOAT)


def _number(record: Mapping[str, Any], name: str) -> float | None:
    value = record.get(name)
    if value is not None and not _is_float(value):
        raise Malformed(f"{name} must be a number, not {shown(value)}")
    return None if value is None else float(value)


def _numbers(record: Mapping[str, Any], name: str) -> list[float]:
    values = items(record, name)
    for each in values:
        if not _is_float(each):
            raise Malformed(f"{name} must be a list of numbers, and has {shown(each)}")
    return [float(each) for each in values]


def _token_ids(node: Mapping[str, Any]) -> list[int]:
    ids = items(node, "token_ids")
    for each in ids:
        if type(each) is not int or not -_TOKEN_IDS <= each < _TOKEN_IDS:
            raise Malformed(f"token_ids must be a list of whole numbers of 32 bits, and has {shown(each)}")
    return ids


def _ns(record: Mapping[str, Any], name: str) -> int | None:
    """Seconds since 1970 as nanoseconds; None for 0, which stands for a time that never came."""
    seconds = _number(record, name)
    if seconds is not None and not 0 <= seconds < _MAX_SEC:
        raise Malformed(f"{name} must be seconds since 1970, not {shown(seconds)}")
    return int(seconds * 1e9) if seconds else None
