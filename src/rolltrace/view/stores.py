"""The stores that a server shows, and which of them a request is about.

One store needs no name. Of several, `/s/NAME/...` is the page of one, and `/s/NAME/api/...` asks it; an address without
a name still means a trajectory, or an experiment that only one of them has, so links stay right when a store is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rolltrace.errors import NotFoundError, QueryError
from rolltrace.view.lanes import Lane, Opened
from rolltrace.view.limits import QUICK_SEC, SLOW_SEC

PREFIX = "/s/{store}"
"""Before the address of a page or an endpoint: that of one store."""


class Home(NamedTuple):
    """One store, and the two ways to ask it."""

    name: str
    quick: Lane
    slow: Lane

    def opened(self, *, slow: bool = False) -> Opened:
        """Raises StoreError if its folder is gone."""
        return (self.slow if slow else self.quick).opened()


class Stores:
    """All of them, in the order in which they were named."""

    def __init__(self, paths: Sequence[Path]) -> None:
        names = names_of(paths)
        self.homes = [
            Home(name, Lane(path, QUICK_SEC), Lane(path, SLOW_SEC)) for name, path in zip(names, paths, strict=True)
        ]

    @property
    def several(self) -> bool:
        return len(self.homes) > 1

    def named(self, name: str) -> Home:
        """Raises NotFoundError if there is no store of this name."""
        for home in self.homes:
            if home.name == name:
                return home
        raise NotFoundError(f"there is no store {name[:100]!r}; there are: {', '.join(h.name for h in self.homes)}")

    def with_trajectory(self, trajectory_id: str) -> Home:
        """The first that has it; `NAME:ID` is that of a store.

        Raises:
            NotFoundError: none has it.
            QueryError: in one of them, several begin with these letters.
        """
        name, colon, rest = trajectory_id.rpartition(":")
        if colon:
            return self.named(name)
        missing = NotFoundError(f"no store has a trajectory {rest[:100]!r}")
        for home in self.homes:
            try:
                home.opened().loaded.place(rest)
                return home
            except NotFoundError as fault:
                missing = fault
        raise missing

    def with_experiment(self, project: str, experiment: str) -> Home:
        """The one that has it.

        Raises:
            NotFoundError: none has it.
            QueryError: several have it.
        """
        from rolltrace.query import experiment_states  # late: see view.lanes

        homes = [home for home in self.homes if (project, experiment) in experiment_states(home.opened().store)]
        if len(homes) > 1:
            places = " or ".join(f"/s/{home.name}/" for home in homes)
            raise QueryError(f"several stores have an experiment {experiment!r:.100}; its address begins with {places}")
        if not homes:
            raise NotFoundError(f"no store has an experiment {experiment!r:.100} of the project {project!r:.100}")
        return homes[0]

    def close(self) -> None:
        for home in self.homes:
            home.quick.close()
            home.slow.close()


def names_of(paths: Sequence[Path]) -> list[str]:
    """A short name for each: the last part of its path, and of those before it as many as tell them apart."""
    deepest = max(len(path.parts) for path in paths)
    for count in range(1, deepest + 1):
        names = ["-".join(part.strip("/") for part in path.parts[-count:]) or "store" for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{path.name}-{index}" for index, path in enumerate(paths, 1)]
