"""`init`, `flush`, `shutdown`, `stats`: joins the stages, and owns what is on and off.

One `Runtime` at a time, in `_active`. A forked child keeps it, with a journal of its own.
"""

from __future__ import annotations

import atexit
import inspect
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rolltrace import _guard, backends
from rolltrace._launch import drain_in_thread, start_drainer, start_drainer_in_background, wait_for_start
from rolltrace.capture import SAMPLE_LIMIT, Recorder, follow_threads
from rolltrace.capture import scope as _scope
from rolltrace.errors import ConfigError, RolltraceError
from rolltrace.journal import JournalWriter
from rolltrace.settings import Settings, unknown_variables

if TYPE_CHECKING:
    from rolltrace.query import Store

_LOOK_FOR_DRAINER_SEC = 2.0


@dataclass(frozen=True)
class Stats:
    """What this process has recorded since `init`."""

    records: int = 0
    """Records saved."""
    bytes: int = 0
    """Their size."""
    losses: dict[str, dict[str, int]] = field(default_factory=dict)
    """Records that were not saved: reason -> step ('' for none) -> how many."""
    cuts: int = 0
    """Values cut by a limit; what was kept is marked."""
    faults: dict[str, int] = field(default_factory=dict)
    """Faults of rolltrace itself, by kind."""

    @property
    def lost(self) -> int:
        """All losses together."""
        return sum(sum(steps.values()) for steps in self.losses.values())


class Runtime:
    """The settings of one `init` and, when tracing is on, the recorder made from them."""

    def __init__(self, settings: Settings, *, from_environment: bool = False) -> None:
        self.settings = settings
        self.from_environment = from_environment
        self.recorder: Recorder | None = None
        self._draining = 0
        if settings.backend is not None:
            backends.check(settings.backend)
            self.recorder = Recorder(settings, self._open_journal(), store=settings.store)

    def _open_journal(self) -> JournalWriter:
        settings = self.settings
        meta = {
            "project": settings.project_name[:200],
            "experiment": settings.experiment_name[:200],
            "backends": [name[:40] for name in settings.backend or ()][:8],
            "token2text": settings.token2text,
            "checks": settings.checks,
        }
        return JournalWriter(
            settings.store,
            meta,
            mode=settings.journal_mode,
            segment_bytes=settings.segment_bytes,
            max_unsent_bytes=settings.max_unsent_bytes,
            on_new_segment=self._see_to_draining,
            share=settings.share,
        )

    def _see_to_draining(self) -> None:
        """Called when a journal file begins, in whatever thread writes."""
        if self.settings.drain == "process":
            start_drainer_in_background(self.settings.store)
        elif self.settings.drain == "thread" and self._draining != os.getpid():
            self._draining = os.getpid()
            drain_in_thread(self.settings.store)


_active: Runtime | None = None
_last_stats: Stats | None = None
_closes_in_children = False
_lock = threading.RLock()


def init(
    project_name: str | Mapping[str, Any] | None = None,
    experiment_name: str | None = None,
    backend: str | list[str] | tuple[str, ...] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    store: str | os.PathLike[str] | None = None,
    token2text: bool | None = None,
    tokenizer: Any = None,
    max_samples_per_step_per_worker: int | None = None,
    drain: str | None = None,
    **limits: Any,
) -> None:
    """Turn tracing on: `rolltrace.init("my-project", "run-1", "rolltrace")`.

    With no backend, here or in `ROLLTRACE_BACKEND`, tracing stays off. What is not given comes from the
    config, then from the environment, then from the defaults (docs/reference/config.md).
    A second call with the same settings does nothing; with others it raises.

    Args:
        project_name: What the work is called; or a whole Hydra config, or a dict of that shape.
        experiment_name: What this run of it is called.
        backend: `"rolltrace"`, another installed backend, or a list of several.
        config: A Hydra config with `actor_rollout_ref.rollout.trace.*` and `trainer.project_name`.
        store: The store folder, `~/.rolltrace` if not given.
        token2text: Keep decoded text beside token ids.
        tokenizer: Of ops whose object has none: a tokenizer, a tokenizer.json, or a folder with one in it. Turns
            `token2text` on.
        max_samples_per_step_per_worker: How many samples each worker traces in a step; all if not given.
        drain: Where journals become the store: "process", "thread" or "off".
        **limits: Any other setting of docs/reference/config.md, such as `max_bytes`.

    Raises:
        ConfigError: a setting is wrong, or differs from those of an earlier `init`.
        BackendError: a backend is not installed.
        StoreError: the store folder cannot be written.
    """
    if isinstance(project_name, Mapping):
        if config is not None:
            raise ConfigError("give the config once: as first argument or as config=")
        project_name, config = None, project_name
    _check_names(limits)
    arguments = {
        "project_name": project_name,
        "experiment_name": experiment_name,
        "backend": backend,
        "store": store,
        "token2text": token2text,
        "tokenizer": tokenizer,
        "max_samples_per_step_per_worker": max_samples_per_step_per_worker,
        "drain": drain,
        **limits,
    }
    _warn_of_unknown_variables()
    _warn_of_missing_plugin()
    _activate(Settings.gather(arguments, config))


_warned: set[str] = set()


def _warn_of_unknown_variables() -> None:
    for name, near in unknown_variables().items():
        if name not in _warned:
            _warned.add(name)
            hint = f"; did you mean {near[0]}?" if near else ""
            _guard.logger.warning("the environment variable %s is no setting of rolltrace%s", name, hint)


