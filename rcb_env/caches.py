"""Where a user's caches lie: what can be made anew, and is kept since that takes long."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_cache_dir

from rcb_env.errors import UsageError


def user_cache(name: str) -> Path:
    """This user's folder for one kind of thing; it may not exist yet.

    Raises:
        UsageError: the user has no home, and nothing else says where.
    """
    try:
        return Path(user_cache_dir("rcb-env")) / name
    except RuntimeError:
        raise UsageError(
            "this user has no home folder, so there is no place for caches:"
            " set HOME, or XDG_CACHE_HOME, to a folder that may be written"
        ) from None
