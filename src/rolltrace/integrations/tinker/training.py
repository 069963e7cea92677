"""Training: which batch a group is of, its advantage after the KL penalty, and whether it was trained, at which step.

Trajectories are known by the mark that their rollout left on them, which also comes back from worker processes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.integrations.tinker.coordinates import (
    GroupPosition,
    Positions,
    batch_positions,
    first_version,
    positions,
    versions,
)
from rolltrace.integrations.tinker.evaluation import named
from rolltrace.integrations.tinker.group import CONSTANT
from rolltrace.integrations.tinker.rollout import MARK
from rolltrace.integrations.tinker.seams import replace

turns_on = False
"""Whether a training loop turns tracing on if nobody has decided; set by `install`."""


Owners = dict[int, tuple[Any, str]]
"""Of data to train on: by the id of a datum, the datum and whose it is."""


class TrainingRun(Positions):
    """One training loop."""

    def __init__(self, start: int | None, most_steps_off_policy: int | None) -> None:
        super().__init__()
        self.next_step = start
        self._steps = start or 0
        """How many steps were trained, those of earlier runs included."""
        self._most_steps_off_policy = most_steps_off_policy
        self._waiting: dict[int, Any] = {}
        """Groups that are there and not yet trained, in modes with a queue: by id, as tinker-cookbook wraps them."""

    def draw(self, builder: Any) -> GroupPosition | None:
        position = super().draw(builder)
        if position is not None and position.draws > 1:  # only what was too old is put back into the queue
            old = [each for each in self._waiting.values() if each.env_group_builder is builder]
            if old:
                oldest = min(old, key=lambda each: each.sampling_client_step)
                position.next_rollout_n = max(position.next_rollout_n, _numbers_used(oldest.trajectory_group))
                self._discard(oldest)
        return position

    def produced(self, wrapped: Any) -> None:
        self._waiting[id(wrapped.trajectory_group)] = wrapped

    def trained(self, step: int, groups: Iterable[Any]) -> None:
        self._steps = step + 1
        for group in groups:
            self._waiting.pop(id(group), None)
            for trajectory in marked(group):
                rolltrace.score(trajectory, "fate", "trained", trained_step=step)

    def ended(self) -> None:
        """What was never trained will not be any more."""
        for wrapped in list(self._waiting.values()):
            self._discard(wrapped)

    def discard_if_stale(self, wrapped: Any) -> None:
        if id(wrapped.trajectory_group) in self._waiting:
            self._discard(wrapped)

    def _discard(self, wrapped: Any) -> None:
        self._waiting.pop(id(wrapped.trajectory_group), None)
        age, most = self._steps - wrapped.sampling_client_step, self._most_steps_off_policy
        if most is not None and age > most:
            why = f"stale: sampled at step {wrapped.sampling_client_step}, {age} before it could be trained"
        else:
            why = "left over at the end of training"
        for trajectory in marked(wrapped.trajectory_group):
            rolltrace.score(trajectory, "fate", "filtered", reason=why)


def marked(group: Any) -> list[str]:
    """Our ids of the trajectories of a group."""
    marks = [trajectory.__dict__.get(MARK) for trajectory in group.trajectories_G]
    return [mark["id"] for mark in marks if mark and mark["id"]]


def _numbers_used(group: Any) -> int:
    """How many rollouts a group had, if a worker process gave them their numbers."""
    marks = [trajectory.__dict__.get(MARK) or {} for trajectory in group.trajectories_G]
    numbers = [mark["rollout_n"] for mark in marks if mark.get("rollout_n") is not None]
    return max(numbers, default=-1) + 1 + len(group.rollout_errors)


current_run: ContextVar[TrainingRun | None] = ContextVar("rolltrace_tinker_run", default=None)
_owners: ContextVar[Owners | None] = ContextVar("rolltrace_tinker_owners", default=None)
"""Of the minibatch that is being prepared."""


class WatchedDataset:
    """A dataset, as the training loop sees it: which builders stand where in a batch is noted."""

    def __init__(self, dataset: Any, run: TrainingRun) -> None:
        self._dataset = dataset
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def __len__(self) -> int:
        return len(self._dataset)

    def get_batch(self, index: int) -> Any:
        batch = self._dataset.get_batch(index)
        try:
            builders: Sequence[Any] = batch[0] if isinstance(batch, tuple) else batch  # distillation says more
            self._run.add(builders, batch_positions(index, builders))
            self._run.next_step = index + 1
        except Exception:
            caught("tinker batch")
        return batch


def change_data(module: Any) -> None:
    """Change `tinker_cookbook.rl.data_processing`."""
    replace(module, "assemble_training_data", _owned)
    replace(module, "remove_constant_reward_groups", _removed)


def change_train(module: Any) -> None:
    """Change `tinker_cookbook.rl.train`."""
    for name in ("do_sync_training", "do_sync_training_with_stream_minibatch", "do_async_training"):
        replace(module, name, _followed)
    replace(module, "run_single_evaluation", named)
    replace(module, "save_checkpoint_and_get_sampling_client", _versioned)
    replace(module, "do_train_step_and_get_sampling_client", _trained)
    replace(module, "do_train_step_streaming_and_get_sampling_client", _trained_streaming)
    replace(module, "prepare_minibatch", _scored)
    replace(module.WrappedTrajectoryGroup, "__init__", _produced)


def change_distillation(module: Any) -> None:
    """Change `tinker_cookbook.distillation.train_on_policy`, which has a training loop of its own."""
    replace(module, "do_sync_training", _followed)
    replace(module, "do_train_step_and_get_sampling_client", _trained)
    replace(module, "prepare_minibatch", _scored)


def turn_on(config: Any) -> None:
    """Turn tracing on for a training loop, if nobody has decided whether there is any."""
    try:
        if turns_on and scope.recorder is None:
            names = {"project_name": config.recipe_name, "experiment_name": Path(config.log_path).name}
            scope.turn_on({**names, "backend": "rolltrace"})
    except Exception:
        caught("tinker training")


@contextmanager
def inside(run: TrainingRun, start: int | None) -> Iterator[None]:
    """What is rolled out inside belongs to this run; `start` is the version of clients that are there already."""
    tokens = current_run.set(run), positions.set(run), first_version.set(start)
    try:
        yield
    finally:
        current_run.reset(tokens[0])
        positions.reset(tokens[1])
        first_version.reset(tokens[2])


def _followed(theirs: Any) -> Any:
    order = inspect.signature(theirs)

    @functools.wraps(theirs)
    async def training(*args: Any, **kwargs: Any) -> Any:
        bound = order.bind(*args, **kwargs)
        arguments = bound.arguments
        turn_on(arguments["config"])
        if scope.recorder is None:
            return await theirs(*args, **kwargs)
        mode = getattr(arguments["config"], "async_config", None)
        run = TrainingRun(arguments["start_batch"], None if mode is None else mode.max_steps_off_policy)
        arguments["dataset"] = WatchedDataset(arguments["dataset"], run)
        with inside(run, arguments["start_batch"]):
            try:
                return await theirs(*bound.args, **bound.kwargs)
            finally:
                guarded(run.ended)

    return training


def _versioned(theirs: Any) -> Any:
    order = inspect.signature(theirs)

    @functools.wraps(theirs)
    async def save_and_get(*args: Any, **kwargs: Any) -> Any:
        result = await theirs(*args, **kwargs)
        if scope.recorder is not None:
            guarded(lambda: _note_version(result[0], order.bind(*args, **kwargs).arguments["i_batch"]))
        return result

    return save_and_get


def _note_version(client: Any, step: int) -> None:
    versions.add(client, step)
    run = current_run.get()
    if run is not None and run.next_step is None:  # one that says only here where it starts
        run.next_step = step


def _produced(theirs: Any) -> Any:
    @functools.wraps(theirs)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        theirs(self, *args, **kwargs)
        run = current_run.get()
        if run is not None and scope.recorder is not None:
            guarded(lambda: run.produced(self))

    return init


def _trained(theirs: Any) -> Any:
    order = inspect.signature(theirs)

    @functools.wraps(theirs)
    async def train_step(*args: Any, **kwargs: Any) -> Any:
        result = await theirs(*args, **kwargs)
        run = current_run.get()
        if run is not None and scope.recorder is not None:
            arguments = order.bind(*args, **kwargs).arguments
            guarded(lambda: run.trained(arguments["i_batch"], arguments["trajectory_groups_P"]))
        return result

    return train_step


def _trained_streaming(theirs: Any) -> Any:
    order = inspect.signature(theirs)

    @functools.wraps(theirs)
    async def train_step(*args: Any, **kwargs: Any) -> Any:
        run = current_run.get()
        if run is None or scope.recorder is None:
            return await theirs(*args, **kwargs)
        bound = order.bind(*args, **kwargs)
        is_wanted = bound.arguments.get("trajectory_group_filter")
        if is_wanted is not None:
            bound.arguments["trajectory_group_filter"] = functools.partial(_filter, run, is_wanted)
        result = await theirs(*bound.args, **bound.kwargs)
        if result is not None:
            step, wrapped = bound.arguments["i_batch"], result[2]
            guarded(lambda: run.trained(step, [each.trajectory_group for each in wrapped]))
        return result

    return train_step


def _filter(run: TrainingRun, is_wanted: Any, wrapped: Any) -> Any:
    answer = is_wanted(wrapped)
    if not answer and wrapped is not None:
        guarded(lambda: run.discard_if_stale(wrapped))
    return answer


def _removed(theirs: Any) -> Any:
    @functools.wraps(theirs)
    def remove_constant_reward_groups(trajectory_groups_P: Any) -> Any:
        remaining = theirs(trajectory_groups_P)
        if scope.recorder is not None:
            guarded(lambda: _filter_missing(trajectory_groups_P, remaining))
        return remaining

    return remove_constant_reward_groups


def _filter_missing(groups: Iterable[Any], remaining: Iterable[Any]) -> None:
    ids = {id(group) for group in remaining}
    for group in groups:
        if id(group) not in ids:
            for trajectory in marked(group):
                rolltrace.score(trajectory, "fate", "filtered", reason=CONSTANT)


def _owned(theirs: Any) -> Any:
    @functools.wraps(theirs)
    def assemble_training_data(trajectory_groups_P: Any, advantages_P: Any) -> Any:
        result = theirs(trajectory_groups_P, advantages_P)
        owners = _owners.get()
        if owners is not None:
            guarded(lambda: note_owners(owners, trajectory_groups_P, *result))
        return result

    return assemble_training_data


def note_owners(owners: Owners, groups: Any, data: Any, metadata: Any) -> None:
    """Whose data these are, as the metadata say."""
    for datum, at in zip(data, metadata):
        mark = groups[at["group_idx"]].trajectories_G[at["traj_idx"]].__dict__.get(MARK)
        if mark and mark["id"]:
            owners[id(datum)] = datum, mark["id"]


def _scored(theirs: Any) -> Any:
    @functools.wraps(theirs)
    async def prepare_minibatch(*args: Any, **kwargs: Any) -> Any:
        if scope.recorder is None:
            return await theirs(*args, **kwargs)
        owners: Owners = {}
        token = _owners.set(owners)
        try:
            result = await theirs(*args, **kwargs)
        finally:
            _owners.reset(token)
        guarded(lambda: score_advantages(result[0], owners))
        return result

    return prepare_minibatch


def score_advantages(data: Iterable[Any], owners: Owners) -> None:
    """The mean over all tokens that are trained on, in all data of a trajectory, as it goes into the loss."""
    totals: dict[str, tuple[float, float]] = {}
    for datum in data:
        _, trajectory = owners.get(id(datum), (None, ""))
        if not trajectory:
            continue
        inputs = datum.loss_fn_inputs
        mask = inputs["mask"].to_torch()
        total, count = totals.get(trajectory, (0.0, 0.0))
        total += float((inputs["advantages"].to_torch() * mask).sum())
        totals[trajectory] = total, count + float(mask.sum())
    for trajectory, (total, count) in totals.items():
        if count:
            rolltrace.score(trajectory, "advantage", total / count)


def guarded(work: Any) -> None:
    """Do something that must not disturb the training."""
    try:
        work()
    except Exception:
        caught("tinker training")
