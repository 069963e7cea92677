"""What a store keeps of finished steps: the policy in its `retention.json`, and which groups it keeps.

{"keep": ["errors", "extremes", "slowest", "flagged"], "share": 0.1, "after_steps": 2}

The file is read strictly. The choice is a pure function of the rows of a step and the policy.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
import xxhash

from rolltrace.errors import ConfigError
from rolltrace.files import read_page, replace_file
from rolltrace.keeper.pruning import WAITING, Choice, Group, Row, choose_groups, groups_of

KEEP = ("errors", "extremes", "slowest", "flagged")
"""The words of `keep`."""
_FILE = "retention.json"
FAILED = ("error", "interrupted")
SHARE = "share"
"""Why a group is kept that has no other reason; the others are the words of `keep` of the policy, and `waiting`."""


class RetentionPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


def as_command(policy: RetentionPolicy) -> str:
    """The policy as the command that sets it, without what is as usual."""
    words = ["retain"]
    for name in RetentionPolicy.__struct_fields__:
        value = getattr(policy, name)
        if name == "keep" or value != getattr(RetentionPolicy(), name):
            option = f"--{name.replace('_', '-')}"
            shown = ",".join(value) if isinstance(value, tuple) else str(value)
            words.append(option if value is True else f"{option} {shown or repr('')}")
    return " ".join(words)


def read_policy(store: Path) -> RetentionPolicy | None:
    """The policy of a store; None if it has none.

    Raises:
        ConfigError: the file cannot be understood. Nothing is removed then.
    """
    page = store / _FILE
    try:
        return check_policy(msgspec.json.decode(read_page(page), type=RetentionPolicy))
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, ConfigError, OSError) as error:
        raise ConfigError(f"the policy in {page} cannot be used: {error}") from error


def write_policy(store: Path, policy: RetentionPolicy | None) -> None:
    """Set the policy of a store; None takes it away."""
    page = store / _FILE
    if policy is None:
        page.unlink(missing_ok=True)
        return
    replace_file(page, msgspec.json.format(msgspec.json.encode(check_policy(policy))) + b"\n")


def policy_changed_ns(store: Path) -> int | None:
    """When the policy was written; None if there is none. Cheap to ask often."""
    try:
        return (store / _FILE).stat().st_mtime_ns
    except OSError:
        return None


def check_policy(policy: RetentionPolicy) -> RetentionPolicy:
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


def choose(
    rows: Iterable[Row],
    policy: RetentionPolicy,
    *,
    rewarded: Container[tuple[str, str]] = (),
    unsent: Container[str] = (),
) -> Choice:
    """Choose from all trajectories of whole steps. `rewarded`: the (project, experiment) that have rewards in other
    steps; `unsent`: trajectories that a backend is still to be given."""
    groups = groups_of(rows)
    roots = [row for group in groups for row in group.roots]
    in_use = {(row["project"], row["experiment"]) for row in roots if row["reward"] is not None}
    slowest = _slowest(roots, policy.slowest_percent) if "slowest" in policy.keep else set()

    def why_kept(group: Group) -> str | None:
        first = group.rows[0]
        place = (first["project"], first["experiment"])
        if (place in in_use or place in rewarded) and _lacks_a_reward(group):
            return WAITING
        return _reason(group, policy, slowest)

    return choose_groups(groups, why_kept, unsent=unsent)


def _lacks_a_reward(group: Group) -> bool:
    """One that failed or was cancelled will get none."""
    return any(row["status"] == "ok" and row["reward"] is None for row in group.roots)


def _reason(group: Group, policy: RetentionPolicy, slowest: Container[str]) -> str | None:
    """Why the policy keeps it; None if it does not."""
    rewards = [row["reward"] for row in group.roots if row["reward"] is not None and not math.isnan(row["reward"])]
    applies = {
        "errors": any(row["status"] in FAILED for row in group.rows),
        "extremes": bool(rewards) and min(rewards) != max(rewards),
        "slowest": any(row["trajectory_id"] in slowest for row in group.roots),
        "flagged": any(set(row["flags"]).intersection(policy.flags or row["flags"]) for row in group.rows),
    }
    for word in policy.keep:
        if applies[word]:
            return word
    return SHARE if _fraction(group.sample, policy.seed) < policy.share else None


def _slowest(rows: list[Row], percent: float) -> set[str]:
    """The slowest of each step, training and validation apart; at least one."""
    steps: dict[tuple[Any, ...], list[tuple[float, str]]] = defaultdict(list)
    for row in rows:
        if row["duration_s"] is not None:
            step = (row["project"], row["experiment"], row.get("run"), row["step"], row["validate"])
            steps[step].append((row["duration_s"], row["trajectory_id"]))
    slowest = (sorted(timed)[-math.ceil(len(timed) * percent / 100) :] for timed in steps.values())
    return {trajectory_id for timed in slowest for _, trajectory_id in timed}


def _fraction(sample: tuple[Any, ...], seed: int) -> float:
    """A number from 0 to 1 that stays the same for a sample, in every step.

    Not the hash of `capture.sampling`: that has kept the smallest already, and a share of those would be all of them.
    """
    return xxhash.xxh3_64_intdigest(f"retention:{seed}:{sample[-1]}".encode()) / (1 << 64)
