"""Exchange: trajectories to and from the formats of other tools. One format per file; two tables name them.

Importing this loads no column library: the command line lists the formats each time it is called.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rolltrace.exchange.formats import EXPORTS, IMPORTS, ExportFormat, ImportFormat

if TYPE_CHECKING:
    from rolltrace.exchange.importer import BadLine, Target, import_files
    from rolltrace.exchange.selection import Exported, Selection, select
    from rolltrace.exchange.text import write_csv

_LATER = {
    "BadLine": "importer",
    "Target": "importer",
    "import_files": "importer",
    "Exported": "selection",
    "Selection": "selection",
    "select": "selection",
    "write_csv": "text",
}
"""Name -> its module, which is loaded when somebody asks for it."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    return value


__all__ = [
    "EXPORTS",
    "IMPORTS",
    "BadLine",
    "ExportFormat",
    "Exported",
    "ImportFormat",
    "Selection",
    "Target",
    "import_files",
    "select",
    "write_csv",
]
