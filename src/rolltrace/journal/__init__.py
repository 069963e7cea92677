"""Save bytes so that a kill loses nothing, and read them back."""

from rolltrace.journal.drainer import detach, drainer_is_running, drainer_lock, start_drainer, undrained_bytes
from rolltrace.journal.place import (
    Undrained,
    draining_mark,
    journal_folder,
    journal_folders,
    note_undrained,
    own_folders,
    stale_marks,
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
from rolltrace.journal.spare import make_spare, make_spare_after, remove_spares
from rolltrace.journal.writer import JournalWriter, Losses

__all__ = [
    "FRAME",
    "HEADER_BYTES",
    "Damage",
    "Entry",
    "JournalWriter",
    "Losses",
    "SegmentReader",
    "Undrained",
    "Unread",
    "detach",
    "drainer_is_running",
    "drainer_lock",
    "draining_mark",
    "hidden_journals",
    "is_live",
    "journal_files",
    "journal_folder",
    "journal_folders",
    "make_spare",
    "make_spare_after",
    "note_undrained",
    "own_folders",
    "read_journals",
    "remove_spares",
    "stale_marks",
    "start_drainer",
    "strange_files",
    "undrained_bytes",
    "undrained_elsewhere",
]
