"""The blocks of code in the Markdown of this repository: what each is, and what is to be done with it.

A block says its language. `sh`, `console` (lines after "$ " are typed, the others come back) and `python` run as they are printed,
each alone in a folder of its own; data (`json`, `yaml`, `toml`, `csv`) is read; `text` is no code. A comment above a block says
more::

    <!-- not run: REASON -->    it does not run here; whoever reads the source finds the reason beside it
    <!-- file: NAME -->         readers are told to write it to this file: other blocks of the page find it there

Not covered: papers/ and CHANGELOG.md, which have no code to run.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
RUN = ("sh", "console", "python")
READ: Mapping[str, Callable[[str], Any]] = {
    "json": lambda text: [json.loads(text)],
    "jsonl": lambda text: [json.loads(line) for line in text.splitlines()],
    "yaml": yaml.safe_load,
    "toml": tomllib.loads,
    "csv": lambda text: list(csv.DictReader(io.StringIO(text), strict=True)),
}
LANGUAGES = (*RUN, *READ, "text")
_MARK = re.compile(r"<!-- (not run|file): (.+?) -->", re.DOTALL)
_FOLDERS = ("agents", "benchmarks", "docs", "examples", "images")


@dataclass(frozen=True)
class Block:
    """One block as it is printed."""

    page: str
    line: int
    language: str
    text: str
    reason: str = ""
    """Why it is not run; "" : it is."""
    file: str = ""
    """Where readers are told to write it; "" : nowhere."""

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> str:
        """What a shell is to do."""
        if self.language == "sh":
            return self.text
        return "".join(
            line.removeprefix("$ ")
            for line in self.text.splitlines(keepends=True)
            if line.startswith("$ ")
        )


def pages() -> list[Path]:
    """Markdown that people read."""
    top = [path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"]
    below = [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.md")]
    return [path.relative_to(ROOT) for path in sorted(top + below)]


def blocks() -> list[Block]:
    """All blocks of all pages."""
    return [block for page in pages() for block in _of(page)]


def _of(page: Path) -> Iterator[Block]:
    mark = ("", "")
    for token in MarkdownIt("commonmark").parse((ROOT / page).read_text("utf-8")):
        if token.type == "html_block" and (found := _MARK.fullmatch(token.content.strip())):
            mark = found[1], " ".join(found[2].split())
        elif token.type in ("fence", "code_block"):
            assert token.map is not None
            kind, value = mark
            yield Block(
                page=page.as_posix(),
                line=token.map[0] + 1,
                language=token.info.strip(),
                text=token.content,
                reason=value if kind == "not run" else "",
                file=value if kind == "file" else "",
            )
            mark = ("", "")
        elif token.type in ("inline", "html_block"):
            mark = ("", "")
