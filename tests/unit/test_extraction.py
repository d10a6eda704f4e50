"""From a raw reply to the code of a region."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcb_env.dataset.layout import layout
from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.markers import Masked, find_regions, mask
from rcb_env.play.extraction import Extracted, extract

MODULE = '''\
import math

import numpy as np


class Optimizer:
    """Keeps a running mean."""

    def __init__(self, beta):
        self.beta = beta
        self.mean = 0.0

    @property
    def rate(self):
        return 1 - self.beta

    @np.errstate(all="ignore")
    def step(self, x):
        """One step.

        Returns the new mean.
        """
        # <paper2code name="running mean">
        self.mean = self.beta * self.mean + (1 - self.beta) * x
        return self.mean
        # </paper2code name="running mean">

    def reset(self):
        self.mean = 0.0
'''
BODY = """\
        self.mean = self.beta * self.mean + (1 - self.beta) * x
        return self.mean
"""


def masked(text: str, number: int = 0) -> Masked:
    return mask(text, find_regions(text, path="x.py")[number])


FRAME = masked(MODULE)
FLAT = masked("# <paper2code name='x'>\n".replace("'", '"') + 'x = 1\n# </paper2code name="x">\n')


def fenced(code: str, info: str = "python", fence: str = "```") -> str:
    return f"{fence}{info}\n{code.rstrip()}\n{fence}"


def take(reply: str | None, frame: Masked = FRAME, finish: str | None = "stop") -> Extracted:
    found = extract(reply, frame, finish_reason=finish)
    assert (found.code is None) == (found.reason is not None)
    return found


# --- fences -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(fenced(BODY), id="python"),
        pytest.param(fenced(BODY, "py"), id="py"),
        pytest.param(fenced(BODY, "python3"), id="python3"),
        pytest.param(fenced(BODY, "Python"), id="capital"),
        pytest.param(fenced(BODY, " python "), id="spaces"),
        pytest.param(fenced(BODY, 'python title="src/x.py"'), id="attributes"),
        pytest.param(fenced(BODY, "python:src/x.py"), id="path"),
        pytest.param(fenced(BODY, "{.python}"), id="pandoc"),
        pytest.param(fenced(BODY, ""), id="no language"),
        pytest.param(fenced(BODY, "python", "~~~"), id="tildes"),
        pytest.param(fenced(BODY, "python", "`````"), id="five"),
        pytest.param(fenced(BODY).replace("\n", "\r\n"), id="crlf"),
        pytest.param("Sure!\n\n" + fenced(BODY) + "\n\nThis keeps a mean.", id="prose around"),
        pytest.param("Here it is: " + fenced(BODY), id="fence after prose"),
        pytest.param(fenced(dedent(BODY)), id="dedented"),
        pytest.param(fenced("    " + BODY.replace("\n", "\n    ")), id="too deep"),
        pytest.param(fenced(BODY.replace("        ", "\t")), id="tabs"),
        pytest.param(fenced(BODY.strip()), id="first line lost its indentation"),
        pytest.param("1. Write this:\n\n   " + fenced(BODY).replace("\n", "\n   "), id="in a list"),
        pytest.param("- " + fenced(BODY).replace("\n", "\n  "), id="fence after a list marker"),
        pytest.param("> " + fenced(BODY).replace("\n", "\n> "), id="quoted"),
        pytest.param("\t" + fenced(BODY).replace("\n", "\n\t"), id="indented fence"),
        pytest.param(fenced(fenced(BODY), "markdown", "````"), id="inside markdown"),
        pytest.param(fenced(fenced(BODY), "markdown"), id="inside markdown, same length"),
        pytest.param(fenced(fenced(BODY), ""), id="inside an unnamed block"),
        pytest.param(f"```python\n{BODY}        ```", id="closing fence indented like the code"),
        pytest.param(f"```python\n{BODY.rstrip()}```", id="closing fence behind the code"),
        pytest.param(f"```python\n{BODY.rstrip()}\n```   \n", id="blanks after the closing fence"),
        pytest.param(f"```python\n\n\n{BODY}\n\n```", id="blank lines at both ends"),
        pytest.param(BODY, id="no fence"),
        pytest.param(BODY.strip(), id="no fence, trimmed"),
        pytest.param("The missing lines are:\n" + BODY, id="no fence, introduced"),
    ],
)
def test_the_same_code_is_found_however_it_is_fenced(reply: str) -> None:
    assert take(reply).code == BODY


def test_backticks_inside_a_docstring_do_not_close_the_block() -> None:
    """Case C001: a helper's docstring showed an example between two lines of three backticks; the
    first of them was taken for the end, and half a function was run."""
    code = '''\
        def shrink(x):
            """Make it smaller.

            ```
            shrink(2)
            ```
            """
            return x / 2
        self.mean = shrink(x)
        return self.mean
'''
    assert take(fenced(code) + "\n\nDone.").code == code


def test_backticks_at_the_margin_inside_a_string_do_not_close_the_block() -> None:
    """Case C001, at the worst place: the line could be a closing fence by its form alone."""
    code = 'text = """\n```\nx\n```\n"""\nx = 2\n'
    assert take(fenced(code) + "\nIt holds a fence.", FLAT).code == code


def test_backticks_in_the_middle_of_a_line_are_no_fence() -> None:
    """Case C001, second input: the backticks stand in a string literal within a line."""
    code = '        fence = "```python" + "```"\n        return fence\n'
    assert take(fenced(code)).code == code


def test_a_longer_fence_is_closed_by_one_as_long() -> None:
    code = 'x = """\n```\n"""\n'
    assert take(fenced(code, "python", "````"), FLAT).code == code


def test_tildes_do_not_close_backticks() -> None:
    code = 'x = """\n~~~\n"""\n'
    assert take(fenced(code), FLAT).code == code


# --- which block ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(fenced("mean: 0.5\nmean: 0.75", "text"), id="sample output"),
        pytest.param(fenced("python train.py --steps 10", "bash"), id="shell"),
        pytest.param(fenced("$ python train.py\n0.5", ""), id="unnamed output"),
        pytest.param(fenced('{"mean": 0.5}', "json"), id="json"),
        pytest.param(fenced("opt = Optimizer(0.9)\nprint(opt.step(1.0))"), id="usage in python"),
        pytest.param(fenced("- return x\n+ return self.mean", "diff"), id="a diff"),
        pytest.param(fenced(""), id="an empty block"),
        pytest.param(fenced(">>> opt.step(1)\n0.1", "pycon"), id="a console"),
    ],
)
def test_a_later_block_that_is_not_the_answer_is_passed_over(more: str) -> None:
    """Case C003: the last block of the reply was a summary, sample output or a command to run, and
    that was graded instead of the program."""
    assert take(f"Here:\n\n{fenced(BODY)}\n\nand then\n\n{more}\n").code == BODY
    assert take(f"{more}\n\n{fenced(BODY)}").code == BODY


def test_of_two_answers_the_last_counts() -> None:
    draft = BODY.replace("1 - self.beta", "self.beta")
    found = take(f"{fenced(draft)}\nWait, that is wrong.\n{fenced(BODY)}")
    assert found.code == BODY
    assert found.notes == ("2 blocks of code: took number 2",)


@pytest.mark.parametrize("info", ["diff", "patch", "", "python"])
@pytest.mark.parametrize(
    "diff",
    [
        "-        pass\n+        return self.mean",
        "--- a/x.py\n+++ b/x.py\n@@ -20,2 +20,1 @@\n     def step(self, x):\n-        pass\n+        return x",
    ],
)
def test_a_diff_is_no_code(diff: str, info: str) -> None:
    """Case C003, third input: lines that begin with plus and minus were pasted into the program.
    Our rule: a diff is reported as no usable code, and never applied."""
    found = take(fenced(diff, info))
    assert found.reason == "no_code"
    assert "diff" in found.notes[0]


@pytest.mark.parametrize(
    "reply",
    [
        "I cannot help with that.",
        "Sorry",
        "None",
        "The mean is updated with the factor beta: see the paper.",
        "Done.\n\nSee above",
        fenced("python x.py", "bash"),
        fenced(""),
        fenced('# TODO: Implement block "running mean"\n# Approximately 2 line(s) of code.'),
        "`return x`",
        "```",
    ],
)
def test_a_reply_without_code_is_said_to_have_none(reply: str) -> None:
    assert take(reply).reason == "no_code"


