"""While tracing is off, all that happens is that a call is passed on."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from tinker_cookbook.rl.rollouts import do_group_rollout, do_single_rollout

from rolltrace.capture import scope

from .kinds import KINDS
from .service import MessageGroup, preferences
from .stand_ins import END, Scripted

PASSING_ON = {"ours", "call", "call_policy", "compute_group_rewards", "_is_inside"}
"""The functions that stand in the place of tinker-cookbook's."""


async def _play() -> None:
    for kind in KINDS.values():
        if not kind.fails:
            await do_single_rollout(kind.policy(), kind.env())
    await do_group_rollout(preferences(2), Scripted("a" + END, "bb" + END))
    await do_group_rollout(MessageGroup(2), Scripted("a" + END))


def test_nothing_is_built_while_tracing_is_off() -> None:
    assert scope.recorder is None
    called: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and "/rolltrace/integrations/" in frame.f_code.co_filename:
            called.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        asyncio.run(_play())
    finally:
        sys.setprofile(None)
    assert called <= PASSING_ON
    assert {"ours", "call_policy"} <= called  # it is installed
