"""`rcb list` and `rcb show`: what there is to evaluate, and what an agent gets to see of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from rcb_env.cli import completion, options
from rcb_env.cli.output import echo
from rcb_env.errors import counted

if TYPE_CHECKING:
    from rcb_env.dataset.papers import Challenge


@click.group("list")
def list_() -> None:
    """List papers, challenges or agents."""


@list_.command("papers")
@options.dataset
@options.scope
@options.as_json
def list_papers(dataset: str, scope: str | None, as_json: bool) -> None:
    """List the papers of a data set. With --json: one object per line."""
    from rcb_env.dataset.loading import load_dataset
    from rcb_env.dataset.scopes import in_scope

    rows = [
        {
            "id": paper.id,
            "title": paper.title,
            "arxiv": paper.arxiv,
            "venue": paper.venue,
            "domain": paper.domain,
            "layout": paper.layout,
            "challenges": len(paper.challenges),
            "lines": sum(challenge.lines for challenge in paper.challenges),
        }
        for paper in load_dataset(in_scope(dataset, scope)).papers
    ]
    _print_rows(rows, ("id", "challenges", "lines", "title"), as_json)


@list_.command("challenges")
@options.selection
@click.option(
    "--variants",
    "first",
    type=click.IntRange(min=1),
    metavar="COUNT",
    help="Take so many variants of each paper that declares any, the published one first: as --variant 0-(COUNT-1).",
)
@options.as_json
def list_challenges(
    dataset: str,
    scope: str | None,
    first: int | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """List challenges. With --json: one object per line, with id, paper, file, hint, lines and answer_hash.

    Two variants of a challenge have the same answer_hash if the code that is missing is the same in both.
    """
    from rcb_env.dataset.loading import load_dataset
    from rcb_env.dataset.scopes import in_scope
    from rcb_env.dataset.selection import Selection
    from rcb_env.dataset.variant_names import variant_of
    from rcb_env.errors import UsageError

    if first is not None:
        if chosen.get("variants"):
            raise UsageError("--variants and --variant say the same: leave out one")
        chosen["variants"] = range(first)
    whole = load_dataset(in_scope(dataset, scope))
    rows = [
        {
            "id": challenge.id,
            "paper": challenge.paper.published_id,
            "variant": variant_of(challenge.id),
            "file": challenge.file,
            "hint": challenge.hint,
            "lines": challenge.lines,
            "answer_hash": challenge.answer_hash,
        }
        for challenge in (options.selected(chosen) or Selection()).among(whole)
    ]
    _print_rows(rows, ("id", "lines", "file", "hint"), as_json)


@list_.command("agents")
@options.as_json
def list_agents(as_json: bool) -> None:
    """List the agents and their settings (`--agent NAME:setting=value,…`). With --json: one object per line."""
    from importlib.metadata import entry_points

    from rcb_env.play.registry import AGENTS

    rows: list[dict[str, Any]] = []
    for point in sorted(entry_points(group=AGENTS), key=lambda point: point.name):
        try:
            agent = point.load()
        except (ImportError, AttributeError) as error:  # of somebody else's package
            rows.append({"id": point.name, "settings": {}, "about": f"cannot be imported: {error}"})
            continue
        about = (agent.__doc__ or "").strip().split("\n\n")[0]
        rows.append(
            {
                "id": point.name,
                "settings": _settings(agent),
                "uses_model": getattr(agent, "uses_model", None),
                "about": " ".join(about.split()).replace("``", "`"),
            }
        )
    if not as_json:
        for row in rows:
            settings = ",".join(  # as one writes them
                f"{key}={str(value).lower() if isinstance(value, bool) else value}"
                for key, value in row["settings"].items()
            )
            row["settings"] = settings or "-"
    _print_rows(rows, ("id", "settings", "about"), as_json)


def _settings(agent: type[Any]) -> dict[str, object]:
    """The settings of an agent class with their defaults."""
    import dataclasses

    if not dataclasses.is_dataclass(agent):
        return {}
    settings: dict[str, object] = {}
    for field in dataclasses.fields(agent):
        if not field.init:
            continue
        if field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            value = None
        plain = value is None or isinstance(value, bool | int | float | str)
        settings[field.name] = value if plain else str(value)
    return settings


@click.command()
@click.argument("challenge", shell_complete=completion.challenges)
@options.dataset
@options.scope
@click.option(
    "--variant",
    type=click.IntRange(min=0),
    metavar="N",
    help="Show it in this variant of its paper, as the id with ~N does.",
)
@click.option("--paper", "with_paper", is_flag=True, help="Also print the paper's text.")
@click.option("--reference", is_flag=True, help="Also print the missing code.")
@options.as_json
def show(
    challenge: str,
    dataset: str,
    scope: str | None,
    variant: int | None,
    with_paper: bool,
    reference: bool,
    as_json: bool,
) -> None:
    """Show a challenge: its hint, its size, and the files an agent sees.

    It also says which data set the challenge is from, and which other known data sets have the same id.
    """
    from rcb_env.dataset.loading import load_dataset
    from rcb_env.dataset.papers import TASK
    from rcb_env.dataset.scopes import in_scope, scope_of
    from rcb_env.dataset.variant_names import with_variant
    from rcb_env.errors import UsageError

    if variant is not None:
        challenge = with_variant(challenge, variant)
    named = scope_of(challenge)
    dataset = in_scope(dataset, scope or (None if named == "region" else named))
    searched = load_dataset(dataset)
    others = _others_with(challenge, dataset)
    try:
        found = searched.challenge(challenge)
    except UsageError as error:
        told = [f"{error} It is not in the data set {searched.name}"]
        told += [f"{other} has it: add --dataset {other}" for other in others]
        if any(paper.id == challenge for paper in searched.papers):
            here = scope_of(dataset)
            within = "" if here == "region" else f" --scope {here}"
            told.append(f"it is a paper: `rcb list challenges{within} --papers {challenge}`")
        raise UsageError("; ".join(told)) from None
    if as_json:
        described = _describe(found, with_paper, reference)
        echo(json.dumps({**described, "dataset": searched.name, "also_in": others}))
        return
    paper = found.paper
    files = found.workspace()
    heading = [
        ("challenge", found.id),
        ("data set", searched.name + "".join(f"; {other} has this id too" for other in others)),
        ("paper", f"{paper.title} ({', '.join(filter(None, (paper.venue, paper.arxiv)))})"),
        ("hint", found.hint),
        *_places(found),
        *([] if found.is_open else [("lines", str(found.lines))]),
        *([("defines", ", ".join(found.defines))] if found.defines else []),
        ("content", found.content_hash),
    ]
    for name, value in heading:
        echo(f"{name + ':':<11}{_printable(value)}")
    echo("\nWhat an agent sees (and the paper, with read_paper):")
    width = max(len(path) for path in files)
    for path, data in sorted(files.items()):
        note = "" if path not in found.files else _MASKED[found.holes is not None]
        echo(f"  {path:<{width}}  {len(data):>8} bytes  {note}".rstrip())
    if found.is_open:
        _print_text(TASK, files[TASK].decode("utf-8", "surrogateescape"))
    for path, text in found.masked_files().items():
        _print_text(path, text)
    if reference:
        _print_text("reference", found.reference)
    if with_paper:
        _print_text("paper", paper.text)


_MASKED = ("the masked file", "masked")


def _places(challenge: Challenge) -> list[tuple[str, str]]:
    """Where something is missing, for the heading."""
    if challenge.holes is None:
        line = challenge.region.start + 1
        return [("file", f"{challenge.file}, line {line} of the annotated file")]
    return [
        ("part", f"{hole.name}: {hole.file}, {counted(hole.region.lines, 'line')}")
        if hole.surface is None
        else ("file", f"{hole.file}, {counted(hole.region.lines, 'line')}")
        for hole in challenge.holes
    ]


def _others_with(challenge: str, dataset: str) -> list[str]:
    """The data sets known by name, beside this one, that have a challenge of this id."""
    from rcb_env.dataset.loading import NAMES, load_dataset
    from rcb_env.errors import UsageError

    found = []
    for name in NAMES:
        if name == dataset:
            continue
        try:
            load_dataset(name).challenge(challenge)
        except UsageError:  # not in it, or not pulled
            continue
        found.append(name)
    return found


def _describe(challenge: Challenge, with_paper: bool, reference: bool) -> Mapping[str, object]:
    described: dict[str, object] = {
        "id": challenge.id,
        "paper": challenge.paper.id,
        "file": challenge.file,
        "line": challenge.region.start + 1,
        "hint": challenge.hint,
        "lines": challenge.lines,
        "defines": challenge.defines,
        "content_hash": challenge.content_hash,
        "files": sorted(challenge.workspace()),
    }
    if challenge.holes is None:
        described["masked_file"] = _printable(challenge.masked().text)
    else:
        masked = {path: _printable(text) for path, text in challenge.masked_files().items()}
        parts = [
            {"name": hole.name, "file": hole.file, "hint": hole.hint, "lines": hole.region.lines}
            for hole in challenge.holes
        ]
        described |= {"masked_files": masked, "parts": parts}
    if reference:
        described["reference"] = _printable(challenge.reference)
    if with_paper:
        described["paper_text"] = _printable(challenge.paper.text)
    return described


def _printable(text: str) -> str:
    """Bytes that are no UTF-8 cannot be printed as they are."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _print_text(title: str, text: str) -> None:
    echo(f"\n--- {title} ---")
    text = _printable(text)
    echo(text, nl=not text.endswith("\n"))


def _print_rows(
    rows: Sequence[Mapping[str, object]], columns: Sequence[str], as_json: bool
) -> None:
    if as_json:
        for row in rows:
            echo(json.dumps(row))
        return
    cells = [[_printable(str(row[column])) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for line in ([name.upper() for name in columns], *cells):
        echo(
            "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        )
