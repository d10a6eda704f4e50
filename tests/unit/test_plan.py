"""What a run is made for, and what it may be resumed with."""

from __future__ import annotations

from pathlib import Path

import pytest

from rcb_env.errors import StoreError
from rcb_env.runs.plan import RunConfig, open_run


def test_resuming_with_other_challenges_names_them(tmp_path: Path) -> None:
    """It printed two digests."""
    made, other = (
        RunConfig("noop", papers=(paper,), sandbox="bubblewrap") for paper in ("DyT", "minp")
    )
    open_run(made, tmp_path / "run").close()
    with pytest.raises(StoreError) as refused:
        open_run(other, tmp_path / "run", resume=True)
    message = str(refused.value)
    assert message.startswith(f"{tmp_path / 'run'} was made for other challenges (not in it: minp/")
    assert "; in it, but not selected: DyT/" in message
    assert " more);" in message
    assert "\n" not in message
    open_run(made, tmp_path / "run", resume=True).close()
