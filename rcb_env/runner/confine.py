"""What a process in a box does to itself: drop root, set limits, hide its memory from its siblings.

Limits here are per process (setrlimit). What must hold for all processes of a run together (memory, number, wall time)
is watched by `main.py`; what must hold for the box as a whole (network, files, capabilities) is the maker's.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_SECCOMP_RET_ALLOW = 0x7FFF0000
_SECCOMP_RET_ERRNO = 0x00050000
_CLONE_NEWUSER = 0x10000000
_MADV_COLLAPSE = 25
_HUGE = 2 * 1024 * 1024  # bytes of a huge page on x86-64, and on ARM64 with pages of 4 KB
_NUMBER_OF_LIMITS = 16
# Instructions of the filter machine, and where it finds what it looks at.
_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT, _THIRD_ARGUMENT_AT = (
    0,
    4,
    16,
    24,
    32,
)
_LAST_NUMBER = 0x3FFFFFFF  # above it lie the calls of a second table on x86-64
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column, audit name
_FORBIDDEN = {  # numbers on x86-64 and on ARM64
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "setns": (308, 268),
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "ioprio_set": (251, 30),
    "sched_setattr": (314, 274),
    # What needs a right that no run has, or is of use to attackers of the kernel only.
    "acct": (163, 89),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    "migrate_pages": (256, 238),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "set_mempolicy": (238, 237),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "vhangup": (153, 58),
}
_PRCTL = (157, 167)
_SOCKET = (41, 198)
_LOCAL_SOCKETS = (socket.AF_UNIX,)
_INTERNET_SOCKETS = (
    socket.AF_INET,
    socket.AF_INET6,
    socket.AF_NETLINK,
)  # the last tells interfaces
_PRLIMIT = (302, 261)
_TAKE_NAMESPACE_FLAGS = {"clone": (56, 220), "unshare": (272, 97)}
_libc = ctypes.CDLL(None, use_errno=True)


def become_unprivileged(uid: int, *, dies_with_parent: bool) -> None:
    """Give up root for good, if this process has it: no groups, `uid` as user and group, no way back.

    Args:
        uid: the user and group to be.
        dies_with_parent: whether the kernel shall kill this process when its parent ends (a change of user makes it
            forget what it was told about that before).
    """
    if os.geteuid() == 0 and uid != 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if dies_with_parent:
        _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def set_dumpable(dumpable: bool) -> None:
    """Whether processes of the same user may read or write this one's memory (ptrace, /proc/PID/mem and fd)."""
    if _libc.prctl(_PR_SET_DUMPABLE, int(dumpable), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE) failed")


