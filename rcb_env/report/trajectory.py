"""A trajectory file as text a person can read.

Works on any trajectory, also one that a kill cut off: unknown kinds of records are shown with
their fields as they are. Long texts are shown whole unless a limit is given, and a cut is marked.
Everything in a trajectory was written by models and tested code: control characters are escaped,
and fences are longer than any run of backticks inside them, so nothing can pose as the report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rcb_env.errors import StoreError
from rcb_env.store import JsonLines

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_INLINE_CHARS = 80


def read_trajectory(path: Path) -> str:
    """A trajectory file as Markdown.

    Raises:
        StoreError: there is no such file, or it cannot be read.
    """
    if not path.is_file():
        raise StoreError(f"{path}: no such trajectory; episodes.jsonl names those that exist")
    problems: list[str] = []
    text = render(JsonLines(path).read(problems.append))
    return text + "".join(f"\n*{problem}*\n" for problem in problems)


def render(records: Iterable[Mapping[str, Any]], *, max_chars: int | None = None) -> str:
    """Records of a trajectory as Markdown.

    Args:
        records: as they were written: each has a ``kind`` and fields of its own.
        max_chars: longest text shown; what is cut is counted.
    """
    parts: list[str] = []
    for number, record in enumerate(records, start=1):
        fields = dict(record)
        kind = str(fields.pop("kind", "record"))
        parts.append(f"## {number}. {_inline(_title(kind, fields))}\n")
        parts.extend(_field(name, value, max_chars) for name, value in fields.items())
    return "\n".join(parts) + "\n" if parts else "(empty trajectory)\n"


def _title(kind: str, fields: dict[str, Any]) -> str:
    action = fields.get("action", fields.get("call"))
    tool = action.get("tool") if isinstance(action, Mapping) else fields.get("tool")
    return f"{kind}: {tool}" if tool else kind


def _field(name: str, value: object, max_chars: int | None) -> str:
    name = _inline(name)
    if isinstance(value, str):
        if len(value) <= _INLINE_CHARS and "\n" not in value and "`" not in value:
            return f"- **{name}**: {_inline(value) or '(empty)'}"
        return f"- **{name}**:\n\n{_fence(value, max_chars)}\n"
    if isinstance(value, Mapping) and any(isinstance(item, str) for item in value.values()):
        inner = [_field(f"{name}.{key}", item, max_chars) for key, item in value.items()]
        return "\n".join(inner)
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        inner = [_field(f"{name}[{i}]", item, max_chars) for i, item in enumerate(value)]
        return "\n".join(inner)
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > _INLINE_CHARS:
        return f"- **{name}**:\n\n{_fence(text, max_chars)}\n"
    return f"- **{name}**: {_inline(text)}"


def _fence(text: str, max_chars: int | None) -> str:
    if max_chars is not None and len(text) > max_chars:
        text = f"{text[:max_chars]}\n[{len(text) - max_chars} more characters]"
    text = _CONTROL.sub(_escape, text.replace("\r\n", "\n"))
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def _inline(text: str) -> str:
    return _CONTROL.sub(_escape, text).replace("\n", " ")


def _escape(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")
