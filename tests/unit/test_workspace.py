"""What an agent sees and may change: paths, reading, searching, edits, patches, undo."""

from __future__ import annotations

import contextlib
import datetime
import difflib
import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcb_env.dataset import markers
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.env import edits, patches
from rcb_env.env.actions import TOOLS
from rcb_env.env.edits import EditError
from rcb_env.env.settings import Shown
from rcb_env.env.workspace import Workspace, WorkspaceError

PLAIN = b"""import torch


def scale(x):
    y = x * 2
    # <paper2code name="add one">
    y = y + 1
    # </paper2code name="add one">
    return y


def other(x):
    y = x * 2
    return y
"""


def challenge(source: bytes, files: dict[str, bytes] | None = None) -> Challenge:
    """A challenge for the first region of ``source``, among other files."""
    file = "src/model.py"
    region = markers.find_regions(source.decode("utf-8", "surrogateescape"), path=file)[0]
    paper = Paper(
        id="P",
        title="A paper",
        authors=(),
        arxiv="",
        venue="",
        dates={"v1": datetime.date(2025, 1, 1)},
        domain="",
        license="MIT",
        layout="native",
        root=Path(),
        text="First line.\nSecond line.\nThird line.\n",
        annotated=(file,),
        context=(),
        files={file: source, **(files or {})},
        tests={},
        image="cpu",
        time_limit_s=20.0,
        memory_limit_mb=1024,
    )
    return Challenge("P/add-one", paper, file, region, region.name, region.lines, "hash")


def workspace(source: bytes = PLAIN, **others: bytes) -> Workspace:
    """``others`` maps ``a__b_py`` to the file ``a/b.py``."""
    files = {name.replace("__", "/").replace("_py", ".py"): data for name, data in others.items()}
    return Workspace(challenge(source, files))


