"""Makes flock fail in this process and all that it starts, as file systems without locks do: a seccomp filter."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

_FLOCK = {"x86_64": 73, "aarch64": 32}
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _MODE_FILTER = 22, 38, 2


def refuse_locks(number: int = errno.ENOLCK) -> bool:
    """Whether flock fails with this error from here on; False where no filter can be installed."""
    call = _FLOCK.get(platform.machine())
    if call is None:
        return False
    program = b"".join(
        struct.pack("<HBBI", *each)
        for each in (
            (0x20, 0, 0, 0),  # load the number of the system call
            (0x15, 0, 1, call),  # if it is flock:
            (0x06, 0, 0, 0x00050000 | number),  # fail
            (0x06, 0, 0, 0x7FFF0000),  # else: allow
        )
    )
    buffer = ctypes.create_string_buffer(program, len(program))
    filters = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    return libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.create_string_buffer(filters, len(filters)), 0, 0) == 0
