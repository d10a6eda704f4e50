"""Defaults of one's own for options, from `rcb.toml` or the table `[tool.rcb]` of pyproject.toml; and `rcb config`.

A table is a command (`[run]`, `[list.papers]`), a key one of its options without the dashes, and a value what would be written
on the command line: `workers = 8`, `papers = ["DyT", "minp"]`, `hint = false`. So a setting keeps its one home, and the option's
own parser checks the value. The command line wins.

Guarantees: a file is looked for in the working directory and above it, up to the repository's root or the home folder and no
further, so nobody else's file is taken. Every mistake in it is one line with file, key, and what to do. A file that counts is named
on stderr.
Not covered: what gives way where defaults do not fit together (`rcb_env.cli.settings`).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from rcb_env.cli import options
from rcb_env.cli.output import echo
from rcb_env.errors import UsageError, unknown, without_credentials

NAME = "rcb.toml"
_PROJECT = "pyproject.toml"
_WAY_OUT = "correct it, or leave the file out with `rcb --no-config`"


@dataclass(frozen=True)
class Config:
    """What a file says."""

    path: Path
    values: Mapping[str, Any]
    """By command, and its commands: texts by the names that click has for options."""
    written: Mapping[str, Mapping[str, object]]
    """Values as they stand there, by command (``list papers``) and key."""


def load(group: click.Group) -> Config | None:
    """The file that counts here; None: there is none.

    Raises:
        UsageError: it cannot be read, or names or values are wrong.
    """
    found = _find()
    if found is None:
        return None
    path, table = found
    written: dict[str, dict[str, object]] = {}
    return Config(path, _of_group(path, group, table, (), written), written)


def _find() -> tuple[Path, Mapping[str, Any]] | None:
    """The nearest file, and its table."""
    for folder in places():
        if (folder / NAME).is_file():
            return folder / NAME, _parsed(folder / NAME)
        if (project := folder / _PROJECT).is_file() and b"tool.rcb" in _read(project):
            table = _parsed(project).get("tool", {}).get("rcb")
            if isinstance(table, dict):
                return project, table
    return None


def places() -> list[Path]:
    """The folders in which a file would be found, the nearest first."""
    try:
        here = Path.cwd()
    except OSError:  # it was deleted
        return []
    above = [here, *here.parents]
    try:
        home = Path.home()
    except RuntimeError:  # there is none
        home = here
    for number, folder in enumerate(above, 1):
        if (folder / ".git").exists() or folder == home:
            return above[:number]
    return [here]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; {_WAY_OUT}") from error


def _parsed(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(_read(path).decode())
    except ValueError as error:  # of TOML, or of UTF-8
        raise UsageError(f"{path} is not TOML: {error}; {_WAY_OUT}") from error


def _of_group(
    path: Path,
    group: click.Group,
    table: Mapping[str, Any],
    above: tuple[str, ...],
    written: dict[str, dict[str, object]],
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, inner in table.items():
        words = (*above, name)
        command = group.commands.get(name)
        if command is None and not isinstance(inner, dict):
            raise UsageError(
                f"{path}: {'.'.join(words)} is no table of a command: write it below one, such as [run]"
            )
        if command is None:
            wrong = unknown("command", name, group.commands, where="rcb --help")
            raise UsageError(f"{path}: [{'.'.join(words)}]: {wrong}")
        if not isinstance(inner, dict):
            raise UsageError(f"{path}: {'.'.join(words)} is no table: write [{'.'.join(words)}]")
        if isinstance(command, click.Group):
            values[name] = _of_group(path, command, inner, words, written)
        else:
            values[name] = _of_command(path, command, inner, words)
            written[" ".join(words)] = dict(inner)
    return values


def _of_command(
    path: Path, command: click.Command, table: Mapping[str, Any], words: tuple[str, ...]
) -> dict[str, Any]:
    known = dict(options_of(command))
    context = click.Context(command, info_name=" ".join(words))
    values: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{path}: [{'.'.join(words)}] {key}"
        if key not in known:
            wrong = unknown("option", key, known, where=f"rcb {' '.join(words)} --help")
            raise UsageError(f"{where}: {wrong}")
        option = known[key]
        try:
            values[option.name or key] = given = _as_given(option, value)
            option.process_value(context, given)
        except click.BadParameter as error:
            raise UsageError(f"{where}: {error.message.rstrip('.')}; {_WAY_OUT}") from None
    return values


def options_of(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    """The options of a command by their keys: their long names, without the dashes."""
    for option in command.params:
        if isinstance(option, click.Option):
            yield from (
                (name.removeprefix("--"), option) for name in option.opts if name.startswith("--")
            )


def _as_given(option: click.Option, value: object) -> Any:
    """A value as the command line has it: texts, and true or false for flags.

    Raises:
        BadParameter: it is of another kind.
    """
    if option.is_flag:
        if not isinstance(value, bool):
            raise click.BadParameter("write true or false")
        return value
    several = value if isinstance(value, list) and option.multiple else [value]
    if any(isinstance(one, bool) or not isinstance(one, str | int | float) for one in several):
        kind = "a text, a number, or a list of them" if option.multiple else "a text or a number"
        raise click.BadParameter(f"write {kind}")
    return tuple(map(str, several)) if option.multiple else str(value)


def apply(context: click.Context, group: click.Group) -> None:
    """Make what the file says the defaults of the command that is to be run."""
    found = load(group)
    if found is None:
        return
    context.default_map = dict(found.values)
    invoked = context.invoked_subcommand or ""
    keys = [
        key
        for words, table in found.written.items()
        if words.split(" ")[0] == invoked
        for key in table
    ]
    if keys:
        echo(f"defaults from {found.path}: {', '.join(keys)}", err=True)


@click.command()
@click.argument("command", nargs=-1)
@options.as_json
@click.pass_context
def config(context: click.Context, command: tuple[str, ...], as_json: bool) -> None:
    """Show the defaults that rcb.toml sets; of COMMAND, such as `run`, all defaults and where they are from.

    In rcb.toml, or below [tool.rcb] in pyproject.toml, a table is a command and a key one of its options: [run], then
    workers = 8. The file is looked for in the working directory and above it, up to the repository's root or your home
    folder. The command line wins; `rcb --no-config` reads no file. With --json: one object.
    """
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    found = None if root.params.get("no_config") else load(root.command)
    written = found.written if found else {}
    rows = [
        (words, key, value, str(found.path))
        for words, table in written.items()
        for key, value in table.items()
        if found
    ]
    if command:
        rows = list(_all_of(root.command, command, rows))
    told = [
        (
            words,
            key,
            without_credentials(value) if key == "base-url" and isinstance(value, str) else value,
            source,
        )
        for words, key, value, source in rows
    ]
    if as_json:
        names = ("command", "option", "value", "from")
        values = [dict(zip(names, row, strict=True)) for row in told]
        echo(json.dumps({"file": str(found.path) if found else None, "values": values}))
        return
    if found is None:
        echo(
            f"no {NAME} counts here; it would be found in {', '.join(map(str, places()))}", err=True
        )
    for words, key, value, source in told:
        echo(f"{words} --{key} = {json.dumps(value, default=str)}  ({source})")


def _all_of(
    group: click.Group, words: tuple[str, ...], rows: list[tuple[str, str, object, str]]
) -> Iterator[tuple[str, str, object, str]]:
    """Every option of a command, with its value and where that is from."""
    command: click.Command = group
    for word in words:
        inner = command.commands if isinstance(command, click.Group) else {}
        if word not in inner:
            raise unknown("command", word, inner, where="rcb --help")
        command = inner[word]
    name = " ".join(words)
    set_here = {key: row for row in rows for key in [row[1]] if row[0] == name}
    values = command.make_context(name, [], resilient_parsing=True).params
    for key, option in options_of(command):
        if key != "help":
            built_in = (name, key, values.get(option.name or key), "default")
            yield set_here.get(key, built_in)
