"""`rollout_trace_attr`: the entry of a trajectory, and the handle it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Raw

from rolltrace._guard import caught, pass_on_signals
from rolltrace.capture import scope
from rolltrace.capture.failure import describe_failure, status_of
from rolltrace.capture.misspelt import warn_of_misspelt
from rolltrace.capture.transition import amendment_body, plain_number, transition_body
from rolltrace.errors import ConfigError
from rolltrace.record import (
    Coordinates,
    Error,
    Event,
    SampleIndex,
    TrajectoryEnd,
    TrajectoryStart,
    clean_text,
    coordinate,
    decode_coordinates,
    encode_record,
    score_body,
    whole,
)

if TYPE_CHECKING:
    from rolltrace.capture.recorder import Recorder
    from rolltrace.capture.sampling import Sample
    from rolltrace.capture.tokenizers import KnownTokenizer

T = TypeVar("T")
_LONGEST = 1000
_NO_COORDINATES = Coordinates()
_NO_TAGS = Raw(encode_record({}))


class TrajectoryHandle:
    """The trajectory being recorded: what `with rollout_trace_attr(...) as trajectory` gives.

    It only writes; `rolltrace.open().trajectory(handle.trajectory_id)` reads what was recorded.
    While tracing is off, or inside `trace=False`, the handle is there all the same and does nothing.
    """

    __slots__ = (
        "_recorder",
        "coordinates",
        "is_group",
        "op_id",
        "parent_id",
        "parent_trace_id",
        "run",
        "sample",
        "step",
        "tags",
        "tokenizer",
        "trace_id",
        "wall_offset_ns",
    )

    def __init__(
        self,
        recorder: Recorder | None,
        where: Coordinates = _NO_COORDINATES,
        trace_id: bytes | None = None,
        op_id: int = 0,
        is_group: bool = False,
    ) -> None:
        self._recorder = recorder
        self.is_group = is_group
        """It is no rollout, but what belongs to all rollouts of a sample."""
        self.wall_offset_ns = recorder.wall_offset_ns() if recorder else 0
        """What to add to a tick for the time of day: the same for all that belongs to this trajectory."""
        self.step = where.step
        self.coordinates = Raw(encode_record(where))
        self.trace_id = trace_id or (recorder.random_bytes(16) if recorder else b"")
        self.op_id = op_id
        """The op that ops directly inside have as parent: 0, or an op of another process."""
        self.parent_trace_id: bytes | None = None
        self.parent_id = 0
        self.run = ""
        """The run it belongs to, if that is not the run of this process."""
        self.sample: Sample | None = None
        """Which chosen sample it counts for; None when all are kept."""
        self.tags: dict[str, Raw] = {}
        """Encoded, each as it was when it was given."""
        self.tokenizer: KnownTokenizer | None = None
        """That of the op it was begun in."""

    @property
    def _trajectory(self) -> TrajectoryHandle:
        return self

    def __repr__(self) -> str:
        if self._recorder is None:
            return "TrajectoryHandle(not traced)"
        where = decode_coordinates(self.coordinates)._asdict().items()
        given = (f", {name}={value!r}" for name, value in where if value is not None and value is not False)
        return f"TrajectoryHandle({self.id!r}{''.join(given)})"

    @property
    def trajectory_id(self) -> str:
        """The trajectory's id, 32 hexadecimal digits; empty when it is not traced."""
        return self.trace_id.hex()

    @property
    def id(self) -> str:
        """Short for `trajectory_id`."""
        return self.trace_id.hex()

    @property
    def traced(self) -> bool:
        """Whether anything is recorded."""
        return self._recorder is not None

    def tag(self, /, **tags: Any) -> None:
        """Add tags, or change them: `trajectory.tag(difficulty="hard")`."""
        if self._recorder is None:
            return
        try:
            raw_tags = {clean_text(name): Raw(self._recorder.snapshot(value)) for name, value in tags.items()}
            self.tags.update(raw_tags)
            self._say("tag", raw_tags)
        except Exception:
            caught("tag")

    def reward(self, value: float | None, *, terms: dict[str, float] | None = None) -> None:
        """Record the reward and the terms it is made of. For other scores, and later: `rolltrace.score`.

        One that is no number is not recorded. It does not stop a training run: a warning names the line of the call,
        and it is counted under `refused_score`, which `rolltrace stats` and `doctor` show. `ROLLTRACE_STRICT=1` raises
        it.
        """
        recorder = self._recorder
        if recorder is None:
            return
        try:
            self._say("reward", score_body(value, terms))
        except ConfigError:
            recorder.refuse_score(self.step)
        except Exception:
            caught("reward")

    def transition(
        self,
        trace: Any = None,
        *,
        reward: Any = None,
        episode_done: bool | None = None,
        metrics: Mapping[str, Any] | None = None,
        logs: Mapping[str, Any] | None = None,
        stop_reason: str | None = None,
        **more: Any,
    ) -> None:
        """Record one environment step.

        Args:
            trace: A `RolloutTrace`, a dict of such fields, or a function that makes one: it is called only when
                tracing is on. If it raises, that is counted as an error and the step is recorded without a trace.
            reward: The reward of this step.
            episode_done: Whether the episode is over.
            metrics: Numbers about the step.
            logs: Anything to read about the step.
            stop_reason: Why the episode is over.
            **more: Further fields.
        """
        recorder = self._recorder
        if recorder is None:
            return
        try:
            try:
                built_trace = trace() if callable(trace) else trace
            except Exception:
                built_trace = None
                caught("transition")
            fields = {
                "reward": plain_number(reward),
                "episode_done": plain_number(episode_done),
                "metrics": metrics,
                "logs": logs,
                "stop_reason": clean_text(stop_reason) if isinstance(stop_reason, str) else stop_reason,
                **more,
            }
            self._write(recorder, "transition", transition_body(recorder, built_trace, fields))
        except Exception:
            caught("transition")

    def amend_transition(
        self,
        *,
        turn: int | None = None,
        reward: Any = ...,
        episode_done: Any = ...,
        metrics: Any = ...,
        logs: Any = ...,
        stop_reason: Any = ...,
        **more: Any,
    ) -> None:
        """Change a step that was recorded before: the newest word counts, what was there is kept as its history.

        What is not given (`...`) stays; None is a value like any other. Metrics and logs are merged, key by key; a key
        given as None is taken away. For a trajectory of another process: `rolltrace.capture.amend_transition`.

        Args:
            turn: Which step: from 0, from the end if negative; the last one recorded before this call if not given.
            reward, episode_done, metrics, logs, stop_reason: As in `transition`.
            **more: Further fields.
        """
        recorder = self._recorder
        if recorder is None:
            return
        changes = {
            "reward": reward, "episode_done": episode_done, "metrics": metrics, "logs": logs,
            "stop_reason": stop_reason, **more,
        }  # fmt: skip
        try:
            self._write(recorder, "amend", amendment_body(recorder, turn, changes))
        except ConfigError:
            recorder.refuse_score(self.step)
        except Exception:
            caught("amend_transition")

    def note(self, text: str, /, **fields: Any) -> None:
        """Record a remark, with any further fields."""
        self._say("note", {"text": text, "fields": fields})

    def _say(self, event: str, body: dict[str, Any]) -> None:
        recorder = self._recorder
        if recorder is None:
            return
        try:
            self._write(recorder, event, Raw(recorder.snapshot(body)))
        except Exception:
            caught(event)

    def _write(self, recorder: Recorder, event: str, body: Raw) -> None:
        place = scope.current.get()
        op_id = place.op_id if place is not None and place._trajectory is self else 0
        time_ns = recorder.tick_ns() + self.wall_offset_ns
        if event == "reward":
            time_ns = recorder.score_ns(time_ns)
        recorder.write(Event(self.trace_id, self.coordinates, event, time_ns, op_id, body), self.step)


