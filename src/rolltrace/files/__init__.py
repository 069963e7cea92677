"""Files of a store: who may read them, who holds them, how they appear whole, which host brought them."""

from rolltrace.files.access import (
    check_inside,
    check_store,
    file_mode,
    is_inside,
    is_shared,
    is_store,
    make_folder,
    make_store,
    open_file,
    open_private,
    owner_of,
    read_page,
    read_problem,
    sync_path,
    write_problem,
)
from rolltrace.files.filesystem import file_lock, lock_now
from rolltrace.files.host import host_name, host_of, host_tag, tag_of
from rolltrace.files.replace import replace_file, replacing

__all__ = [
    "check_inside",
    "check_store",
    "file_lock",
    "file_mode",
    "host_name",
    "host_of",
    "host_tag",
    "is_inside",
    "is_shared",
    "is_store",
    "lock_now",
    "make_folder",
    "make_store",
    "open_file",
    "open_private",
    "owner_of",
    "read_page",
    "read_problem",
    "replace_file",
    "replacing",
    "sync_path",
    "tag_of",
    "write_problem",
]
