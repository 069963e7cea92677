"""Where the journals of a store are: in the store, or on a disk of each host that the store names.

    STORE/journal/HOST/*.seg                     where they are unless somebody asks for another place
    STORE/journal/HOST/place.json                where else this host keeps them: a folder and its key
    STORE/journal/HOST/undrained.json            how much waits there, for the other hosts, which cannot look
    JOURNALS/STORENAME-KEY/store.json            whose journals these are: the same key
    JOURNALS/STORENAME-KEY/*.seg                 and here they are, with the locks and logs of this host

Each store has a folder of its own in `JOURNALS`, so several can have the same. The store says where it is, so whoever
drains or reads on this host finds it without being told. A store that somebody made up could name any folder: one
counts only if the key in it is the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rolltrace.errors import StoreError
from rolltrace.files import file_lock, host_name, is_shared, make_folder, read_page, replace_file

_TRIES, _WAIT_SEC = 100, 0.05


class _Place(msgspec.Struct):
    folder: str
    key: str


class _Owner(msgspec.Struct):
    store: str
    host: str
    key: str


class Undrained(msgspec.Struct):
    """How much waits to be drained in a place that only its host can see."""

    folder: str
    files: int | None
    """None: not counted yet."""
    bytes: int
    time_ns: int


def journal_folder(store: Path) -> Path:
    """Where this host's journals of a store are."""
    return _elsewhere(store) or _inside(store)


def journal_folders(store: Path) -> list[Path]:
    """Every folder of journals of a store that can be seen from here."""
    try:
        inside = sorted(Path(each.path) for each in os.scandir(store / "journal") if each.is_dir(follow_symlinks=False))
    except OSError:
        inside = []
    elsewhere = _elsewhere(store)
    return inside if elsewhere is None else [*inside, elsewhere]


def own_folders(store: Path) -> frozenset[Path]:
    """Where journals of this host may be: also in the store, from before they were elsewhere."""
    return frozenset({_inside(store), journal_folder(store)})


def choose_place(store: Path, journals: Path) -> Path:
    """Have this host keep its journals of a store in a folder of their own below `journals`; that folder.

    Raises:
        StoreError: they are in another place, and not all drained.
        OSError: the folder cannot be made.
    """
    for _ in range(_TRIES):
        with file_lock(journals / f".{store.name}.lock") as alone:
            if alone:
                return _choose_place(store, journals)
        time.sleep(_WAIT_SEC)
    raise StoreError(f"others choose another place for the journals of {str(store)!r} all the time")


def _choose_place(store: Path, journals: Path) -> Path:
    now = _elsewhere(store)
    if now is not None and now.parent == journals:
        return now
    if any(path.suffix == ".seg" for folder in own_folders(store) for path in _entries(folder)):
        raise StoreError(
            f"the journals of the store {str(store)!r} are in {str(journal_folder(store))!r} on this host, and not "
            f"all drained; drain them first: rolltrace store drain --once {store}"
        )
    key = os.urandom(4).hex()
    folder = journals / f"{store.name}-{key}"
    make_folder(_inside(store))
    make_place(store, folder)
    replace_file(_inside(store) / "place.json", msgspec.json.encode(_Place(str(folder), key)), durable=True)
    return folder


def make_place(store: Path, folder: Path) -> None:
    """Make the folder that holds the journals, and say in it whose they are. Does nothing for one in the store."""
    if folder == _inside(store):
        make_folder(folder)
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    if is_shared(store):
        folder.chmod(0o2770)
    owner = _Owner(str(store), host_name(), folder.name.rpartition("-")[2])
    replace_file(folder / "store.json", msgspec.json.encode(owner))


def note_undrained(store: Path, *, counted: bool = True) -> None:
    """Tell other hosts how much waits here, if they cannot see it; not `counted`: that something may."""
    folder = _elsewhere(store)
    if folder is None:
        return
    sizes = [path.stat().st_blocks * 512 for path in _entries(folder) if path.suffix == ".seg"] if counted else []
    before = _read_undrained(_inside(store))
    files = len(sizes) if counted else None
    if before is None or (before.files, before.folder) != (files, str(folder)):
        page = Undrained(str(folder), files, sum(sizes), time.time_ns())
        replace_file(_inside(store) / "undrained.json", msgspec.json.encode(page))


def undrained_elsewhere(store: Path) -> Iterator[tuple[str, Undrained]]:
    """The other hosts that keep journals where we cannot look, and have not drained all of them."""
    for folder in journal_folders(store):
        page = _read_undrained(folder)
        if page is not None and page.files != 0 and folder.name != host_name():
            yield folder.name, page


def _inside(store: Path) -> Path:
    return store / "journal" / host_name()


def _elsewhere(store: Path) -> Path | None:
    try:
        place = msgspec.json.decode(read_page(_inside(store) / "place.json"), type=_Place)
        owner = msgspec.json.decode(read_page(Path(place.folder) / "store.json"), type=_Owner)
    except (OSError, msgspec.MsgspecError):
        return None
    folder = Path(place.folder)
    return folder if owner.key == place.key and folder.is_absolute() and not folder.is_symlink() else None


def _read_undrained(folder: Path) -> Undrained | None:
    try:
        return msgspec.json.decode(read_page(folder / "undrained.json"), type=Undrained)
    except (OSError, msgspec.MsgspecError):
        return None


def _entries(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in os.listdir(folder)]
    except OSError:
        return []