# --- reasoning --------------------------------------------------------------------------------

DRAFT = fenced("        return x  # draft")


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(f"<think>\nMaybe\n{DRAFT}\n</think>\n\n{fenced(BODY)}", id="think"),
        pytest.param(f"Hm, maybe\n{DRAFT}\nyes.\n</think>\n\n{fenced(BODY)}", id="closing only"),
        pytest.param(f"Hm, so do that.</think>\n{fenced(BODY)}", id="closing at a line's end"),
        pytest.param(f"<thinking>{DRAFT}\n</thinking>{fenced(BODY)}", id="thinking"),
        pytest.param(f"[THINK]{DRAFT}\n[/THINK]\n{fenced(BODY)}", id="brackets"),
        pytest.param(f"<think></think>\n{fenced(BODY)}", id="empty"),
        pytest.param(f"<think>a</think><think>\n{DRAFT}\n</think>\n{fenced(BODY)}", id="twice"),
        pytest.param(f"Well.\n<think>\n{DRAFT}\n</think>\n{fenced(BODY)}", id="in the middle"),
        pytest.param(f"{fenced(BODY)}\n<think>\n{DRAFT}\n</think>\n", id="after the answer"),
        pytest.param(
            f"<think>\n```python\nx = (\n</think>\n{fenced(BODY)}", id="open fence inside"
        ),
        pytest.param(f"<think>\n{DRAFT}\n</think>\n{BODY}", id="answer without a fence"),
        pytest.param(f"<think>\n{DRAFT}\n</think>{fenced(BODY)}", id="fence on the tag's line"),
        pytest.param(f"<think>\n{DRAFT}</think>\n{fenced(BODY)}", id="tag on the fence's line"),
        pytest.param(f"<think>\nin ``` I put\n```\nit</think>\n{fenced(BODY)}", id="stray marks"),
        pytest.param(f"<think>so it is</think>\n{BODY}", id="one line, no fence"),
        pytest.param(f"<think>so</think> Answer:\n{fenced(BODY)}", id="tags within a line"),
    ],
)
def test_a_draft_in_the_reasoning_is_never_the_answer(reply: str) -> None:
    """Case C005: drafts in a think section were graded, and a benchmark fell to a tenth."""
    assert take(reply).code == BODY


