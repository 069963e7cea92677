"""Where things are in the demo store: found by asking, so that the tests need no ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

Ask = Callable[..., Any]
LAST_STEP = 3
"""Of the small demo store."""
EXPERIMENT = "/e/maths/grpo-7b"
STEP = f"{EXPERIMENT}/step/{LAST_STEP}"


def groups(ask: Ask, step: int = LAST_STEP, **how: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ask("groups", project="maths", experiment="grpo-7b", step=step, **how)["rows"]
    return rows


def with_flag(ask: Ask, flag: str) -> str:
    """The id of a trajectory that has it."""
    return str(ask("trajectories", experiment="grpo-7b", where=f"flag = '{flag}'", limit=1)["rows"][0]["trajectory_id"])


def of_sample(ask: Ask, sample: str, step: int = LAST_STEP) -> list[str]:
    """Ids of the rollouts of a sample."""
    return [
        cell["trajectory_id"]
        for row in groups(ask, step)
        if row["sample_index"] == sample and not row["validate"]
        for cell in row["cells"]
    ]


def pages(ask: Ask) -> dict[str, str]:
    """Every page and tab by name."""
    ids = of_sample(ask, "0")
    episode = ask("trajectories", project="games", limit=1)["rows"][0]["trajectory_id"]
    broken = with_flag(ask, "prefix_break")
    (record, *_) = ask("group_records", project="games", experiment="gridworld", step=1)["records"]
    return {
        "experiments": "/",
        "experiment": EXPERIMENT,
        "groups": STEP,
        "list": f"{STEP}?view=list",
        "sample": f"{STEP}/sample/0",
        "sample with group records": "/e/games/gridworld/step/1/sample/0",
        "group record": f"/t/{record['trajectory_id']}?tab=ops",
        "filter that is wrong": f"{STEP}?where={quote('rewrd < 1')}",
        "filter without a match": f"{STEP}?where={quote('reward > 99')}",
        "conversation": f"/t/{broken}",
        "tokens": f"/t/{broken}?tab=tokens",
        "ops": f"/t/{broken}?tab=ops",
        "transitions": f"/t/{episode}?tab=transitions",
        "raw": f"/t/{broken}?tab=raw",
        "compare": f"/compare?ids={','.join(ids[:3])}",
        "live": "/live",
        "search": "/search?q=certificate",
    }


READY = {
    "experiments": "tbody tr",
    "experiment": ".charts canvas",
    "groups": ".cell",
    "list": ".list-row a",
    "sample": ".list-row a",
    "sample with group records": ".group-record",
    "group record": ".op-track i",
    "filter that is wrong": ".where-problem",
    "filter without a match": ".empty h1",
    "conversation": ".message",
    "tokens": ".token-block",
    "ops": ".op-track i",
    "transitions": ".transition",
    "raw": ".json",
    "compare": ".compare-row",
    "live": ".figures",
    "search": ".hit",
}
"""What is there once a page is."""
