"""What a folder holds: a run, or several runs side by side, and the records that say so.

A run has a run.json; runs that were made to be compared lie in one folder with an arms.json, see `create_arms`.
Not covered: what is written while a run goes on (`store`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rcb_env.errors import StoreError
from rcb_env.runs.durable import SCRATCH, parsed, write_whole, writing
from rcb_env.runs.stored import wrong_record

FORMAT = 1
"""Version of the layout; a directory of another version is refused."""
ARMS = "arms.json"
"""In a folder of runs that were made together: which ones, in which order."""
_NAMED = 8  # runs in a message
_DEEPEST = 3  # folders below which runs are named


def create_arms(folder: str | Path, arms: Mapping[str, str]) -> None:
    """Make a folder for runs that belong together, one below it for each arm.

    Args:
        folder: new or empty.
        arms: name of the run directory to be -> agent, in the order of reports.

    Raises:
        StoreError: it holds something already, or cannot be written.
    """
    folder = Path(folder)
    if (folder / "run.json").exists() or (folder / ARMS).exists():
        raise StoreError(f"{folder} already holds a run: add --resume, or choose another --out")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        strangers = sorted(p.name for p in folder.iterdir() if not p.name.startswith(SCRATCH))
    if strangers:
        raise StoreError(f"{folder} is not empty (it holds {strangers[0]}): choose another --out")
    write_whole(folder / ARMS, {"format": FORMAT, "arms": dict(arms)})


def arms_of(folder: str | Path) -> dict[str, str]:
    """What `create_arms` was told; empty for any other folder.

    Raises:
        StoreError: its record is damaged.
    """
    path = Path(folder) / ARMS
    try:
        arms = parsed(path.read_bytes())["arms"]
        found = {str(name): str(agent) for name, agent in arms.items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged: it does not list arms") from error
    if any(Path(name).name != name for name in found):
        raise StoreError(f"{path} is damaged: an arm does not lie in this folder")
    return found


def runs_in(folder: str | Path) -> list[Path]:
    """The run directories that a folder stands for.

    The arms of `create_arms` in their order; else, if it is no run itself, the runs right below it in the
    order in which they were made; else itself.

    Raises:
        StoreError: a record is damaged.
    """
    folder = Path(folder)
    if arms := arms_of(folder):
        return [folder / name for name in arms]
    below = _runs_below(folder)
    return sorted(below, key=lambda run: str(read_record(run).get("created_at"))) or [folder]


def _runs_below(folder: Path, *, deepest: int = 1) -> list[Path]:
    if (folder / "run.json").exists():
        return []
    found = (folder.glob("*/" * depth + "run.json") for depth in range(1, deepest + 1))
    return sorted(path.parent for paths in found for path in paths)


def read_record(folder: Path) -> Mapping[str, Any]:
    """The content of a run's run.json, which is sound.

    Raises:
        StoreError: there is none, or it is damaged; where runs lie below the folder, they are named.
    """
    path = folder / "run.json"
    try:
        record = parsed(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        if not folder.exists():
            raise StoreError(f"there is no folder {folder}") from error
        if below := _runs_below(folder, deepest=_DEEPEST):
            names = ", ".join(map(str, below[:_NAMED])) + (", ..." if below[_NAMED:] else "")
            raise StoreError(
                f"{folder} is not a run but a folder of runs: name one of {names}"
            ) from error
        raise StoreError(f"{folder} is not a run directory: it has no run.json") from error
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    if not isinstance(record, dict):
        raise StoreError(f"{path} is damaged: it is not a JSON object")
    if record.get("format") != FORMAT:
        raise StoreError(
            f"{path} was written by another version of rcb: it is not of format {FORMAT}"
        )
    if (flaw := wrong_record(record)) is not None:
        raise StoreError(f"{path} is damaged: {flaw}")
    return record