def test_reasoning_that_is_cut_off_is_a_truncated_reply() -> None:
    """Case C005, fourth input: the tag opens, a draft follows, and the reply ends."""
    for finish in ("length", "stop", None):
        assert take(f"<think>\nMaybe\n{DRAFT}\nor", finish=finish).reason == "truncated"


@pytest.mark.parametrize(
    "code",
    [
        '        return x.split("<think>")[0]\n',
        '        return x.replace("</think>", "")\n',
        "        # cut everything up to </think>\n        return x\n",
        '        t = """\n<think>\n{x}\n</think>\n"""\n        return t\n',
        '        return f"<think>{x}</think>\\n"\n',
    ],
)
def test_code_that_speaks_of_think_tags_survives(code: str) -> None:
    """Case C005, fifth input: there is no reasoning, but the code holds such a tag."""
    assert take(fenced(code)).code == code
    assert take(f"<think>\nHm\n</think>\n{fenced(code)}").code == code


# --- cut-off and empty replies ----------------------------------------------------------------


def test_a_reply_cut_off_in_its_block_is_truncated() -> None:
    """Case C007: the token limit left an opening fence without its end, the search for it ran off
    the list, and the run crashed."""
    reply = 'Here:\n```python\n        a = 1\n        b = 2\n        c = 3\n        d = "half'
    for finish in ("length", "max_tokens"):
        assert take(reply, finish=finish).reason == "truncated"


