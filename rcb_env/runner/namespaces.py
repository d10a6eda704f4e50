"""What a box gets from the kernel for itself alone, without any right on the machine: users, folders, a network a run.

The runner enters a user namespace, in which it may do what only root may do outside: mount, and make network namespaces.
From then on processes, and all that the kernel counts for a user, are counted for this box and no other. Its scratch
folders are file systems of its own, made anew after every run, so that neither a file nor a number the kernel gave to one
is left. Every test run has a network of its own that ends with it: ports that wait, counters and sockets go with it. A run
gives all these rights up before any code of a candidate.
Where the kernel or the maker refuses any of it, the functions say so and the caller does without: folders are emptied by
hand, and sockets of the internet are refused (`confine.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

_NEW_MOUNTS, _NEW_USERS, _NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
_NOSUID_NODEV, _READ_ONLY = 2 | 4, 1
_SET_INTERFACE_FLAGS, _UP_AND_LOOPBACK = 0x8914, 0x1 | 0x8
_CAPABILITY_VERSION_3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


def enter_own() -> bool:
    """Have this process, and all it forks, live in user and mount namespaces of their own; False where it may not.

    The process must be one whose entries in /proc it owns (`confine.set_dumpable`).
    """
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_NEW_USERS | _NEW_MOUNTS) != 0:
        return False
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    return True


def mount_scratch(folders: Sequence[Path]) -> bool:
    """Put an empty file system of the same size over each folder; False where this may not be."""
    try:
        for folder in folders:
            _mount_scratch(folder)
    except OSError:
        return False
    return True


def renew_scratch(folders: Sequence[Path]) -> None:
    """Put a fresh file system in the place of each that `mount_scratch` made, with nothing of the old one left.

    Raises:
        OSError: somebody still uses one.
    """
    for folder in folders:
        _checked(_libc.umount2(bytes(folder), 0))
        _mount_scratch(folder)


def _mount_scratch(folder: Path) -> None:
    space = os.statvfs(folder)
    options = f"mode=1777,size={space.f_blocks * space.f_frsize}".encode()
    _checked(_libc.mount(b"tmpfs", bytes(folder), b"tmpfs", _NOSUID_NODEV, options))


def hide(folder: Path) -> None:
    """Cover a folder by an empty one that nobody can write, where it exists and this may be."""
    if folder.is_dir():
        flags = _NOSUID_NODEV | _READ_ONLY
        _libc.mount(b"tmpfs", bytes(folder), b"tmpfs", flags, b"mode=0555,size=4k")


def take_own_network() -> bool:
    """Give this process a network with nothing but its own loopback, which ends with it; False where it may not."""
    if _libc.unshare(_NEW_NETWORK) != 0:
        return False
    with contextlib.suppress(OSError), socket.socket() as any_socket:
        request = struct.pack("16sH22x", b"lo", _UP_AND_LOOPBACK)
        fcntl.ioctl(any_socket, _SET_INTERFACE_FLAGS, request)
    return True


def give_up_rights() -> None:
    """Be, in the own namespaces too, an ordinary user for good.

    Raises:
        OSError: the kernel refuses.
    """
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _checked(_libc.capset(header, bytes(24)))


def _checked(outcome: int) -> None:
    if outcome != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
