"""Tags, masks and splices keep every byte; broken tags are named with their line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcb_env.dataset.markers import (
    Region,
    body,
    body_rows,
    count_code_lines,
    find_regions,
    mask,
    raw_body,
    splice,
    strip_tags,
)
from rcb_env.errors import PaperError


def start(name: str, indent: str = "", end: str = "\n") -> str:
    return f'{indent}# <paper2code name="{name}">{end}'


def close(name: str, indent: str = "", end: str = "\n") -> str:
    return f'{indent}# </paper2code name="{name}">{end}'


NESTED = (
    "import torch\n\n\ndef f(x):\n"
    + start("outer", "    ")
    + "    # why\n    y = x + 1  # one\n"
    + start("inner", "    ")
    + "    z = y * 2\n"
    + close("inner", "    ")
    + "\n    return z\n"
    + close("outer", "    ")
)


def only(text: str) -> Region:
    (region,) = find_regions(text, path="m.py")
    return region


def test_nested_regions_come_in_order_of_their_start_tags() -> None:
    outer, inner = find_regions(NESTED, path="m.py")
    assert (outer.name, outer.start, outer.end, outer.lines, outer.parent) == (
        "outer",
        4,
        12,
        3,
        None,
    )
    assert (inner.name, inner.start, inner.end, inner.lines, inner.parent) == ("inner", 7, 9, 1, 0)
    assert outer.indent == inner.indent == "    "


def test_names_may_repeat_and_hold_spaces_commas_and_signs() -> None:
    name = "alpha = 0.5, why?"
    text = (start(name) + "a = 1\n" + close(name)) * 2
    assert [region.name for region in find_regions(text, path="m.py")] == [name, name]


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (["x = 1\n", "\n", "   \n", "# note\n", "    # note\n"], 1),
        (["x = 1  # a trailing comment counts\n"], 1),
        (['"""doc\n', "more\n", '"""\n'], 3),
        (['x = "#"\n', "#x\n"], 1),
        (["\x0c\n", "\t\r\n"], 0),
    ],
)
def test_code_lines_are_counted_by_the_public_rule(lines: list[str], count: int) -> None:
    assert count_code_lines(lines) == count


def test_the_placeholder_replaces_the_region_and_all_other_tags_go() -> None:
    outer, inner = find_regions(NESTED, path="m.py")
    assert mask(NESTED, outer).text == (
        "import torch\n\n\ndef f(x):\n"
        '    # TODO: Implement block "outer"\n    # Approximately 3 line(s) of code.\n'
    )
    assert mask(NESTED, inner).text == (
        "import torch\n\n\ndef f(x):\n    # why\n    y = x + 1  # one\n"
        '    # TODO: Implement block "inner"\n    # Approximately 1 line(s) of code.\n'
        "\n    return z\n"
    )


def test_the_placeholder_stands_at_the_least_indent_of_the_region() -> None:
    text = start("a", "        ") + "        x = 1\n    y = 2\n\n" + close("a", "        ")
    assert only(text).indent == "    "
    tabs = start("a", "\t") + "\t\tx = 1\n\ty = 2\n" + close("a", "\t")
    assert mask(tabs, only(tabs)).text.startswith("\t# TODO")


def test_body_drops_inner_tag_lines_and_raw_body_keeps_them() -> None:
    outer, _ = find_regions(NESTED, path="m.py")
    assert "<paper2code" not in body(NESTED, outer)
    assert raw_body(NESTED, outer).count("paper2code") == 2
    assert mask(NESTED, outer).fill(body(NESTED, outer)) == strip_tags(NESTED)


def test_a_filled_region_gets_a_final_newline_and_the_line_ends_of_the_file() -> None:
    crlf = "a = 1\r\n" + start("n", end="\r\n") + "b = 2\r\n" + close("n", end="\r\n") + "c = 3\r\n"
    masked = mask(crlf, only(crlf))
    assert masked.fill("b = 4\nb = 5") == "a = 1\r\nb = 4\r\nb = 5\r\nc = 3\r\n"
    assert masked.placeholder.count("\r\n") == 2
    unix = crlf.replace("\r\n", "\n")
    assert mask(unix, only(unix)).fill("b = 4\r\n") == "a = 1\nb = 4\nc = 3\n"
    assert mask(unix, only(unix)).fill("") == "a = 1\nc = 3\n"


def test_a_changed_frame_is_not_accepted() -> None:
    text = "a = 1\n" + start("n") + "b = 2\n" + close("n") + "a = 1\n"
    masked = mask(text, only(text))
    assert masked.region_of("a = 1\nx\na = 1\n") == "x\n"
    assert masked.region_of("a = 1\na = 1\n") == ""
    assert masked.region_of("a = 1\n") is None, "the two halves of the frame may not share bytes"
    assert masked.region_of("a = 1\r\nx\na = 1\n") is None
    assert masked.region_of("a = 2\nx\na = 1\n") is None
    assert masked.region_of("a = 1\nx\na = 1") is None


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x = 1\n" + start("a") + "x = 1\n", 2, "never closed"),
        ("x = 1\n" + close("a"), 2, "closes nothing"),
        (start("a") + "x = 1\n" + close("b"), 3, "must be equal"),
        (start("a") + start("b") + "x = 1\n" + close("a") + close("b"), 4, "overlap"),
        (start("a") + "x = 1\n" + close("a", "    "), 3, "indented"),
        (start("a", "\t") + "\tx = 1\n" + close("a", "    "), 3, "indented"),
        ("# <paper2code name=a>\nx = 1\n", 1, "looks like a tag"),
        ('# <paper2code name="">\nx = 1\n', 1, "looks like a tag"),
        ('# <paper2code name="a"> and more\nx = 1\n', 1, "looks like a tag"),
        ("# </ Paper2Code>\nx = 1\n", 1, "looks like a tag"),
        ("\ufeff" + start("a") + "x = 1\n" + close("a"), 1, "looks like a tag"),
    ],
)
def test_every_broken_tag_is_named_with_file_and_line(text: str, line: int, words: str) -> None:
    with pytest.raises(PaperError, match=words) as caught:
        find_regions(text, path="src/m.py")
    assert str(caught.value).startswith(f"src/m.py:{line}: ")


def test_tag_words_in_code_are_no_tags() -> None:
    assert (
        find_regions(
            'x = "<paper2code>"\ndef in64_paper2code(): ...\n# see paper2code\n', path="m.py"
        )
        == ()
    )


def test_tag_lines_inside_a_string_are_text() -> None:
    """A test of a tool like this one, or its documentation, was taken for a challenge, and its lines went."""
    inner = start("a") + "x = 1\n" + close("a")
    for quotes in ('"""', "'''"):
        text = f"TEXT = {quotes}\n{inner}{quotes}\n" + start("b") + "y = 1\n" + close("b")
        region = only(text)
        assert region.name == "b"
        assert strip_tags(text) == f"TEXT = {quotes}\n{inner}{quotes}\ny = 1\n"
        assert mask(text, region).before == f"TEXT = {quotes}\n{inner}{quotes}\n"
    around = start("b") + f'y = """\n{inner}"""\n' + close("b")
    assert body(around, only(around)) == f'y = """\n{inner}"""\n'
    assert [text.split("\n")[row] for row in body_rows(text, only(text))] == ["y = 1"]
    almost = 'T = """\n# <paper2code name=a>\n"""\n'
    assert find_regions(almost, path="m.py") == ()