def test_a_block_that_was_cut_off_but_parses_is_truncated_too() -> None:
    """A half answer can be valid code by chance; it is not what the model meant to say."""
    assert take(f"```python\n{BODY}", finish="length").reason == "truncated"


def test_an_answer_that_is_whole_before_the_cut_counts() -> None:
    assert take(f"{fenced(BODY)}\n\nThis works beca", finish="length").code == BODY


def test_a_draft_before_a_block_that_was_cut_off_is_no_answer() -> None:
    assert take(f"{DRAFT}\nNo:\n```python\n        self.m", finish="length").reason == "truncated"


def test_a_forgotten_closing_fence_loses_nothing() -> None:
    assert take(f"```python\n{BODY}").code == BODY


@pytest.mark.parametrize(
    ("reply", "finish", "reason"),
    [
        (None, "stop", "empty"),
        ("", "stop", "empty"),
        (" \n\t\n", None, "empty"),
        ("", "length", "truncated"),
        (None, "length", "truncated"),
        ("Let me see", "length", "truncated"),
        ("", "content_filter", "refused"),
        (fenced(BODY), "content_filter", "refused"),
    ],
)
def test_no_text_has_a_reason_of_its_own(reply: str | None, finish: str, reason: str) -> None:
    assert take(reply, finish=finish).reason == reason


# --- more came back than was asked for ---------------------------------------------------------

DOCSTRING = '        """One step.\n\n        Returns the new mean.\n        """\n'
SIGNATURE = "    def step(self, x):\n"
DECORATOR = '    @np.errstate(all="ignore")\n'
INIT = "    def __init__(self, beta):\n        self.beta = beta\n        self.mean = 0.0\n\n"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(SIGNATURE + BODY, id="signature"),
        pytest.param(SIGNATURE + DOCSTRING + BODY, id="signature, docstring"),
        pytest.param(DECORATOR + SIGNATURE + DOCSTRING + BODY, id="all of the function"),
        pytest.param(dedent(DECORATOR + SIGNATURE + DOCSTRING + BODY), id="dedented"),
        pytest.param((SIGNATURE + BODY).strip(), id="first line lost its indentation"),
        pytest.param(SIGNATURE + '        """Other words."""\n' + BODY, id="another docstring"),
        pytest.param("    def step(self, x: float) -> float:\n" + BODY, id="with types"),
        pytest.param("class Optimizer:\n" + INIT + SIGNATURE + BODY, id="class"),
        pytest.param("class Optimizer(object):\n" + SIGNATURE + BODY, id="class with a base"),
        pytest.param(INIT + SIGNATURE + BODY, id="two methods"),
        pytest.param(MODULE, id="file with tags"),
        pytest.param(
            "import math\nimport numpy as np\n\n" + dedent(SIGNATURE + BODY), id="imports"
        ),
        pytest.param(
            '        # <paper2code name="running mean">\n'
            + BODY
            + '        # </paper2code name="running mean">\n',
            id="tags",
        ),
        pytest.param(FRAME.placeholder + BODY, id="the TODO lines"),
        pytest.param(FRAME.before + FRAME.placeholder + BODY + FRAME.after, id="file with TODO"),
    ],
)
def test_only_what_is_missing_is_taken(reply: str) -> None:
    """Case C009: some models repeat the signature, the class or our tags; put into the region as it
    is, the function became a nested one that nobody calls."""
    found = take(fenced(reply))
    assert found.code == BODY
    assert found.notes


def test_a_comment_before_the_first_statement_is_kept() -> None:
    code = "        # the running mean\n" + BODY
    assert take(fenced(SIGNATURE + DOCSTRING + code)).code == code


def test_a_function_on_one_line_is_unwrapped() -> None:
    assert take(fenced("def step(self, x): return x")).code == "        return x\n"


def test_an_import_the_file_lacks_comes_along() -> None:
    reply = "import math\nimport torch\n\ndef step(self, x):\n    return torch.abs(x)\n"
    assert take(fenced(reply)).code == "        import torch\n        return torch.abs(x)\n"


