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
import weakref
from collections.abc import Callable
from typing import Any

_MAP_FIXED = 0x10
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


supported = (
    sys.platform == "linux"
    and sys.implementation.name == "cpython"
    and platform.machine() in ("x86_64", "aarch64")
    and ctypes.sizeof(ctypes.c_void_p) == 8
)
"""Whether a map can be guarded here."""
_guarded: dict[int, tuple[weakref.ref[mmap.mmap], weakref.WeakMethod[Callable[[], None]]]] = {}
"""The maps by their address, and whom to tell. A map that is forgotten is closed, and needs no guard."""
_before = _Action()
"""What was done at a SIGBUS before we came."""


def guard(mapped: mmap.mmap, on_cut: Callable[[], None]) -> bool:
    """Keep this map from killing the process; `on_cut`, a method, is called when its file was cut short.

    False if that cannot be done here: then nothing may be mapped.
    """
    if not supported or not _stand_by():
        return False
    address = _address(mapped)
    _guarded[address] = weakref.ref(mapped, lambda _: _forget(address)), weakref.WeakMethod(on_cut)
    return True


def release(mapped: mmap.mmap) -> None:
    """The map is about to be closed. After the last one the signal is again whose it was."""
    _forget(_address(mapped))


def _forget(address: int) -> None:
    _guarded.pop(address, None)
    if supported and not _guarded and _present().handler == _ours.handler:
        _libc.sigaction(signal.SIGBUS, ctypes.byref(_before), None)


def _address(mapped: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapped))


def _present() -> _Action:
    action = _Action()
    _libc.sigaction(signal.SIGBUS, None, ctypes.byref(action))
    return action


def _stand_by() -> bool:
    """Put our handler in the first place, before whatever is there."""
    present = _present()
    if present.handler == _ours.handler:
        return True
    ctypes.memmove(ctypes.byref(_before), ctypes.byref(present), ctypes.sizeof(_Action))
    return bool(_libc.sigaction(signal.SIGBUS, ctypes.byref(_ours), None) == 0)


def _on_sigbus(number: int, info: int, context: int) -> None:
    address = ctypes.c_uint64.from_address(info + _ADDRESS_AT).value
    # A handler that came after ours and knows no better, such as faulthandler's, sends the signal again.
    was_sent = ctypes.c_int.from_address(info + _CODE_AT).value <= 0
    saved = False
    for start, (map_of, method_of) in list(_guarded.items()):
        mapped, on_cut = map_of(), method_of()
        if mapped is None:
            continue
        if mapped.size() < len(mapped) if was_sent else start <= address < start + len(mapped):
            saved = _put_memory(start, len(mapped)) or saved
            if on_cut is not None:
                on_cut()
    if not saved:
        _libc.sigaction(signal.SIGBUS, ctypes.byref(_before), None)  # the fault comes again, and is theirs
        if was_sent:
            os.kill(os.getpid(), signal.SIGBUS)


def _put_memory(start: int, length: int) -> bool:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    return bool(_libc.mmap(start, length, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0) == start)


_libc: Any = ctypes.PyDLL(None, use_errno=True) if supported else None
"""Calls that keep the GIL: another thread must not run while a copy is interrupted."""
_handler = _Handler(_on_sigbus)
_ours = _Action(handler=ctypes.cast(_handler, ctypes.c_void_p).value, flags=_SA_SIGINFO)
if supported:
    _libc.mmap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
