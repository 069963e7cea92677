"""Folder and file names of a store.

    STORE/format.json                                                   version
    STORE/data/project=P/experiment=E/step=S/TABLE--SOURCE.parquet      parts; S is a number or `none`
    STORE/summary/project=P/experiment=E/step=S--...                    listings of settled steps (query/summary.py)
    STORE/blobs/ab/abcdef...                                            content, named by its hash
    STORE/pass/HASH.json                                                what pass means in an experiment (pass_rule.py)
    STORE/tokenizers/FINGERPRINT.json                                   what decodes the tokens of ops
    STORE/journal/HOST/*.seg                                            what the drainer has not yet taken
    STORE/outbox/BACKEND/                                               what was sent on (keeper/outbox.py)
    STORE/unreadable/SEGMENT-PLACE.msgpack                              records that could not be made rows
    STORE/lease/DUTY/EPOCH.json                                         which host does what (lease.py)
    STORE/upkeep/                                                       what it was doing (merge.py, prune.py)

Names are Hive style, so any tool that reads a folder of Parquet files knows project, experiment and step. What a
file system or a URL could take amiss is percent-escaped; very long names are cut and made unique by a hash.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import xxhash

from rolltrace.errors import FormatError, StoreError
from rolltrace.files import make_folder, make_store, read_page, read_problem, replace_file
from rolltrace.record import FORMAT

COMPACTED = "compact-"
"""How the source of a part that stands for others begins; that of any other is the name of its segment or import."""
_GENERATION = re.compile(rf"{COMPACTED}(\d{{6,}})-([0-9a-f]{{8}})")
_PART = re.compile(r"[a-z]+--[A-Za-z0-9_.~-]+\.parquet")
_STEP = re.compile(r"step=(?:none|-?\d+)")
_NOT_FOREIGN = (".new", ".bad")
"""How the names end of files that are being written (`abandoned`), and of those that somebody has given up."""
_LONGEST_NAME = 120
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.-]")

OnUnreadable = Callable[[Path, OSError], None]
"""Told of a folder that cannot be listed."""


class Partition(NamedTuple):
    """The rows of one step of one experiment stand in one folder."""

    project: str
    experiment: str
    step: int | None

    def folder(self, store: Path) -> Path:
        experiment = data_folder(store) / f"project={escape(self.project)}" / f"experiment={escape(self.experiment)}"
        return experiment / step_folder(self.step)


def data_folder(store: Path) -> Path:
    return store / "data"


def step_folder(step: int | None) -> str:
    """The name that the folders of a step have in every experiment."""
    return "step=none" if step is None else f"step={step}"


def is_part_name(name: str) -> bool:
    """Whether a part can have this name: no path, which might lead elsewhere."""
    return _PART.fullmatch(name) is not None


def step_of(folder: Path) -> int | None:
    """Which step a folder is of; None for those of no step."""
    step = folder.name.removeprefix("step=")
    return int(step) if step.lstrip("-").isdigit() else None


def leave_out(folder: Path, fault: OSError) -> None:
    """Take a folder that cannot be listed for an empty one."""


def step_folders(store: Path, on_unreadable: OnUnreadable = leave_out) -> Iterator[Path]:
    """The folder of every step, in order. Symbolic links are not followed: they may lead out of the store."""
    for project in _folders(data_folder(store), "project=", on_unreadable):
        for experiment in _folders(project, "experiment=", on_unreadable):
            steps = _folders(experiment, "step=", on_unreadable)
            yield from (folder for folder in steps if _STEP.fullmatch(folder.name))


def parts_in(folder: Path, on_unreadable: OnUnreadable = leave_out) -> list[Path]:
    """The parts in the folder of a step, those that another one stands for included."""
    return [folder / name for name in sorted(entry.name for entry in part_entries(folder, on_unreadable))]


def part_entries(folder: Path, on_unreadable: OnUnreadable = leave_out) -> list[os.DirEntry[str]]:
    """The same as entries of the folder, in no order."""
    try:
        with os.scandir(folder) as entries:
            return [each for each in entries if _PART.fullmatch(each.name) and each.is_file(follow_symlinks=False)]
    except FileNotFoundError:  # removed meanwhile
        return []
    except OSError as fault:
        on_unreadable(folder, fault)
        return []


def foreign_entries(store: Path) -> Iterator[Path]:
    """What stands among the parts and is none of ours: it is left alone, and not read."""
    data = data_folder(store)
    if data.is_symlink():
        yield data
        return
    if not data.exists():
        return
    unreadable: set[Path] = set()
    ours = {data, *step_folders(store, lambda folder, fault: unreadable.add(folder))} | unreadable
    ours |= {parent for folder in list(ours) for parent in folder.parents}
    for folder in sorted(each for each in ours if each == data or data in each.parents):
        parts = set(parts_in(folder)) if _STEP.fullmatch(folder.name) else set()
        for entry in sorted(folder.iterdir()) if os.access(folder, os.R_OK | os.X_OK) else ():
            if entry not in ours and entry not in parts and not entry.name.endswith(_NOT_FOREIGN):
                yield entry


def _folders(parent: Path, prefix: str, on_unreadable: OnUnreadable) -> list[Path]:
    if parent.is_symlink():
        return []
    try:
        with os.scandir(parent) as entries:
            names = [
                each.name for each in entries if each.name.startswith(prefix) and each.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []
    except OSError as fault:
        on_unreadable(parent, fault)
        return []
    return [parent / name for name in sorted(names)]


def part_name(table: str, source: str) -> str:
    """A part's name says which rows it holds, so writing them again replaces it and never doubles them."""
    return f"{table}--{source}.parquet"


