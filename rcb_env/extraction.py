"""From a model's raw reply to the code of a region: one rule, for every agent and every stored reply.

1. *Reasoning* is dropped: think sections, also with only their closing tag. A section that never
   ends means the reply was cut off.
2. *Blocks* are found. A fence closes a block only if it stands on its own line, has the same
   character, is at least as long, has no info string, and is indented no deeper than the opening
   one; of several such lines the first that leaves valid code.
3. *The block*: python blocks come before blocks without a language; other languages are never code.
   Of several, the last that has the region's indentation or repeats the function around it; if none
   does, the last that is valid in the file; else the last. A reply without any block is code if all
   of it is. A diff is never code.
4. *Copied lines* are dropped: tags, the TODO comment, and, where the whole function, class or file
   came back, everything of it that the file holds already.
5. *Placed* at the region's indentation. Lines inside multi-line strings are not moved.

Guarantees: pure; never raises, whatever the text; no code is invented or repaired. A reply that was
cut off in its block gives no code, so it is never counted as a wrong answer of another kind.
Beside it stands the public benchmark's own rule, `extract_official`, for comparison with its numbers.
Not covered: whether the code is any good; keeping the raw reply, which is the agent's duty.
"""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from rcb_env.markers import Masked

Reason = Literal["truncated", "empty", "refused", "no_code"]
Extractor = Literal["robust", "official"]
EXTRACTORS: tuple[Extractor, ...] = get_args(Extractor)
"""The rules by name; "robust" is the one above."""

_PYTHON = frozenset(("python", "python2", "python3", "py", "py2", "py3", "ipython", "ipython3"))
_UNNAMED = frozenset(("", "code", "source"))
_DIFFS = frozenset(("diff", "patch", "udiff"))
_WRAPPERS = frozenset(("markdown", "md", "mdx"))

# Not in quotes, in single backquotes, or at the end of a word; a fence may touch it.
_THINK = re.compile(
    r"""(?<!["'\\])(?<!(?<!``)`)(?:(?<!\w)(?=[<\[]\w)|(?=[<\[]/))"""
    r"""(?:<(/?)(?:think|thinking|thought|reasoning)>|\[(/?)THINK\])"""
    r"""(?!["'\\])(?!`(?!``))""",
    re.IGNORECASE,
)
_FENCE = re.compile(
    r"^(?P<lead>[ \t]*(?:>[ \t]?)*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?)"
    r"(?P<marks>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)$"
)
_FENCE_AFTER_PROSE = re.compile(
    r"^(?P<lead>[ \t]*)\S.*?(?P<marks>`{3,})[ \t]*(?P<info>python3?|py)[ \t]*$", re.IGNORECASE
)
_LANGUAGE = re.compile(r"[{.\s]*([\w+#-]*)")
_COPIED = re.compile(
    r'^\s*#\s*(?:</?paper2code\b.*>|TODO: Implement block(?: ".*")?|Approximately \d+ line\(s\) of code\.)'
    r"\s*$"
)
_DIFF_HEADER = re.compile(r"^(?:@@ .*@@|--- \S|\+\+\+ \S|diff --git )", re.MULTILINE)
_OFFICIAL_FENCE = "```python\n"
_MAX_CLOSERS = 40  # lines that could close one block and are tried; more are a game, not an answer
_MAX_BLOCKS = 200  # of one reply, likewise
_COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try)
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Extracted:
    """What a reply holds.

    Attributes:
        code: text of the region, with its indentation and a final newline; None: nothing usable.
        reason: why there is none.
        notes: what was left out or decided on the way, in the reader's words.
    """

    code: str | None
    reason: Reason | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Block:
    language: str
    text: str
    closed: bool


