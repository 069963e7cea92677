"""Listings of steps that get no more data, computed once.

A trajectory has one step, so all its rows are in the folders of that step or in the journals; only scores that were
given by id alone are elsewhere, and join on top (query/score_views.py). While no journal has rows of a step and its
parts are the same, its rows of the listing are the same, and a query need not look at its ops again: in a long run,
only the steps at the front are computed anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from rolltrace.query.views import LISTED
from rolltrace.store import step_folder

MakeListing = Callable[[list[Path]], pa.Table]
"""Gives the listing of some parts, by step."""


class SettledSteps:
    """The rows of `_listing` for each settled step, by the name of its folders."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[list[Path], pa.Table]] = {}

    def split(
        self, parts: list[Path], live: dict[str, pa.Table], make: MakeListing
    ) -> tuple[pa.Table | None, list[Path]]:
        """The listing of all settled steps of these parts, and the parts of the other steps."""
        moving = {step_folder(step) for table in LISTED for step in live[table.name]["step"].unique().to_pylist()}
        settled: dict[str, list[Path]] = defaultdict(list)
        active = []
        for part in parts:
            if part.parent.name in moving:
                active.append(part)
            else:
                settled[part.parent.name].append(part)
        unknown = {step: own for step, own in settled.items() if self._known.get(step, ([],))[0] != own}
        if unknown:
            self._compute(unknown, make)
        tables = [self._known[step][1] for step in settled]
        return (pa.concat_tables(tables) if tables else None), active

    def _compute(self, parts: dict[str, list[Path]], make: MakeListing) -> None:
        listing = make([part for own in parts.values() for part in own])
        for step, own in parts.items():
            self._known[step] = (own, listing.slice(0, 0))
        at = 0
        for value, same in groupby(listing["step"].to_pylist()):
            count = sum(1 for _ in same)
            self._known[step_folder(value)] = (parts[step_folder(value)], listing.slice(at, count))
            at += count
