"""Metadata files of a data set: YAML in, checked values out, every error with file and line.

Guarantees: a scalar is the text that stands in the file, so an id ``2410.10`` or ``on`` stays that
id; numbers and dates are made only where a model asks for them. Doubled keys, tabs for indentation,
unknown keys and missing keys are errors. A message names the file, the line, the key, and what to
write.
Not covered: what the values mean (`rcb_env.dataset.papers`).
"""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from rcb_env.errors import PaperError

_TAB_INDENT = re.compile(r"^ *\t[ \t]*[^\s#]")
_NULLS = ("", "~", "null", "Null", "NULL")
# Keys whose values are names: here even ``null`` and ``~`` are the text that was written.
_NAME_KEYS = ("id", "papers", "challenge")


class Strict(BaseModel):
    """Base of every model of a file we define: an unknown key is an error, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _to_date(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError as error:
            raise ValueError(f"{value} is not a date: {error}") from error
    raise ValueError(f"write a day as 2025-03-13 (quotes are allowed), not {value!r}")


def _to_list(value: object) -> object:
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


def _to_path(value: object) -> object:
    if isinstance(value, str):
        parts = value.split("/")
        if value.startswith("/") or "\\" in value or {"", ".", ".."} & set(parts):
            raise ValueError(
                f"{value!r} is not a path inside the paper's folder; write it like src/model.py"
            )
    return value


def _to_name(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
        raise ValueError(
            f"{value!r} cannot be an id: use letters, digits, '.', '_' and '-',"
            " a letter or digit first"
        )
    return value


Day = Annotated[datetime.date, BeforeValidator(_to_date)]
FilePath = Annotated[str, BeforeValidator(_to_path)]
Name = Annotated[str, BeforeValidator(_to_name)]
Words = Annotated[str, Field(min_length=1)]
# One path, a list of paths, null, or nothing.
FilePaths = Annotated[tuple[FilePath, ...], BeforeValidator(_to_list)]

Model = TypeVar("Model", bound=BaseModel)


class Document:
    """One YAML file: its value, and the line of every part of it."""

    def __init__(self, path: str, value: Any, lines: Mapping[tuple[str | int, ...], int]) -> None:
        """Args: the file's name for messages, its value, and 1-based lines by place."""
        self.path = path
        self.value = value
        self._lines = lines

    def line(self, *place: str | int) -> int:
        """1-based line of the key or list item at ``place``, or of the nearest part around it."""
        for length in range(len(place), -1, -1):
            if (found := self._lines.get(tuple(place[:length]))) is not None:
                return found
        return 1

    def error(self, message: str, *place: str | int) -> PaperError:
        """The error for the part at ``place``."""
        return PaperError(message, path=self.path, line=self.line(*place))

    def parse(self, model: type[Model], *place: str | int) -> Model:
        """The part of the file at ``place`` as a ``model``.

        Raises:
            PaperError: it does not fit; the first misfit in the file, and how many more there are.
        """
        value = self.value
        for step in place:
            value = value[step]
        if not isinstance(value, dict):
            raise self.error("expected `key: value` lines here", *place)
        try:
            return model.model_validate(value)
        except ValidationError as error:
            misfits = sorted(
                (
                    (self.line(*place, *misfit["loc"]), number, misfit)
                    for number, misfit in enumerate(error.errors())
                ),
                key=lambda one: one[:2],
            )
            line, _, first = misfits[0]
            told = [first]
            if first["type"] == "missing":  # an author who lacks one key may lack many
                told = [misfit for _, _, misfit in misfits if misfit["type"] == "missing"]
            left = len(misfits) - len(told)
            more = f" (and {left} more in this file)" if left else ""
            raise PaperError(self._explain(told, model) + more, path=self.path, line=line) from None

    @staticmethod
    def _explain(misfits: Sequence[Any], model: type[BaseModel]) -> str:
        keys = [".".join(str(part) for part in misfit["loc"]) for misfit in misfits]
        if len(keys) > 1:
            return f"the keys {', '.join(map(repr, keys))} are missing; add them"
        (misfit,), (key,) = misfits, keys
        if misfit["type"] == "missing":
            return f"the key {key!r} is missing; add it"
        if misfit["type"] == "extra_forbidden":
            last = str(misfit["loc"][-1])
            known = list(model.model_fields) if len(misfit["loc"]) == 1 else []
            near = difflib.get_close_matches(last, known, n=1)
            if near:
                return f"unknown key {key!r}; did you mean {near[0]!r}?"
            return f"unknown key {key!r}" + (f"; the keys are {', '.join(known)}" if known else "")
        message = str(misfit["msg"]).removeprefix("Value error, ")
        return f"{key}: {message}" if key else message


def read_yaml(path: Path) -> Document:
    """Read one YAML file.

    Raises:
        PaperError: the file is missing, no UTF-8, no YAML, indented with tabs, or has a key twice.
    """
    shown = str(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise PaperError(f"cannot be read: {error.strerror}", path=shown) from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise PaperError("is not UTF-8 text; save it as UTF-8", path=shown, line=line) from None
    for number, content in enumerate(text.split("\n"), start=1):
        if _TAB_INDENT.match(content):
            raise PaperError("indented with a tab; use blanks", path=shown, line=number)
    try:
        node = _compose(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise PaperError(
            f"is not valid YAML: {error.problem or error.context}",
            path=shown,
            line=mark.line + 1 if mark else None,
        ) from None
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        raise PaperError(f"is not valid YAML: {reason}", path=shown) from None
    if node is None:
        raise PaperError("is empty", path=shown)
    lines: dict[tuple[str | int, ...], int] = {}
    return Document(shown, _value(node, (), False, lines, shown), lines)


def _compose(text: str) -> yaml.Node | None:
    """The document's tree. The parser in C takes a tenth of the time, but words its errors less well."""
    fast = getattr(yaml, "CSafeLoader", None)
    if fast is not None:
        try:
            return yaml.compose(text, Loader=fast)
        except yaml.YAMLError:
            pass
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _value(
    node: yaml.Node,
    place: tuple[str | int, ...],
    is_name: bool,
    lines: dict[tuple[str | int, ...], int],
    path: str,
) -> Any:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.ScalarNode):
        plain_null = not node.style and node.value in _NULLS
        return None if plain_null and not (is_name and node.value) else node.value
    if isinstance(node, yaml.SequenceNode):
        return [
            _value(item, (*place, number), is_name, lines, path)
            for number, item in enumerate(node.value)
        ]
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise PaperError("a key must be a single word", path=path, line=line)
        key = key_node.value
        if key in values:
            raise PaperError(f"the key {key!r} stands here twice", path=path, line=line)
        lines[(*place, key)] = line
        values[key] = _value(value_node, (*place, key), key in _NAME_KEYS, lines, path)
    return values
