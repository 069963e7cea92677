"""`init`, `open`, `flush`: what a program calls first, and what it calls to look at its traces."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from rolltrace import _guard, _runtime
from rolltrace._announce import warn_of_unknown_variables
from rolltrace._runtime import Unset
from rolltrace.capture import scope
from rolltrace.errors import ConfigError, RolltraceError
from rolltrace.journal import JournalWriter, start_drainer
from rolltrace.settings import Settings, spread_limits

if TYPE_CHECKING:
    from rolltrace.query import Store

DEFAULT_BACKEND = "rolltrace"
_LOOK_FOR_DRAINER_SEC = 2.0


def init(
    project_name: str | Mapping[str, Any] | None = None,
    experiment_name: str | None = None,
    backend: str | list[str] | tuple[str, ...] | Literal[Unset.UNSET] | None = Unset.UNSET,
    *,
    config: Mapping[str, Any] | None = None,
    run: str | None = None,
    store: str | os.PathLike[str] | None = None,
    token2text: bool | None = None,
    tokenizer: Any = None,
    max_samples_per_step_per_worker: int | None = None,
    drain: Literal["process", "thread", "off"] | None = None,
    durable: bool | None = None,
    share: Literal["private", "group"] | None = None,
    quiet: bool | None = None,
    limits: Mapping[str, Any] | None = None,
    **unknown: NoReturn,
) -> None:
    """Turn tracing on: `rolltrace.init("my-project", "my-experiment")`.

    What is not given comes from the config, then from the environment, then from the defaults
    (docs/reference/config.md). Traces go to the embedded store, unless the backend is `None` or "off", here, in
    `ROLLTRACE_BACKEND` or in the config: then tracing stays off.
    A second call with the same settings does nothing; with others it raises.

    Args:
        project_name: What the work is called; or a whole Hydra config, or a dict of that shape.
        experiment_name: What this experiment is called.
        backend: `"rolltrace"`, another installed backend, a list of several, or None for no tracing.
        config: A Hydra config with `actor_rollout_ref.rollout.trace.*` and `trainer.project_name`.
        run: One id for all processes of a training job; found out or made if not given.
        store: The store: a folder, or an address such as `s3://bucket/prefix`; `~/.rolltrace` if not given.
        token2text: Keep decoded text beside token ids.
        tokenizer: Of ops whose object has none: a tokenizer, a tokenizer.json, or a folder with one in it. Turns
            `token2text` on.
        max_samples_per_step_per_worker: How many samples each worker traces in a step; all if not given.
        drain: Where journals become the store: "process", "thread" or "off".
        durable: Wait for the disk at the end of each trajectory.
        share: Who may read and write a new store: "private" or "group".
        quiet: Do not say at the start where traces go.
        limits: Limits and the other settings of docs/reference/config.md by name, such as
            `{"max_bytes": "8MiB", "checks": "off"}`. Most of them are rather set in the environment.

    Raises:
        ConfigError: a setting is wrong, or differs from those of an earlier `init`.
        BackendError: a backend is not installed.
        StoreError: the store folder cannot be written.
    """
    arguments = dict(locals())  # each parameter by its name, and what has none
    arguments.update(arguments.pop("unknown"))
    _runtime.start(spread_limits(arguments), default_backend=DEFAULT_BACKEND)


def init_from_environment() -> None:
    """At import: `ROLLTRACE_BACKEND=rolltrace python train.py` traces, and so do all its worker processes.

    An explicit `init` later takes its place. Never raises: an import must not fail over a variable.
    """
    warn_of_unknown_variables()
    if not os.environ.get("ROLLTRACE_BACKEND"):
        return
    try:
        _runtime.activate(Settings.gather({}), from_environment=True)
    except RolltraceError as error:
        _guard.logger.error("tracing stays off: the environment has a wrong setting: %s", error)


def open(store: str | os.PathLike[str] | None = None) -> Store:
    """A store to ask: `rolltrace.open().trajectories(step=3, where="reward < 0.5")`.

    Args:
        store: The store folder, or its address, such as `s3://bucket/prefix`; if not given, that of `init`, else of
            `ROLLTRACE_STORE`, else `~/.rolltrace`.

    Raises:
        StoreError: there is no store in this folder.
        FormatError: it was written by a newer rolltrace.
    """
    from rolltrace.query import open_store  # loads the column libraries: never in a rollout that does not ask

    runtime = _runtime.active()
    if store is None and runtime is not None:
        store = runtime.settings.store
    return open_store(Settings.gather({"store": store}).store.expanduser())


def flush(timeout: float | None = 30.0) -> bool:
    """Wait until everything recorded so far is in the store; False if that took longer than `timeout` seconds.

    Readers see it within seconds anyway, and a kill loses nothing: this is for handing a finished store on. It does not
    wait for other backends. With `drain="off"` it waits until the journal is on the disk itself.
    """
    if timeout is not None and not isinstance(timeout, int | float):
        raise ConfigError(f"timeout must be a number of seconds or None, not {timeout!r}")
    recorder = scope.recorder
    if recorder is None:
        return True
    deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
    sink = recorder.sink
    if recorder.tokenizers is not None:
        recorder.tokenizers.texts.wait(min(deadline - time.monotonic(), threading.TIMEOUT_MAX))
    if isinstance(sink, JournalWriter):
        sink.turn_over()  # losses are told when their file is sealed
    if recorder.settings.drain == "off" or not isinstance(sink, JournalWriter):
        done: list[bool] = []
        waiter = threading.Thread(target=lambda: done.append(sink.sync()), name="rolltrace-flush", daemon=True)
        waiter.start()
        waiter.join(timeout)
        return done == [True]
    waiting = sink.sealed_files()
    looked_at = 0.0
    while any(path.exists() for path in waiting):
        now = time.monotonic()
        if now > deadline:
            return False
        if recorder.settings.drain == "process" and now > looked_at + _LOOK_FOR_DRAINER_SEC:
            start_drainer(recorder.settings.store)
            looked_at = now
        time.sleep(0.02)
    return True
