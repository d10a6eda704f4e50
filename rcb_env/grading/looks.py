"""Whether code looks around in its process: for frames, other objects, how modules are found, or raw memory.

Honest research code hardly ever does. Where the answer is in the process (guarded grading), whoever reads a score should
know of it, so it is put on record; nothing is forbidden, and no verdict depends on it.
Guarantees: pure; what the file around the region or the reference does is no finding.
Not covered: code that hides what it does; a note is evidence, and its absence none.
"""

from __future__ import annotations

import re

from rcb_env.dataset.papers import Challenge

_TELLING = frozenset(
    (
        *("gc", "ctypes", "inspect", "dis", "marshal", "linecache", "tracemalloc", "importlib"),
        *("unittest", "_getframe", "_current_frames", "settrace", "setprofile", "monitoring"),
        *("meta_path", "path_hooks", "modules", "__main__", "__import__", "__loader__", "__spec__"),
        *(
            "f_back",
            "f_globals",
            "f_locals",
            "f_code",
            "tb_frame",
            "tb_next",
            "gi_frame",
            "cr_frame",
        ),
        *("ag_frame", "__globals__", "__closure__", "__code__", "__builtins__", "__subclasses__"),
        *("cell_contents", "co_consts", "co_code", "co_names", "co_filename", "get_objects"),
        *("get_referrers", "get_referents", "__traceback__", "process_vm_readv", "ptrace"),
    )
)
_WORD = re.compile(r"\w+")
_MAX_TOLD = 8


def looks_around(challenge: Challenge, code: str) -> str:
    """A note on what a region's text looks at and the published file does not; or ""."""
    published = challenge.tree()
    if challenge.holes is not None:  # without the names of its parts
        code = "\n".join(challenge.holes.split(code).values())
    files = b"\n".join(published[path] for path in challenge.files).decode("utf-8", "replace")
    found = _TELLING & (set(_WORD.findall(code)) - set(_WORD.findall(files)))
    if not found:
        return ""
    told = ", ".join(sorted(found)[:_MAX_TOLD])
    return f"the code looks around in its process, where the answer is too: {told}"
