"""What the site has that no file in docs/ holds: hooks of MkDocs.

The page of the command line is what `--help` of every command says. Pages and files elsewhere in the repository that a page links
to become part of the site, below ``repository/``, so that every link holds there as it does in the repository. Formulas
become MathML, which browsers draw by themselves.
Not covered: a link to a folder without a README.md becomes plain text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

import click
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from rcb_env.cli.main import rcb

_ROOT = Path(__file__).resolve().parents[2]
_ELSEWHERE = "repository"
_COMMANDS = "reference/command-line.md"
_LINK = re.compile(
    r"""(?P<text>\[[^\]\n]*\])\((?P<target>[^)\s]+)\)|\b(?:src|srcset|href)="(?P<attribute>[^"]+)\""""
)
_WITH_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|#")
_FENCED = re.compile(r"^(?P<fence> *(?:`{3,}|~{3,})).*?^(?P=fence) *$", re.MULTILINE | re.DOTALL)
_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<formula>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


# --- what is there beside docs/ ----------------------------------------------------------------


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Pages that the navigation does not name stand at the end of "How to"."""
    assert config.nav is not None
    named = re.findall(r"[\w/-]+\.md", str(config.nav))
    how_to = next(entry["How to"] for entry in config.nav if "How to" in entry)
    docs = Path(config.docs_dir)
    for page in sorted(each.relative_to(docs).as_posix() for each in docs.rglob("*.md")):
        if page not in named:
            how_to.append(page)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the page of the command line, and what pages link to outside docs/."""
    files.append(File.generated(config, _COMMANDS, content=_command_line()))
    seen = {file.src_uri for file in files}
    waiting = [file.src_uri for file in files.documentation_pages() if file.src_uri != _COMMANDS]
    while waiting:
        page = waiting.pop()
        for path in _linked(page, (_ROOT / _source(page)).read_text("utf-8")):
            uri = _uri(path)
            if uri in seen:
                continue
            seen.add(uri)
            added = File.generated(
                config, uri, abs_src_path=str(_ROOT / path), inclusion=InclusionLevel.NOT_IN_NAV
            )
            files.append(added)
            if uri.endswith(".md"):
                waiting.append(uri)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links lead to where their targets are in the site."""
    del config, files
    here = page.file.src_uri

    def moved(found: re.Match[str]) -> str:
        target = found["target"] or found["attribute"]
        path = _path(here, target)
        if path is None:
            return found[0]
        if not (_ROOT / path).is_file():
            return found["text"][1:-1] if found["text"] else found[0]
        _, mark, anchor = target.partition("#")
        if found["attribute"]:  # MkDocs leaves HTML alone, and so it must be right as it is
            uri = File(_uri(path), None, "", use_directory_urls=False).dest_uri
        else:
            uri = _uri(path)
        return found[0].replace(target, relpath(uri, dirname(here) or ".") + mark + anchor)

    return _outside_of_code(markdown, lambda text: _LINK.sub(moved, text))


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas become MathML."""
    del page, config, files

    def drawn(found: re.Match[str]) -> str:
        formula = html.unescape(found["formula"])
        if found["tag"] == "span":
            return str(convert(formula))
        # A long one can be scrolled.
        return f'<div style="overflow-x: auto">{convert(formula, display="block")}</div>'

    return _FORMULA.sub(drawn, content)


# --- places ------------------------------------------------------------------------------------


def _source(uri: str) -> str:
    """Where in the repository a page of the site comes from."""
    inside, _, rest = uri.partition("/")
    return rest if inside == _ELSEWHERE else f"docs/{uri}"


def _uri(path: str) -> str:
    """Where in the site a file of the repository is."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"{_ELSEWHERE}/{path}"


def _path(page: str, target: str) -> str | None:
    """The file, or the folder without a page, that a link leads to; None: it leads elsewhere, or to nothing."""
    if _WITH_SCHEME.match(target):
        return None
    path = normpath(join(dirname(_source(page)), target.partition("#")[0]))
    if path.startswith(("..", "/")) or not (_ROOT / path).exists():
        return None
    readme = join(path, "README.md")
    return readme if (_ROOT / readme).is_file() else path


def _linked(page: str, markdown: str) -> Iterator[str]:
    """Files outside docs/ that a page links to."""
    for found in _LINK.finditer(_FENCED.sub("", markdown)):
        path = _path(page, found["target"] or found["attribute"])
        if path and not path.startswith("docs/") and (_ROOT / path).is_file():
            yield path


def _outside_of_code(markdown: str, change: Callable[[str], str]) -> str:
    parts, end = [], 0
    for block in _FENCED.finditer(markdown):
        parts += [change(markdown[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(markdown[end:])])


# --- the command line --------------------------------------------------------------------------


def _command_line() -> str:
    """What `--help` says, a section for each command."""
    sections = [
        "# The command line",
        "What `--help` of each command says. Exit codes: 0 all went well; 1 the command worked and its answer is no; "
        "2 it could not do what was asked, with one line that says why; 130 interrupted.",
    ]
    for words, command in _commands(rcb, ("rcb",)):
        context = click.Context(command, info_name=" ".join(words), **rcb.context_settings)
        context.terminal_width = 100
        sections += [f"## {' '.join(words)}", f"```text\n{command.get_help(context)}\n```"]
    return "\n\n".join(sections) + "\n"


def _commands(
    command: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from _commands(command.commands[name], (*words, name))
