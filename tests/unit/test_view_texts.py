"""Text from anywhere in a page: harmless, bounded, and told apart line by line."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcb_env.view import texts

_ANY = st.text(st.characters(exclude_categories=()), max_size=200)
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


@given(text=_ANY)
def test_nothing_that_works_unseen_is_left_of_a_text(text: str) -> None:
    for shown in (texts.plain(text), str(texts.code(text)), str(texts.markdown(text))):
        assert not _UNSEEN.search(shown)
        shown.encode()


@given(text=_ANY)
def test_code_is_the_text_with_marks(text: str) -> None:
    marked = str(texts.code(text))
    assert html.unescape(re.sub(r"</?span[^<>]*>", "", marked)) == texts.plain(text)
    assert not re.search(r"<(?!/?span)", marked)


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "[x](javascript:alert(1))",
        "![x](http://elsewhere/x.png)",
        "<img src=x onerror=alert(1)>",
        '[x](http://a "onmouseover=alert(1)")',
        "<http://a/onload=x>",
        "| <b>a</b> |\n| --- |\n| `<i>` |",
    ],
)
def test_markdown_makes_no_element_that_does_anything(text: str) -> None:
    made = str(texts.markdown(text))
    for element in re.findall(r"<[^>]*>", made):
        name, attributes = re.match(r"</?(\w+)\s*(.*?)/?>", element, re.DOTALL).groups()  # type: ignore[union-attr]
        assert name in {"p", "a", "table", "thead", "tbody", "tr", "th", "td", "code"}
        for attribute, value in re.findall(r'(\S+?)="([^"]*)"', attributes):
            assert attribute in {"href", "title"}
            assert attribute == "title" or value.startswith("http://")


def test_a_long_text_is_cut_and_counted() -> None:
    part = texts.cut("x" * 1_000_000)
    assert (len(part.text), part.more) == (texts.MOST_CHARS, 1_000_000 - texts.MOST_CHARS)
    laid_out = texts.as_json({"long": "y" * 1_000_000, "after": "seen"})
    assert "seen" in laid_out.text
    assert laid_out.more == 0


_LINES = st.lists(st.sampled_from(["a", "b", "c", " a", ""]), max_size=12)


@given(before=_LINES, after=_LINES, context=st.none() | st.integers(0, 3))
def test_a_difference_holds_both_texts(
    before: list[str], after: list[str], context: int | None
) -> None:
    one, other = ("".join(f"{line}\n" for line in lines) for lines in (before, after))
    found = texts.difference(one, other, context=context)
    assert found is not None
    kept = [line for line in found.lines if line.kind in ("same", "gone")]
    made = [line for line in found.lines if line.kind in ("same", "new")]
    assert all(before[(line.before or 0) - 1] == line.left for line in kept)
    assert all(after[(line.after or 0) - 1] == line.right for line in made)
    assert found.added - found.removed == len(after) - len(before)
    if context is None:
        assert len(kept) == len(before)
        assert len(made) == len(after)
    rows = texts.side_by_side(one, other)
    assert rows is not None
    assert [row.left for row in rows if row.before] == before
    assert [row.right for row in rows if row.after] == after


def test_texts_that_are_too_long_are_not_compared() -> None:
    assert texts.difference("x\n" * 5_000, "") is None
    assert texts.side_by_side("", "x" * 1_000_000) is None
