"""Save bytes so that a kill loses nothing, and read them back."""

from rolltrace.journal.lock import drainer_lock, file_lock
from rolltrace.journal.reader import Damage, Entry, SegmentReader, is_live, journal_files, read_journals
from rolltrace.journal.writer import JournalWriter, Losses, journal_folder

__all__ = [
    "Damage",
    "Entry",
    "JournalWriter",
    "Losses",
    "SegmentReader",
    "drainer_lock",
    "file_lock",
    "is_live",
    "journal_files",
    "journal_folder",
    "read_journals",
]
