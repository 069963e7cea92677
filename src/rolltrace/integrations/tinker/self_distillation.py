"""Self-distillation, `tinker_cookbook.distillation.sdft`: its training loop is one function, and has no minibatches."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from rolltrace.capture import scope
from rolltrace.integrations.tinker.seams import replace
from rolltrace.integrations.tinker.training import (
    Owners,
    TrainingRun,
    WatchedDataset,
    current_run,
    guarded,
    inside,
    note_owners,
    score_advantages,
    turn_on,
)


class SelfDistillation(TrainingRun):
    """One training loop. Where it starts is known when it has its first sampling client."""

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


def change(module: Any) -> None:
    """Change `tinker_cookbook.distillation.sdft`. All but `main` are names of the module alone."""
    assemble, train, train_reverse = (
        module.assemble_training_data,
        module.train_step,
        module._train_step_reverse_kl,
    )
    replace(module, "main", _followed)
    module.assemble_training_data = _assembled(assemble)
    module.train_step, module._train_step_reverse_kl = _trained(train), _trained(train_reverse)


def _followed(theirs: Any) -> Any:
    order = inspect.signature(theirs)

    @functools.wraps(theirs)
    async def main(*args: Any, **kwargs: Any) -> Any:
        bound = order.bind(*args, **kwargs)
        turn_on(bound.arguments["cfg"])
        if scope.recorder is None:
            return await theirs(*args, **kwargs)
        run = SelfDistillation()
        bound.arguments["sdft_dataset"] = WatchedDataset(bound.arguments["sdft_dataset"], run)
        with inside(run, None):
            return await theirs(*bound.args, **bound.kwargs)

    return main


def _run() -> SelfDistillation | None:
    run = current_run.get()
    return run if isinstance(run, SelfDistillation) and scope.recorder is not None else None


def _assembled(theirs: Any) -> Any:
    @functools.wraps(theirs)
    def assemble_training_data(trajectory_groups_P: Any, advantages_P: Any) -> Any:
        result = theirs(trajectory_groups_P, advantages_P)
        run = _run()
        if run is not None:
            guarded(lambda: run.assembled(trajectory_groups_P, *result))
        return result

    return assemble_training_data


def _trained(theirs: Any) -> Any:
    order = inspect.signature(theirs)

    @functools.wraps(theirs)
    async def train_step(*args: Any, **kwargs: Any) -> Any:
        result = await theirs(*args, **kwargs)
        run = _run()
        if run is not None:
            guarded(lambda: run.updated(order.bind(*args, **kwargs).arguments["data_D"]))
        return result

    return train_step
