"""Who may read and write a store: its owner alone, or a group; and why we may not.

    private (0700)    folders 0700, files 0600: what a store is unless somebody asks for more
    group   (2770)    folders 2770, files 0660, whatever the umask: `init(share="group")`, `ROLLTRACE_SHARE=group`

The mode of the folder is what remembers it: everything inside takes after the folder it lies in, so the drainer,
senders and commands do the same whoever runs them. A folder that was there before stays as it is; what is made in it is
private, unless it is open to its group and hands its group on (2770 or 2775), which is how people share folders.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import Any

from rolltrace.errors import ConfigError, StoreError
from rolltrace.settings import SHARES, variable_of

_PRIVATE_FOLDER, _SHARED_FOLDER = 0o700, 0o2770
_PRIVATE_FILE, _SHARED_FILE = 0o600, 0o660
_GROUP = stat.S_IRWXG
MAX_PAGE_BYTES = 64 << 20
"""Of a file that is read whole, such as a policy."""
_HOST = re.compile(r".+-[0-9a-f]{8}")
"""How the journal folders of hosts are called (`host_name`)."""


def make_store(store: Path, share: str | None = None) -> None:
    """Make the folder of a store, if there is none. Folders above it are made as everywhere else.

    Args:
        store: The folder.
        share: `private` or `group`; if not given, what ROLLTRACE_SHARE says. It counts for a new folder; with `group`,
            one that is there and belongs to us is opened to its group, with all that is in it.

    Raises:
        ConfigError: there is no such way to share.
        StoreError: the folder belongs to somebody else, and is not shared with us.
        OSError: it cannot be made.
    """
    share = share or os.environ.get(variable_of("share")) or "private"
    if share not in SHARES:
        raise ConfigError(f"{variable_of('share')} must be one of {', '.join(map(repr, SHARES))}, not {share!r}")
    if not store.is_dir():
        store.parent.mkdir(parents=True, exist_ok=True)
        _make(store, _SHARED_FOLDER if share == "group" else _PRIVATE_FOLDER)
    elif share == "group" and not is_shared(store):
        _open_to_group(store)


def is_store(folder: Path) -> bool:
    """Whether a folder is a store, or begins to be one: journals come before all else. True if that cannot be seen."""
    try:
        if any((folder / name).exists() for name in ("format.json", "address.json")):
            return True
        hosts = os.listdir(folder / "journal")
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        return True
    return any(_HOST.fullmatch(name) for name in hosts) or any((folder / "journal").glob("*/*.seg"))


def check_store(folder: Path, *, may_be_empty: bool = False) -> None:
    """Raise a StoreError, which says what is there, unless the folder is a store, or empty and `may_be_empty`."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
    elif is_store(folder):
        return
    elif any(folder.iterdir()):
        what = "is a folder of other things"
    elif may_be_empty:
        return
    else:
        what = "is an empty folder"
    raise StoreError(f"there is no store at {str(folder)!r}, which {what}")


def make_folder(folder: Path, *, durable: bool = False) -> None:
    """Make a folder inside a store, and those above it that are missing; with `durable`, so that a power cut cannot
    take them back."""
    if folder.is_dir():
        return
    if not folder.parent.is_dir():
        make_folder(folder.parent, durable=durable)
    _make(folder, _SHARED_FOLDER if is_shared(folder.parent) else _PRIVATE_FOLDER)
    if durable:
        sync_path(folder.parent)


