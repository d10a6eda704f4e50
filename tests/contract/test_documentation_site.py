"""The documentation as a site, built as scripts/docs builds it: what it holds, and that every link leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import rcb_env
from rcb_env.cli.main import rcb

_ROOT = Path(__file__).resolve().parents[2]
_LOADS = {"img": "src", "script": "src", "source": "srcset", "iframe": "src"}


class _Page(HTMLParser):
    """What a page can be linked at, what it links to, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors = {"", "__top"}
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") != "canonical":
            self.loads.append(given["href"])
        if _LOADS.get(tag) in given:
            self.loads.append(given[_LOADS[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = ["build", "--strict", "--quiet", "--config-file", "docs/site/mkdocs.yml"]
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", *command, "--site-dir", str(folder)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}


def _inside(pages: dict[Path, _Page]) -> Iterator[tuple[Path, str, Path, str]]:
    """Page, link, file and anchor of every link inside the site."""
    for path, page in pages.items():
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            yield (
                path,
                link,
                file / "index.html" if file.is_dir() else file,
                unquote(parts.fragment),
            )


def test_every_link_leads_to_a_page_and_to_a_place_on_it(pages: dict[Path, _Page]) -> None:
    wrong = [
        f"{path.name}: {link}"
        for path, link, file, anchor in _inside(pages)
        if not file.is_file() or (file in pages and anchor not in pages[file].anchors)
    ]
    assert wrong == []
    assert sum(1 for _ in _inside(pages)) > 500


def test_links_to_elsewhere_are_whole_addresses(pages: dict[Path, _Page]) -> None:
    outside = {link for page in pages.values() for link in page.links if urlsplit(link).scheme}
    assert [
        link
        for link in outside
        if not re.fullmatch(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[^\s<>\"]*)?", link)
    ] == []


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, _Page]) -> None:
    loads = {load for page in pages.values() for load in page.loads}
    assert [load for load in loads if urlsplit(load).scheme not in ("", "data")] == []
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"url\(['\"]?https?:[^)]*|@import[^;]*", styles) == []


def test_formulas_are_drawn_without_a_script(site: Path) -> None:
    text = (site / "statistics.html").read_text("utf-8")
    drawn = re.findall(r"<math.*?</math>", text, re.DOTALL)
    assert len(drawn) > 40
    assert [formula for formula in drawn if "\\" in formula] == [], "a command nobody knew"
    assert "arithmatex" not in text


def test_the_page_of_the_command_line_has_every_command_and_option(site: Path) -> None:
    text = (site / "reference/command-line.html").read_text("utf-8")
    for name, command in rcb.commands.items():
        assert f'id="rcb-{name}"' in text
        for parameter in command.params:
            for option in parameter.opts:
                assert option in text or not option.startswith("--"), f"{name} {option}"


def test_the_page_of_the_interface_has_every_public_name(pages: dict[Path, _Page]) -> None:
    anchors = next(page.anchors for path, page in pages.items() if path.name == "python.html")
    assert [name for name in rcb_env.__all__ if f"rcb_env.{name}" not in anchors] == []
