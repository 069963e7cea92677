"""`RolloutTraceConfig`: the class that verl users know, over the same state as `init`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rolltrace import _runtime
from rolltrace.settings import Settings, spread_limits


class RolloutTraceConfig:
    """Reads and sets what `rolltrace.init` sets. `RolloutTraceConfig.init("p", "e", "rolltrace", True)`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @classmethod
    def init(
        cls,
        project_name: str | Mapping[str, Any] | None = None,
        experiment_name: str | None = None,
        backend: str | list[str] | tuple[str, ...] | None = None,
        token2text: bool | None = None,
        max_samples_per_step_per_worker: int | None = None,
        *,
        store: str | os.PathLike[str] | None = None,
        tokenizer: Any = None,
        **more: Any,
    ) -> None:
        """As `rolltrace.init`, with verl's order of arguments, and with tracing off where no backend is set."""
        arguments = {
            "project_name": project_name,
            "experiment_name": experiment_name,
            "backend": _runtime.Unset.UNSET if backend is None else backend,
            "store": store,
            "token2text": token2text,
            "tokenizer": tokenizer,
            "max_samples_per_step_per_worker": max_samples_per_step_per_worker,
            **more,
        }
        _runtime.start(spread_limits(arguments), default_backend=None)

    @classmethod
    def get_instance(cls) -> RolloutTraceConfig:
        """The settings in force; those of tracing turned off when there was no `init`."""
        runtime = _runtime.active()
        return cls(runtime.settings if runtime is not None else Settings())

    @classmethod
    def get_backend(cls) -> str | None:
        """The backend's name, several joined by commas, or None when tracing is off."""
        return cls.get_instance().backend

    @classmethod
    def get_client(cls) -> object | None:
        """Return the object that ops are recorded with, whose insides are rolltrace's own; None when tracing is off."""
        runtime = _runtime.active()
        return runtime.recorder if runtime is not None else None

    @classmethod
    def enable_token2text(cls) -> bool:
        return cls.get_instance().token2text

    @classmethod
    def reset(cls) -> None:
        """Turn tracing off and forget the settings."""
        _runtime.shutdown()

    @property
    def project_name(self) -> str:
        return self._settings.project_name

    @property
    def experiment_name(self) -> str:
        return self._settings.experiment_name

    @property
    def backend(self) -> str | None:
        return ",".join(self._settings.backend) if self._settings.backend else None

    @property
    def token2text(self) -> bool:
        return self._settings.token2text

    @property
    def max_samples_per_step_per_worker(self) -> int | None:
        return self._settings.max_samples_per_step_per_worker
