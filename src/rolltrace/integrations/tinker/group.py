"""A group of rollouts: where it stands, its rewards once all are there, and what became of those that are left out.

Rollouts belong to the group by context, so that neither the order in which they finish nor retries matter. What the
group's reward says is matched to a rollout by the `Trajectory` that the runner returned for it, never by position.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import BoundArguments
from typing import Any

from msgspec import Raw

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import encoded_trace, scope
from rolltrace.integrations.seams import Steps, hook, replace_in_subclasses
from rolltrace.integrations.tinker import pool
from rolltrace.integrations.tinker.coordinates import GroupPosition, draw_position, version_of
from rolltrace.integrations.tinker.messages import Listener, Parsed, Rendered, listening, parse
from rolltrace.integrations.tinker.rollout import MARK, Rollout, group_of, prompt_of

CONSTANT = "all rewards of the group are the same"
_WITHOUT_COMPARISON = ("tinker_cookbook.rl.types", "tinker_cookbook.rl.problem_env")
"""Whose `compute_group_rewards` gives nothing but zeros."""


class Group:
    """A group that is being rolled out."""

    def __init__(self, builder: Any, position: GroupPosition, version: int | None) -> None:
        self.builder = builder
        self.position = position
        self.version = version
        self.rollouts: list[Rollout] = []
        """In the order in which they began, retries included."""
        self.listener = Listener(self._parsed)
        self.is_entered = False
        self.trajectory_group: Any = None
        """The `TrajectoryGroup` that was made last."""
        self.failure: BaseException | None = None
        self._unread: list[tuple[Rollout, Any]] = []
        """Rollouts whose response the group's reward will read: with its tokens."""
        self.tags: dict[str, Any] = {}
        if position.evaluator is not None:
            self.tags["evaluator"] = position.evaluator
        tags = builder.logging_tags()
        if tags:
            self.tags["tags"] = list(tags)

    @property
    def is_traced(self) -> bool:
        """Whether any of its rollouts is recorded: there may be a limit of samples."""
        return any(rollout.handle.traced for rollout in self.rollouts)

    def rendered_before(self, observation: Any) -> Rendered | None:
        """The messages of an observation that was made before the rollout began, by whoever made the environments."""
        return self.listener.find(observation)

    def expect_response(self, rollout: Rollout, tokens: Any) -> None:
        self._unread.append((rollout, tokens))
        self.listener.expect(tokens)

    def _parsed(self, tokens: Any, parsed: Parsed) -> None:
        for at, (rollout, expected) in enumerate(self._unread):
            if expected is tokens:
                del self._unread[at]
                _add_response(rollout, parsed)
                return

    def settled(self, result: Any, *, filters: bool) -> None:
        """The group is over. `filters` says that a group of None was left out, and is not trained."""
        try:
            for rollout, tokens in self._unread:
                parsed = parse(rollout.renderer, tokens)
                if parsed is not None:
                    _add_response(rollout, parsed)
            group = self.trajectory_group if result is None else result
            rewarded = self._reward(group) if group is not None and self.failure is None else set()
            for rollout in self.rollouts:
                if not rollout.handle.traced or self.position.validate:
                    continue
                if rollout.handle.id not in rewarded:
                    _filter(rollout.handle, _why_failed(rollout, self.failure))
                elif filters and result is None:
                    _filter(rollout.handle, CONSTANT)
        except Exception:
            caught("tinker group")

    def _reward(self, group: Any) -> set[str]:
        """Give each trajectory its reward, as the trainer has it. Returns those that have one."""
        handles = {rollout.handle.id: rollout.handle for rollout in self.rollouts if rollout.handle.traced}
        rewarded = set()
        rows = zip(group.trajectories_G, group.get_total_rewards(), group.final_rewards_G, group.metrics_G)
        for index, (trajectory, total, final, metrics) in enumerate(rows):
            handle = handles.get(trajectory.__dict__.get(MARK, {}).get("id", ""))
            if handle is None and MARK not in trajectory.__dict__:  # the recipe has a rollout of its own
                handle = _record_afterwards(trajectory, self.position, self.tags, self.version)
            if handle is None or not handle.traced:
                continue
            rewarded.add(handle.id)
            handle.reward(total, terms={"steps": total - final, "group": final})
            if trajectory.__dict__[MARK]["rollout_n"] != index:  # some strategies have them in the order of completion
                rolltrace.score(handle, "traj_idx", index)
            if final or metrics:
                reward_trace = rolltrace.RolloutTrace(reward_data={**metrics, "group_reward": final})
                rolltrace.capture.backfill([handle], {handle.id: reward_trace})
        return rewarded


def _add_response(rollout: Rollout, parsed: Parsed) -> None:
    recorder = scope.recorder
    if recorder is None or not rollout.handle.traced:
        return
    parts = {"policy_response": parsed.message, "extra": Raw(recorder.snapshot({"termination": parsed.termination}))}
    rolltrace.capture.backfill([rollout.handle], {rollout.handle.id: encoded_trace(parts)})


