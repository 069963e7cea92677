"""One rollout: `run_rollout` is where every rollout of tinker-cookbook passes, and what it returns is the last word.

The runner may end an episode without the environment, and then rewrites or makes up the last transition. So a
transition is recorded when the environment has stepped, and compared with the returned `Trajectory` at the end.
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from dataclasses import dataclass, field
from inspect import BoundArguments
from typing import TYPE_CHECKING, Any

from msgspec import Raw

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import describe_failure, encoded_trace, scope, status_of
from rolltrace.integrations.seams import Steps, hook, replace
from rolltrace.integrations.tinker.environments import Adapter, adapter_of, converters_of, grades
from rolltrace.integrations.tinker.evaluation import evaluating
from rolltrace.integrations.tinker.framework import RELEASES
from rolltrace.integrations.tinker.messages import Listener, Parsed, listening, parse

if TYPE_CHECKING:
    from rolltrace.integrations.tinker.group import Group

MARK = "_rolltrace"
"""The attribute of a `Trajectory` that says which of ours it is. It goes along when the trajectory is pickled."""
_STOP = "stop/"
"""How metrics that say why an episode ended begin."""

current: ContextVar[Rollout | None] = ContextVar("rolltrace_tinker_rollout", default=None)
group_of: ContextVar[Group | None] = ContextVar("rolltrace_tinker_group", default=None)


@dataclass
class _Step:
    """A turn that is going on."""

    prompt: Raw | None
    state: Raw | None = None
    action: Any = None
    parsed: Parsed | None = None
    response: Raw | None = None
    """As a function of the user's has it."""


@dataclass
class _Recorded:
    """What was recorded of a transition: copies, because the runner changes the metrics in place."""

    reward: Any
    episode_done: bool
    metrics: dict[str, Any] = field(default_factory=dict)
    logs: dict[str, Any] = field(default_factory=dict)
    stop_reason: str | None = None


