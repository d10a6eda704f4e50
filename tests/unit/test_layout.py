"""Which lines begin a statement: as Python's own tokenizer says, and without an end to patience."""

from __future__ import annotations

import io
import tokenize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcb_env.dataset.layout import layout
from rcb_env.dataset.loading import load_dataset

_STRING_START = getattr(tokenize, "FSTRING_START", -1)
_STRING_END = getattr(tokenize, "FSTRING_END", -1)
_BETWEEN = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def by_tokens(text: str) -> tuple[list[int], set[int]]:
    begun, in_strings, opened = list[int](), set[int](), list[int]()
    fresh = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING:
            in_strings.update(range(token.start[0], token.end[0]))
        elif token.type == _STRING_START:
            opened.append(token.start[0])
        elif token.type == _STRING_END:
            in_strings.update(range(opened.pop(), token.end[0]))
        if token.type == tokenize.NEWLINE:
            fresh = True
        elif token.type not in _BETWEEN and fresh:
            begun.append(token.start[0] - 1)
            fresh = False
    return begun, in_strings


def test_every_bundled_file_is_read_as_the_tokenizer_reads_it() -> None:
    read = 0
    for paper in load_dataset().papers:
        for path, data in paper.files.items():
            if path.endswith(".py"):
                text = data.decode().replace("\r\n", "\n")
                found = layout(text)
                assert (list(found.statements), set(found.in_strings)) == by_tokens(text), path
                read += 1
    assert read > 50


@pytest.mark.parametrize(
    ("text", "statements", "in_strings"),
    [
        ("a\n  # b\n\nc", [0, 3], []),
        ("a(\nb\n)\nc", [0, 3], []),
        ("a = \\\n b\nc", [0, 2], []),
        ("a = '''\nb\n'''\nc", [0, 3], [1, 2]),
        ("a = 'b\\\nc'\nd", [0, 2], [1]),
        ("a = '#('\nb", [0, 1], []),
        ("a = r'\\'\nb", [0, 1], []),
        ("  b,\n)\nc", [2], []),
        ("don't\nc", [0, 1], []),
        ("a = '''\nb\nc", [0, 1, 2], []),
    ],
)
def test_lines_are_told_apart(text: str, statements: list[int], in_strings: list[int]) -> None:
    found = layout(text)
    assert (list(found.statements), sorted(found.in_strings)) == (statements, in_strings)


@given(st.text("a#'\"\\()[]\n\r \t\f", max_size=40), st.sampled_from(["", "  ", "\t"]))
def test_moving_text_changes_only_what_stands_before_lines(text: str, indent: str) -> None:
    moved = layout(text).moved_to(indent)
    assert [line.lstrip() for line in moved.split("\n")] == [
        line.lstrip() for line in text.split("\n")
    ]


@pytest.mark.parametrize(
    "text",
    ['"""' + '\\"""' * 100_000, '\\"' * 200_000, "'" * 300_001, '("' * 99_999, "a" + " " * 300_000],
)
def test_no_text_takes_more_than_one_pass(text: str) -> None:
    assert layout(text).lines == (text,)
