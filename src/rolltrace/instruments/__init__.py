"""rolltrace inside SDKs that call models: each call becomes an op, with the program unchanged.

An instrument is an entry point of the group `rolltrace.instruments`, in a file of its own; nothing else names it.
"""

from rolltrace.instruments.plugin import Instrument
from rolltrace.instruments.registry import instrument, uninstrument

__all__ = ["Instrument", "instrument", "uninstrument"]