class Rollout:
    """A rollout that is recorded."""

    def __init__(self, run: Any, group: Group | None, *, reads_responses: bool = False) -> None:
        self.run = run
        self.group = group
        self.is_over = False
        self._reads_responses = reads_responses
        """Whether no response is left to the group's reward to read."""
        self.env, self.convert = converters_of(run.env)
        self.adapter: Adapter = adapter_of(self.env)
        self.renderer = getattr(self.env, "renderer", None) or getattr(self.env, "policy_renderer", None)
        self.tokenizer = getattr(self.renderer, "tokenizer", None)
        """Where `token2text` looks for it."""
        self.listener = Listener(self._parsed)
        policy = getattr(run, "parse_errors", None) or getattr(self.env, "parse_error_policy", None)
        self.may_be_masked = bool(getattr(policy, "mask_error_turns", False))
        """Whether a turn may be left out of training, which is known after its op: metric `parse_error_masked`."""
        self.handle: rolltrace.capture.TrajectoryHandle = rolltrace.capture.TrajectoryHandle(None)
        self.rollout_n: int | None = None
        self.failure: BaseException | None = None
        self._step: _Step | None = None
        self._recorded: list[_Recorded] = []
        self.entry = self._entry()
        """The trajectory, with its coordinates; to be entered once."""

    def _entry(self) -> rolltrace.rollout_trace_attr:
        tags: dict[str, Any] = {}
        step = sample_index = None
        validate = False
        of_group = self.group
        if of_group is not None:
            at = of_group.position
            step, sample_index, validate, self.rollout_n = at.step, at.sample_index, at.validate, at.next()
            tags = of_group.tags
        else:
            during = evaluating.get()
            if during is not None:
                step, validate, tags = during.step, True, {"evaluator": during.name}
            sample_index = getattr(self.env, "example_id", None)
        name = type(getattr(self.env, "message_env", self.env)).__name__
        return rolltrace.rollout_trace_attr(sample_index, step, self.rollout_n, name, validate, **tags)

    @rolltrace.rollout_trace_op(
        name="policy",
        kind="llm",
        inputs=lambda arguments: _asked(arguments["run"], arguments["budget"]),
        outputs=lambda output: _answer(output),
    )
    async def sample(self, call_policy: Any, run: Any, budget: Any) -> Any:
        return await call_policy(run, budget)

    def before_sampling(self, observation: Any) -> None:
        try:
            rendered = self.listener.take(observation)
            if rendered is None and self.group is not None:
                rendered = self.group.rendered_before(observation)
            self._step = _Step(None if rendered is None else rendered.messages)
        except Exception:
            caught("tinker observation")

    def before_step(self, action: Any) -> None:
        try:
            recorder = scope.recorder
            if recorder is None or self._step is None:
                return
            self._step.action = action
            self.listener.begin_step()
            self.listener.forget()
            self.listener.expect(action)
            grades.set([])
            env, convert = self.env, self.convert
            self._step.state = self._taken("state", convert.state or self.adapter.state, env)
            if convert.prompt is not None:
                self._step.prompt = self._taken("prompt", convert.prompt, env)
            if convert.response is not None:
                self._step.response = self._taken("response", convert.response, env, action)
        except Exception:
            caught("tinker step")

    def after_step(self, result: Any) -> None:
        try:
            step, self._step = self._step, None
            if step is None or scope.recorder is None:
                return
            stop_reason = _stop_reason(result.metrics) if result.episode_done else None
            metrics, logs = dict(result.metrics), dict(result.logs)
            recorded = _Recorded(result.reward, result.episode_done, metrics, logs, stop_reason)
            self._write(self._parts(step, result), recorded)
        except Exception:
            caught("tinker step")

    def overflowed(self, first: Any) -> None:
        """The first observation is too long: there is no step at all."""
        try:
            metrics, logs = dict(first.metrics), dict(first.logs)
            recorded = _Recorded(first.reward, True, metrics, logs, _stop_reason(metrics))
            parts = self._parts_of_no_turn()
            reward_data = self._taken("reward_data", self.adapter.reward_data, self.env, first)
            if reward_data is not None:
                parts["reward_data"] = reward_data
            self._write(parts, recorded)
        except Exception:
            caught("tinker step")

    def finished(self, trajectory: Any) -> None:
        """The runner has returned: its transitions are what counts."""
        try:
            if self._step is not None:
                self.handle.note("the last turn was cut off and is not part of the trajectory")
            last = len(trajectory.transitions) - 1
            for turn, native in enumerate(trajectory.transitions):
                stop_reason = trajectory.stop_reason if turn == last else None
                final = _Recorded(
                    native.reward, native.episode_done, dict(native.metrics), dict(native.logs), stop_reason
                )
                if turn < len(self._recorded):
                    self._amend(turn, self._recorded[turn], final)
                else:
                    self._write(self._parts_of_no_turn(), final)
            trajectory.__dict__[MARK] = {"id": self.handle.id, "rollout_n": self.rollout_n}
        except Exception:
            caught("tinker trajectory")

    def failed(self, failure: BaseException) -> None:
        """The rollout ends with an exception: what the policy saw and said is recorded all the same."""
        self.failure = failure
        try:
            step, self._step = self._step, None
            if step is None:
                return
            error = describe_failure(failure)
            reason = "cancelled" if status_of(failure) == "cancelled" else type(failure).__name__
            fields = {"type": error.type, "message": error.message, "traceback": error.traceback}
            self.handle.transition(encoded_trace(self._parts(step, None)), stop_reason=reason, error=fields)
        except Exception:
            caught("tinker step")

    def _parsed(self, tokens: Any, parsed: Parsed) -> None:
        if self._step is not None:
            self._step.parsed = parsed

    def _parts(self, step: _Step, result: Any) -> dict[str, Raw]:
        recorder = scope.recorder
        parsed = step.parsed
        self.listener.forget()
        if parsed is None and step.response is None and step.action:
            by_group = self.adapter.parsed_by_group and not self._reads_responses
            if by_group and self.group is not None and result is not None:
                self.group.expect_response(self, step.action)
            else:
                parsed = parse(self.renderer, step.action)
        extra: dict[str, Any] = {} if parsed is None else {"termination": parsed.termination}
        reward_data = None
        if result is not None:
            after = self.listener.last
            if after is not None and after.added is not None:
                extra["next_messages"] = after.added
            for more in (self.adapter.extra, self.convert.extra):
                added = None if more is None else self._called("extra", more, self.env, result)
                extra.update(added if isinstance(added, dict) else {} if added is None else {"extra": added})
            of_reward = self.convert.reward_data or self.adapter.reward_data
            reward_data = self._taken("reward_data", of_reward, self.env, result)
        parts = {
            "prompt": step.prompt,
            "policy_response": step.response or (None if parsed is None else parsed.message),
            "reward_data": reward_data,
            "env_state": step.state,
            "extra": Raw(recorder.snapshot(extra)) if extra and recorder is not None else None,
        }
        return {name: value for name, value in parts.items() if value is not None}

    def _parts_of_no_turn(self) -> dict[str, Raw]:
        """Of a transition that the runner made up: there is only what the policy would have seen."""
        shown = self.listener.last
        state = self._taken("state", self.convert.state or self.adapter.state, self.env)
        prompt = None if shown is None else shown.messages
        if self.convert.prompt is not None:
            prompt = self._taken("prompt", self.convert.prompt, self.env)
        parts = {"prompt": prompt, "env_state": state}
        return {name: value for name, value in parts.items() if value is not None}

    def _called(self, what: str, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except Exception:
            caught(f"tinker {what}")
            return None

    def _taken(self, what: str, function: Any, *args: Any) -> Raw | None:
        value, recorder = self._called(what, function, *args), scope.recorder
        return None if value is None or recorder is None else Raw(recorder.snapshot(value))

    def _write(self, parts: dict[str, Raw], recorded: _Recorded) -> None:
        self.handle.transition(
            encoded_trace(parts),
            reward=recorded.reward,
            episode_done=recorded.episode_done,
            metrics=recorded.metrics,
            logs=recorded.logs,
            stop_reason=recorded.stop_reason,
        )
        self._recorded.append(recorded)

    def _amend(self, turn: int, recorded: _Recorded, final: _Recorded) -> None:
        changed: dict[str, Any] = {
            name: getattr(final, name)
            for name in ("reward", "episode_done", "stop_reason")
            if not _same(getattr(recorded, name), getattr(final, name))
        }
        for name in ("metrics", "logs"):
            before, after = getattr(recorded, name), getattr(final, name)
            different = {
                key: after.get(key)  # None for one that was taken away
                for key in {**before, **after}
                if (key in before) != (key in after) or not _same(before[key], after[key])
            }
            if different:
                changed[name] = different
        if changed:
            self.handle.amend_transition(turn=turn, **changed)


def _same(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)


def _stop_reason(metrics: Any) -> str | None:
    """As the runner reads it."""
    return next((name.removeprefix(_STOP) for name in metrics if name.startswith(_STOP)), None)


def _asked(run: Any, budget: Any) -> dict[str, Any]:
    temperature = getattr(run.policy, "temperature", None)
    sampling = {"max_tokens": budget or getattr(run.policy, "max_tokens", None), "temperature": temperature}
    return {**prompt_of(run.ob), **{name: value for name, value in sampling.items() if value is not None}}


def prompt_of(observation: Any) -> dict[str, Any]:
    """The token ids of an observation or, if there are images among them, what stands where."""
    chunks = observation.chunks
    try:
        ids: list[int] = []
        for chunk in chunks:
            ids.extend(chunk.tokens)
        return {"prompt_ids": ids}
    except AttributeError:
        return {"prompt_chunks": [getattr(chunk, "tokens", None) or _place_of(chunk) for chunk in chunks]}


def _place_of(chunk: Any) -> dict[str, Any]:
    return {"type": getattr(chunk, "type", type(chunk).__name__), "length": getattr(chunk, "length", None)}


def _answer(output: Any) -> dict[str, Any]:
    rollout = current.get()
    version = None if rollout is None or rollout.group is None else rollout.group.version
    answer = {
        "response_ids": output.tokens,
        "logprobs": output.maybe_logprobs,
        "finish_reason": output.stop_reason,
        "policy_version": version,
    }
    if rollout is not None and not rollout.may_be_masked:
        answer["response_mask"] = [1] * len(output.tokens)
    return answer


class WatchedEnv:
    """The environment, as the runner sees it: all but these methods are its own."""

    __slots__ = ("_env", "_rollout")

    def __init__(self, env: Any, rollout: Rollout) -> None:
        self._env = env
        self._rollout = rollout

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    async def initial_observation(self) -> Any:
        first = await self._env.initial_observation()
        if not isinstance(first, tuple):
            self._rollout.overflowed(first)
        return first

    async def step(self, action: Any, **kwargs: Any) -> Any:
        self._rollout.before_step(action)
        result = await self._env.step(action, **kwargs)
        self._rollout.after_step(result)
        return result


def change(module: Any) -> None:
    """Change `tinker_cookbook.rl.rollout_runner`: the class behind `run_rollout`, which others hold copies of."""
    hook(module._RolloutRun, "run", _record)
    replace(module._RolloutRun, "_call_policy", _sampled)


def _record(call: BoundArguments) -> Steps:
    if scope.current.get() is scope.MUTED:
        return
    RELEASES.warn()
    run = call.arguments["self"]
    rollout = _begun(run)
    if rollout is None:
        return
    with rollout.entry as handle:
        if not handle.traced:  # one that is not among those to be kept
            trajectory = yield
            trajectory.__dict__[MARK] = {"id": "", "rollout_n": rollout.rollout_n}
            return
        rollout.handle = handle
        env, run.env = run.env, WatchedEnv(rollout.env, rollout)
        tokens = current.set(rollout), listening.set(rollout.listener)
        try:
            trajectory = yield
        except BaseException as failure:
            rollout.failed(failure)
            raise
        finally:
            current.reset(tokens[0])
            listening.reset(tokens[1])
            run.env = env
        rollout.finished(trajectory)


def _begun(run: Any) -> Rollout | None:
    try:
        group = group_of.get()
        rollout = Rollout(run, group)
        if group is not None:
            group.rollouts.append(rollout)
        return rollout
    except Exception:
        caught("tinker rollout")
        return None


def _sampled(theirs: Any) -> Any:
    @functools.wraps(theirs)
    async def call_policy(self: Any, budget: Any) -> Any:
        rollout = current.get()
        if rollout is None or rollout.run is not self:
            return await theirs(self, budget)
        rollout.before_sampling(self.ob)
        return await rollout.sample(theirs, self, budget)

    return call_policy
