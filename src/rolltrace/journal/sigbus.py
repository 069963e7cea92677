"""Survive a journal file that somebody cuts short while it is mapped.

A process that touches a mapped page behind the end of its file gets SIGBUS, which kills it: `truncate -s 0` on a live
journal file would end the training run. So while a file is mapped, a handler stands by, as systemd-journald has one.
It puts plain memory in the place of the mapping and lets the interrupted copy go on; the segment is told that what it
writes reaches no file any more.

The handler is written in Python, which is safe for the one case it handles: the fault comes from copying into the map
of a segment, in a thread that holds the GIL and no other lock. Any other SIGBUS is not ours: whoever had the signal
before gets it, as if we were not there.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import signal
import sys
from collections.abc import Callable
from typing import Any

_SA_SIGINFO = 4
_ADDRESS_AT = 16
_CODE_AT = 8
"""Where `siginfo_t` has `si_addr` and `si_code`, on 64-bit Linux."""
_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Action(ctypes.Structure):
    """`struct sigaction` of glibc and musl on 64-bit machines."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_supported = (
    sys.platform == "linux"
    and sys.implementation.name == "cpython"
    and platform.machine() in ("x86_64", "aarch64")
    and ctypes.sizeof(ctypes.c_void_p) == 8
)
_guarded: dict[int, tuple[int, Callable[[], None]]] = {}
"""The mapped ranges, from start to end, and whom to tell."""
_before = _Action()
"""What was done at a SIGBUS before we came."""


def guard(mapped: mmap.mmap, on_cut: Callable[[], None]) -> bool:
    """Keep touching this map from killing the process; `on_cut` is called when its file was cut short.

    False if that cannot be done here: then nothing may be mapped.
    """
    if not _supported or not _is_armed():
        return False
    start = _address(mapped)
    _guarded[start] = start + len(mapped), on_cut
    return True


def release(mapped: mmap.mmap) -> None:
    """The map is about to be closed."""
    _guarded.pop(_address(mapped), None)


def _address(mapped: mmap.mmap) -> int:
    # The view must be gone before the map can be closed.
    return ctypes.addressof(ctypes.c_char.from_buffer(mapped))


def _is_armed() -> bool:
    """Whether our handler is the one that is called; puts it there if it is not."""
    now = _Action()
    if _libc.sigaction(signal.SIGBUS, None, ctypes.byref(now)) != 0:
        return False
    if now.handler == _ours.handler:
        return True
    ctypes.memmove(ctypes.byref(_before), ctypes.byref(now), ctypes.sizeof(_Action))
    return _libc.sigaction(signal.SIGBUS, ctypes.byref(_ours), None) == 0  # type: ignore[no-any-return]


def _on_sigbus(number: int, info: int, context: int) -> None:
    address = ctypes.c_uint64.from_address(info + _ADDRESS_AT).value
    for start, (end, on_cut) in list(_guarded.items()):
        if start <= address < end:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
            if _libc.mmap(start, end - start, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0) == start:
                on_cut()
                return
    _libc.sigaction(signal.SIGBUS, ctypes.byref(_before), None)  # the fault comes again, and is theirs
    if ctypes.c_int.from_address(info + _CODE_AT).value <= 0:  # not a fault: somebody sent the signal
        os.kill(os.getpid(), signal.SIGBUS)


_MAP_FIXED = 0x10
_libc: Any = ctypes.PyDLL(None, use_errno=True) if _supported else None
"""Calls that keep the GIL: another thread must not run while a copy is interrupted."""
_handler = _Handler(_on_sigbus)
_ours = _Action(handler=ctypes.cast(_handler, ctypes.c_void_p).value, flags=_SA_SIGINFO)
if _supported:
    _libc.mmap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
