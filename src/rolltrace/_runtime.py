"""What one `init` makes, from its settings to its end; owns what is on and off.

One `Runtime` at a time, in `_active`. A forked child keeps it, with a journal of its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from rolltrace import _guard, _job, backends
from rolltrace._announce import announce, warn_of_frameworks, warn_of_unknown_variables
from rolltrace._launch import drain_in_thread, start_drainer_in_background, wait_for_start
from rolltrace.capture import SAMPLE_LIMIT, Recorder, follow_threads, scope
from rolltrace.errors import ConfigError
from rolltrace.journal import JournalWriter
from rolltrace.pass_rule import PassRule, write_rule
from rolltrace.settings import OFF, Settings, check_names, variable_of


class Unset(Enum):
    """A backend that was not given, which is not the same as None."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return self.value


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
    internal_errors: dict[str, int] = field(default_factory=dict)
    """Internal errors of rolltrace, by kind."""

    @property
    def lost(self) -> int:
        """All losses together."""
        return sum(sum(steps.values()) for steps in self.losses.values())


class Runtime:
    """The settings of one `init` and, when tracing is on, the recorder made from them."""

    def __init__(self, settings: Settings, *, from_environment: bool = False) -> None:
        self.settings = settings
        self.from_environment = from_environment
        self.joined_ns = time.time_ns()
        """When this process, or the one that it was forked from, joined the run."""
        self.recorder: Recorder | None = None
        self._draining = 0
        self._pass_is_stored = False
        if settings.backend is not None:
            backends.check(settings.backend)
            self.recorder = Recorder(settings, self._open_journal(), store=settings.store)

    def _open_journal(self) -> JournalWriter:
        settings = self.settings
        meta = {
            "project": settings.project_name[:200],
            "experiment": settings.experiment_name[:200],
            "run": settings.run,
            "run_ns": self.joined_ns,
            "backends": [name[:40] for name in settings.backend or ()][:8],
            "token2text": settings.token2text,
            "checks": settings.checks,
        }
        return JournalWriter(
            settings.store,
            meta,
            segment_bytes=settings.segment_bytes,
            max_unsent_bytes=settings.max_unsent_bytes,
            on_new_segment=self._see_to_draining,
            share=settings.share,
            journals=settings.journal,
        )

    def _see_to_draining(self) -> None:
        """Called when a journal file begins, in whatever thread writes."""
        self._store_pass_rule()
        if self.from_environment:
            announce(self.settings)  # not at import, which may be that of a program that records nothing
        if self.settings.drain == "process":
            start_drainer_in_background(self.settings.store)
        elif self.settings.drain == "thread" and self._draining != os.getpid():
            self._draining = os.getpid()
            drain_in_thread(self.settings.store)

    def _store_pass_rule(self) -> None:
        """What `init` says of pass goes to the store with the first record, once in a process."""
        settings = self.settings
        if self._pass_is_stored or (settings.pass_term is None and settings.pass_threshold is None):
            return
        self._pass_is_stored = True
        rule = PassRule.of(settings.pass_term, settings.pass_threshold)
        try:
            write_rule(settings.store, settings.project_name, settings.experiment_name, rule, run=settings.run)
        except Exception:
            _guard.caught("pass rule")


_active: Runtime | None = None
last_settings: Settings | None = None
"""Those that were last in force with tracing on: `rolltrace run` says at the end what is in their store."""
_last_stats: Stats | None = None
_closes_in_children = False
_lock = threading.RLock()


def start(arguments: dict[str, Any], *, default_backend: str | None) -> None:
    """What `init` does. Arguments that are None are not given, but `backend`: that is `Unset.UNSET` then."""
    project_name, config = arguments["project_name"], arguments.pop("config", None)
    if isinstance(project_name, Mapping):
        if config is not None:
            raise ConfigError("pass the config only once: as the first argument or as config=")
        arguments["project_name"], config = None, project_name
    check_names(arguments)
    if arguments["backend"] is None:
        arguments["backend"] = OFF
    elif arguments["backend"] is Unset.UNSET:
        has_default = config is None and not os.environ.get(variable_of("backend"))
        arguments["backend"] = default_backend if has_default else None
    warn_of_unknown_variables()
    warn_of_frameworks()
    if activate(Settings.gather(arguments, config)) and _active is not None and _active.recorder is not None:
        announce(_active.settings)