def _warn_of_missing_plugin() -> None:
    """verl does not say so when a plug-in fails to load, or is not wanted."""
    if "verl" in sys.modules and "rolltrace.integrations.verl.plugin" not in sys.modules and "verl" not in _warned:
        _warned.add("verl")
        _guard.logger.warning("verl is here, but has not loaded rolltrace's plug-in; see: rolltrace doctor --verl")


def _check_names(limits: dict[str, Any]) -> None:
    known = {name for name in Settings.__dataclass_fields__ if name not in inspect.signature(init).parameters}
    unknown = sorted(set(limits) - known)
    if unknown:
        raise ConfigError(f"init has no setting {unknown[0]!r}; there are: {', '.join(sorted(known))}")


def _activate(settings: Settings, *, from_environment: bool = False) -> None:
    global _active, _last_stats
    with _lock:
        if _active is not None:
            difference = _active.settings.difference(settings)
            if not difference:
                return
            if not _active.from_environment:
                pairs = (f"{name} is {mine!r:.200}, not {theirs!r:.200}" for name, (mine, theirs) in difference.items())
                raise ConfigError(
                    f"rolltrace is already set up, and {'; '.join(pairs)}. Call rolltrace.shutdown() first"
                )
        fresh = Runtime(settings, from_environment=from_environment)  # before the old one goes: it may raise
        if _active is not None:
            shutdown()
        _active = fresh
        if _active.recorder is not None:
            follow_threads()
            _close_in_multiprocessing_children()
        _last_stats = None
        _scope.recorder = _active.recorder


def init_from_environment() -> None:
    """At import: `ROLLTRACE_BACKEND=rolltrace python train.py` traces, and so do all its worker processes.

    An explicit `init` later takes its place. Never raises: an import must not fail over a variable.
    """
    _warn_of_unknown_variables()
    if not os.environ.get("ROLLTRACE_BACKEND"):
        return
    try:
        _activate(Settings.gather({}), from_environment=True)
    except RolltraceError as fault:
        _guard.logger.error("tracing stays off, because the environment cannot be used: %s", fault)


def open(store: str | os.PathLike[str] | None = None) -> Store:
    """A store to ask: `rolltrace.open().trajectories(step=3, where="reward < 0.5")`.

    Args:
        store: The store folder; if not given, that of `init`, else of `ROLLTRACE_STORE`, else `~/.rolltrace`.

    Raises:
        StoreError: there is no such folder.
        FormatError: it was written by a newer rolltrace.
    """
    from rolltrace.query import open_store  # loads the column libraries: never in a rollout that does not ask

    if store is None and _active is not None:
        store = _active.settings.store
    return open_store(Settings.gather({"store": store}).store.expanduser())


def flush(timeout: float | None = 30.0) -> bool:
    """Wait until everything recorded so far is in the store; False if that took longer than `timeout` seconds.

    Readers see it before that, and a kill loses nothing: this is for handing a finished store on. It does not wait for
    other backends. With `drain="off"` it waits until the journal is on the disk itself.
    """
    if timeout is not None and not isinstance(timeout, int | float):
        raise ConfigError(f"timeout must be a number of seconds or None, not {timeout!r}")
    recorder = _scope.recorder
    if recorder is None:
        return True
    deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
    sink = recorder.sink
    if recorder.tokenizers is not None:
        recorder.tokenizers.texts.wait(min(deadline - time.monotonic(), threading.TIMEOUT_MAX))
    if recorder.settings.drain == "off" or not isinstance(sink, JournalWriter):
        done: list[bool] = []
        waiter = threading.Thread(target=lambda: done.append(sink.sync()), name="rolltrace-flush", daemon=True)
        waiter.start()
        waiter.join(timeout)
        return done == [True]
    sink.turn_over()
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


def shutdown() -> None:
    """Turn tracing off and close the journal. `init` may be called again."""
    global _active
    global _last_stats
    with _lock:
        ended, _active, _scope.recorder = _active, None, None
        if ended is not None and ended.recorder is not None:
            ended.recorder.close()
            wait_for_start(2.0)
            _last_stats = stats_of(ended)
            losses = stats_of(ended).losses
            losses.pop(SAMPLE_LIMIT, None)  # asked for: counted and shown, but not worth a warning
            if losses:
                _guard.logger.warning("rolltrace lost records (reason, step, how many): %s", losses)
        _guard.report()


def stats() -> Stats:
    """What this process has recorded and lost since `init`; after `shutdown`, what it had by then."""
    if _active is None and _last_stats is not None:
        return replace(_last_stats, faults=dict(_guard.faults))
    return stats_of(_active)


def stats_of(runtime: Runtime | None) -> Stats:
    if runtime is None or runtime.recorder is None:
        return Stats(faults=dict(_guard.faults))
    sink = runtime.recorder.sink
    losses = {reason: dict(steps) for reason, steps in sink.losses.items()}
    return Stats(sink.records, sink.bytes, losses, runtime.recorder.cuts, dict(_guard.faults))


def active() -> Runtime | None:
    return _active


def _close_in_multiprocessing_children() -> None:
    """Its children leave without `atexit`, but run finalisers; these must be made after the fork."""
    global _closes_in_children
    if _closes_in_children:
        return
    _closes_in_children = True
    from multiprocessing import util

    util.register_after_fork(util, lambda _: util.Finalize(None, shutdown, exitpriority=100))


def _start_over_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    if _active is not None and _active.recorder is not None:
        _active.recorder.start_over_in_child()


os.register_at_fork(after_in_child=_start_over_in_child)
atexit.register(shutdown)