def test_a_string_that_never_ends_hides_no_tag() -> None:
    text = 'x = """\n' + start("a") + "x = 1\n" + close("a")
    assert only(text).name == "a"


def test_only_statements_set_the_indent_of_a_region() -> None:
    """A string or a comment at the margin put the placeholder there, and right code was moved to it."""
    for code in (
        '    x = """\nat the margin\n"""\n',
        "# at the margin\n    x = 1\n",
        "    x = f(\n1\n)\n",
        "    x = 1 + \\\n1\n",
    ):
        text = "def f():\n" + start("a", "    ") + code + close("a", "    ")
        assert only(text).indent == "    "


# Lines that try everything a byte-exact splice can trip over.
_LINE_TEXT = st.one_of(
    st.sampled_from(
        [
            "",
            "    x = 1",
            "\tx",
            "\x0c",
            "a\rb",
            "\ufeff",
            "\udcff\udc80",
            "x\x0b\x1c\x85\u2028y",
            "# note",
        ]
    ),
    st.text(st.characters(exclude_characters="\n#<"), max_size=8),
)
_END = st.sampled_from(["\n", "\r\n"])


@st.composite
def _blocks(draw: st.DrawFn, depth: int = 2) -> str:
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        if depth and draw(st.booleans()):
            name, indent = (
                draw(st.sampled_from(["a", "b c", "d, e = f?"])),
                draw(st.sampled_from(["", "\t", "  "])),
            )
            inner = draw(_blocks(depth=depth - 1))
            parts.append(start(name, indent, draw(_END)) + inner + close(name, indent, draw(_END)))
        else:
            parts.append(draw(_LINE_TEXT) + draw(_END))
    return "".join(parts)


@st.composite
def annotated(draw: st.DrawFn) -> str:
    tail = draw(st.sampled_from(["", "no final newline", close("z").rstrip("\n")]))
    head = start("z") if "paper2code" in tail else ""
    return draw(st.sampled_from(["", "\ufeff# head\n"])) + head + draw(_blocks()) + tail


@given(annotated())
def test_splicing_a_region_into_itself_changes_nothing(text: str) -> None:
    for region in find_regions(text, path="m.py"):
        assert splice(text, region, raw_body(text, region)) == text
        assert mask(text, region).fill(body(text, region)) == strip_tags(text)


@given(annotated(), _blocks(depth=0))
def test_what_is_filled_in_is_what_region_of_gives_back(text: str, code: str) -> None:
    for region in find_regions(text, path="m.py"):
        masked = mask(text, region)
        filled = masked.fill(code)
        taken = masked.region_of(filled)
        assert taken is not None
        assert taken.replace("\r\n", "\n") == code.replace("\r\n", "\n")
        assert masked.fill(taken) == filled
        assert masked.region_of(masked.text) == masked.placeholder


@given(annotated(), _blocks(depth=0))
def test_regions_outside_a_splice_survive_it(text: str, code: str) -> None:
    regions = find_regions(text, path="m.py")
    for region in regions:
        after = find_regions(splice(text, region, code), path="m.py")
        inside = [other for other in regions if region.start < other.start < region.end]
        assert len(after) == len(regions) - len(inside)


@given(st.binary(max_size=200))
def test_any_bytes_survive_a_file_without_tags(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    assert strip_tags(text).encode("utf-8", "surrogateescape") == data
