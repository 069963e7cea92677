"""Wrong tokens, by the address that showed them: whoever guesses is slowed down, and nobody else is.

After `FREE_GUESSES` wrong tokens within a minute, every request of that address waits before its token is looked at,
and only a few may wait at once. So an address can try a handful of tokens a second, however many connections it opens;
a person behind the same address who has the right token still comes in.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

from rolltrace.view.limits import FREE_GUESSES, GUESSES_SEC, MOST_ADDRESSES, MOST_SLOWED, SLOWED_SEC


class Guesses:
    """Counts wrong tokens. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, list[float]] = OrderedDict()
        self._waiting: dict[str, int] = {}

    def wrong(self, client: str) -> None:
        """The client showed a wrong token."""
        address = _network(client)
        times = self._wrong.setdefault(address, [])
        times.append(self._clock())
        del times[:-FREE_GUESSES]
        self._wrong.move_to_end(address)
        while len(self._wrong) > MOST_ADDRESSES:
            self._wrong.popitem(last=False)

    def is_slowed(self, client: str) -> bool:
        times = self._wrong.get(_network(client), [])
        return len(times) == FREE_GUESSES and self._clock() - times[0] < GUESSES_SEC

    async def may_try(self, client: str) -> bool:
        """Whether the token of this client's request is to be looked at; a client that guessed often waits for it."""
        if not self.is_slowed(client):
            return True
        address = _network(client)
        if self._waiting.get(address, 0) >= MOST_SLOWED:
            return False
        self._waiting[address] = self._waiting.get(address, 0) + 1
        try:
            await asyncio.sleep(SLOWED_SEC)
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]
        return True


def _network(client: str) -> str:
    """What one person can have many addresses of: an IPv6 network of 64 bits is one client."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else client