UNTRACED = TrajectoryHandle(None)
"""The handle where nothing is recorded."""


def write_trajectory_start(recorder: Recorder, handle: TrajectoryHandle, name: str, start_ns: int) -> None:
    """Write that a trajectory begins."""
    tags = Raw(recorder.snapshot(handle.tags)) if handle.tags else _NO_TAGS
    record = TrajectoryStart(
        handle.trace_id, handle.coordinates, name, start_ns, handle.parent_trace_id, handle.parent_id, tags,
        handle.is_group, handle.run,
    )  # fmt: skip
    recorder.write(record, handle.step)


def write_trajectory_end(
    recorder: Recorder,
    handle: TrajectoryHandle,
    name: str,
    start_ns: int,
    end_ns: int,
    status: str,
    error: Error | None = None,
) -> bool:
    """Write that a trajectory is over; False if that was lost."""
    tags = Raw(recorder.snapshot(handle.tags)) if handle.tags else _NO_TAGS
    record = TrajectoryEnd(
        handle.trace_id, handle.coordinates, name, start_ns, end_ns, status, error, handle.parent_trace_id,
        handle.parent_id, tags, handle.is_group, handle.run,
    )  # fmt: skip
    return recorder.write(record, handle.step)


class rollout_trace_attr:
    """The entry of a trajectory: `with rollout_trace_attr(sample_index=7, step=1, rollout_n=0) as handle:`.

    Usable with `with` and `async with`. All ops inside, also in tasks and threads started inside, belong to
    the trajectory. With `trace=False` they are not recorded. Inside another trajectory it begins one of its
    own, linked to the op it was begun in. Made anew for each entry.

    Args:
        sample_index: Which dataset sample; an int, or a string such as a uuid.
        step: Training step.
        rollout_n: Which of the n rollouts of that sample.
        name: What to call the trajectory.
        validate: A validation rollout.
        trace: False silences everything inside.
        **tags: Anything else worth filtering by.
    """

    trajectory_id: bytes | None = None
    """For integrations that must know the id elsewhere: 16 bytes, to be set before entry. A random one if None."""
    _is_group = False

    def __init__(
        self,
        sample_index: SampleIndex | None = None,
        step: int | None = None,
        rollout_n: int | None = None,
        name: str = "rollout_trace",
        validate: bool = False,
        trace: bool = True,
        **tags: Any,
    ) -> None:
        self._where = (step, sample_index, rollout_n, validate)
        self._name = name
        self._trace = trace
        self._tags = tags
        self._handle = UNTRACED
        self._token: Token[scope.Place | None] | None = None

    def __enter__(self) -> TrajectoryHandle:
        recorder = scope.recorder
        if recorder is None:
            return self._handle
        outer = scope.current.get()
        if outer is scope.MUTED:
            return self._handle
        place: scope.Place | None = None
        if self._trace:
            try:
                place = self._begin(recorder, outer)
            except Exception:
                self._handle = UNTRACED
                caught("trajectory start")
                return self._handle  # its ops are kept, under the trajectory around it or without coordinates
        self._token = scope.current.set(place or scope.MUTED)
        return self._handle

    def _begin(self, recorder: Recorder, outer: scope.Place | None) -> TrajectoryHandle | None:
        step, sample_index, rollout_n, validate = self._where
        where = Coordinates(
            _understood("step", step, whole, "a whole number of 64 bits"),
            _understood("sample_index", sample_index, _sample, f"an int or a string of up to {_LONGEST} characters"),
            _understood("rollout_n", rollout_n, whole, "a whole number of 64 bits"),
            bool(_understood("validate", validate, bool, "true or false")),
        )
        handle = TrajectoryHandle(recorder, where, self.trajectory_id, is_group=self._is_group)
        if not recorder.admits(handle, where, None if outer is None else outer._trajectory):
            return None
        if self._tags:
            warn_of_misspelt(self._tags, where)
            handle.tags.update((clean_text(name), Raw(recorder.snapshot(value))) for name, value in self._tags.items())
        if outer is not None and outer._trajectory is not None:
            if not outer._trajectory.is_group:
                handle.parent_trace_id, handle.parent_id = outer._trajectory.trace_id, outer.op_id
            handle.run = outer._trajectory.run
            handle.tokenizer = getattr(outer, "tokenizer", None)
            handle.wall_offset_ns = outer._trajectory.wall_offset_ns
        self._generation = recorder.generation
        self._start_tick = recorder.tick_ns()
        self._start_ns = self._start_tick + handle.wall_offset_ns
        self._name = clean_text(self._name if isinstance(self._name, str) else str(self._name))
        write_trajectory_start(recorder, handle, self._name, self._start_ns)
        self._handle = handle
        return handle

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, tb: TracebackType | None
    ) -> None:
        token, self._token = self._token, None
        if token is not None:
            scope.leave(token)
        handle, self._handle = self._handle, UNTRACED
        recorder = handle._recorder
        if recorder is None or recorder.generation != self._generation:
            return
        try:
            end_ns = self._start_ns + recorder.tick_ns() - self._start_tick
            error = None if failure is None else describe_failure(failure)
            write_trajectory_end(recorder, handle, self._name, self._start_ns, end_ns, status_of(failure), error)
            recorder.trajectory_ended()
        except Exception:
            caught("trajectory end")

    async def __aenter__(self) -> TrajectoryHandle:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.__exit__(kind, failure, tb)


def _sample(value: Any) -> SampleIndex | None:
    if isinstance(value, str) and len(value) > _LONGEST:  # every record has it
        raise ValueError
    return coordinate(value)


def _understood(name: str, value: Any, read: Callable[[Any], T], wanted: str) -> T | None:
    """A coordinate, or None and a word about it if it makes no sense: the trajectory is worth more than one number."""
    try:
        try:
            return read(value)
        except Exception:
            raise ConfigError(f"{name} must be {wanted}, not {_shown(value)}; the trajectory has none") from None
    except ConfigError:
        caught(f"rollout_trace_attr {name}")
        return None


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.100}"
    except Exception:  # a number of many digits, or code of the user's own
        pass_on_signals()
        return f"a {type(value).__name__} that cannot be printed"