def be_the_first_to_end() -> None:
    """Have the kernel, when the box is out of memory, end this process and its children before any other of the box."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def set_limits(limits: Mapping[str, Any], *, processes_now: int | None) -> None:
    """Bind this process and its children to the limits of one run.

    Args:
        limits: wall_s, memory_bytes, processes, file_size_bytes, open_files (see `sandbox.box.Limits`).
        processes_now: processes the user runs already, or None where the box bounds their number itself.
    """
    # RLIMIT_DATA and not RLIMIT_AS: torch reserves far more address space than it ever uses.
    data = _status_bytes("VmData") + int(limits["memory_bytes"])
    _limit(resource.RLIMIT_DATA, data)
    _limit(resource.RLIMIT_FSIZE, int(limits["file_size_bytes"]))
    _limit(resource.RLIMIT_NOFILE, int(limits["open_files"]))
    _limit(resource.RLIMIT_CPU, int(limits["wall_s"]) * 4 + 5)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_MSGQUEUE, 0)
    _limit(resource.RLIMIT_MEMLOCK, 0)
    if processes_now is not None:
        _limit(resource.RLIMIT_NPROC, processes_now + int(limits["processes"]))


def _limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def _status_bytes(field: str) -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def use_huge_pages() -> None:
    """Move this process's own memory into huge pages, where the kernel can (Linux 6.1 and newer).

    A fork copies, and the end of a child drops, one entry for each page: with the 150 MB of torch that takes longer than
    most tests, and with pages of 2 MB a third of it. A child that writes gets small pages, as ever.
    """
    with open("/proc/self/maps") as maps:
        for line in maps.readlines():
            where, allowed, _, _, inode, *_ = line.split()
            start, end = (int(part, 16) for part in where.split("-"))
            start, end = start + -start % _HUGE, end - end % _HUGE
            if allowed == "rw-p" and inode == "0" and start < end:
                _libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_COLLAPSE)


def condition(pid: int) -> tuple[object, ...]:
    """What processes of the same user may change of this one, whatever it does against it: compare before and after.

    Raises:
        OSError: there is no such process.
    """
    limits = tuple(resource.prlimit(pid, which) for which in range(_NUMBER_OF_LIMITS))
    scheduling = (os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid))
    return (*limits, *scheduling, frozenset(os.sched_getaffinity(pid)))


def forbid_what_outlives_a_process(*, internet: bool) -> None:
    """Take system calls from this process and its children that leave things behind which nobody counts or can remove.

    These are keys (kept by the kernel for a user), memory that belongs to no process (System V objects, files without a
    name), namespaces (in which a process is root and can mount), and rarely used ways into the kernel: all that Docker
    refuses too, and the runner's containers are made without Docker's own filter, which would refuse the runner the
    namespaces of its runs. Nor may it set limits of another process: at one on processor time the kernel ends the runner,
    which looks as if somebody outside had. Of sockets it may have those between processes, and those of a network: other
    kinds (of a virtual machine and its host, for instance) lead out of any namespace. On processors other than x86-64 and
    ARM64 nothing is forbidden.

    Args:
        internet: whether it may have sockets of the internet, as the network is its own and ends with it.

    Raises:
        OSError: the kernel has no filters for system calls.
    """
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        return
    column, architecture = ARCHITECTURES[machine]
    refuse, absent = _SECCOMP_RET_ERRNO | errno.EPERM, _SECCOMP_RET_ERRNO | errno.ENOSYS
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, absent),  # calls of another architecture on the same kernel
        (_LOAD, 0, 0, _NUMBER_AT),
        (_JUMP_ABOVE, 0, 1, _LAST_NUMBER),
        (_RETURN, 0, 0, absent),
    ]
    for name, numbers in _FORBIDDEN.items():
        # clone3 hides its flags from filters; without it the C library falls back to clone.
        answer = absent if name == "clone3" else refuse
        program += [(_JUMP_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, answer)]
    for numbers in _TAKE_NAMESPACE_FLAGS.values():
        program.append((_JUMP_EQUAL, 0, 3, numbers[column]))
        program.append((_LOAD, 0, 0, _FIRST_ARGUMENT_AT))
        program.append((_JUMP_ANY_BIT, 0, 1, _CLONE_NEWUSER))
        program += [(_RETURN, 0, 0, refuse), (_LOAD, 0, 0, _NUMBER_AT)]
    program += [  # limits: everybody's may be read (no new ones are given), and one's own set
        (_JUMP_EQUAL, 0, 8, _PRLIMIT[column]),
        (_LOAD, 0, 0, _THIRD_ARGUMENT_AT),
        (_JUMP_EQUAL, 0, 2, 0),
        (_LOAD, 0, 0, _THIRD_ARGUMENT_AT + 4),
        (_JUMP_EQUAL, 2, 0, 0),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_JUMP_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _SECCOMP_RET_ALLOW),
        (_RETURN, 0, 0, refuse),
    ]
    program += [  # nor may it hide its memory from the runner
        (_JUMP_EQUAL, 0, 6, _PRCTL[column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_JUMP_EQUAL, 0, 3, _PR_SET_DUMPABLE),
        (_LOAD, 0, 0, _SECOND_ARGUMENT_AT),
        (_JUMP_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, refuse),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    kinds = (*_LOCAL_SOCKETS, *(_INTERNET_SOCKETS if internet else ()))
    program += [
        (_JUMP_EQUAL, 0, 2 + len(kinds), _SOCKET[column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
    ]
    program += [(_JUMP_EQUAL, len(kinds) - at, 0, kind) for at, kind in enumerate(kinds)]
    program.append((_RETURN, 0, 0, _SECCOMP_RET_ERRNO | errno.EAFNOSUPPORT))
    program.append((_RETURN, 0, 0, _SECCOMP_RET_ALLOW))
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    filters = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("@HP", len(program), ctypes.addressof(filters))
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, described, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP) failed")


def remove_system_v_objects() -> None:
    """Delete the box's System V shared memory, semaphores and queues, which outlive the processes that made them."""
    for kind, remove in (("shm", _libc.shmctl), ("msg", _libc.msgctl), ("sem", _remove_semaphore)):
        try:
            with open(f"/proc/sysvipc/{kind}") as table:
                rows = table.read().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            remove(int(row.split()[1]), 0, None)


def _remove_semaphore(identity: int, _command: int, _argument: None) -> None:
    _libc.semctl(identity, 0, 0)