def refusal(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(WorkspaceError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# --- looking ----------------------------------------------------------------------------------


def test_files_are_listed_with_their_lines_and_the_region() -> None:
    listing = workspace(src__extra_py=b"x = 1\n", notes=b"").list_files()
    assert listing.split("\n") == [
        "notes  (0 lines)",
        "src/extra.py  (1 line)",
        "src/model.py  (13 lines; the region to write is in it)",
    ]
    assert workspace(src__extra_py=b"x = 1\n").list_files("src/extra.py").startswith("src/extra")


def test_lines_are_shown_with_their_numbers_and_no_tag_is_left() -> None:
    shown = workspace().read_file("src/model.py", 5, 8)
    assert shown == (
        "src/model.py, lines 5-8 of 13\n"
        "5\t    y = x * 2\n"
        '6\t    # TODO: Implement block "add one"\n'
        "7\t    # Approximately 1 line(s) of code.\n"
        "8\t    return y"
    )
    assert "paper2code" not in workspace().read_file("src/model.py")


def test_a_range_beyond_the_end_is_cut_and_a_start_beyond_it_is_an_error() -> None:
    assert workspace().read_file("src/model.py", 13, 99).startswith("src/model.py, line 13 of 13")
    assert "13 lines" in refusal(workspace().read_file, "src/model.py", 14)
    assert "after the last" in refusal(workspace().read_file, "src/model.py", 5, 4)
    assert workspace(empty=b"").read_file("empty") == "empty is empty"


def test_the_paper_is_read_by_lines_unless_the_task_is_without_it() -> None:
    assert workspace().read_paper(2, 2) == "the paper, line 2 of 3\n2\tSecond line."
    assert "not part" in refusal(Workspace(challenge(PLAIN), Shown(paper="none")).read_paper)


@pytest.mark.parametrize(
    "path",
    [
        "../../etc/hostname",
        "/etc/hostname",
        "src/../../etc/hostname",
        "src/../src/model.py",
        "../workspacex/f",
        "src/model.py\0",
        "link/hostname",
        "src",
        "src/",
        "",
        ".",
        "~/.ssh/id_rsa",
        "C:\\model.py",
        "src\\..\\..\\x",
        "/proc/self/environ",
        "x" * 5000,
    ],
)
def test_a_path_is_a_listed_file_or_an_error_for_reading_and_for_writing(path: str) -> None:
    """Case C017: the text of a path passed the check and its real target lay outside.

    Here no path ever meets a file system, so there is no target; each must be a plain error.
    """
    space = workspace()
    before = space.state_hash
    assert "no such file" in refusal(space.read_file, path)
    assert "no such file" in refusal(space.replace, "y", "z", path)
    diff = f"--- {path}\n+++ {path}\n@@ -1 +1 @@\n-import torch\n+import os\n"
    assert "apply_patch" in refusal(space.apply_patch, diff)
    if path not in ("src", "src/", "", "."):
        assert "no such" in refusal(space.list_files, path)
        assert "no such" in refusal(space.search, "x", path)
    assert space.state_hash == before
    assert len(refusal(space.read_file, path)) < 400


@pytest.mark.parametrize(
    "diff",
    [
        pytest.param(
            "--- /dev/null\n+++ b/tests/cases.py\n@@ -0,0 +1 @@\n+cases = []\n", id="writes it"
        ),
        pytest.param(
            "--- a/tests/cases.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-import torch\n", id="deletes it"
        ),
        pytest.param(
            "diff --git a/tests/cases.py b/tests/cases.py\nnew file mode 120000\n--- /dev/null\n"
            "+++ b/tests/cases.py\n@@ -0,0 +1 @@\n+/dev/null\n\\ No newline at end of file\n",
            id="makes it a link",
        ),
        pytest.param(
            "diff --git a/src/model.py b/src/model.py\nold mode 100644\nnew mode 100755\n",
            id="changes a mode",
        ),
        pytest.param(
            "diff --git a/src/model.py b/tests/cases.py\nsimilarity index 100%\n"
            "rename from src/model.py\nrename to tests/cases.py\n",
            id="renames a file to it",
        ),
    ],
)
def test_no_edit_reaches_the_tests_or_makes_a_file(diff: str) -> None:
    """Case C041: an agent weakened the tests it was graded by, and they were used.

    The tests are in no workspace, and an edit changes the region or nothing.
    """
    space = workspace()
    before = space.state_hash
    refusal(space.apply_patch, diff)
    refusal(space.replace, "import torch", "import os", "tests/cases.py")
    assert space.state_hash == before
    assert "tests" not in space.list_files()


@pytest.mark.parametrize("name", ["unittest.py", "random.py", "numpy.py", "torch/__init__.py"])
@pytest.mark.parametrize("folder", ["", "src/", "tests/"])
def test_no_action_with_a_path_makes_a_module_that_shadows_another(name: str, folder: str) -> None:
    """Case C043: an empty `unittest.py` beside the tests was imported instead of the real one, and all passed."""
    path = folder + name
    space = workspace(src__extra_py=b"x = 1\n")
    files, before = space.list_files(), space.state_hash
    needed = {"pattern": "x", "old": "x = 1", "new": "x = 2"}
    with_a_path = [tool for tool in TOOLS if "path" in tool.parameters["properties"]]
    assert [tool.name for tool in with_a_path] == ["list_files", "read_file", "search", "replace"]
    for tool in with_a_path:
        required = {key: needed[key] for key in tool.parameters["required"] if key != "path"}
        refused = refusal(getattr(space, tool.name), path=path, **required)
        assert f"no such file {path!r}" in refused.replace("file or folder", "file")
    diff = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+class TestCase: pass\n"
    refused = refusal(space.apply_patch, diff)
    assert f"this patch adds {path}; only src/model.py may change" in refused
    diff = f"--- a/src/extra.py\n+++ b/{path}\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    refused = refusal(space.apply_patch, diff)
    assert f"renames src/extra.py to {path}; only src/model.py may change" in refused
    assert (space.list_files(), space.state_hash) == (files, before)


def test_a_misspelt_path_gets_the_near_one() -> None:
    space = workspace(src__extra_py=b"x = 1\n")
    assert "did you mean 'src/model.py'?" in refusal(space.read_file, "model.py")
    assert "did you mean 'src/extra.py'?" in refusal(space.read_file, "src/exra.py")


def test_search_shows_path_line_and_text() -> None:
    space = workspace(src__extra_py=b"y = 3\n")
    assert space.search(r"^\s*y = x").split("\n") == [
        "src/model.py:5:     y = x * 2",
        "src/model.py:12:     y = x * 2",
    ]
    assert space.search("y = 3", "src/extra.py") == "src/extra.py:1: y = 3"
    assert space.search("y = 3", "src") == "src/extra.py:1: y = 3"
    assert "no line in any file" in space.search("nothing like it")


@pytest.mark.parametrize("pattern", ["(", "[", "*", r"\L<x>", "a{2,1}", "(?P<a"])
def test_a_broken_pattern_is_a_clear_error(pattern: str) -> None:
    assert "not a regular expression" in refusal(workspace().search, pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",
        r"(a|aa)+$",
        r"(?R)?a(?R)?b",
        "(?:" * 10 + "a" + "){9}" * 10,
        "(?:a{1000000000}){1000000000}",
        "(?x)" + "(?:" * 10 + "a" + "){ 9 }" * 10,
        "a{99999999999999999999}",
        "(" * 160 + "a" + ")" * 160,
        "(?:(?:(?:(?:(?:(?:aaaaaaaa){e<=9}){e<=9}){e<=9}){e<=9}){e<=9}){e<=9}b",
    ],
)
def test_a_hostile_pattern_does_not_hang_the_driver(pattern: str) -> None:
    space = workspace(long=b"a" * 5000 + b"c\n")
    began = time.monotonic()
    with contextlib.suppress(WorkspaceError):
        space.search(pattern)
    assert time.monotonic() - began < 10


def test_search_shows_a_limited_number_of_short_lines() -> None:
    found = workspace(long=b"a" * 5000 + b"\n" + b"a\n" * 500).search("a").split("\n")
    assert len(found) == 101
    assert "first 100" in found[-1]
    assert max(map(len, found)) < 500


# --- writing the region -----------------------------------------------------------------------


def test_written_code_stands_in_the_frame_and_is_what_is_graded() -> None:
    space = workspace()
    assert not space.changed
    assert space.write_region("    y = y + 3\n    y = y - 2") == (
        "wrote 2 lines: src/model.py lines 6-7"
    )
    assert space.changed
    assert space.code == "    y = y + 3\n    y = y - 2\n"
    assert "6\t    y = y + 3\n7\t    y = y - 2\n8\t    return y" in space.read_file("src/model.py")


def test_an_emptied_region_is_shown_as_empty() -> None:
    space = workspace()
    assert "empty" in space.write_region("")
    assert space.code == ""
    assert "7\t" in space.read_file("src/model.py", 6, 7)
    space.apply_patch("@@ -5,2 +5,3 @@\n     y = x * 2\n+    y += 1\n     return y\n")
    assert space.code == "    y += 1\n"


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("y = 1\nif y:\n    y = 2\n", "    y = 1\n    if y:\n        y = 2\n"),
        ("        y = 1\n        y = 2\n", "    y = 1\n    y = 2\n"),
        ("\ty = 1\n\tif y:\n\t\ty = 2\n", "    y = 1\n    if y:\n    \ty = 2\n"),
        ("y = 1\n    y = 2\n", "    y = 1\n    y = 2\n"),  # only the first line lost its indent
        ("for _ in y:\n        y = 2\n    y = 3\n", "    for _ in y:\n        y = 2\n    y = 3\n"),
        ("y = f(\n1,\n)\n", "    y = f(\n    1,\n    )\n"),
        ("else:\n    y = 1\n", "    else:\n        y = 1\n"),
        ('y = """\n  a\n"""\nz = 1\n', '    y = """\n  a\n"""\n    z = 1\n'),
        ("y = 1\n\n\nz = 2", "    y = 1\n\n\n    z = 2\n"),
    ],
)
def test_code_at_another_indent_is_moved_as_a_whole_and_the_answer_says_so(
    code: str, wanted: str
) -> None:
    space = workspace()
    assert "indented to 4 blanks" in space.write_region(code)
    assert space.code == wanted