def extract(reply: str | None, masked: Masked, *, finish_reason: str | None = None) -> Extracted:
    """The code for the region that is missing in ``masked``.

    Args:
        reply: the raw text; None and "" mean that no text came.
        masked: the file around the region.
        finish_reason: as the API gave it: "length" and "content_filter" make a difference.
    """
    cut_off = finish_reason in ("length", "max_tokens")
    nothing: Reason = "truncated" if cut_off else "no_code"
    if finish_reason == "content_filter":
        return Extracted(None, "refused", ("the server's content filter ended the reply",))
    text = (reply or "").replace("\r\n", "\n")
    if not text.strip():
        return Extracted(None, "truncated" if cut_off else "empty", ("no text came",))
    frame = _Frame(masked)
    text, open_ended = _without_reasoning(text)
    blocks = list(itertools.islice(_blocks(text.split("\n"), frame), _MAX_BLOCKS))
    candidates = [block for block in blocks if block.language in _PYTHON] or [
        block for block in blocks if block.language in _UNNAMED
    ]
    candidates = [block for block in candidates if block.text.strip()]
    if candidates:
        return _from_blocks(candidates, frame, cut_off)
    if open_ended:
        return Extracted(None, "truncated", ("the reply ends inside its reasoning",))
    if any(block.language in _DIFFS for block in blocks):
        return Extracted(None, nothing, ("only a diff came back, not code",))
    if blocks:
        names = ", ".join(sorted({block.language or "unnamed" for block in blocks}))
        return Extracted(None, nothing, (f"no block of python code, only: {names}",))
    for plain in _plain_code(text):
        if frame.fits(plain) and _does_something(plain):
            code, notes = frame.place(plain)
            return Extracted(code, None, ("no fence: all of the reply is code", *notes))
    return Extracted(None, nothing, ("neither a block of code nor plain code",))


def extract_official(reply: str | None) -> Extracted:
    """The public benchmark's rule: the last block opened by exactly "```python" and a line feed.

    It ends at the next three backquotes, wherever they stand; a block that does not end is none.
    Without a block the answer is the empty text, which is put into the region and graded: there
    is no such thing as no answer. Nothing is moved, dropped or looked at otherwise.
    """
    text, at, blocks = reply or "", 0, 0
    code = ""
    while (start := text.find(_OFFICIAL_FENCE, at)) >= 0:
        end = text.find("```", start + len(_OFFICIAL_FENCE))
        if end < 0:
            break
        code, at, blocks = text[start + len(_OFFICIAL_FENCE) : end], end + 3, blocks + 1
    return Extracted(code, None, (f"official rule: the last of {blocks} blocks",))


def extract_by(
    extractor: Extractor, reply: str | None, masked: Masked, *, finish_reason: str | None = None
) -> Extracted:
    """`extract` or `extract_official`, by name."""
    if extractor == "official":
        return extract_official(reply)
    return extract(reply, masked, finish_reason=finish_reason)


def _from_blocks(candidates: Sequence[_Block], frame: _Frame, cut_off: bool) -> Extracted:
    notes: list[str] = []
    # A block that was cut off is what the model meant to answer: an earlier one was a draft.
    if cut_off and not candidates[-1].closed:
        return Extracted(None, "truncated", ("the reply was cut off inside its block of code",))
    usable = [block for block in candidates if not frame.is_diff(block.text)]
    if not usable:
        return Extracted(None, "no_code", ("only a diff came back, not code",))
    chosen = (
        [block for block in usable if frame.at_home(block.text)]
        or [block for block in usable if frame.fits(block.text)]
        or usable
    )[-1]
    if len(candidates) > 1:
        notes.append(
            f"{len(candidates)} blocks of code: took number {candidates.index(chosen) + 1}"
        )
    if not chosen.closed:
        notes.append("the block is never closed")
        if not frame.fits(chosen.text) and cut_off:
            return Extracted(None, "truncated", tuple(notes))
    code, more = frame.place(chosen.text)
    notes += more
    if code is None or not code.strip():
        return Extracted(None, "no_code", (*notes, "nothing is left of the block"))
    return Extracted(code, None, tuple(notes))


# --- 1. reasoning -----------------------------------------------------------------------------


