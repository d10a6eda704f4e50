"""Where the indexes of runs are kept: in the user's cache, else in a folder of this process. Deleting them loses nothing."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path

from rcb_env.caches import user_cache
from rcb_env.errors import UsageError

_NAME = "view"
_SUFFIX = ".sqlite"


def index_path(name: str, folder: Path | None = None) -> Path:
    """The file of an index.

    Args:
        name: what no other run has.
        folder: of all indexes; None: the user's, or a temporary one where that cannot be written.
    """
    return (folder or _folder()) / f"{name}{_SUFFIX}"


def remove_indexes() -> list[Path]:
    """Remove all indexes in the user's cache, those of earlier versions included; returns what was removed.

    Whoever reads one goes on, and makes it anew at the next look.
    """
    try:
        found = sorted(user_cache(_NAME).glob(f"*{_SUFFIX}*"))
    except (UsageError, OSError):
        return []
    for path in found:
        path.unlink(missing_ok=True)
    return [path for path in found if path.suffix == _SUFFIX]


def _folder() -> Path:
    try:
        folder = user_cache(_NAME)
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (UsageError, OSError):
        pass
    return _temporary_folder()


@functools.cache
def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="rcb-view-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
