"""Where the trajectory of a trace stands: from `rl.*` attributes of its spans or resource, or from a rolltrace context.

The attribute `rl.context` holds what `rolltrace.current_context()` gave: then the trace belongs to a trajectory that
another process records, and its spans become ops of that one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rolltrace.capture import read_context
from rolltrace.collect.conventions import parse_json
from rolltrace.collect.otlp import ReceivedSpan
from rolltrace.errors import ContextError
from rolltrace.record import Coordinates, coordinate, whole

MAX_NAME_CHARS = 200


class Home(NamedTuple):
    """Which journal a trajectory is written to."""

    project: str
    experiment: str
    run: str | None = None


class TracePlace(NamedTuple):
    """What is known of where a trace belongs."""

    home: Home | None = None
    coordinates: Coordinates | None = None
    trajectory_id: bytes | None = None
    """Of a trajectory that another process records; None if the trace is one itself."""
    op_id: int = 0
    """The op of that trajectory in which the trace was begun."""

    def or_else(self, other: TracePlace) -> TracePlace:
        """This, with what it does not know taken from another."""
        home, coordinates = self.home or other.home, self.coordinates or other.coordinates
        if self.coordinates is not None and other.coordinates is not None:
            known = [theirs if mine is None else mine for mine, theirs in zip(self.coordinates, other.coordinates)]
            validate = self.coordinates.validate or other.coordinates.validate
            coordinates = Coordinates._make([*known[:3], validate])
        if self.trajectory_id is not None:
            return self._replace(home=home, coordinates=coordinates)
        return TracePlace(home, coordinates, other.trajectory_id, other.op_id)

    @property
    def is_settled(self) -> bool:
        """No span that comes later can tell more about it."""
        return self.trajectory_id is not None or (self.coordinates is not None and None not in (self.coordinates[:3]))


def place_of(span: ReceivedSpan, defaults: Home) -> TracePlace:
    """What a span says about where its trace belongs."""
    attributes = {**_rl(span.resource), **_rl(parse_json(span.attributes.get("metadata"))), **_rl(span.attributes)}
    context = _read_context(attributes.get("rl.context"))
    service = span.resource.get("service.name")
    named = isinstance(service, str) and not service.startswith("unknown_service")
    project = attributes.get("rl.project", span.resource.get("openinference.project.name"))
    experiment = attributes.get("rl.experiment", service if named else None)
    run = attributes.get("rl.run")
    home = Home(
        _name(project) or defaults.project, _name(experiment) or defaults.experiment, _name(run) or defaults.run
    )
    if context is None:
        return TracePlace(home, _coordinates(attributes))
    return TracePlace(context.home or home, context.coordinates, context.trajectory_id, context.op_id)


def _rl(attributes: Any) -> dict[str, Any]:
    if not isinstance(attributes, dict):
        return {}
    return {name: value for name, value in attributes.items() if isinstance(name, str) and name.startswith("rl.")}


def _name(value: Any) -> str | None:
    return value[:MAX_NAME_CHARS] if isinstance(value, str) and value else None


def _coordinates(attributes: dict[str, Any]) -> Coordinates | None:
    """The coordinates; None if none of them is told. A number that came as text, as in baggage, is one again."""
    names = ("rl.step", "rl.sample_index", "rl.rollout_n", "rl.validate")
    if all(attributes.get(name) is None for name in names):
        return None
    validate, sample_index = attributes.get("rl.validate"), attributes.get("rl.sample_index")
    if attributes.get("rl.sample_is_int") is True and (number := _whole(sample_index)) is not None:
        sample_index = number
    return Coordinates(
        _whole(attributes.get("rl.step")),
        coordinate(sample_index),
        _whole(attributes.get("rl.rollout_n")),
        validate is True or (isinstance(validate, str) and validate.lower() in ("true", "1")),
    )


def _whole(value: Any) -> int | None:
    try:
        return whole(value)
    except (ValueError, TypeError):
        return None


def _read_context(text: Any) -> TracePlace | None:
    try:
        context = read_context(text)
        project, experiment, run = map(_name, map(context.settings.get, ("project_name", "experiment_name", "run")))
    except (ContextError, TypeError, AttributeError):
        return None
    home = Home(project, experiment, run) if project and experiment else None
    return TracePlace(home, context.coordinates, context.trace_id, context.op_id) if any(context.trace_id) else None
