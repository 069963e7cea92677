"""`install`: each module of tinker-cookbook is changed right after it is imported, or at once if it has been already.

All changes do nothing while tracing is off. None of them raises into a training run: what did not fit is kept in
`framework.RELEASES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rolltrace
from rolltrace.integrations.after_import import waiting_for
from rolltrace.integrations.seams import replace_copies
from rolltrace.integrations.tinker import (
    environments,
    evaluation,
    group,
    messages,
    models,
    rollout,
    training,
)
from rolltrace.integrations.tinker.framework import RELEASES

SEAMS: dict[str, Callable[[Any], None]] = {
    "tinker_cookbook.renderers.base": messages.change,
    "tinker_cookbook.completers": models.change_completers,
    "tinker_cookbook.preference.types": models.change_preference_models,
    "tinker_cookbook.tool_use.tools": models.change_tools,
    "tinker_cookbook.rl.types": group.change_types,
    "tinker_cookbook.rl.rollout_runner": rollout.change,
    "tinker_cookbook.rl.rollouts": group.change_rollouts,
    "tinker_cookbook.rl.metric_util": evaluation.change,
    "tinker_cookbook.rl.data_processing": training.change_data,
    "tinker_cookbook.rl.train": training.change_train,
    "tinker_cookbook.distillation.train_on_policy": training.change_distillation,
    "tinker_cookbook.distillation.sdft": training.change_self_distillation,
    "tinker_cookbook.recipes.rubric.env": environments.change_rubric,
}
"""Module of tinker-cookbook -> what is changed there."""


def install(project_name: str | None = None, experiment_name: str | None = None, **settings: Any) -> None:
    """Record every rollout of tinker-cookbook from now on: at the top of a script, before or after other imports.

    With names or settings, tracing is turned on as by `rolltrace.init(project_name, experiment_name, **settings)`.
    Without, it is as `rolltrace.init` or the environment say; if neither says anything, `rl.train.main` turns it on,
    with the recipe's name as project and the name of its log folder as experiment. Done once per process.

    Raises:
        ConfigError: a setting is wrong, or differs from those of an earlier `init`.
    """
    if project_name is not None or experiment_name is not None or settings:
        rolltrace.init(project_name, experiment_name, **settings)
    training.turns_on = True
    _install()


@waiting_for("tinker_cookbook")
def install_when_imported() -> None:
    """As `install`, for whoever decides elsewhere whether to trace: tinker-cookbook need not be installed."""
    _install()


def _install() -> None:
    if training.is_installed:
        return
    training.is_installed = True
    in_time = [RELEASES.change(name, change) for name, change in SEAMS.items()]
    if not all(in_time):
        replace_copies()
