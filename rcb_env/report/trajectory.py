"""A trajectory file as text a person can read.

Works on any trajectory, also one that a kill cut off: unknown kinds of records are shown with
their fields as they are. Long texts are shown whole unless a limit is given, and a cut is marked.
Everything in a trajectory was written by models and tested code: control characters are escaped,
and fences are longer than any run of backticks inside them, so nothing can pose as the report.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rcb_env.errors import StoreError
from rcb_env.report.printable import printable
from rcb_env.runs.durable import JsonLines

_BLOCK = re.compile(r"[\n`]")
_INLINE_CHARS = 80
_NAMED = 5  # test cases in one title


def read_trajectory(path: Path, *, code: str = "", max_chars: int | None = None) -> str:
    """A trajectory file as Markdown; ``code`` and ``max_chars`` as in `render`.

    Raises:
        StoreError: there is no such file, or it cannot be read.
    """
    if not path.is_file():
        raise StoreError(f"{path}: no such trajectory; episodes.jsonl names those that exist")
    problems: list[str] = []
    text = render(JsonLines(path).read(problems.append), code=code, max_chars=max_chars)
    return text + "".join(f"\n*{_inline(problem)}*\n" for problem in problems)


def render(
    records: Iterable[Mapping[str, Any]], *, code: str = "", max_chars: int | None = None
) -> str:
    """Records of a trajectory as Markdown.

    Args:
        records: as they were written: each has a ``kind`` and fields of its own.
        code: the episode's, which is shown where it was graded without having been written in a step.
        max_chars: longest text shown; what is cut is counted.
    """
    parts: list[str] = []
    for number, record in enumerate(records, start=1):
        fields = dict(record)
        kind = str(fields.pop("kind", "record"))
        if kind == "graded":
            fields = {"code": code, **fields}
        facts, blocks = _sorted_out(_for_people(kind, fields))
        parts.append(f"## {number}. {_inline(_title(kind, fields))}\n\n")
        if facts:
            # A name may look like Markdown that begins a block or a heading.
            lines = (f"- {'' if fact[:1].isalnum() else chr(92)}{fact}\n" for fact in facts)
            parts.append("".join(lines) + "\n")
        parts += [f"**{name}**\n\n{_fence(text, max_chars)}\n\n" for name, text in blocks]
    return "".join(parts) if parts else "(empty trajectory)\n"


def _title(kind: str, fields: Mapping[str, Any]) -> str:
    action = fields.get("action")
    tool = action.get("tool") if isinstance(action, Mapping) else fields.get("tool")
    return f"{kind}: {tool}" if tool else kind


def _for_people(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record without what its title or its text says already."""
    shown = dict(fields)
    if kind == "step":
        shown.pop("index", None)  # records have numbers
        action = shown.pop("action", None)
        arguments = action.get("arguments") if isinstance(action, Mapping) else action
        # The call comes before its answer, whatever the order on disk.
        shown = {"call": arguments, **shown}
        if isinstance(shown.get("tests"), Mapping) and shown.get("text"):
            known = ("status", "passed", "total")
            shown["tests"] = {k: v for k, v in shown["tests"].items() if k in known}
    if isinstance(shown.get("verdict"), Mapping):
        shown["verdict"] = _families(_each_message_once(shown["verdict"]))
    return shown


def _families(verdict: dict[str, Any]) -> dict[str, Any]:
    """A verdict in which the terms of a score are the mean of each family of problems."""
    score = verdict.get("score")
    terms = score.get("terms") if isinstance(score, Mapping) else None
    if not isinstance(score, Mapping) or not isinstance(terms, Mapping):
        return verdict
    means: dict[str, object] = {}
    for name, each in terms.items():
        known = isinstance(each, list) and all(isinstance(one, int | float) for one in each)
        means[name] = (
            f"mean {sum(each) / len(each):+.4f} of {len(each)}" if known and each else each
        )
    return {**verdict, "score": {**score, "terms": means}}


def _each_message_once(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """A verdict with one entry for each thing that went wrong, named by the test cases that met it."""
    cases = verdict.get("cases")
    if not (isinstance(cases, list) and all(isinstance(case, Mapping) for case in cases)):
        return dict(verdict)
    shown = {k: v for k, v in verdict.items() if k not in ("cases", "timings")}
    met: dict[str, Counter[str]] = {}
    is_open = isinstance(verdict.get("score"), Mapping)
    for case in cases:
        # A problem of an open challenge that went worse than the paper's own method is no fault.
        if case.get("outcome") not in ("passed", *(("failed", "not_run") if is_open else ())):
            told = [str(case.get(part) or "") for part in ("message", "detail")]
            text = "\n".join(filter(None, told)) or str(case.get("outcome"))
            met.setdefault(text, Counter())[str(case.get("case"))] += 1
    if cases:
        passed = sum(case.get("outcome") == "passed" for case in cases)
        good = "at least as good as the paper's own method" if is_open else "passed"
        shown["cases"] = f"{passed} of {len(cases)} {good}"
    if met:
        shown.pop("message", None)  # that of the first case
    for text, names in met.items():
        listed = [name if n == 1 else f"{name} ({n} seeds)" for name, n in names.items()]
        more = f" and {len(listed) - _NAMED} more" if listed[_NAMED:] else ""
        shown[", ".join(listed[:_NAMED]) + more] = text
    return shown


def _sorted_out(fields: Mapping[str, Any]) -> tuple[list[str], list[tuple[str, str]]]:
    """Short values as facts of one line each, long texts as named blocks; empty values are left out."""
    facts: list[str] = []
    blocks: list[tuple[str, str]] = []

    def visit(name: str, value: object) -> None:
        if value is None or value in ("", [], {}):
            return
        if isinstance(value, Mapping):
            for key, item in value.items():
                visit(f"{name}.{key}" if name else str(key), item)
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            for index, item in enumerate(value):
                visit(f"{name}[{index}]", item)
        else:
            text = _text_of(name, value)
            if len(text) <= _INLINE_CHARS and not _BLOCK.search(text):
                facts.append(f"{_inline(name).lstrip()}: {_inline(text)}")
            else:
                blocks.append((_inline(name), text))

    visit("", dict(fields))
    return facts, blocks


def _text_of(name: str, value: object) -> str:
    if isinstance(value, str):
        return value[:12] if name.endswith("hash") else value
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value, ensure_ascii=False)


def _fence(text: str, max_chars: int | None) -> str:
    if max_chars is not None and len(text) > max_chars:
        text = f"{text[:max_chars]}\n[{len(text) - max_chars} more characters]"
    text = printable(text)
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def _inline(text: str) -> str:
    return printable(text).replace("\n", " ")
