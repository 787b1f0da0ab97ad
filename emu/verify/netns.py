"""The child's own namespaces: they end with it, whatever ends it."""

from __future__ import annotations

import ctypes
import os
import signal

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def enter(parent: int) -> None:
    """Leave the machine's namespaces; die with the parent.

    Nothing is named, bound or mounted outside: when the process is gone the kernel takes all down.

    Raises:
        OSError: the kernel refuses.
    """
    call(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != parent:  # it died before
        raise OSError("the parent is gone")
    call(_libc.unshare(CLONE_NEWNS | CLONE_NEWNET))
    call(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    call(_libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None))


def call(result: int) -> None:
    """Raise what a C call reported."""
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