def _without_reasoning(text: str) -> tuple[str, bool]:
    """The reply without reasoning at its beginning; True if the reasoning never ends.

    A tag counts only at the beginning or the end of a line and away from quotes: code may well
    speak of such tags. What ends the reasoning that a reply begins with may stand within a line,
    if no other tag does. A lone closing tag (the opening one was in the prompt) must not be in a
    block of code.
    """
    while True:
        all_tags = list(_THINK.finditer(text))
        tags = [found for found in all_tags if _at_edge(text, found)]
        opening = next((tag for tag in tags if not _closes(tag)), None)
        closing = next((tag for tag in tags if _closes(tag)), None)
        if opening is not None and not text[: opening.start()].strip():
            closing = closing or next((tag for tag in all_tags if _closes(tag)), None)
            if closing is None:
                return "", True
        elif (
            closing is None
            or (opening is not None and opening.start() < closing.start())
            or _in_block(text[closing.end() :])
        ):
            return text, False
        text = text[closing.end() :]


def _closes(tag: re.Match[str]) -> bool:
    return bool(tag[1] or tag[2])


def _at_edge(text: str, tag: re.Match[str]) -> bool:
    before = text[: tag.start()].rpartition("\n")[2]
    after = text[tag.end() :].partition("\n")[0]
    return not before.strip() or not after.strip()


def _in_block(rest: str) -> bool:
    """Whether the next fence is the end of a block rather than the beginning of one."""
    fences = [found for line in rest.split("\n") if (found := _FENCE.match(line))]
    return bool(fences) and not fences[0]["info"].strip() and len(fences) % 2 == 1


# --- 2. blocks --------------------------------------------------------------------------------


def _blocks(lines: Sequence[str], frame: _Frame) -> Iterator[_Block]:
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at]) or _FENCE_AFTER_PROSE.match(lines[at])
        tag = _THINK.match(lines[at].strip())
        if tag and not _closes(tag):  # reasoning in the middle of a reply
            ends = (n for n in range(at, len(lines)) if _closing_tag(lines[n]))
            at = next(ends, len(lines)) + 1
            continue
        at += 1
        if opening is None:
            continue
        found = _LANGUAGE.match(opening["info"])
        language = found[1].lower() if found else ""
        following = next((line for line in lines[at:] if line.strip()), "")
        inner = _FENCE.match(following)
        if language in _WRAPPERS or (not language and inner and inner["info"].strip()):
            continue  # a block around the whole answer: look inside
        block, at = _read_block(lines, at, opening, language, frame)
        yield block


def _closing_tag(line: str) -> bool:
    return any(_closes(tag) for tag in _THINK.finditer(line))


def _read_block(
    lines: Sequence[str], start: int, opening: re.Match[str], language: str, frame: _Frame
) -> tuple[_Block, int]:
    """The block that begins at ``start``, and where to go on."""
    marks, lead = opening["marks"], opening["lead"]
    content = [_without_lead(line, lead) for line in lines[start:]]
    closers = [n for n, line in enumerate(content) if _can_close(line, marks)][:_MAX_CLOSERS]
    strict = [n for n in closers if not content[n][:1].isspace()]

    def text(end: int) -> str:
        return "\n".join(content[:end])

    if strict:
        # A string may hold a line that looks like the end. Then the code stops inside the string.
        code = language in _PYTHON or language in _UNNAMED
        valid = (n for n in strict if frame.fits(text(n))) if code and len(strict) > 1 else iter(())
        end = next(valid, strict[0])
        return _Block(language, text(end), closed=True), start + end + 1
    # Some models indent the last fence like the code.
    valid = (n for n in closers if frame.fits(text(n)))
    last = next(valid, None)
    if last is not None:
        return _Block(language, text(last), closed=True), start + last + 1
    rest = text(len(content)).rstrip()
    if rest.endswith(marks):
        return _Block(language, rest.removesuffix(marks), closed=True), len(lines)
    return _Block(language, rest, closed=False), len(lines)


