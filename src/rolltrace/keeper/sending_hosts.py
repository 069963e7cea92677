"""Which host sends a trajectory to a backend: the one that recorded it, or the one that took its place.

    STORE/outbox/BACKEND/hosts/h0123abcd/00000001.json     the tag of the host that sends what host h0123abcd recorded

Every host sends its own, so hosts need not agree on anything while they live. When trajectories of a host wait and
nothing was heard of it for an hour, another one takes its place: whoever adds the next number first (`files.numbered`).
The host itself is bound by the highest number when it comes back. A sender that was suspended for that hour sends at
most the batch that it was at, under the same ids.

Of a store on object storage, hosts do not see each other's outboxes: each sends its own, and no place is taken.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from rolltrace._guard import logger
from rolltrace.files import NumberedFiles, host_tag, read_page, tag_of

NO_HOST = "none"
"""Stands for the host of imported trajectories, which no host recorded."""
_SILENT_SEC = 3600.0
_AT_WORK_SEC = 120.0


class SendingHosts:
    """Who sends what to one backend, as this host sees it."""

    def __init__(self, outbox: Path, *, is_shared: bool) -> None:
        """`outbox` is the folder of the backend; `is_shared` if other hosts have it too."""
        self._outbox = outbox
        self._is_shared = is_shared

    def choose(self, waiting: Mapping[str, int]) -> set[str]:
        """The hosts whose trajectories this host sends, out of some.

        Args:
            waiting: The tag of each host that has something to be sent, and the newest time in that.
        """
        if not self._is_shared:
            return waiting.keys() & {host_tag()}
        return {tag for tag, newest_ns in waiting.items() if self._is_mine(tag, newest_ns)}

    def left_to_others(self, tags: set[str]) -> set[str]:
        """Those of some hosts whose trajectories another host is sending right now."""
        if not self._is_shared:
            return set()
        senders = {tag: self._find_sender(tag, self._places(tag).newest()) for tag in tags}
        idle = (host_tag(), NO_HOST)
        return {tag for tag in tags if senders[tag] not in idle and self._silent_sec(senders[tag]) < _AT_WORK_SEC}

    def _is_mine(self, tag: str, newest_ns: int) -> bool:
        number = self._places(tag).newest()
        sender = self._find_sender(tag, number)
        if sender == host_tag():
            return True
        if sender != NO_HOST:
            idle_sec = time.time() - newest_ns / 1e9
            if idle_sec < _SILENT_SEC or self._silent_sec(sender) < _SILENT_SEC:
                return False
            logger.warning("sends for the host %s, which was not heard of for an hour", tag)
        return self._places(tag).add(number + 1, host_tag().encode())

    def _places(self, tag: str) -> NumberedFiles:
        """Who took the place of a host, time after time."""
        return NumberedFiles(self._outbox / "hosts" / tag)

    def _find_sender(self, tag: str, number: int) -> str:
        """The host that sends what a host recorded, by the newest of these files."""
        try:
            return read_page(self._places(tag).path(number)).decode("ascii", "replace") if number else tag
        except OSError:
            return tag

    def _silent_sec(self, tag: str) -> float:
        """How long ago a host wrote about its sending; for ever if it never did."""
        for folder in self._outbox.glob("*"):
            if tag_of(folder.name) == tag:
                try:
                    return time.time() - (folder / "state.json").stat().st_mtime
                except OSError:
                    continue
        return float("inf")
