"""The folders that come with rcb-env, in a checkout and in an installation: papers, and images for boxes.

Not covered: what is in them (`rcb_env.dataset.loading`, `rcb_env.sandbox.images`).
"""

from __future__ import annotations

from pathlib import Path

LOCK_FILE = "requirements.lock"


def folder(name: str) -> Path:
    """The folder ``papers`` or ``images``."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_data" / name
    return installed if installed.is_dir() else package.parent / name


def image_names() -> tuple[str, ...]:
    """The images that exist: folders with a lock file."""
    return tuple(sorted(path.parent.name for path in folder("images").glob(f"*/{LOCK_FILE}")))