@pytest.mark.parametrize(
    "code",
    [
        "    y = 1\n# a comment at the margin\n    z = 2\n",
        "    y = f(\n1\n)\n",
        '    y = """\nno indent\n"""\n',
        "        y = 1\n    z = 2\n",  # leaves its block: nobody knows what was meant
        "y = (1\n",
        "y = '\n",
        "if y:\nz = 1\n",
        "# only a comment\n",
        "    y = 1\n    if y:\n        z = 2\n",
        "\n\n",
    ],
)
def test_code_that_cannot_plainly_be_moved_is_kept_byte_for_byte(code: str) -> None:
    space = workspace()
    assert "indented" not in space.write_region(code)
    assert space.code == code


@given(st.text(max_size=60), st.sampled_from(["", "  ", "    ", "\t"]))
def test_moving_code_changes_only_white_space_in_front_of_lines(code: str, indent: str) -> None:
    moved = edits.reindented(code, indent)
    if moved is not None:
        before, after = code.split("\n"), moved.split("\n")
        assert [line.lstrip() for line in before] == [line.lstrip() for line in after]
        assert edits.reindented(moved, indent) is None


@pytest.mark.parametrize(
    "code",
    [
        b'    y = """\nat the margin\n"""\n',
        b"# at the margin\n    y = 1\n",
        b"    y = max(\n1,\n2)\n",
    ],
)
def test_a_region_with_text_at_the_margin_stands_where_its_statements_stand(code: bytes) -> None:
    """Its string or comment was taken for its indent: right code was moved to the margin, and failed."""
    source = PLAIN.replace(b"    y = y + 1\n", code)
    for right in ("    y = 1\n", code.decode()):
        space = workspace(source)
        assert "\t    # TODO" in space.read_file("src/model.py")
        assert "indented" not in space.write_region(right)
        assert space.code == right
    space = workspace(source)
    assert "indented to 4 blanks" in space.write_region("y = 1\n")
    assert space.code == "    y = 1\n"


