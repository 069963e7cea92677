"""Who may replace or remove a part: the host that brought it.

Locks count on one host. If two hosts merged, pruned or removed the same parts of a shared folder, rows would be lost,
doubled or come back. So each host does so only with parts that carry its own tag (`journal.host`). Parts without one
(imports, stores of older versions) belong to a host as long as no other has ever written to the store.
"""

from __future__ import annotations

import os
from pathlib import Path

from rolltrace.journal import host_name, host_of, host_tag, tag_of
from rolltrace.store.layout import source_of


class Owned:
    """Says of a part whether this host may replace it."""

    def __init__(self, store: Path, *, all_hosts: bool = False) -> None:
        """With `all_hosts`, every part: somebody made sure that no other host works on the store."""
        self._all_hosts = all_hosts
        self._tag = host_tag()
        self._alone = not other_hosts(store)

    def __call__(self, part: Path) -> bool:
        return self._all_hosts or self.is_mine(source_of(part))

    def is_mine(self, source: str) -> bool:
        """The same of a source or a writer, by its name."""
        owner = host_of(source)
        return self._alone if owner is None else owner == self._tag


def other_hosts(store: Path) -> list[str]:
    """The other hosts that have written to a store, by the names of their journal folders."""
    mine = {host_name(), os.uname().nodename}  # the second: how older versions called it
    try:
        return sorted(each.name for each in (store / "journal").iterdir() if each.is_dir() and each.name not in mine)
    except OSError:
        return []


def busy_hosts(store: Path) -> frozenset[str]:
    """The tags of the other hosts that have journals: something runs there, or waits to be drained."""
    journals = store / "journal"
    return frozenset(tag_of(name) for name in other_hosts(store) if any((journals / name).glob("*.seg")))
