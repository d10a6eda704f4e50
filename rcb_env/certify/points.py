"""What can be said of a paper without running code.

Points: every region is short, and its file annotated; nothing the agent sees holds a region's code, or a good part of
it under other names (near_copies.py);
every reason for a surviving mutant names a mutant there is; nothing is left of what `rcb new` wrote.
Guarantees: every finding has a file and a line; nothing is written.
Not covered: what takes runs (run.py); tags and metadata (loading a paper refuses broken ones).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rcb_env.certify.answers import Answers
from rcb_env.certify.near_copies import near_copy
from rcb_env.certify.problem import Problem, problem_of
from rcb_env.certify.reasons import Reasons
from rcb_env.dataset.markers import find_regions
from rcb_env.dataset.papers import Challenge, Paper
from rcb_env.errors import PaperError, counted

MAX_REGION_LINES = 60
STILL_TO_WRITE = "TODO(rcb new)"  # what `rcb new` marks lines with that somebody has to write


def static_problems(paper: Paper) -> tuple[Problem, ...]:
    """What can be said without running code."""
    problems = [*unwritten(paper), *unlisted(paper)]
    for challenge in paper.challenges:
        if challenge.lines > MAX_REGION_LINES:
            problems.append(
                problem_of(
                    challenge,
                    f"has {challenge.lines} lines of code; at most {MAX_REGION_LINES} are allowed,"
                    " mark a smaller part",
                )
            )
        problems += leaks(challenge) or near_copies(challenge)
    problems += Reasons(paper).problems
    problems += Answers(paper).problems
    return tuple(problems)


def unwritten(paper: Paper) -> Iterator[Problem]:
    """Lines of a paper's folder that are still what `rcb new` wrote."""
    files = {**paper.files, **paper.tests}
    if paper.layout == "native":
        files |= {name: (paper.root / name).read_bytes() for name in ("paper.yaml", "paper.md")}
    for path, data in sorted(files.items()):
        lines = data.decode("utf-8", "replace").split("\n")
        for number, (line, after) in enumerate(zip(lines, [*lines[1:], ""], strict=True), start=1):
            _, found, what = line.partition(f"{STILL_TO_WRITE}: ")
            if found:
                what = what.strip(" \"]'")
                if path.endswith(".md") and after.strip():  # a paragraph of several lines
                    what += " ..."
                yield Problem(str(paper.root / path), number, f"still to be written: {what}")


def unlisted(paper: Paper) -> Iterator[Problem]:
    """Files with regions that paper.yaml does not list as annotated: nobody is asked for these."""
    for path, data in sorted(paper.files.items()) if paper.layout == "native" else ():
        if path in paper.annotated or not path.endswith(".py"):
            continue
        shown = str(paper.root / path)
        try:
            regions = find_regions(data.decode("utf-8", "surrogateescape"), path=shown)
        except PaperError as error:
            yield Problem.of(error)
            continue
        if regions:
            has = f"has {counted(len(regions), 'region')} that nobody is asked for"
            line = regions[0].start + 1
            yield Problem(shown, line, f"{has}: add {path} to annotated in paper.yaml")


def leaks(challenge: Challenge) -> tuple[Problem, ...]:
    """Places in what the agent sees that hold the region's code.

    All lines of code of the region in a row, whatever their spacing, with or without comments or
    blank lines between them, and also where they are themselves commented out.
    """
    wanted = [bare for line in challenge.reference.split("\n") if (bare := _bare(line))]
    text_file = "paper.md" if challenge.paper.layout == "native" else "the paper's text"
    seen = {
        path: data.decode("utf-8", "replace") for path, data in challenge.workspace().items()
    } | {text_file: challenge.paper.text}
    found = {
        (path, line)
        for path, text in seen.items()
        for commented in (False, True)
        for line in _runs(text, wanted, commented=commented)
    }
    return tuple(
        problem_of(challenge, f"its code stands also in {path}, line {line} of what the agent sees")
        for path, line in sorted(found)
    )


def near_copies(challenge: Challenge) -> tuple[Problem, ...]:
    """The place in what the agent sees that holds a good part of the region's code under other names."""
    found = near_copy(challenge)
    if found is None:
        return ()
    where = f"{found.path}, line {found.line} of what the agent sees"
    message = f"{found.share:.0%} of its code stand also in {where}, with other names"
    return (problem_of(challenge, f"{message}; write one of the two differently"),)


def _runs(text: str, wanted: Sequence[str], *, commented: bool) -> Iterator[int]:
    lines = [
        (number, bare)
        for number, line in enumerate(text.split("\n"), start=1)
        if (bare := _bare(re.sub(r"^[\s#]+", "", line) if commented else line))
    ]
    texts = [bare for _, bare in lines]
    for start in range(len(texts) - len(wanted) + 1):
        if texts[start : start + len(wanted)] == list(wanted):
            yield lines[start][0]


def _bare(line: str) -> str:
    """A line of code without spaces and trailing comment; "" for blank lines and comments."""
    if not re.search(r"['\"]", line):
        line = line.split("#", 1)[0]
    text = "".join(line.split())
    return "" if text.startswith("#") else text
