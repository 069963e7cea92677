"""Save bytes so that a kill loses nothing, and read them back."""

from rolltrace.journal.drainer import (
    detach,
    drainer_is_running,
    drainer_lock,
    drains_itself,
    find_link,
    note_drainer,
    start_drainer,
    start_wanted_drainer,
    undrained_bytes,
)
from rolltrace.journal.place import (
    Undrained,
    journal_folder,
    journal_folders,
    note_undrained,
    own_folders,
    undrained_elsewhere,
)
from rolltrace.journal.reader import (
    Damage,
    Entry,
    SegmentReader,
    Unread,
    hidden_journals,
    is_live,
    journal_files,
    read_journals,
    strange_files,
)
from rolltrace.journal.segment import FRAME, HEADER_BYTES
from rolltrace.journal.tail import JournalTail, Position, Stretch, list_segments
from rolltrace.journal.writer import JournalWriter, Losses

__all__ = [
    "FRAME",
    "HEADER_BYTES",
    "Damage",
    "Entry",
    "JournalTail",
    "JournalWriter",
    "Losses",
    "Position",
    "SegmentReader",
    "Stretch",
    "Undrained",
    "Unread",
    "detach",
    "drainer_is_running",
    "drainer_lock",
    "drains_itself",
    "find_link",
    "hidden_journals",
    "is_live",
    "journal_files",
    "journal_folder",
    "journal_folders",
    "list_segments",
    "note_drainer",
    "note_undrained",
    "own_folders",
    "read_journals",
    "start_drainer",
    "start_wanted_drainer",
    "strange_files",
    "undrained_bytes",
    "undrained_elsewhere",
]