def test_code_takes_the_line_ends_of_the_file() -> None:
    space = workspace(PLAIN.replace(b"\n", b"\r\n"))
    space.write_region("    y = 1\n    z = 2")
    assert space.code == "    y = 1\r\n    z = 2\r\n"
    assert "CRLF" in space.read_file("src/model.py")
    assert "\r" not in space.read_file("src/model.py")


def test_writing_what_is_there_already_is_told_and_is_no_edit() -> None:
    space = workspace()
    space.write_region("    y = 1\n")
    assert "already" in refusal(space.write_region, "y = 1")
    space.undo()
    assert not space.changed


# --- replace ----------------------------------------------------------------------------------

ODD = (
    b"\xef\xbb\xbfimport torch\r\n"
    b"# caf\xe9\r\n"
    b"def f(x):\r\n"
    b'\t# <paper2code name="odd">\r\n'
    b"\ty = x\t* 2  # t\xe9\r\n"
    b"\tz = y\r\n"
    b"\tw = z\r\n"
    b'\t# </paper2code name="odd">\r\n'
    b"\treturn w\r\n"
)


def odd() -> Workspace:
    space = workspace(ODD)
    space.write_region(space._challenge.reference)
    return space


def test_a_replacement_changes_only_the_bytes_it_was_asked_to() -> None:
    """Case C019: one small replacement turned all tabs to blanks and every CRLF to LF."""
    space = odd()
    space.replace("\tz = y\n\tw = z\n", "\tz = y\n\tw = z + 1\n")
    got = space._challenge.tree(space.code)["src/model.py"]
    whole = b"".join(line for line in ODD.splitlines(True) if b"paper2code" not in line)
    assert got == whole.replace(b"\tw = z\r\n", b"\tw = z + 1\r\n")