def test_a_helper_beside_the_function_comes_along() -> None:
    reply = "def half(x):\n    return x / 2\n\ndef step(self, x):\n    return half(x)\n"
    code = "        def half(x):\n            return x / 2\n        return half(x)\n"
    assert take(fenced(reply)).code == code


def test_a_nested_function_of_the_same_name_that_is_used_stays() -> None:
    code = "        def step(y):\n            return y\n        return step(x)\n"
    assert take(fenced(code)).code == code


def test_a_class_without_the_function_is_refused() -> None:
    """Case C009 (c): a class that does not hold the function would be a nested class that nobody
    uses."""
    found = take(fenced("class Optimizer:\n    def update(self, x):\n        return x\n"))
    assert found.reason == "no_code"
    assert "Optimizer came back whole" in found.notes[0]


PART = '''\
def train(data, rate):
    """Train."""
    total = 0.0
    for x in data:
        # <paper2code name="update">
        # <paper2code name="scale">
        x = x * rate
        # </paper2code name="scale">
        total += x
        # </paper2code name="update">
    total /= len(data)
    return total
'''


@pytest.mark.parametrize(
    "reply",
    [
        "    total = 0.0\n    for x in data:\n        x = x * rate\n        total += x\n"
        "    total /= len(data)\n    return total\n",
        "    total = 0.0\n    for x in data:\n        x = x * rate\n        total += x\n",
        "    for x in data:\n        x = x * rate\n        total += x\n    return total\n",
    ],
)
def test_frame_lines_inside_a_repeated_function_are_recognised(reply: str) -> None:
    frame = masked(PART)
    assert take(fenced("def train(data, rate):\n" + reply), frame).code == (
        "        x = x * rate\n        total += x\n"
    )


def test_the_inner_region_of_a_repeated_function_is_cut_out() -> None:
    whole = PART.replace("# <", "# was <").replace("# </", "# was </")
    assert "x = x * rate" in str(take(fenced(whole), masked(PART, 1)).code)
    assert "total" not in str(take(fenced(whole), masked(PART, 1)).code)


def test_a_repeated_loop_header_is_dropped() -> None:
    reply = "    for x in data:\n        x = x * rate\n        total += x\n"
    assert take(fenced(reply), masked(PART)).code == "        x = x * rate\n        total += x\n"


def test_a_function_rewritten_another_way_is_refused() -> None:
    reply = "def train(data, rate):\n    while data:\n        x = data.pop() * rate\n    return x\n"
    assert take(fenced(reply), masked(PART)).reason == "no_code"


def test_code_that_repeats_a_statement_of_the_frame_is_left_alone() -> None:
    code = "        total = 0.0\n        x = x * rate\n"
    assert take(fenced(code), masked(PART)).code == code


# --- regions of every kind --------------------------------------------------------------------


def test_a_region_that_is_a_whole_function_keeps_its_signature() -> None:
    text = (
        'class A:\n    # <paper2code name="f">\n    def f(self):\n        return 1\n'
        '    # </paper2code name="f">\n'
    )
    code = "    def f(self):\n        return 1\n"
    for reply in (code, dedent(code), "class A:\n" + code):
        assert take(fenced(reply), masked(text)).code == code


def test_a_region_that_is_a_function_of_the_module_is_found_in_the_whole_file() -> None:
    text = (
        '"""M."""\nimport math\n\nA = 1\n\n# <paper2code name="f">\n@cache\ndef f(x):\n    return x\n'
        '# </paper2code name="f">\n\ndef g(x):\n    return f(x)\n'
    )
    code = "@cache\ndef f(x):\n    return x\n"
    for reply in (code, text, masked(text).fill(code), "import math\nA = 1\n" + code):
        got = take(fenced(reply), masked(text)).code
        assert got == code if "def g" in reply or reply == code else "import math" in str(got)


def test_a_region_inside_an_expression_is_placed() -> None:
    text = (
        'x = [\n    1,\n    # <paper2code name="two">\n    2,\n    # </paper2code name="two">\n]\n'
    )
    for reply in (fenced("    2,"), fenced("2,")):
        assert take(reply, masked(text)).code == "    2,\n"


