"""`traced(config)`: the same training, with environments that record themselves and nothing of tinker-cookbook changed.

What stands outside of an environment cannot be known in this way: logprobs, policy versions, which iteration an
evaluation is of, ends that the runner decides, rewards that are clamped after the group's, what was trained and when.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any

import chz
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, RLDataset, RLDatasetBuilder

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.errors import ConfigError
from rolltrace.integrations.tinker import training
from rolltrace.integrations.tinker.coordinates import GroupPosition, batch_positions
from rolltrace.integrations.tinker.messages import HeardRenderer
from rolltrace.integrations.tinker.rollout import Rollout, prompt_of

_RENDERERS = ("renderer", "policy_renderer")


def traced(config: Any) -> Any:
    """The config of `rl.train.main`, with a dataset whose environments record each step.

        config = traced(config)

    For whoever does not want `install()`. Tracing is turned on with `rolltrace.init` or the environment.

    Raises:
        ConfigError: `install()` was called: everything would be recorded twice.
    """
    if training.is_installed:
        raise ConfigError("traced(config) and install() would record every rollout twice; leave out one of them")
    return chz.replace(config, dataset_builder=TracedDatasetBuilder(dataset_builder=config.dataset_builder))


@chz.chz
class TracedDatasetBuilder(RLDatasetBuilder):  # type: ignore[misc]
    """Builds datasets whose groups are traced."""

    dataset_builder: RLDatasetBuilder

    async def __call__(self) -> tuple[RLDataset, RLDataset | None]:
        train, test = await self.dataset_builder()
        return TracedDataset(train), None if test is None else TracedDataset(test, validate=True)


class TracedDataset(RLDataset):  # type: ignore[misc]
    """A dataset whose groups are traced."""

    def __init__(self, dataset: RLDataset, *, validate: bool = False) -> None:
        self._dataset = dataset
        self._validate = validate

    def __len__(self) -> int:
        return len(self._dataset)

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        builders = self._dataset.get_batch(index)
        places = batch_positions(index, builders)
        if self._validate:  # asked for once, and evaluated again and again
            places = [GroupPosition(None, f"test/{index}/{at}", True, "test") for at in range(len(builders))]
        return [TracedGroupBuilder(builder, place) for builder, place in zip(builders, places)]


class TracedGroupBuilder(EnvGroupBuilder):  # type: ignore[misc]
    """The builder of a group whose environments record themselves."""

    def __init__(self, builder: EnvGroupBuilder, position: GroupPosition) -> None:
        self.builder = builder
        self.position = position
        self.version = None
        self.rollouts: list[Rollout] = []
        self.tags = {"tags": builder.logging_tags()}

    def rendered_before(self, observation: Any) -> None:
        """Messages that were rendered before the rollout are not known."""

    async def make_envs(self) -> Sequence[Env]:
        return [TracedEpisode(env, self) for env in await self.builder.make_envs()]

    async def compute_group_rewards(self, trajectory_group: list[Any], env_group: Sequence[Any]) -> Any:
        episodes = list(env_group)
        result = await self.builder.compute_group_rewards(trajectory_group, [each.env for each in episodes])
        for trajectory, episode, (final, metrics) in zip(trajectory_group, episodes, result):
            episode.rewarded(sum(step.reward for step in trajectory.transitions), final, metrics)
        return result

    async def cleanup(self) -> None:
        await self.builder.cleanup()

    def logging_tags(self) -> list[str]:
        return list(self.builder.logging_tags())


class TracedEpisode(Env):  # type: ignore[misc]
    """An environment that records its episode."""

    def __init__(self, env: Env, group: TracedGroupBuilder) -> None:
        self.env = env
        self._group = group
        self._rollout: Rollout | None = None
        self._context = copy_context()
        """In which its ops are recorded: between two steps the caller is elsewhere."""
        self._observation: Any = None

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.env, name)

    async def initial_observation(self) -> Any:
        rollout = self._begin()
        try:
            result = await self.env.initial_observation()
        except BaseException as failure:
            self._end(failure)
            raise
        if rollout is not None and not isinstance(result, tuple):
            rollout.overflowed(result)
            self._end(None)
        elif isinstance(result, tuple):
            self._observation = result[0]
        return result

    async def step(self, action: Any, *, extra: Any = None) -> Any:
        rollout = self._rollout
        if rollout is None:
            return await self.env.step(action, extra=extra)
        rollout.before_sampling(self._observation)
        self._context.run(_sampled, self._observation, action, extra)
        rollout.before_step(action)
        try:
            result = await self.env.step(action, extra=extra)
        except BaseException as failure:
            rollout.failed(failure)
            self._end(failure)
            raise
        rollout.after_step(result)
        self._observation = result.next_observation
        if result.episode_done:
            self._end(None)
        return result

    def rewarded(self, steps: float, final: float, metrics: Any) -> None:
        rollout = self._rollout
        if rollout is None or not rollout.handle.traced:
            return
        self._end(None)  # the runner may have ended the episode
        rollout.handle.reward(steps + final, terms={"steps": steps, "group": final})
        if final or metrics:
            reward_trace = rolltrace.RolloutTrace(reward_data={**metrics, "group_reward": final})
            rolltrace.capture.backfill([rollout.handle], {rollout.handle.id: reward_trace})

    def _begin(self) -> Rollout | None:
        if scope.recorder is None or scope.current.get() is scope.MUTED:
            return None
        try:
            rollout: Any = Rollout(SimpleNamespace(env=self.env), self._group, reads_responses=True)
            rollout.handle = self._context.run(rollout.entry.__enter__)
            if not rollout.handle.traced:
                return None
            for name in _RENDERERS:
                if hasattr(self.env, name):
                    setattr(self.env, name, HeardRenderer(getattr(self.env, name), rollout.listener))
            self._rollout = rollout
            return self._rollout
        except Exception:
            caught("tinker episode")
            return None

    def _end(self, failure: BaseException | None) -> None:
        rollout = self._rollout
        if rollout is None or rollout.is_over:
            return
        rollout.is_over = True
        kind = None if failure is None else type(failure)
        self._context.run(rollout.entry.__exit__, kind, failure, None)


@rolltrace.rollout_trace_op(name="policy", kind="llm", inputs=lambda arguments: prompt_of(arguments["observation"]))
def _sampled(observation: Any, action: Any, extra: Any) -> dict[str, Any]:
    return {"response_ids": action, "finish_reason": (extra or {}).get("stop_reason")}