def _without_lead(line: str, lead: str) -> str:
    """A line of a block without the indentation and the quote marks its fence has too."""
    kept = 0
    for mark in lead:
        if kept < len(line) and (line[kept] in " \t" or (mark == ">" == line[kept])):
            kept += 1
        else:
            break
    return line[kept:]


def _can_close(line: str, marks: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(marks) and set(stripped) == {marks[0]}


# --- 3. plain code ----------------------------------------------------------------------------


def _plain_code(text: str) -> Iterator[str]:
    """The whole reply, or what follows an introduction that ends with a colon."""
    yield text
    head, newline, rest = text.lstrip("\n").partition("\n")
    if newline and head.rstrip().endswith(":"):
        yield rest


def _does_something(text: str) -> bool:
    """Whether this is more than words that happen to be valid Python, such as ``Sorry``."""
    module = _parse(_aligned(text))
    if module is None:
        return any(mark in text for mark in "=([")
    return any(
        not isinstance(node, ast.Expr)
        or any(isinstance(part, ast.Call | ast.Yield | ast.Await) for part in ast.walk(node))
        for node in module.body
    )


# --- 4. and 5. what the file holds already, and where the rest goes ---------------------------


class _Frame:
    """The file around the region, as something to compare a reply with."""

    def __init__(self, masked: Masked) -> None:
        self.masked = masked
        first = masked.placeholder.split("\n", 1)[0]
        self.indent = first[: len(first) - len(first.lstrip(" \t\f"))]
        self.path = self._path()

    def _path(self) -> list[ast.AST]:
        """From the module down to the region, a ``pass`` here; empty if that is no Python."""
        module = _parse(self.masked.fill(f"{self.indent}pass\n"))
        if module is None:
            return []
        line = self.masked.before.count("\n") + 1
        path: list[ast.AST] = [module]
        while True:
            inside = [
                child
                for child in ast.iter_child_nodes(path[-1])
                if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
                and _first_line(child) <= line <= _last_line(child)
            ]
            if not inside:
                return []
            path.append(inside[0])
            if isinstance(inside[0], ast.Pass):
                return path

    def fits(self, text: str) -> bool:
        """Whether the file is valid Python with this text in the region, or the text alone is."""
        text = _without_copied(text)
        return _parse(_aligned(text)) is not None or self._valid(_shift(text, self.indent))

    def _valid(self, code: str) -> bool:
        return _parse(self.masked.fill(code)) is not None

    def at_home(self, text: str) -> bool:
        """Whether a block was evidently written for this place."""
        if not self.fits(text):
            return False
        indent = _least_indent(text.split("\n"), _string_lines(text))
        return (self.indent != "" and indent == self.indent) or self._unwrap(text) is not None

    def is_diff(self, text: str) -> bool:
        """Whether a block holds a diff, whatever it is called."""
        if self.fits(text):
            return False
        lines = [line for line in text.split("\n") if line.strip()]
        signs = sum(line[0] in "+-" for line in lines)
        return bool(signs) and (
            _DIFF_HEADER.search(text) is not None or all(line[0] in "+-" for line in lines)
        )

    def place(self, text: str) -> tuple[str | None, list[str]]:
        """The text as the region's code, and notes on what was done to it."""
        notes = []
        kept = _without_copied(text)
        if kept != text:
            notes.append("dropped copied tag or TODO lines")
        unwrapped = self._unwrap(kept)
        if unwrapped is not None:
            kept, note = unwrapped
            notes.append(note)
        code = _first_line_aligned(_trimmed(kept))
        if not code.strip():
            return None, notes
        indent = _least_indent(code.split("\n"), _string_lines(code))
        if indent.startswith(self.indent) and (indent == self.indent or self._valid(code)):
            return code, notes
        moved = _shift(code, self.indent)
        notes.append("moved to the indentation of the region")
        return moved, notes

    def _unwrap(self, text: str) -> tuple[str, str] | None:
        """What is new in a repeated function, class, file or loop; None if nothing is repeated."""
        if not self.path:
            return None
        aligned = _aligned(text)
        module = _parse(aligned)
        if module is None:
            return None
        lines = aligned.split("\n")
        top, inner = self.path[0], self.path[1]
        if isinstance(top, ast.Module) and isinstance(inner, ast.Pass):
            theirs = {ast.dump(node) for node in module.body}
            ours = [node for node in top.body if node is not inner and not _is_text(node)]
            if ours and all(ast.dump(node) in theirs for node in ours):
                new = _new_lines(top.body, inner, module.body, lines)
                return new, "the file came back whole: took only what is missing in it"
        for depth, node in enumerate(self.path[1:-1], start=1):
            twin = _twin(node, module.body)
            if twin is None or not self._is_wrapper(twin, module.body):
                continue
            what = getattr(twin, "name", "the statement around it")
            found = _difference(self.path[depth:], twin, lines)
            if found is not None:
                beside = self._beside(module.body, twin, lines)
                note = f"{what} came back whole: took only what is missing in it"
                return "\n".join([*beside, _aligned(found)]), note
            if isinstance(twin, _Definition):
                # Put into the region it would be a nested definition that nothing ever calls.
                return "", f"{what} came back whole, and what is missing in it cannot be told apart"
        return None

    def _is_wrapper(self, twin: ast.stmt, body: Sequence[ast.stmt]) -> bool:
        """Whether ``twin`` is there only to show where the code goes.

        A function that is followed by a use of it is a nested function, and meant to be one.
        """
        if not isinstance(twin, _Definition):
            return len(body) == 1
        top = self.path[0]
        known = {ast.dump(node) for node in top.body} if isinstance(top, ast.Module) else set()
        return isinstance(twin, ast.ClassDef) or all(
            isinstance(node, _Definition | ast.Import | ast.ImportFrom)
            or _is_text(node)
            or ast.dump(node) in known
            for node in body
        )

    def _beside(self, body: Iterable[ast.stmt], twin: ast.stmt, lines: list[str]) -> Iterator[str]:
        """Imports and functions that came along and that the file does not have."""
        module = self.path[0]
        assert isinstance(module, ast.Module)
        known = {ast.dump(node) for node in module.body}
        names = {getattr(node, "name", None) for node in ast.walk(module)}
        for node in body:
            future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
            new_import = isinstance(node, ast.Import | ast.ImportFrom) and not future
            new_function = (
                isinstance(node, ast.FunctionDef)
                and isinstance(twin, ast.FunctionDef)
                and node.name not in names
            )
            if (new_import and ast.dump(node) not in known) or new_function:
                yield "\n".join(lines[_first_line(node) - 1 : _last_line(node)])


def _twin(node: ast.AST, body: Iterable[ast.stmt]) -> ast.stmt | None:
    """The statement of ``body`` that repeats the header of ``node``."""
    for other in body:
        if isinstance(node, _Definition) and isinstance(other, _Definition):
            both_classes = isinstance(node, ast.ClassDef) == isinstance(other, ast.ClassDef)
            same = node.name == other.name and both_classes
        else:
            same = (
                isinstance(node, _COMPOUND)
                and type(node) is type(other)
                and _header(node) == _header(other)
            )
        if same:
            return other
    return None


def _header(node: ast.AST) -> list[str]:
    return [
        ast.dump(part)
        for name, value in ast.iter_fields(node)
        if name in ("target", "iter", "test", "items")
        for part in (value if isinstance(value, list) else [value])
    ]


def _difference(path: Sequence[ast.AST], twin: ast.AST, lines: list[str]) -> str | None:
    """The lines of ``twin`` that stand where its original, ``path[0]``, has the region."""
    original = path[0]
    for name, ours in ast.iter_fields(original):
        theirs = getattr(twin, name, None)
        if not isinstance(ours, list) or not isinstance(theirs, list):
            continue
        if path[1] not in ours:
            continue
        if isinstance(path[1], ast.Pass):
            return _new_lines(ours, path[1], theirs, lines)
        inner = _twin(path[1], theirs)
        return _difference(path[1:], inner, lines) if inner is not None else None
    return None


def _new_lines(
    ours: list[ast.stmt], region: ast.Pass, theirs: list[ast.stmt], lines: list[str]
) -> str:
    place = ours.index(region)
    before, after = ours[:place], ours[place + 1 :]
    if before and _is_text(before[0]):
        before = before[1:]
    after_line = 0
    if theirs and _is_text(theirs[0]):
        after_line = _last_line(theirs[0])
        theirs = theirs[1:]
    while before and theirs and ast.dump(before[0]) == ast.dump(theirs[0]):
        after_line = _last_line(theirs[0])
        before, theirs = before[1:], theirs[1:]
    while after and theirs and ast.dump(after[-1]) == ast.dump(theirs[-1]):
        after, theirs = after[:-1], theirs[:-1]
    if not theirs:
        return ""
    first, last = _first_line(theirs[0]), _last_line(theirs[-1])
    while first - 1 > after_line and lines[first - 2].strip().startswith("#"):
        first -= 1
    column = theirs[0].col_offset
    head = lines[first - 1]
    if head.strip() and head.encode()[:column].strip():  # `def f(x): return x`
        return "\n".join([head.encode()[column:].decode(), *lines[first:last]])
    return "\n".join(lines[first - 1 : last])


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _first_line(node: ast.AST) -> int:
    decorators = getattr(node, "decorator_list", [])
    placed = getattr(node, "pattern", node)  # a match case has no line of its own
    return min(int(each.lineno) for each in (*decorators, placed))


def _last_line(node: ast.AST) -> int:
    return int(node.body[-1].end_lineno if isinstance(node, ast.match_case) else node.end_lineno)  # type: ignore[arg-type, attr-defined]


# --- text -------------------------------------------------------------------------------------


def _without_copied(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not _COPIED.match(line))


def _trimmed(text: str) -> str:
    """Without blank lines at both ends, with one newline at the end."""
    lines = text.split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    return "".join(line + "\n" for line in lines)


def _leading(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _least_indent(lines: Sequence[str], fixed: frozenset[int] = frozenset()) -> str:
    indents = [_leading(line) for n, line in enumerate(lines) if line.strip() and n not in fixed]
    return min(indents, key=len, default="")


def _shift(text: str, indent: str) -> str:
    """The text with its least indentation replaced by ``indent``; strings stay as they are."""
    text = _first_line_aligned(text)
    fixed = _string_lines(text)
    lines = text.split("\n")
    least = len(_least_indent(lines, fixed))
    return "\n".join(
        line if n in fixed else indent + line[least:] if line.strip() else ""
        for n, line in enumerate(lines)
    )


def _aligned(text: str) -> str:
    return _shift(text, "")


def _first_line_aligned(text: str) -> str:
    """A first line that lost its indentation, as trimmed replies do, gets that of the next line."""
    head, newline, rest = text.lstrip("\n").partition("\n")
    least = _least_indent(rest.split("\n"))
    if not newline or not least or _leading(head) or _parse(text) is not None:
        return text
    candidate = f"{least}{head}\n{rest}"
    return candidate if _parse(f"if 1:\n{candidate}") is not None else text


def _string_lines(text: str) -> frozenset[int]:
    """0-based numbers of the lines that begin inside a string, where indentation is content."""
    for prefix, offset in (("", 1), ("if 1:\n", 2)):
        module = _parse(prefix + text)
        if module is not None:
            return frozenset(
                line - offset
                for node in ast.walk(module)
                if isinstance(node, ast.Constant | ast.JoinedStr)
                for line in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
            )
    return frozenset()


def _parse(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the model's code, not about ours
            return ast.parse(text.encode("utf-8", "replace").decode())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
