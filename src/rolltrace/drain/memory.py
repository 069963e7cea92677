"""What a drainer remembers from segment to segment. It saves work and space: without it, what is read is the same."""

from __future__ import annotations

from pathlib import Path

from rolltrace.drain.shared import Shared
from rolltrace.drain.text import Texts


class Memory:
    """Of one drainer, or of one reader of live journals."""

    def __init__(self, store: Path) -> None:
        self.texts = Texts(store)
        self.shared = Shared()
