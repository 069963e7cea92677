"""What a store keeps of finished steps: the policy in its `retention.json`, read strictly.

{"keep": ["errors", "extremes", "slowest", "flagged"], "share": 0.1, "after_steps": 2}
"""

from __future__ import annotations

import math
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from rolltrace.errors import ConfigError
from rolltrace.journal import replace_file

KEEP = ("errors", "extremes", "slowest", "flagged")
"""The words of `keep`."""
_FILE = "retention.json"


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which groups keep their payloads once their step is finished. What is not given has these defaults."""

    keep: tuple[str, ...] = KEEP
    """errors: failed or interrupted; extremes: of different rewards; slowest: of their step; flagged: by a check."""
    share: float = 0.0
    """How much of the rest is kept, from 0 to 1, by a hash of the sample."""
    slowest_percent: float = 5.0
    """How much of each step counts as slowest."""
    flags: tuple[str, ...] = ()
    """Which flags count as flagged; any if empty."""
    after_steps: int = 1
    """How many later steps must have begun."""
    whole: bool = False
    """Remove the ops too, not only payloads."""
    seed: int = 0
    """Another number keeps another share."""
    experiments: tuple[str, ...] = ()
    """Of which experiments; all if empty."""


def as_command(policy: Policy) -> str:
    """The policy as the command that sets it, without what is as usual."""
    words = ["retain"]
    for name in Policy.__struct_fields__:
        value = getattr(policy, name)
        if name == "keep" or value != getattr(Policy(), name):
            option = f"--{name.replace('_', '-')}"
            shown = ",".join(value) if isinstance(value, tuple) else str(value)
            words.append(option if value is True else f"{option} {shown or repr('')}")
    return " ".join(words)


def read_policy(store: Path) -> Policy | None:
    """The policy of a store; None if it has none.

    Raises:
        ConfigError: the file cannot be understood. Nothing is removed then.
    """
    page = store / _FILE
    try:
        return checked(msgspec.json.decode(page.read_bytes(), type=Policy))
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, ConfigError, OSError) as fault:
        raise ConfigError(f"the policy in {page} cannot be used: {fault}") from fault


def write_policy(store: Path, policy: Policy | None) -> None:
    """Set the policy of a store; None takes it away."""
    page = store / _FILE
    if policy is None:
        page.unlink(missing_ok=True)
        return
    replace_file(page, msgspec.json.format(msgspec.json.encode(checked(policy))) + b"\n")


def policy_changed_ns(store: Path) -> int | None:
    """When the policy was written; None if there is none. Cheap to ask often."""
    try:
        return (store / _FILE).stat().st_mtime_ns
    except OSError:
        return None


def checked(policy: Policy) -> Policy:
    """The policy, if it makes sense.

    Raises:
        ConfigError: it does not; the message says what to write.
    """
    for word in policy.keep:
        if word not in KEEP:
            near = get_close_matches(word, KEEP, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(KEEP)}"
            raise ConfigError(f"keep has no {word!r}; {hint}")
    _need("share", policy.share, "from 0 to 1", 0 <= policy.share <= 1)
    _need("slowest_percent", policy.slowest_percent, "over 0, up to 100", 0 < policy.slowest_percent <= 100)
    _need("after_steps", policy.after_steps, "1 or more: the last step is never finished", policy.after_steps >= 1)
    if policy.flags and "flagged" not in policy.keep:
        raise ConfigError("flags say what 'flagged' means, and keep does not have it; add 'flagged' to keep")
    return policy


def _need(name: str, value: Any, wanted: str, fine: bool) -> None:
    if not fine or math.isnan(value):
        raise ConfigError(f"{name} must be {wanted}, not {value!r}")
