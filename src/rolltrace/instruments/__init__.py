"""rolltrace inside SDKs that call models: each call becomes an op, with the program unchanged.

An instrument is an entry point of the group `rolltrace.instruments`, in a file of its own; nothing else names it.
"""

from typing import TYPE_CHECKING

from rolltrace._later import load_later

if TYPE_CHECKING:
    from rolltrace.instruments.conversations import Conversation, Conversations
    from rolltrace.instruments.events import EventBlocks, Events, value_of
    from rolltrace.instruments.op import OpenOp
    from rolltrace.instruments.protocols import GEMINI, call_name, may_be_call, with_model
    from rolltrace.instruments.registry import instrument, uninstrument

_LATER, __getattr__ = load_later(
    __name__,
    {
        "conversations": "Conversation Conversations",
        "events": "EventBlocks Events value_of",
        "op": "OpenOp",
        "protocols": "GEMINI call_name may_be_call with_model",
        "registry": "instrument uninstrument",
    },
)
"""Name -> its module, loaded when it is asked for: `rolltrace run` loads instruments that may never be used."""

__all__ = [
    "GEMINI",
    "Conversation",
    "Conversations",
    "EventBlocks",
    "Events",
    "OpenOp",
    "call_name",
    "instrument",
    "may_be_call",
    "uninstrument",
    "value_of",
    "with_model",
]