def activate(settings: Settings, *, from_environment: bool = False) -> bool:
    """Make these the settings in force; whether they were not so already."""
    global _active, _last_stats, last_settings
    with _lock:
        settings = _with_run(settings)
        if _active is not None:
            difference = _active.settings.difference(settings)
            if not difference:
                return False
            if not _active.from_environment:
                pairs = (f"{name} is {mine!r:.200}, not {theirs!r:.200}" for name, (mine, theirs) in difference.items())
                raise ConfigError(
                    f"rolltrace is already set up, and {'; '.join(pairs)}. Call rolltrace.shutdown() first"
                )
        fresh = Runtime(settings, from_environment=from_environment)  # before the old one goes: it may raise
        if _active is not None:
            _close(_active)
        _active = fresh
        if _active.recorder is not None:
            last_settings = settings
            follow_threads()
            _close_in_multiprocessing_children()
        _last_stats = None
        scope.recorder = _active.recorder
        return True


def _with_run(settings: Settings) -> Settings:
    """The settings with the run that they belong to: a second `init` that names none means the same as the first."""
    if settings.backend is None:
        return settings
    run = settings.run or (_active.settings.run if _active is not None else None)
    return replace(settings, run=_job.run_of_this_job(run))


def _turn_on(settings: dict[str, Any]) -> bool:
    """As another process of the job has it, unless this one has settings of its own."""
    if _active is None and settings:
        start({"project_name": None, "backend": Unset.UNSET, **settings}, default_backend=None)
    return scope.recorder is not None


def shutdown() -> None:
    """Turn tracing off and close the journal. `init` may be called again."""
    global _active
    with _lock:
        ended, _active, scope.recorder = _active, None, None
        if ended is not None:
            _close(ended)
        _job.end_run()
        _guard.report()


def _close(runtime: Runtime) -> None:
    global _last_stats
    if runtime.recorder is None:
        return
    runtime.recorder.close()
    wait_for_start(2.0)
    _last_stats = stats_of(runtime)
    losses = stats_of(runtime).losses
    losses.pop(SAMPLE_LIMIT, None)  # asked for: counted and shown, but not worth a warning
    if losses:
        _guard.logger.warning("rolltrace lost records (reason, step, how many): %s", losses)


def stats() -> Stats:
    """What this process has recorded and lost since `init`; after `shutdown`, what it had by then."""
    if _active is None and _last_stats is not None:
        return replace(_last_stats, internal_errors=dict(_guard.internal_errors))
    return stats_of(_active)


def stats_of(runtime: Runtime | None) -> Stats:
    if runtime is None or runtime.recorder is None:
        return Stats(internal_errors=dict(_guard.internal_errors))
    sink = runtime.recorder.sink
    losses = {reason: dict(steps) for reason, steps in sink.losses.items()}
    return Stats(sink.records, sink.bytes, losses, runtime.recorder.cuts, dict(_guard.internal_errors))


def active() -> Runtime | None:
    return _active


def _close_in_multiprocessing_children() -> None:
    """Its children leave without `atexit`, but run finalisers; these must be made after the fork."""
    global _closes_in_children
    if _closes_in_children:
        return
    _closes_in_children = True
    from multiprocessing import process, util

    util.register_after_fork(util, lambda _: util.Finalize(None, shutdown, exitpriority=100))
    if process.parent_process() is not None:
        util.Finalize(None, shutdown, exitpriority=100)  # a spawned child, which is one already


def _start_over_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    if _active is not None and _active.recorder is not None:
        _active.recorder.start_over_in_child()


scope.turn_on = _turn_on
os.register_at_fork(after_in_child=_start_over_in_child)