def test_a_region_that_is_a_branch_is_placed() -> None:
    text = (
        'def f(x):\n    if x:\n        y = 1\n    # <paper2code name="b">\n    else:\n        y = 2\n'
        '    # </paper2code name="b">\n    return y\n'
    )
    code = "    else:\n        y = 2\n"
    for reply in (code, dedent(code)):
        assert take(fenced(reply), masked(text)).code == code


def test_code_deeper_than_the_region_stays_where_only_that_is_valid() -> None:
    text = (
        'def f(x):\n    if x:\n# <paper2code name="b">\n        y = 1\n    z = 2\n'
        '# </paper2code name="b">\n    return z\n'
    )
    assert take(fenced("        y = 1\n"), masked(text)).code == "        y = 1\n"


def test_text_inside_strings_is_not_moved() -> None:
    code = 'text = """\n    kept\nas it is\n"""\nreturn text\n'
    placed = '        text = """\n    kept\nas it is\n"""\n        return text\n'
    assert take(fenced(code)).code == placed
    assert take(fenced(placed)).code == placed


def test_code_that_is_no_python_is_still_the_answer() -> None:
    """A syntax error is the model's fault and graded as one; it is not a missing answer."""
    code = "        return (x\n"
    assert take(fenced(code)).code == code
    assert take(fenced("return (x")).code == code


def test_a_file_with_windows_line_ends_gives_the_same_code() -> None:
    frame = masked(MODULE.replace("\n", "\r\n"))
    assert take(fenced(dedent(BODY)), frame).code == BODY
    assert take(fenced(dedent(DECORATOR + SIGNATURE + BODY)), frame).code == BODY


def test_the_file_is_valid_with_every_whole_answer() -> None:
    for reply in (BODY, SIGNATURE + BODY, MODULE):
        code = take(fenced(reply)).code
        assert code is not None
        ast.parse(FRAME.fill(code))


PIECES = st.lists(
    st.sampled_from(
        [
            *("```", "```python", "    ```", "~~~", "````markdown", "<think>", "</think>", "> "),
            *("def step(self, x):", "        return x", "class Optimizer:", '"""', "- ```py"),
            *("@@ -1 +1 @@", "+x", "x = 1", "\r", "\0", "\ud800", "\f", "", "if x:", "prose here."),
        ]
    )
    | st.text(max_size=12),
    max_size=14,
)


@given(PIECES, st.sampled_from(["stop", "length", "tool_calls", "content_filter", None]))
def test_no_reply_whatever_makes_it_fail(lines: list[str], finish: str | None) -> None:
    for frame in (FRAME, FLAT, masked(PART, 1)):
        found = take("\n".join(lines), frame, finish)
        assert found.code is None or (found.code.strip() and found.code.endswith("\n"))


def test_a_reply_of_nothing_but_fences_does_not_take_for_ever() -> None:
    assert take("```python\n" + "```\n" * 5000).code is None
    assert take("```python\nx = (\n" + "```\n" * 5000).code is not None


# --- what may stand anywhere -------------------------------------------------------------------


def dresses(code: str) -> dict[str, tuple[str, str]]:
    """Replies that are the code in another dress, each with the code that it is."""
    found = layout(code)
    indent, lines = found.indent or "", found.lines
    rest = set(range(len(lines))) - {*found.statements, *found.in_strings}
    string = f'{indent}_ = """\nat the margin\n  so\n"""\n'

    def noted(text: str) -> str:
        shape = layout(text)
        return "\n".join(
            f"# note\n{line}" if row in shape.statements else line
            for row, line in enumerate(shape.lines)
        )

    return {
        "plain": (code, code),
        "block": (fenced(code), code),
        "comment after it": (fenced(f"{code}# done"), code),
        "comments between statements": (fenced(noted(code)), code),
        "all else at the margin": (
            fenced("\n".join(line.lstrip() if n in rest else line for n, line in enumerate(lines))),
            code,
        ),
        "string at the margin": (fenced(string + code), string + code),
        "dedented": (fenced(found.moved_to("")), code),
        "dedented, with comments": (fenced(noted(found.moved_to(""))), code),
        "trimmed": (f"```python\n{code.strip()}\n# done\n```", code),
        "prefilled fence": (f"{code}```\nThis is it.", code),
        "token at the end": (f"{code}<|im_end|>", code),
    }


