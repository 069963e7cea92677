"""Looking for new data before anybody asks for it, so that no question waits until journals are read.

While questions are asked and processes record, a thread looks at the store about once a second. It ends when nobody has
asked for some time; whoever asks then looks for himself, and starts it again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rolltrace._guard import logger

KEEP_SEC = 5.0
"""How long after the last question it goes on: an open page asks every three seconds."""
OLDEST_SEC = 2.0
"""Without a look under way, a question takes no answer that is older."""
LONGEST_LOOK_SEC = 10.0
"""While a look is under way, questions are answered from the one before, up to this age."""
_NAP_SEC = 0.2
"""How often it looks whether the process ends."""


class Ahead:
    """The thread, when there is one."""

    def __init__(self, look: Callable[[], object], next_look: Callable[[], float]) -> None:
        """`look`: look at the store; `next_look`: when that is due, by the monotonic clock."""
        self._look, self._next_look = look, next_look
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked_at = 0.0
        self._stopped = threading.Event()

    def ask(self) -> None:
        """Somebody asks now: go on, or begin."""
        self._asked_at = time.monotonic()
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._stopped = threading.Event()
                # No daemon: that would hold on to the database while the interpreter takes it apart.
                self._thread = threading.Thread(target=self._run, name="rolltrace-ahead")
                self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    @property
    def is_running(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive() and not self._stopped.is_set()

    def _run(self) -> None:
        stopped, main = self._stopped, threading.main_thread()
        while not stopped.wait(min(_NAP_SEC, max(0.0, self._next_look() - time.monotonic()))):
            if not main.is_alive() or time.monotonic() - self._asked_at > KEEP_SEC:
                return
            if time.monotonic() < self._next_look():
                continue
            try:
                self._look()
            except Exception:  # whoever asks next looks for himself, and is told
                logger.debug("looking ahead", exc_info=True)
                return
