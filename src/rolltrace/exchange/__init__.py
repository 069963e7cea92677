"""Exchange: trajectories to and from the formats of other tools. One format per file; two tables name them.

Importing this loads no column library: the command line lists the formats each time it is called.
"""

from typing import TYPE_CHECKING

from rolltrace._later import load_later
from rolltrace.exchange.formats import EXPORTS, IMPORTS, ExportFormat, ImportFormat

if TYPE_CHECKING:
    from rolltrace.exchange.episode import (
        AGENT,
        PastOp,
        PastPlace,
        PastTrace,
        TraceGraph,
        mean_advantage,
        place_of_episode,
        read_trace,
        traces_of,
    )
    from rolltrace.exchange.guessing import Guess, guess
    from rolltrace.exchange.importer import BadLine, ImportReport, ImportTarget, import_files
    from rolltrace.exchange.selection import Exported, Selection, select
    from rolltrace.exchange.text import write_csv

_LATER, __getattr__ = load_later(
    __name__,
    {
        "episode": "AGENT PastOp PastPlace PastTrace TraceGraph mean_advantage place_of_episode read_trace traces_of",
        "guessing": "Guess guess",
        "importer": "BadLine ImportReport ImportTarget import_files",
        "selection": "Exported Selection select",
        "text": "write_csv",
    },
)
"""Name -> its module, which is loaded when somebody asks for it."""


__all__ = [
    "AGENT",
    "EXPORTS",
    "IMPORTS",
    "BadLine",
    "ExportFormat",
    "Exported",
    "Guess",
    "ImportFormat",
    "ImportReport",
    "ImportTarget",
    "PastOp",
    "PastPlace",
    "PastTrace",
    "Selection",
    "TraceGraph",
    "guess",
    "import_files",
    "mean_advantage",
    "place_of_episode",
    "read_trace",
    "select",
    "traces_of",
    "write_csv",
]
