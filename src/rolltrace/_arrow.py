"""pyarrow and two of its modules, loaded when one of their names is first used.

    from rolltrace._arrow import pa

Loading pyarrow and numpy takes as long as everything else that a short command does, and a listing needs neither: it is
read and written down by DuckDB. What runs on the way of a listing imports them from here; all else as usual.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:

    class _Later:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            value = getattr(import_module(self._name), attribute)
            setattr(self, attribute, value)
            return value

    pa, pc, pq = _Later("pyarrow"), _Later("pyarrow.compute"), _Later("pyarrow.parquet")

__all__ = ["pa", "pc", "pq"]