def test_a_text_that_occurs_twice_is_refused_with_both_line_numbers() -> None:
    """Case C019: several matches gave an error with an empty list of lines."""
    space = odd()
    space.write_region("\tz = y\n\tw = 1\n\tz = y\n")
    before = space.state_hash
    assert "lines 4, 6" in refusal(space.replace, "z = y", "z = x")
    assert space.state_hash == before


def test_overlapping_matches_count() -> None:
    space = workspace()
    space.write_region("    y = 'aaa'\n")
    assert "occurs 2 times" in refusal(space.replace, "aa", "b")
    assert "occurs 2 times" in refusal(
        workspace(PLAIN.replace(b"\n", b"\r\n")).replace, "\n    y = x * 2\n", ""
    )


def test_a_text_that_does_not_occur_is_refused_with_the_nearest_lines() -> None:
    space = odd()
    assert "white space only" in refusal(space.replace, "y = x  * 2  # t\udce9", "y = 1")
    error = refusal(space.replace, "y = x * 3", "y = 1")
    assert "4\t\ty = x\t* 2" in error
    assert "does not occur" in refusal(space.replace, "@@@@@@", "")


def test_an_empty_or_equal_old_text_is_refused() -> None:
    assert "empty" in refusal(odd().replace, "", "x")
    assert "equal" in refusal(odd().replace, "z = y", "z = y")


@pytest.mark.parametrize("new", [r"\1", r"\g<0>", "$&", "$1", "\\", "\\n", "%s {0}"])
def test_a_new_text_is_taken_literally(new: str) -> None:
    r"""Case C019: ``\1`` and ``$&`` in the new text were taken for groups."""
    space = odd()
    space.replace("w = z", f"w = r'{new}'")
    assert f"\tw = r'{new}'\r\n" in space.code


def test_a_replacement_outside_the_region_is_refused_and_says_which_lines_may_change() -> None:
    space = workspace(src__extra_py=b"x = 1\n")
    before = space.state_hash
    assert "lines 6-7" in refusal(space.replace, "def other(x):", "def another(x):")
    assert "lines 6-7" in refusal(space.replace, "x = 1", "x = 2", "src/extra.py")
    assert space.state_hash == before


def test_lines_around_the_region_can_be_named_to_make_a_text_unique() -> None:
    space = workspace()
    space.write_region("    y = x * 2\n")
    assert "lines 5, 6, 11" in refusal(space.replace, "    y = x * 2\n", "    y = 1\n")
    space.replace("    y = x * 2\n    y = x * 2\n", "    y = x * 2\n    y = 1\n")
    assert space.code == "    y = 1\n"


def test_a_replacement_that_eats_the_last_newline_does_not_glue_the_frame_to_the_region() -> None:
    space = workspace()
    space.write_region("    y = 1\n")
    space.replace("y = 1\n", "y = 2")
    assert space.code == "    y = 2\n"
    assert "    y = 2\n7\t    return y" in space.read_file("src/model.py")


# --- patches ----------------------------------------------------------------------------------

LONG = [f"line{n} = {n}\n" for n in range(1, 301)]


def patched(patch: str, lines: list[str] | None = None, paths: tuple[str, ...] = ()) -> Any:
    text = "".join(LONG if lines is None else lines)
    return patches.apply_patch(text, patch, path="m.py", paths=("m.py", *paths), newline="\n")


def patch_refusal(patch: str, lines: list[str] | None = None, paths: tuple[str, ...] = ()) -> str:
    with pytest.raises(EditError) as caught:
        patched(patch, lines, paths)
    return str(caught.value)


