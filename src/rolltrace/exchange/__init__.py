"""Exchange: trajectories to and from the formats of other tools. One format per file; two tables name them.

Importing this loads no column library: the command line lists the formats each time it is called.
"""

from rolltrace.exchange.formats import EXPORTS, IMPORTS, ExportFormat, ImportFormat

__all__ = ["EXPORTS", "IMPORTS", "ExportFormat", "ImportFormat"]