def is_shared(folder: Path) -> bool:
    """Whether what is made in a folder is the group's too."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISGID) and mode & _GROUP == _GROUP


def file_mode(folder: Path) -> int:
    """The mode of a file in this folder of a store."""
    return _SHARED_FILE if is_shared(folder) else _PRIVATE_FILE


def open_file(path: str | os.PathLike[str], flags: int) -> int:
    """As `os.open`, and an `opener` of `open`: a file that this makes has its mode from its first byte on."""
    if not flags & os.O_CREAT:
        return _open_plain(path, flags)
    mode = file_mode(Path(path).parent)
    try:
        descriptor = os.open(path, flags | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return _open_plain(path, flags, mode)
    if mode != _PRIVATE_FILE:  # the umask may have taken some of it; it cannot take anything that matters from 0600
        os.fchmod(descriptor, mode)
    return descriptor


def _make(folder: Path, mode: int) -> None:
    """Make one folder, at once with its mode: others may be making it too, and look at it."""
    if mode == _PRIVATE_FOLDER:
        try:
            folder.mkdir(mode=mode)
        except FileExistsError:
            if not folder.is_dir():
                raise
        return
    hidden = folder.with_name(f".{folder.name}.{os.urandom(4).hex()}.{os.getpid()}.new")
    hidden.mkdir(mode=_PRIVATE_FOLDER)
    try:
        hidden.chmod(mode)
        hidden.rename(folder)  # takes the place of an empty folder, and of no other
    except OSError:
        hidden.rmdir()
        if not folder.is_dir():
            raise


def _open_to_group(store: Path) -> None:
    try:
        for folder, _, files in os.walk(store, topdown=False):
            for name in files:
                try:
                    os.chmod(Path(folder, name), _SHARED_FILE)
                except FileNotFoundError:  # drained meanwhile
                    continue
            os.chmod(folder, _SHARED_FOLDER)
    except PermissionError as error:
        raise StoreError(
            f"the store {str(store)!r} cannot be shared, because {error.filename!r} belongs to somebody else; "
            f"its owner can: chmod -R g+rwX {store} && find {store} -type d -exec chmod g+s {{}} +"
        ) from error


def open_private(path: Path) -> Any:
    """Open a file of the store for reading: a plain file, and not what a link or a pipe of its name leads to.

    Raises:
        OSError: it cannot be opened, or is no plain file.
    """
    return open(path, "rb", opener=_open_plain)


def read_page(path: Path) -> bytes:
    """The content of a small file of a store: a version, a policy, a state.

    Raises:
        OSError: it cannot be read, is no plain file, or is larger than any of ours.
    """
    with open_private(path) as file:
        content: bytes = file.read(MAX_PAGE_BYTES + 1)
    if len(content) > MAX_PAGE_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MAX_PAGE_BYTES >> 20} MiB, and so none of ours", str(path))
    return content


def is_inside(store: Path, path: Path) -> bool:
    """Whether no link leads from a store to this path outside it."""
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(store), ""))


def check_inside(store: Path, path: Path) -> None:
    """Raise a StoreError if what is written there would be outside the store, because of a link in it."""
    if not is_inside(store, path):
        raise StoreError(f"{str(path)!r} is outside the store {str(store)!r}: a symbolic link in it leads there")


def _open_plain(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
    """As `os.open`, of a plain file: no link is followed, and a pipe is not waited for."""
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "a symbolic link, which is not followed", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return fd


def sync_path(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk itself."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def user_name(uid: int) -> str:
    """The name of a user; its number where that has none here, as in a container."""
    import pwd  # not in the hot path

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def owner_of(path: Path) -> str | None:
    """Who else owns a file; None if it is ours, or if nobody can tell."""
    try:
        uid = path.stat().st_uid
    except OSError:
        return None
    return None if uid == os.geteuid() else user_name(uid)


def read_problem(path: Path, error: OSError) -> str:
    """Why a file cannot be read."""
    why = error.strerror or str(error) or type(error).__name__
    owner = owner_of(path) if isinstance(error, PermissionError) else None
    return why if owner is None else f"{why}: it belongs to {owner}"


def write_problem(store: Path) -> str | None:
    """Why we cannot write to a store; None if we can, as far as its folder tells."""
    if os.access(store, os.W_OK | os.X_OK):
        return None
    try:
        if os.statvfs(store).f_flag & os.ST_RDONLY:
            return "it is mounted read-only"
        mode = store.stat().st_mode & 0o777
    except OSError as error:
        return error.strerror or str(error)
    owner = owner_of(store)
    if owner is not None:
        return f"it belongs to {owner}, and you are {user_name(os.geteuid())}"
    return f"its folder is read-only (mode {mode:03o})"