def _why_failed(rollout: Rollout, failure: BaseException | None) -> str:
    if rollout.failure is not None:
        return f"the rollout failed: {type(rollout.failure).__name__}"
    return "the group failed" if failure is None else f"the group failed: {type(failure).__name__}"


def _filter(handle: rolltrace.capture.TrajectoryHandle, why: str) -> None:
    rolltrace.score(handle, "fate", "filtered", reason=why)


def _record_afterwards(
    trajectory: Any, position: GroupPosition, tags: dict[str, Any], version: int | None
) -> rolltrace.capture.TrajectoryHandle | None:
    """Record at once what a recipe with rollouts of its own returns. There are no times, no messages: only tokens."""
    try:
        number = position.next()
        entry = rolltrace.rollout_trace_attr(
            position.sample_index, position.step, number, "rollout", position.validate, recorded="afterwards", **tags
        )
        with entry as handle:
            last = len(trajectory.transitions) - 1
            for turn, transition in enumerate(trajectory.transitions):
                _policy(transition, version)
                handle.transition(
                    reward=transition.reward,
                    episode_done=transition.episode_done,
                    metrics=dict(transition.metrics),
                    logs=dict(transition.logs),
                    stop_reason=trajectory.stop_reason if turn == last else None,
                )
        trajectory.__dict__[MARK] = {"id": handle.id, "rollout_n": number}
        return handle
    except Exception:
        caught("tinker trajectory")
        return None


@rolltrace.rollout_trace_op(name="policy", kind="llm", inputs=lambda arguments: prompt_of(arguments["transition"].ob))
def _policy(transition: Any, version: int | None) -> dict[str, Any]:
    tokens = transition.ac.tokens
    return {
        "response_ids": tokens,
        "logprobs": transition.ac.maybe_logprobs,
        "response_mask": [1] * len(tokens),
        "finish_reason": transition.ac.stop_reason,
        "policy_version": version,
    }


def change_types(module: Any) -> None:
    """Change `tinker_cookbook.rl.types`."""
    hook(module.TrajectoryGroup, "__init__", _notice)
    replace_in_subclasses(module.EnvGroupBuilder, "compute_group_rewards", _of_group)


def change_rollouts(module: Any) -> None:
    """Change `tinker_cookbook.rl.rollouts`."""
    hook(module, "_do_group_rollout_and_filter_constant_reward_impl", _follow_filtered)
    hook(module, "do_group_rollout", _follow_group)
    pool.change(module)


@contextmanager
def opened(builder: Any, policy: Any) -> Iterator[Group | None]:
    """The group of this builder, for as long as it is rolled out; None if that could not be found out."""
    group = _begun(builder, policy)
    if group is None:
        yield None
        return
    tokens = group_of.set(group), listening.set(group.listener)
    try:
        yield group
    except BaseException as failure:
        group.failure = failure
        group.settled(None, filters=False)
        raise
    finally:
        group_of.reset(tokens[0])
        listening.reset(tokens[1])


def _begun(builder: Any, policy: Any) -> Group | None:
    try:
        sent = pool.received.get()
        if sent is not None:
            return Group(builder, sent.position, sent.version)
        return Group(builder, draw_position(builder), version_of(policy))
    except Exception:
        caught("tinker group")
        return None


def _follow_filtered(call: BoundArguments) -> Steps:
    if scope.current.get() is scope.MUTED:
        return
    with opened(call.arguments["env_group_builder"], call.arguments["sampling_client"]) as group:
        result = yield
        if group is not None:
            group.settled(result, filters=True)


def _follow_group(call: BoundArguments) -> Steps:
    builder, outer = call.arguments["env_group_builder"], group_of.get()
    if scope.current.get() is scope.MUTED:
        return
    if outer is not None and outer.builder is builder and not outer.is_entered:
        outer.is_entered = True
        try:
            yield
        except Exception as failure:
            outer.failure = failure
            raise
        return
    with opened(builder, call.arguments["policy"]) as group:
        result = yield
        if group is not None:
            group.settled(result, filters=False)


def _notice(call: BoundArguments) -> Steps:
    """A group that is left out because all its rewards are the same is returned to nobody."""
    yield
    group = group_of.get()
    if group is not None:
        group.trajectory_group = call.arguments["self"]


def _of_group(theirs: Any) -> Any:
    if theirs.__module__ in _WITHOUT_COMPARISON:
        return theirs

    async def compute_group_rewards(self: Any, *args: Any, **kwargs: Any) -> Any:
        group = group_of.get()
        if scope.recorder is None or group is None or scope.current.get() is not None or not group.is_traced:
            return await theirs(self, *args, **kwargs)
        at = group.position
        with rolltrace.rollout_trace_group(sample_index=at.sample_index, step=at.step, validate=at.validate):
            return await theirs(self, *args, **kwargs)

    return compute_group_rewards