def test_the_reference_of_every_bundled_challenge_survives() -> None:
    """Lines decided about the indentation, not statements: a comment at the margin made another program of a right
    answer, for 279 of these challenges. Each is met in one of the dresses."""
    challenges = load_dataset().challenges
    names = list(dresses("x = 1\n"))
    for number, challenge in enumerate(challenges):
        frame = challenge.masked()
        for name in (names[number % len(names)],):
            reply, code = dresses(challenge.reference)[name]
            found = take(reply, frame).code
            assert found is not None, (challenge.id, name)
            assert found == code or same(frame, found, code), (challenge.id, name)


def test_the_whole_file_comes_down_to_the_reference() -> None:
    for challenge in load_dataset().challenges[::20]:
        frame, code = challenge.masked(), challenge.reference
        found = take(f"The whole file:\n{fenced(frame.fill(code))}\n", frame).code
        assert found is not None, challenge.id
        assert tree(frame.fill(found)) == tree(frame.fill(code))


def same(frame: Masked, one: str, other: str) -> bool:
    """Whether both make the same file; the file itself is only read where a part of it is no Python."""
    first, second = layout(one), layout(other)
    if first.indent != second.indent:
        return False
    try:
        return tree(first.moved_to("")) == tree(second.moved_to(""))
    except SyntaxError:
        return tree(frame.fill(one)) == tree(frame.fill(other))


def tree(text: str) -> str:
    return ast.dump(ast.parse(text))


@pytest.mark.parametrize(
    "code",
    [
        BODY + "# done\n",
        "# start\n" + BODY,
        BODY.replace("\n", "\n# note\n", 1),
        "        x = max(\nx,\n0,\n)\n        return x\n",
        "        x = x + \\\n1\n        return x\n",
        '        text = """\nat the margin\n"""\n        return text\n',
        "        text = f'''\n{x}\n'''\n        return text\n",
        "        text = 'a\\\nb'\n        return text\n",
        '        text = """\n# TODO: Implement block "x"\n"""\n        return text\n',
        '        text = """\n# <paper2code name="x">\n"""\n        return text\n',
    ],
)
def test_code_that_is_valid_as_given_is_left_as_given(code: str) -> None:
    found = take(fenced(code))
    assert (found.code, found.notes) == (code, ())


# --- what stands around the code ----------------------------------------------------------------

TAILS = [
    "<|im_end|>",
    "<turn|>",
    "</s>",
    "<|endoftext|>",
    "<|return|>",
    "<|eot_id|>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
    "</answer>",
    "</solution>",
    "</code>",
    ".",
    "**",
    ")",
    "_",
    "(end)",
    "That's_all.",
]
OTHERS = [
    fenced("mean: 0.5", "text"),
    fenced("opt = Optimizer(0.9)\nprint(opt.step(1.0))"),
    fenced("$ python x.py\n0.5", ""),
]


@pytest.mark.parametrize("tail", [*TAILS, " (end)", "This keeps a running mean", " Hope it helps!"])
def test_what_follows_the_closing_fence_on_its_line_is_no_code(tail: str) -> None:
    """Tokens that servers leave in the text kept the block from ending; the next block became part of it."""
    for reply in (fenced(BODY) + tail, f"```python\n{BODY}        ```{tail}\n"):
        for finish in ("stop", "length"):
            assert take(reply, finish=finish).code == BODY
    for other in OTHERS:
        assert take(f"{fenced(BODY)}{tail}\n\nThen:\n\n{other}{tail}").code == BODY


@pytest.mark.parametrize("tail", [tail for tail in TAILS if tail.startswith("<")])
def test_tokens_and_tags_at_the_end_of_an_answer_are_no_code(tail: str) -> None:
    for code in (BODY, BODY.rstrip()):
        assert take(code + tail).code == BODY
        assert take(f"```python\n{code}{tail}").code == BODY
        assert take(f"```python\n{code}```{tail}").code == BODY
        if tail.startswith("</") and tail != "</s>":
            assert take(f"{tail.replace('/', '')}\n{code}\n{tail}").code == BODY


