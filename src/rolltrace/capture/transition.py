"""`RolloutTrace`: what is known of one environment step, and the body of the event that records it.

Every value is encoded when it is given, so that an environment may go on changing its message history in place. The
bytes go into the event as they are.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from rolltrace._guard import caught, pass_on_signals
from rolltrace.capture import scope
from rolltrace.errors import ConfigError
from rolltrace.record import NOTHING, clean_text, decode_value, encode_record

if TYPE_CHECKING:
    from rolltrace.capture.recorder import Recorder

_PLAIN = frozenset({int, float, bool, str, type(None)})
_NUMBERS = frozenset({"reward", "episode_done"})


def _field(name: str, meaning: str) -> Any:
    def read(trace: RolloutTrace) -> Any:
        snapshot = trace._taken.get(name)
        return trace._live.get(name) if snapshot is None else decode_value(snapshot)

    return property(read, doc=meaning)


class RolloutTrace:
    """One environment step, for `trajectory.transition(...)` and `backfill(...)`.

        trajectory.transition(RolloutTrace(prompt=messages, policy_response=reply, reward_data={"format": 1.0}))

    Each field is optional, and kept as it is now: what is changed later does not change what is recorded. A field
    reads back as it was recorded (a tuple as a list). While tracing is off nothing is copied.
    """

    __slots__ = ("_live", "_taken")

    prompt = _field("prompt", "What the policy saw.")
    policy_response = _field("policy_response", "What it answered, or did.")
    reward_data = _field("reward_data", "What the reward is made of: numbers, as numbers.")
    env_state = _field("env_state", "The state of the environment before the step.")
    extra = _field("extra", "Anything else.")

    def __init__(
        self,
        prompt: Any = None,
        policy_response: Any = None,
        reward_data: Any = None,
        env_state: Any = None,
        extra: Any = None,
    ) -> None:
        fields = {
            "prompt": prompt,
            "policy_response": policy_response,
            "reward_data": reward_data,
            "env_state": env_state,
            "extra": extra,
        }
        self._live: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        """What has not been encoded yet, because tracing was off when it was given."""
        self._taken: dict[str, Raw] = {}
        recorder = scope.recorder
        if recorder is not None and scope.current.get() is not scope.MUTED:
            encode_trace(self, recorder)

    def __repr__(self) -> str:
        return f"RolloutTrace({', '.join(f'{name}=...' for name in (*self._taken, *self._live))})"


def encode_trace(trace: RolloutTrace, recorder: Recorder) -> dict[str, Raw]:
    """Every field of a trace in bytes; what was given while tracing was off is encoded now."""
    for name, value in list(trace._live.items()):
        try:
            trace._taken[name] = Raw(recorder.snapshot(value))
        except Exception:
            trace._taken[name] = NOTHING
            caught("transition")
        trace._live.pop(name, None)
    return trace._taken


def encoded_trace(fields: dict[str, Raw]) -> RolloutTrace:
    """A trace of values that are encoded already."""
    trace = RolloutTrace()
    trace._taken = fields
    return trace


def transition_body(recorder: Recorder, trace: Any, fields: Mapping[str, Any]) -> Raw:
    """The body of a transition event. Each value is encoded on its own, so that no limit can cut the body itself."""
    parts = {name: Raw(recorder.snapshot(value)) for name, value in fields.items() if value is not None}
    if isinstance(trace, RolloutTrace):
        parts["trace"] = Raw(encode_record(encode_trace(trace, recorder)))
    else:
        parts["trace"] = Raw(recorder.snapshot(trace))
    return Raw(encode_record(parts))


def amendment_body(recorder: Recorder, turn: Any, fields: Mapping[str, Any]) -> Raw:
    """The body of an event that changes a step recorded before. `...` is what was not given; None is a value.

    Raises:
        ConfigError: `turn` is no whole number.
    """
    if turn is not None and not isinstance(turn, int):
        raise ConfigError(f"turn must be the number of a step, from 0 or from the end as -1, not {turn!r:.80}")
    changes = {
        clean_text(name): Raw(recorder.snapshot(plain_number(value) if name in _NUMBERS else value))
        for name, value in fields.items()
        if value is not ...
    }
    return Raw(encode_record({"turn": None if turn is None else int(turn), "fields": changes}))


def plain_number(value: Any) -> Any:
    """A reward or a flag as a plain number: NumPy and torch scalars, arrays of one, decimals and fractions too.

    What lies on a device is left as it is: reading it would wait for the device. Anything else stays what it is.
    """
    if type(value) in _PLAIN:
        return value
    if hasattr(value, "item") and str(getattr(value, "device", "cpu")) == "cpu":
        try:
            return value.item()
        except Exception:  # more than one number
            pass_on_signals()
            return value
    return float(value) if isinstance(value, numbers.Real | Decimal) and not isinstance(value, int) else value
