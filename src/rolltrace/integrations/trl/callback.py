"""`RolltraceCallback`: the same as `attach`, for those who rather name a callback."""

from __future__ import annotations

import sys
from typing import Any

from transformers import TrainerCallback

from rolltrace._guard import logger
from rolltrace.integrations.trl.trainer import attach, detach, ended


class RolltraceCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not in every environment
    """Record every rollout of the trainer that this callback is given to.

        trainer = GRPOTrainer(..., callbacks=[RolltraceCallback()])

    Args:
        project_name, experiment_name, **settings: As of `attach`.
    """

    def __init__(self, project_name: str | None = None, experiment_name: str | None = None, **settings: Any) -> None:
        self._arguments = project_name, experiment_name, settings
        self._trainer: Any = None

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._attach()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._attach()  # if it was added to a trainer that was there already

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._trainer is not None:
            ended(self._trainer)

    def detach(self) -> None:
        """Stop recording: the trainer is again as it was."""
        if self._trainer is not None:
            detach(self._trainer)
            self._trainer.remove_callback(self)
            self._trainer = None

    def _attach(self) -> None:
        if self._trainer is not None:
            return
        trainer = self._find_trainer()
        if trainer is None:
            logger.warning(
                "RolltraceCallback found no trainer to record; write rolltrace.integrations.trl.attach(trainer) instead"
            )
            return
        project, experiment, settings = self._arguments
        attach(trainer, project, experiment, **settings)
        self._trainer = trainer

    def _find_trainer(self) -> Any:
        """A callback is not told whose it is: look which of our callers has it."""
        frame = sys._getframe()
        while frame is not None:
            owner = frame.f_locals.get("self")
            callbacks = getattr(getattr(owner, "callback_handler", None), "callbacks", ())
            if any(each is self for each in callbacks):
                return owner
            frame = frame.f_back  # type: ignore[assignment]
        return None