@pytest.mark.parametrize("token", ["<|im_end|>", "</s>", "<|endoftext|>", "</longcat_s>"])
def test_nothing_after_the_end_of_the_turn_is_the_answer(token: str) -> None:
    other = f"{token}\n<|im_start|>user\nNo:\n{DRAFT}"
    assert take(fenced(BODY) + other).code == BODY
    assert take(f"{fenced(BODY)}\n{other}").code == BODY
    assert take(f"<|im_start|>assistant\n{fenced(BODY)}{token}").code == BODY
    for code in (
        f'        # up to {token}\n        return x.split("{token}")\n',
        f'        t = """\n{token}\n<|im_start|>user\n"""\n        return t\n',
    ):
        assert take(fenced(code)).code == code
        assert take(code).code == code


@pytest.mark.parametrize(
    "info",
    [
        *("src/x.py", "x.py", "./x.py", "/abs/x.py", "x.pyi", "src/x.py:10-20", "12:30:src/x.py"),
        *("file=x.py", "path=src/x.py", 'title="x.py"', "filename: x.py", "file: src/x.py"),
        *("language-python", "lang-python", "lang=python", "{python}", "python3.11", "Python 3"),
        r"C:\x\y.py",
    ],
)
def test_a_label_that_names_a_file_is_read_as_one(info: str) -> None:
    assert take(fenced(BODY, info)).code == BODY
    assert take(f"{fenced(BODY, info)}\n\n{OTHERS[0]}").code == BODY


@pytest.mark.parametrize("info", ["config.yaml", "sh run.py", "diff x.py", "x.py.diff", "output"])
def test_a_label_of_something_else_is_no_python(info: str) -> None:
    assert take(fenced(BODY, info)).reason == "no_code"


REASONING = [
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|think|>", "<|/think|>"),
    ("<reflection>", "</reflection>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<think:opensource>", "</think:opensource>"),
    ("<|channel>thought", "<channel|>"),
    ("<unused94>thought", "<unused95>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
    (
        "<|start|>assistant<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
    ("<|channel|>commentary to=tools<|message|>", "<|call|>"),
]


@pytest.mark.parametrize(("opening", "closing"), REASONING)
def test_reasoning_of_every_family_is_left_out(opening: str, closing: str) -> None:
    """Drafts in tags that the rule did not know were graded, also where the reply ended within them."""
    for finish in ("length", "stop", None):
        for draft in (f"\nMaybe\n{DRAFT}\nor", f"Maybe\n{BODY}", f"Maybe {DRAFT}"):
            assert take(opening + draft, finish=finish).reason == "truncated"
    for answer in (f"\n{fenced(BODY)}", fenced(BODY), f"\n{BODY}", BODY):
        assert take(f"{opening}Maybe\n{DRAFT}\n{closing}{answer}").code == BODY
    code = f'        return x.split("{opening}")[0] + "{closing}"\n'
    assert take(fenced(code)).code == code


def test_channels_without_their_tokens_are_told_apart() -> None:
    assert take(f"analysisWe need it.\n{DRAFT}assistantfinal{fenced(BODY)}").code == BODY


@pytest.mark.parametrize(
    "after",
    ["", "\n", "\nThis keeps a mean.", "\n\nIt is `x`.\n", "<|im_end|>"]
    + [f"\n\nThen:\n{other}" for other in OTHERS],
)
def test_a_block_that_the_prompt_began_ends_at_its_fence(after: str) -> None:
    """The opening fence was in the prompt; what follows the closing one was taken for the block."""
    for code in (BODY, BODY.strip() + "\n", dedent(BODY), f"python\n{BODY}", f"{BODY}        "):
        assert take(f"{code}```{after}").code == BODY
    for inner in ("", "python"):
        code = f'        t = """\n```{inner}\nx\n```\n"""\n        return t\n'
        assert take(f"{code}```{after}").code == code
