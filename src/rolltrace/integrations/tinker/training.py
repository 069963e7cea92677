"""Training: which batch a group is of, its advantage after the KL penalty, and whether it was trained, at which step.

Trajectories are known by the mark that their rollout left on them, which also comes back from worker processes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import BoundArguments
from pathlib import Path
from typing import Any

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.integrations.seams import Steps, hook, hooked
from rolltrace.integrations.tinker.coordinates import (
    GroupPosition,
    Positions,
    batch_positions,
    first_version,
    positions,
    versions,
)
from rolltrace.integrations.tinker.evaluation import name_evaluation
from rolltrace.integrations.tinker.group import CONSTANT
from rolltrace.integrations.tinker.rollout import MARK

is_installed = False
"""Whether tinker-cookbook was changed in this process; set by `install`."""
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


class SelfDistillation(TrainingRun):
    """The loop of self-distillation is one function without minibatches; where it starts its first client says."""

    def __init__(self) -> None:
        super().__init__(None, None)
        self._groups: Any = ()
        self._owners: Owners = {}

    def assembled(self, groups: Any, data: Any, metadata: Any) -> None:
        """These groups will be trained next."""
        self._groups, self._owners = groups, {}
        note_owners(self._owners, groups, data, metadata)

    def updated(self, data: Any) -> None:
        """They have been. Data with a teacher's distribution are others than those assembled, and have no advantage."""
        score_advantages(data, self._owners)
        if self.next_step is not None:
            self.trained(self.next_step - 1, self._groups)


def change_data(module: Any) -> None:
    """Change `tinker_cookbook.rl.data_processing`."""
    hook(module, "assemble_training_data", _note_owners_of_minibatch)
    hook(module, "remove_constant_reward_groups", _note_removed)


def change_train(module: Any) -> None:
    """Change `tinker_cookbook.rl.train`."""
    for name in ("do_sync_training", "do_sync_training_with_stream_minibatch", "do_async_training"):
        hook(module, name, _follow, always=True)
    hook(module, "run_single_evaluation", name_evaluation)
    hook(module, "save_checkpoint_and_get_sampling_client", _note_version)
    hook(module, "do_train_step_and_get_sampling_client", _note_trained)
    hook(module, "do_train_step_streaming_and_get_sampling_client", _note_streamed)
    hook(module, "prepare_minibatch", _score_minibatch)
    hook(module.WrappedTrajectoryGroup, "__init__", _note_produced)


def change_distillation(module: Any) -> None:
    """Change `tinker_cookbook.distillation.train_on_policy`, which has a training loop of its own."""
    hook(module, "do_sync_training", _follow, always=True)
    hook(module, "do_train_step_and_get_sampling_client", _note_trained)
    hook(module, "prepare_minibatch", _score_minibatch)


def change_self_distillation(module: Any) -> None:
    """Change `tinker_cookbook.distillation.sdft`. All but `main` are changed as names of the module alone."""
    hooks = {
        "assemble_training_data": _note_assembled,
        "train_step": _note_updated,
        "_train_step_reverse_kl": _note_updated,
    }
    changed = {name: hooked(getattr(module, name), work) for name, work in hooks.items()}
    hook(module, "main", _follow_self_distillation, always=True)
    for name, ours in changed.items():
        setattr(module, name, ours)


def turn_on(config: Any) -> None:
    """Turn tracing on for a training loop, if nobody has decided whether there is any."""
    if turns_on and scope.recorder is None:
        names = {"project_name": config.recipe_name, "experiment_name": Path(config.log_path).name}
        scope.turn_on({**names, "backend": "rolltrace"})


@contextmanager
def _inside(run: TrainingRun, start: int | None) -> Iterator[None]:
    """What is rolled out inside belongs to this run; `start` is the version of clients that are there already."""
    tokens = current_run.set(run), positions.set(run), first_version.set(start)
    try:
        yield
    finally:
        current_run.reset(tokens[0])
        positions.reset(tokens[1])
        first_version.reset(tokens[2])


def _follow(call: BoundArguments) -> Steps:
    arguments = call.arguments
    turn_on(arguments["config"])
    if scope.recorder is None:
        return
    mode = getattr(arguments["config"], "async_config", None)
    run = TrainingRun(arguments["start_batch"], None if mode is None else mode.max_steps_off_policy)
    arguments["dataset"] = WatchedDataset(arguments["dataset"], run)
    with _inside(run, arguments["start_batch"]):
        try:
            yield
        finally:
            run.ended()


def _follow_self_distillation(call: BoundArguments) -> Steps:
    turn_on(call.arguments["cfg"])
    if scope.recorder is None:
        return
    run = SelfDistillation()
    call.arguments["sdft_dataset"] = WatchedDataset(call.arguments["sdft_dataset"], run)
    with _inside(run, None):
        yield


def _note_assembled(call: BoundArguments) -> Steps:
    result = yield
    run = current_run.get()
    if isinstance(run, SelfDistillation):
        run.assembled(call.arguments["trajectory_groups_P"], *result)


def _note_updated(call: BoundArguments) -> Steps:
    yield
    run = current_run.get()
    if isinstance(run, SelfDistillation):
        run.updated(call.arguments["data_D"])


def _note_version(call: BoundArguments) -> Steps:
    client = (yield)[0]
    step = call.arguments["i_batch"]
    versions.add(client, step)
    run = current_run.get()
    if run is not None and run.next_step is None:  # one that says only here where it starts
        run.next_step = step


def _note_produced(call: BoundArguments) -> Steps:
    yield
    run = current_run.get()
    if run is not None:
        run.produced(call.arguments["self"])


def _note_trained(call: BoundArguments) -> Steps:
    yield
    run = current_run.get()
    if run is not None:
        run.trained(call.arguments["i_batch"], call.arguments["trajectory_groups_P"])


def _note_streamed(call: BoundArguments) -> Steps:
    run = current_run.get()
    if run is None:
        return
    is_wanted = call.arguments.get("trajectory_group_filter")
    if is_wanted is not None:
        call.arguments["trajectory_group_filter"] = functools.partial(_filter, run, is_wanted)
    result = yield
    if result is not None:
        run.trained(call.arguments["i_batch"], [each.trajectory_group for each in result[2]])


def _filter(run: TrainingRun, is_wanted: Any, wrapped: Any) -> Any:
    answer = is_wanted(wrapped)
    if not answer and wrapped is not None:
        try:
            run.discard_if_stale(wrapped)
        except Exception:
            caught("tinker training")
    return answer


def _note_removed(call: BoundArguments) -> Steps:
    remaining = {id(group) for group in (yield)}
    for group in call.arguments["trajectory_groups_P"]:
        if id(group) not in remaining:
            for trajectory in marked(group):
                rolltrace.score(trajectory, "fate", "filtered", reason=CONSTANT)


def _note_owners_of_minibatch(call: BoundArguments) -> Steps:
    result = yield
    owners = _owners.get()
    if owners is not None:
        note_owners(owners, call.arguments["trajectory_groups_P"], *result)


def note_owners(owners: Owners, groups: Any, data: Any, metadata: Any) -> None:
    """Whose data these are, as the metadata say."""
    for datum, at in zip(data, metadata):
        mark = groups[at["group_idx"]].trajectories_G[at["traj_idx"]].__dict__.get(MARK)
        if mark and mark["id"]:
            owners[id(datum)] = datum, mark["id"]


def _score_minibatch(call: BoundArguments) -> Steps:
    owners: Owners = {}
    token = _owners.set(owners)
    try:
        result = yield
    finally:
        _owners.reset(token)
    score_advantages(result[0], owners)


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