def test_a_patch_changes_the_region() -> None:
    space = workspace()
    answer = space.apply_patch(
        "--- a/src/model.py\n+++ b/src/model.py\n@@ -5,4 +5,3 @@\n     y = x * 2\n"
        '-    # TODO: Implement block "add one"\n-    # Approximately 1 line(s) of code.\n'
        "+    y = y + 1\n     return y\n"
    )
    assert answer == "patched: src/model.py line 6"
    assert space.code == "    y = y + 1\n"


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        ("--- a/m.py\n+++ b/m.py\n@@ ... @@\n-line2 = 2\n+line2 = 0\n", "no line numbers"),
        ("--- a/m.py\n+++ b/m.py\n@@\n-line2 = 2\n+line2 = 0\n", "no line numbers"),
        ("Change line2 to 0, please.", "no hunk"),
        ("", "no hunk"),
        ("--- a/m.py\n+++ b/m.py\n-line2 = 2\n+line2 = 0\n", "no hunk"),
        ("--- a/m.py\n+++ b/m.py\n@@ -2 +2 @@\n line2 = 2\n", "nothing changes"),
        ("*** Begin Patch\n*** Update File: m.py\n@@\n-a\n+b\n*** End Patch", "unified diff"),
    ],
)
def test_a_patch_without_hunks_is_an_error_with_the_reason(patch: str, reason: str) -> None:
    """Case C011: a header the parser skipped became "applied", and nothing had changed."""
    assert reason in patch_refusal(patch)


def test_a_hunk_header_without_counts_applies() -> None:
    """Case C011: the short form of a header is valid."""
    text, notes = patched("--- a/m.py\n+++ b/m.py\n@@ -2 +2 @@\n-line2 = 2\n+line2 = 0\n")
    assert text == "".join(LONG).replace("line2 = 2\n", "line2 = 0\n")
    assert notes == ()


def hunk(start: int, *lines: str) -> str:
    return f"--- a/m.py\n+++ b/m.py\n@@ -{start},3 +{start},3 @@\n" + "".join(lines)


CHANGE_100 = (" line99 = 99\n", "-line100 = 100\n", "+line100 = 0\n", " line101 = 101\n")


@pytest.mark.parametrize("start", [99, 139, 59, 0, 1, 300, 5000, 999_999_999])
def test_a_hunk_with_unique_context_applies_wherever_its_header_puts_it(start: int) -> None:
    """Case C013 (a, d): a patch was refused because its start line was off."""
    text, notes = patched(hunk(start, *CHANGE_100))
    assert text == "".join(LONG).replace("line100 = 100\n", "line100 = 0\n")
    assert bool(notes) == (start != 99)
    if notes:
        assert "line 99" in notes[0]


def test_a_hunk_that_fits_twice_is_refused_unless_its_header_names_one_place() -> None:
    """Case C013 (b): the same context occurs twice, and the stated line fits neither."""
    twice = LONG + LONG
    error = patch_refusal(hunk(200, *CHANGE_100), twice)
    assert "ambiguous" in error
    assert "99, 399" in error
    text, notes = patched(hunk(399, *CHANGE_100), twice)
    assert text == "".join(LONG) + "".join(LONG).replace("line100 = 100\n", "line100 = 0\n")
    assert notes == ()


@pytest.mark.parametrize("start", [99, 0, 5000])
def test_a_hunk_that_fits_nowhere_is_refused_with_the_nearest_lines(start: int) -> None:
    """Case C013 (c, d): a context line exists nowhere; also with a start line out of range."""
    error = patch_refusal(
        hunk(start, " line99 = 99\n", "-line100 = 1OO\n", "+x\n", " line101 = 101\n")
    )
    assert "99\tline99 = 99\n100\tline100 = 100\n101\tline101 = 101" in error


def test_a_context_that_differs_in_white_space_only_is_told_so() -> None:
    assert "white space only" in patch_refusal(hunk(1, "-line1  =  1\n", "+x\n"))


MANY = """diff --git a/a/util.py b/a/util.py
new file mode 100644
--- /dev/null
+++ b/a/util.py
@@ -0,0 +1 @@
+x = 1
diff --git a/b.py b/b.py
new file mode 100644
--- /dev/null
+++ b/b.py
@@ -0,0 +1 @@
+y = 1
diff --git a/old.py b/old.py
deleted file mode 100644
--- a/old.py
+++ /dev/null
@@ -1 +0,0 @@
-z = 1
diff --git a/x.py b/y.py
similarity index 100%
rename from x.py
rename to y.py
--- m.py
+++ m.py
@@ -1 +1 @@
-line1 = 1
+line1 = 0
"""


