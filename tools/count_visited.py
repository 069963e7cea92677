"""Count the source files of rolltrace that a command visits: `python tools/count_visited.py show ID --store STORE`.

A file is visited when a function of it is entered while the command runs, in any thread. Code that runs while a module
is imported does not count: it is what whoever follows the command has to open in an editor.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

import rolltrace
from rolltrace.cli import main

SOURCE = f"{Path(rolltrace.__file__).parent}/"


def count_visits(words: list[str]) -> Counter[str]:
    """File -> how many functions of it a command entered."""
    entered: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_ours = event == "call" and code.co_filename.startswith(SOURCE)
        if is_ours and code not in entered and not _is_importing(frame):
            entered.add(code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        main(words)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Counter(code.co_filename.removeprefix(SOURCE) for code in entered)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    visits = count_visits(sys.argv[1:])
    for name, functions in sorted(visits.items()):
        print(f"{functions:4} {name}", file=sys.stderr)
    print(f"{len(visits)} files, {sum(visits.values())} functions", file=sys.stderr)
