"""Save bytes so that a kill loses nothing, and read them back."""

from rolltrace.journal.access import check_store, file_mode, is_shared, is_store, make_folder, make_store, open_file
from rolltrace.journal.drainer import detach, drainer_is_running, start_drainer, undrained_bytes
from rolltrace.journal.host import host_name, host_of, host_tag, tag_of
from rolltrace.journal.lock import drainer_lock, file_lock, lock_now
from rolltrace.journal.owner import owner_of, read_problem, write_problem
from rolltrace.journal.reader import (
    Damage,
    Entry,
    SegmentReader,
    Unread,
    hidden_journals,
    is_live,
    journal_files,
    open_private,
    read_journals,
    strange_files,
)
from rolltrace.journal.replace import replace_file, replacing
from rolltrace.journal.spare import make_spare, make_spare_after, remove_spares
from rolltrace.journal.sync import sync_path
from rolltrace.journal.tokenizers import claim_tokenizer, tokenizer_file, tokenizers_pending, write_tokenizer
from rolltrace.journal.writer import JournalWriter, Losses, journal_folder

__all__ = [
    "Damage",
    "Entry",
    "JournalWriter",
    "Losses",
    "SegmentReader",
    "Unread",
    "check_store",
    "claim_tokenizer",
    "detach",
    "drainer_is_running",
    "drainer_lock",
    "file_lock",
    "file_mode",
    "hidden_journals",
    "host_name",
    "host_of",
    "host_tag",
    "is_live",
    "is_shared",
    "is_store",
    "journal_files",
    "journal_folder",
    "lock_now",
    "make_folder",
    "make_spare",
    "make_spare_after",
    "make_store",
    "open_file",
    "open_private",
    "owner_of",
    "read_journals",
    "read_problem",
    "remove_spares",
    "replace_file",
    "replacing",
    "start_drainer",
    "strange_files",
    "sync_path",
    "tag_of",
    "tokenizer_file",
    "tokenizers_pending",
    "undrained_bytes",
    "write_problem",
    "write_tokenizer",
]
