"""Save bytes so that a kill loses nothing, and read them back."""

from rolltrace.journal.host import host_name, host_of, host_tag, tag_of
from rolltrace.journal.lock import drainer_lock, file_lock
from rolltrace.journal.reader import Damage, Entry, SegmentReader, is_live, journal_files, read_journals
from rolltrace.journal.replace import make_folders, replace_file, replacing, sync_path
from rolltrace.journal.tokenizers import claim_tokenizer, tokenizer_file, tokenizers_pending, write_tokenizer
from rolltrace.journal.writer import JournalWriter, Losses, journal_folder

__all__ = [
    "Damage",
    "Entry",
    "JournalWriter",
    "Losses",
    "SegmentReader",
    "claim_tokenizer",
    "drainer_lock",
    "file_lock",
    "host_name",
    "host_of",
    "host_tag",
    "is_live",
    "journal_files",
    "journal_folder",
    "make_folders",
    "read_journals",
    "replace_file",
    "replacing",
    "sync_path",
    "tag_of",
    "tokenizer_file",
    "tokenizers_pending",
    "write_tokenizer",
]
