"""`init`, `flush`, `shutdown`, `stats`: joins the stages, and owns what is on and off.

One `Runtime` at a time, in `_active`. A forked child keeps it, with a journal of its own.
"""

from __future__ import annotations

import atexit
import os
import shlex
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from rolltrace import _guard, _job, backends
from rolltrace._launch import drain_in_thread, start_drainer, start_drainer_in_background, wait_for_start
from rolltrace.capture import SAMPLE_LIMIT, Recorder, follow_threads
from rolltrace.capture import scope as _scope
from rolltrace.errors import ConfigError, RolltraceError
from rolltrace.journal import JournalWriter
from rolltrace.settings import OFF, Settings, check_names, unknown_variables, variable_of

if TYPE_CHECKING:
    from rolltrace.query import Store

DEFAULT_BACKEND = "rolltrace"
_LOOK_FOR_DRAINER_SEC = 2.0
_ANNOUNCED = "_ROLLTRACE_ANNOUNCED"
"""The environment variable that keeps child processes from saying once more where traces go."""


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
        self.joined_ns = time.time_ns()
        """When this process, or the one that it was forked from, joined the run."""
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
            "run": settings.run,
            "run_ns": self.joined_ns,
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
        if self.from_environment:
            _announce()  # not at import, which may be that of a program that records nothing
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
    backend: str | list[str] | tuple[str, ...] | Literal[Unset.UNSET] | None = Unset.UNSET,
    *,
    config: Mapping[str, Any] | None = None,
    run: str | None = None,
    store: str | os.PathLike[str] | None = None,
    token2text: bool | None = None,
    tokenizer: Any = None,
    max_samples_per_step_per_worker: int | None = None,
    sample_seed: int | None = None,
    drain: Literal["process", "thread", "off"] | None = None,
    checks: str | None = None,
    max_bytes: int | str | None = None,
    max_items: int | None = None,
    max_depth: int | None = None,
    max_array_bytes: int | str | None = None,
    max_stream_items: int | None = None,
    max_unsent_bytes: int | str | None = None,
    segment_bytes: int | str | None = None,
    durable: bool | None = None,
    journal_mode: Literal["auto", "mmap", "append"] | None = None,
    share: Literal["private", "group"] | None = None,
    quiet: bool | None = None,
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
        store: The store folder, `~/.rolltrace` if not given.
        token2text: Keep decoded text beside token ids.
        tokenizer: Of ops whose object has none: a tokenizer, a tokenizer.json, or a folder with one in it. Turns
            `token2text` on.
        max_samples_per_step_per_worker: How many samples each worker traces in a step; all if not given.
        sample_seed: Which samples these are.
        drain: Where journals become the store: "process", "thread" or "off".
        checks: Which problems are looked for: "all", "off", or names.
        max_bytes: The most bytes of inputs, and of outputs, that one op keeps.
        max_items: The most items kept of one container.
        max_depth: How deep nested values are kept.
        max_array_bytes: Larger arrays keep shape, dtype and statistics only.
        max_stream_items: How many items of a generator are kept; those of an `llm` op are limited by `max_bytes` only.
        max_unsent_bytes: How much undrained journal may lie on the disk.
        segment_bytes: The size of one journal file.
        durable: Wait for the disk at the end of each trajectory.
        journal_mode: "mmap", "append", or "auto" to find out.
        share: Who may read and write a new store: "private" or "group".
        quiet: Do not say at the start where traces go.

    Raises:
        ConfigError: a setting is wrong, or differs from those of an earlier `init`.
        BackendError: a backend is not installed.
        StoreError: the store folder cannot be written.
    """
    arguments = dict(locals())  # each parameter by its name, and what has none
    arguments.update(arguments.pop("unknown"))
    start(arguments, default_backend=DEFAULT_BACKEND)


def start(arguments: dict[str, Any], *, default_backend: str | None) -> None:
    """What `init` does. Arguments that are None are not given, but `backend`: that is `Unset.UNSET` then."""
    project_name, config = arguments["project_name"], arguments.pop("config", None)
    if isinstance(project_name, Mapping):
        if config is not None:
            raise ConfigError("give the config once: as first argument or as config=")
        arguments["project_name"], config = None, project_name
    check_names(arguments)
    if arguments["backend"] is None:
        arguments["backend"] = OFF
    elif arguments["backend"] is Unset.UNSET:
        has_default = config is None and not os.environ.get(variable_of("backend"))
        arguments["backend"] = default_backend if has_default else None
    _warn_of_unknown_variables()
    _warn_of_missing_plugin()
    if _activate(Settings.gather(arguments, config)):
        _announce()


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


def _activate(settings: Settings, *, from_environment: bool = False) -> bool:
    """Make these the settings in force; whether they were not so already."""
    global _active, _last_stats
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
            follow_threads()
            _close_in_multiprocessing_children()
        _last_stats = None
        _scope.recorder = _active.recorder
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
    return _scope.recorder is not None


def _announce() -> None:
    """Say where traces go: once in a job, by its first process."""
    runtime = _active
    if runtime is None or runtime.recorder is None or runtime.settings.quiet:
        return
    if _job.is_child() or os.environ.get(_ANNOUNCED, str(os.getpid())) != str(os.getpid()):
        return
    os.environ[_ANNOUNCED] = str(os.getpid())
    if sys.stderr is None:
        return
    settings = runtime.settings
    where = "" if settings.store == Settings().store.expanduser() else f" {shlex.quote(str(settings.store))}"
    sys.stderr.write(
        f"rolltrace: recording {settings.project_name} / {settings.experiment_name} in {settings.store} "
        f"(run {settings.run}); look with: rolltrace ls{where}\n"
    )


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
        StoreError: there is no store in this folder.
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
    with _lock:
        ended, _active, _scope.recorder = _active, None, None
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
    from multiprocessing import process, util

    util.register_after_fork(util, lambda _: util.Finalize(None, shutdown, exitpriority=100))
    if process.parent_process() is not None:
        util.Finalize(None, shutdown, exitpriority=100)  # a spawned child, which is one already


def _start_over_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    if _active is not None and _active.recorder is not None:
        _active.recorder.start_over_in_child()


_scope.turn_on = _turn_on
os.register_at_fork(after_in_child=_start_over_in_child)
atexit.register(shutdown)
