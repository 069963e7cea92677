"""Which host sends a trajectory to a backend: the one that recorded it, or the one that took its place.

    STORE/outbox/BACKEND/hosts/h0123abcd-1     the tag of the host that sends what host h0123abcd recorded

Every host sends its own, so hosts need not agree on anything while they live. When trajectories of a host wait and
nothing was heard of it for an hour, another one takes its place: whoever makes the file with the next number first
(`files.exclusive`). The file with the highest number counts, and the host itself is bound by it when it comes back. A
sender that was suspended for that hour sends at most the batch that it was at, under the same ids.

Of a store on object storage, hosts do not see each other's outboxes: each sends its own, and no place is taken.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rolltrace._guard import logger
from rolltrace.files import create_file, host_tag, make_folder, read_page, tag_of

NO_HOST = "none"
"""Stands for the host of imported trajectories, which no host recorded."""
_SILENT_SEC = 3600.0
_AT_WORK_SEC = 120.0
_NAME = re.compile(r"(h[0-9a-f]{8}|none)-(\d{1,9})")


class _Place(NamedTuple):
    number: int
    """How often the place of the host was taken; 0 if never."""
    sender: str
    """The host that sends what it recorded."""


class SendingHosts:
    """Who sends what to one backend, as this host sees it."""

    def __init__(self, outbox: Path, *, is_shared: bool) -> None:
        """`outbox` is the folder of the backend; `is_shared` if other hosts have it too."""
        self._outbox = outbox
        self._folder = outbox / "hosts"
        self._is_shared = is_shared

    def choose(self, waiting: Mapping[str, int]) -> set[str]:
        """The hosts whose trajectories this host sends, out of some.

        Args:
            waiting: The tag of each host that has something to be sent, and the newest time in that.
        """
        if not self._is_shared:
            return waiting.keys() & {host_tag()}
        places = self._read_places()
        return {tag for tag, newest_ns in waiting.items() if self._is_mine(tag, places, newest_ns)}

    def left_to_others(self, tags: set[str]) -> set[str]:
        """Those of some hosts whose trajectories another host is sending right now."""
        if not self._is_shared:
            return set()
        places = self._read_places()
        return {
            tag
            for tag in tags
            if (sender := _place_of(tag, places).sender) not in (host_tag(), NO_HOST)
            and self._silent_sec(sender) < _AT_WORK_SEC
        }

    def _is_mine(self, tag: str, places: Mapping[str, _Place], newest_ns: int) -> bool:
        place = _place_of(tag, places)
        if place.sender == host_tag():
            return True
        if place.sender != NO_HOST:
            idle_sec = time.time() - newest_ns / 1e9
            if idle_sec < _SILENT_SEC or self._silent_sec(place.sender) < _SILENT_SEC:
                return False
            logger.warning("sends for the host %s, which was not heard of for an hour", tag)
        make_folder(self._folder)
        return create_file(self._folder / f"{tag}-{place.number + 1}", host_tag().encode(), durable=True)

    def _silent_sec(self, tag: str) -> float:
        """How long ago a host wrote about its sending; for ever if it never did."""
        for folder in self._outbox.glob("*"):
            if tag_of(folder.name) == tag:
                try:
                    return time.time() - (folder / "state.json").stat().st_mtime
                except OSError:
                    continue
        return float("inf")

    def _read_places(self) -> dict[str, _Place]:
        places: dict[str, _Place] = {}
        for path in self._folder.glob("*-*"):
            match = _NAME.fullmatch(path.name)
            if match is None or int(match[2]) <= places.get(match[1], _Place(0, "")).number:
                continue
            try:
                places[match[1]] = _Place(int(match[2]), read_page(path).decode("ascii", "replace"))
            except OSError:
                continue
        return places


def _place_of(tag: str, places: Mapping[str, _Place]) -> _Place:
    return places.get(tag) or _Place(0, tag)