def test_new_deleted_and_renamed_files_are_refused_by_name() -> None:
    """Case C015: two added files merged into one, and a folder called ``a`` lost its name."""
    error = patch_refusal(MANY, paths=("old.py", "x.py", "a/other.py"))
    assert "nothing was changed" in error
    for part in ("adds a/util.py", "adds b.py", "deletes old.py", "renames x.py to y.py"):
        assert part in error
    assert "m.py," not in error


def test_a_real_folder_called_a_is_no_prefix() -> None:
    """Case C015."""
    change = "@@ -1 +1 @@\n-line1 = 1\n+line1 = 0\n"
    error = patch_refusal("--- a/util.py\n+++ a/util.py\n" + change, paths=("a/util.py", "util.py"))
    assert "changes a/util.py" in error
    error = patch_refusal("--- a/util.py\n+++ b/util.py\n" + change, paths=("a/util.py", "util.py"))
    assert "changes util.py" in error


@pytest.mark.parametrize(
    "names",
    [
        "--- a/m.py\n+++ b/m.py\n",
        "--- m.py\n+++ m.py\n",
        "--- a/m.py\n+++ m.py\n",
        "--- ./m.py\n+++ ./m.py\n",
        "--- m.py\t2025-01-01 00:00:00\n+++ m.py\t2025-01-01 00:00:01\n",
        "diff --git a/m.py b/m.py\nindex 123..456 100644\n--- a/m.py\n+++ b/m.py\n",
        "Here is the patch:\n```diff\n--- a/m.py\n+++ b/m.py\n",
        "",
    ],
)
@pytest.mark.parametrize("end", ["", "```\n\n- this sets line1 to zero\n", "\nThat is all.\n"])
def test_prefixes_fences_prose_and_missing_file_lines_are_tolerated(names: str, end: str) -> None:
    """Case C015: names without prefixes were refused or misread."""
    text, _ = patched(f"{names}@@ -1 +1 @@\n-line1 = 1\n+line1 = 0\n{end}")
    assert text == "".join(LONG).replace("line1 = 1\n", "line1 = 0\n", 1)


def test_wrong_counts_and_crlf_in_the_patch_are_tolerated() -> None:
    patch = "--- a/m.py\n+++ b/m.py\n@@ -1,9 +1,9 @@\n line1 = 1\n-line2 = 2\n+line2 = 0\n"
    for variant in (patch, patch.replace("\n", "\r\n"), patch.replace("9", "1"), patch + "\n\n"):
        assert patched(variant)[0] == "".join(LONG).replace("line2 = 2\n", "line2 = 0\n", 1)


def test_a_removed_line_that_looks_like_a_file_line_is_a_removed_line() -> None:
    patch = "--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,2 @@\n x\n--- y\n+++ z\n"
    assert patched(patch, ["x\n", "-- y\n"])[0] == "x\n++ z\n"


def test_several_hunks_apply_together_or_not_at_all() -> None:
    first = "@@ -1 +1,2 @@\n line1 = 1\n+new = 1\n"
    second = "@@ -300 +301 @@\n-line300 = 300\n+line300 = 0\n"
    text, _ = patched(second + first)
    assert text == "line1 = 1\nnew = 1\n" + "".join(LONG[1:-1]) + "line300 = 0\n"
    assert "overlaps" in patch_refusal(first + "@@ -1 +1 @@\n-line1 = 1\n+line1 = 0\n")
    assert "hunk 2" in patch_refusal(first + "@@ -9 +9 @@\n-nowhere\n+x\n")


def test_a_hunk_without_context_goes_where_its_header_says_or_nowhere() -> None:
    assert patched("@@ -2,0 +3 @@\n+new\n")[0] == "".join([*LONG[:2], "new\n", *LONG[2:]])
    assert "beyond the end" in patch_refusal("@@ -900,0 +901 @@\n+new\n")


