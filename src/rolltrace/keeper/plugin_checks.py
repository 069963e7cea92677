"""Other people's checks: functions that are given a whole trajectory once it has ended, found by entry point.

    [project.entry-points."rolltrace.checks"]
    many_searches = "my_package.checks:many_searches"

Whoever drains remembers which trajectories ended in a batch, in a small file beside the journals, until
they are checked. What is found is committed under the name of that file: after a kill at any point, nothing is lost and
nothing is there twice. An error in a plug-in costs its look at one trajectory, which is flagged `check_failed`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rolltrace._guard import internal_errors, logger
from rolltrace.drain import Ended, Finding, Redactor, Row, TableRows, fit_row
from rolltrace.errors import QueryError
from rolltrace.flags import CHECK_FAILED, PLUGIN_GROUP, is_on
from rolltrace.journal import journal_folder
from rolltrace.record import FLAGS, sample_columns
from rolltrace.tables import ConflictError, TableStore, address_in

if TYPE_CHECKING:
    from rolltrace.query import Store, Trajectory

Check = Callable[["Trajectory"], Iterable[Any] | None]
_FLAG_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_OF_TRAJECTORY = ("trajectory_id", "project", "experiment", "step", "rollout_n", "validate", "worker", "run")
_decoder = msgspec.msgpack.Decoder(Ended)


class Plugin(NamedTuple):
    """An installed check."""

    name: str
    package: str
    check: Check | None
    problem: str = ""
    """Why it cannot be loaded."""


def installed_checks() -> list[Plugin]:
    """Every check that other packages bring, loaded."""
    return [_load(point) for point in sorted(entry_points(group=PLUGIN_GROUP), key=lambda point: point.name)]


def _load(point: EntryPoint) -> Plugin:
    package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
    try:
        check = point.load()
    except (Exception, SystemExit) as error:  # it is somebody else's code, and may do anything
        return Plugin(point.name, package, None, f"{type(error).__name__}: {error}")
    if not callable(check):
        return Plugin(point.name, package, None, f"{point.value} is not a function")
    return Plugin(point.name, package, check)


class PluginChecks:
    """Runs the installed checks on what one drainer has drained. With none installed it does nothing."""

    def __init__(self, store: Path) -> None:
        self._path = store
        self._folder = journal_folder(store)
        self._checks: dict[str, Check] = {}
        self._store: Store | None = None
        self._redactor: Redactor | None = None
        for plugin in installed_checks():
            if plugin.check is not None:
                self._checks[plugin.name] = plugin.check
            else:
                _count(plugin.name, f"cannot be loaded: {plugin.problem}", None)

    def check_next(self) -> bool:
        """Check some trajectories; False if none wait."""
        path = min(self._folder.glob("*.ended"), default=None) if self._checks else None
        if path is None:
            return False
        try:
            ended = _decoder.decode(path.read_bytes())
        except msgspec.MsgspecError as error:
            logger.warning("%s cannot be read, its trajectories are not checked: %s", path, error)
        else:
            self._check(ended, f"plugin-{path.stem}")
        path.unlink(missing_ok=True)
        return True

    def _check(self, ended: Ended, source: str) -> None:
        from rolltrace.query import open_store  # loads DuckDB: only where there is something to check

        store = self._store = self._store or open_store(self._path)
        store.refresh()
        shaped = TableRows()
        for trajectory in _read(store, ended.trajectory_ids):
            for name, check in self._checks.items():
                if is_on(ended.checks, name):
                    for row in self._rows(name, check, trajectory):
                        shaped.add_row(Row.of(FLAGS, row))
        if shaped.is_empty:
            return
        tables = TableStore(address_in(self._path))
        try:
            tables.commit_batch(shaped.write_files(tables.address), {source: 0})
        except ConflictError:  # another drainer has just done the same
            return

    def _rows(self, name: str, check: Check, trajectory: Trajectory) -> Iterator[dict[str, Any]]:
        redactor = self._redactor = self._redactor or Redactor.of(self._path)
        for finding in _findings(name, check, trajectory):
            begun = next((op.start_ns for op in trajectory.walk() if op.op_id == finding.op_id), trajectory.start_ns)
            row = {
                **{name: getattr(trajectory, name) for name in _OF_TRAJECTORY},
                **sample_columns(trajectory.sample_index),
                "flag": finding.flag,
                "op_id": finding.op_id,
                "time_ns": begun,
                "detail": finding.detail,
            }
            row = redactor.row(FLAGS, row)
            fit_row(FLAGS, row)
            yield row


def _read(store: Store, trajectory_ids: list[str]) -> Iterator[Trajectory]:
    for trajectory_id in trajectory_ids:
        try:
            yield store.trajectory(trajectory_id)
        except QueryError:  # pruned meanwhile
            continue
        except Exception:  # its rows cannot be put together: the others can
            logger.exception("no checks of the trajectory %s", trajectory_id)


def _findings(name: str, check: Check, trajectory: Trajectory) -> Iterator[Finding]:
    """What one plug-in says of one trajectory; its errors as findings too."""
    try:
        answer = check(trajectory)
        for flag in [answer] if isinstance(answer, str) else answer or ():
            try:
                finding = _finding(flag)
            except (TypeError, ValueError) as error:
                finding = _failed(name, trajectory, error)
            yield finding
    except (Exception, SystemExit) as error:  # a check may be a generator, which fails while it is read
        yield _failed(name, trajectory, error)


def _failed(name: str, trajectory: Trajectory, error: BaseException) -> Finding:
    _count(name, f"on the trajectory {trajectory.trajectory_id}", error)
    return Finding(CHECK_FAILED.name, {"check": name, "error": f"{type(error).__name__}: {error}"})


def _finding(answer: Any) -> Finding:
    """A flag, or a flag with its detail and the id of its op."""
    flag, detail, op_id = (answer, None, None) if isinstance(answer, str) else (*answer, None)[:3]
    if not isinstance(flag, str) or not _FLAG_NAME.fullmatch(flag):
        raise ValueError(f"a flag is named by lower-case words with underscores, not {flag!r}")
    if detail is not None and not isinstance(detail, dict):
        raise TypeError(f"the detail of the flag {flag} must be a dict, not {detail!r}")
    if op_id is not None and (not isinstance(op_id, int) or isinstance(op_id, bool)):
        raise TypeError(f"the op of the flag {flag} must be an op_id, not {op_id!r}")
    return Finding(flag, detail, op_id)


def _count(name: str, what: str, error: BaseException | None) -> None:
    """Count an error of a plug-in, and log the first. Never raised, strict or not: it is not ours."""
    label = f"plug-in check {name}"
    internal_errors[label] += 1
    if internal_errors[label] == 1:
        logger.error(
            "the plug-in check %s failed: %s. Further failures of it are only counted.", name, what, exc_info=error
        )