def table_of(part: Path) -> str:
    return part.name.partition("--")[0]


def source_of(part: Path) -> str:
    return part.name.partition("--")[2].removesuffix(".parquet")


class Generation(NamedTuple):
    """The number of a part that stands for others, among those of its step, table and store."""

    store_id: str
    number: int

    @property
    def source(self) -> str:
        return f"{COMPACTED}{self.number:06d}-{self.store_id}"


def generation_of(part: Path) -> Generation | None:
    """The generation of a part; None if it has none, as all but those that stand for others, and those of old."""
    match = _GENERATION.fullmatch(source_of(part))
    return Generation(match[2], int(match[1])) if match else None


def blob_path(store: Path, name: str) -> Path:
    return store / "blobs" / name[:2] / name


def escape(name: str) -> str:
    """A name as one safe, reversible path component; a very long one ends in a hash instead of its rest."""
    escaped = _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], name.encode("utf-8", "backslashreplace")).decode()
    if escaped.startswith("."):
        escaped = "%2E" + escaped[1:]
    if len(escaped) > _LONGEST_NAME:
        prefix = escaped[:_LONGEST_NAME]
        if "%" in prefix[-2:]:
            prefix = prefix[: prefix.rindex("%")]  # not half an escape
        return f"{prefix}~{xxhash.xxh3_64_hexdigest(escaped.encode())}"
    return escaped


def unescape(component: str) -> str:
    return unquote(component)


def prepare(store: Path) -> None:
    """Make a folder a store, or check that it is one of a version that we can write."""
    try:
        make_store(store)
        make_folder(data_folder(store), durable=True)
        page = store / "format.json"
        if not page.exists():
            replace_file(page, json.dumps({"format": FORMAT}).encode() + b"\n", durable=True)
    except OSError as fault:
        raise StoreError(f"cannot write to the store {str(store)!r}: {fault.strerror or fault}") from fault
    check_version(store)


def check_version(store: Path) -> None:
    """Raise `FormatError` if the store is of a newer version than this rolltrace."""
    page = store / "format.json"
    try:
        version = json.loads(read_page(page))["format"]
    except FileNotFoundError:
        return  # nothing drained yet: journals have versions of their own
    except OSError as fault:
        raise StoreError(f"cannot read the store {str(store)!r}: {read_problem(store, fault)}") from fault
    except (ValueError, KeyError, TypeError, UnicodeDecodeError):
        raise FormatError(f'{page} is damaged; it should read {{"format": {FORMAT}}}') from None
    if not isinstance(version, int) or version > FORMAT:
        raise FormatError(
            f"the store {str(store)!r} was written by a newer rolltrace (format {version}, this one reads {FORMAT}); "
            "upgrade with: pip install -U rolltrace"
        )