def test_a_patch_outside_the_region_is_refused_and_changes_nothing() -> None:
    space = workspace()
    before = space.state_hash
    error = refusal(space.apply_patch, "@@ -1 +1 @@\n-import torch\n+import os\n")
    assert "lines 6-7" in error
    assert space.state_hash == before


def test_a_patch_keeps_crlf_tabs_and_bytes_that_are_no_utf8() -> None:
    space = odd()
    space.apply_patch("@@ -5,2 +5,3 @@\n \tz = y\n+\tz = z\n \tw = z\n")
    assert space.code.encode("utf-8", "surrogateescape") == (
        b"\ty = x\t* 2  # t\xe9\r\n\tz = y\r\n\tz = z\r\n\tw = z\r\n"
    )


@given(st.lists(st.sampled_from(["--- a/m.py", "+++ b/m.py", "@@ -1,2 +1,2 @@", "@@ -0,0 +1 @@",
    " a", "-a", "+a", "", "\\ No newline at end of file", "diff --git a/m.py b/m.py", "```",
    "rename from m.py", "--- ", "+++ ", "\ud800", "@@ -999999999,1 +1 @@"]), max_size=14))  # fmt: skip
def test_no_patch_makes_anything_but_a_text_or_an_edit_error(lines: list[str]) -> None:
    text = "a\nb\na\n"
    try:
        result, _ = patches.apply_patch(
            text, "\n".join(lines), path="m.py", paths=("m.py",), newline="\n"
        )
    except EditError:
        return
    assert isinstance(result, str)


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")), st.integers(0, 3))
def test_the_diff_of_two_texts_turns_one_into_the_other(
    one: list[str], other: list[str], context: int
) -> None:
    before, after = [f"{line}\n" for line in one], [f"{line}\n" for line in other]
    diff = "".join(difflib.unified_diff(before, after, "a/m.py", "b/m.py", n=context))
    if before == after or not before or not after:
        return
    assert patched(diff, before)[0] == "".join(after)


# --- state ------------------------------------------------------------------------------------


def test_undo_steps_back_one_edit_at_a_time() -> None:
    space = workspace()
    start = space.state_hash
    space.write_region("    y = 1\n")
    space.replace("y = 1", "y = 2")
    assert "1 left" in space.undo()
    assert space.code == "    y = 1\n"
    space.undo()
    assert space.state_hash == start
    assert "no edit" in refusal(space.undo)


def test_a_snapshot_is_restored_in_another_workspace_of_the_challenge() -> None:
    space, fork = workspace(), workspace()
    space.write_region("    y = 1\n")
    kept = space.snapshot()
    fork.restore(kept)
    fork.write_region("    y = 2\n")
    assert (space.code, fork.code) == ("    y = 1\n", "    y = 2\n")
    assert space.snapshot() == kept
    fork.undo()
    assert fork.state_hash == space.state_hash


@given(st.integers(0, 10**6))
def test_no_series_of_edits_touches_the_frame(seed: int) -> None:
    rng = random.Random(seed)
    source = PLAIN.replace(b"\n", b"\r\n") if rng.random() < 0.5 else PLAIN
    space = workspace(source)
    masked = space._challenge.masked()
    pieces = ["    y", " = ", "x * 2", "\n", "\r\n", "return y", "", "#", "(", "import torch", "\t"]
    for _ in range(6):
        text = ["".join(rng.choices(pieces, k=rng.randint(0, 5))) for _ in range(2)]
        try:
            match rng.randint(0, 3):
                case 0:
                    space.write_region(text[0])
                case 1:
                    space.replace(*text)
                case 2:
                    space.apply_patch(f"@@ -{rng.randint(0, 9)} +1 @@\n-{text[0]}\n+{text[1]}\n")
                case _:
                    space.undo()
        except WorkspaceError:
            continue
        file = space._challenge.tree(space.code)["src/model.py"].decode()
        assert file == masked.before + space.code + masked.after
        assert masked.region_of(file) == space.code
        assert space.code == "" or space.code.endswith("\n")
