"""A chart as SVG without a browser, and as the files of it that papers take: SVG, PNG, PDF, Vega-Lite.

Not covered: which charts there are (`charts.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vl_convert

from rcb_env.errors import StoreError

_PNG_SCALE = 2.0


@dataclass(frozen=True)
class Drawn:
    """A chart, ready to be put somewhere."""

    name: str
    """Of its files."""
    title: str
    about: str
    """What is seen, for who cannot see it."""
    spec: Mapping[str, Any]
    """Vega-Lite."""

    def svg(self) -> str:
        """As SVG that takes the ink of what is around it."""
        return str(vl_convert.vegalite_to_svg(dict(self.spec)))


def save(charts: Sequence[Drawn], folder: str | Path) -> list[Path]:
    """Write charts as SVG, PNG, PDF, and as the Vega-Lite they are made of.

    Args:
        charts: which.
        folder: where to; it is made if it is not there.

    Raises:
        StoreError: it cannot be written.
    """
    folder = Path(folder)
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for chart in charts:
            spec = dict(chart.spec)
            for ending, data in (
                ("svg", chart.svg().encode()),
                ("png", vl_convert.vegalite_to_png(spec, scale=_PNG_SCALE)),
                ("pdf", vl_convert.vegalite_to_pdf(spec)),
                ("vl.json", json.dumps(spec, indent=2).encode()),
            ):
                path = folder / f"{chart.name}.{ending}"
                path.write_bytes(data)
                written.append(path)
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {error.strerror}; name another folder") from error
    return written
