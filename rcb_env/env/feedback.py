"""What `run_tests` tells an agent: five levels, as data and as a text.

Guarantees: what a level does not reveal is absent from both; no wall-clock value and no seed is ever
told, so the same code is told the same; no traceback holds a source line of a file that the agent
is not shown. Pure.
Not covered: cutting to the longest observation (`rcb_env.env.environment`); what the agent's own code
reads in its box and prints.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Collection, Mapping
from typing import Any, get_args

from rcb_env.env.settings import Feedback
from rcb_env.grading.verdict import Score, Verdict

FEEDBACK_LEVELS: tuple[Feedback, ...] = get_args(Feedback)
"""What `run_tests` tells; each level tells what the ones before it tell, and more."""

TELLS: dict[Feedback, str] = {
    "outcome": "whether all of them pass",
    "counts": "how many of them pass",
    "names": "which of them pass",
    "messages": "which of them fail and how",
    "full": "which of them fail, how, and the expected and the actual values",
}
_END_CHARS = 1_000  # shown of the start and of the end of stdout and of stderr
_LEFT_OUT = re.compile(r"\n\[… ([0-9]{1,18}) bytes left out …\]\n")  # as boxes write it (`runner`)


def report(verdict: Verdict, level: Feedback, *, not_shown: Collection[str] = ()) -> dict[str, Any]:
    """What a feedback level reveals of a verdict, as data; what it does not reveal is absent.

    The source lines of the files ``not_shown`` (paths) are taken out of tracebacks and warnings.

    ``status`` always; ``passed`` and ``total`` from "counts"; ``cases`` (name and outcome of each)
    from "names"; from "messages" the message of each case and of the whole, ``error_class``,
    ``notes``, ``stdout`` and ``stderr``; with "full" also the ``detail`` of each case. Of an open challenge also ``score``
    (``value`` and ``se`` where there is one, ``baseline``) from "counts", and ``terms``, the mean of each family of problems, from "names".
    """
    rank = FEEDBACK_LEVELS.index(level)
    told: dict[str, Any] = {"status": verdict.status}
    if verdict.status == "no_change":  # says nothing about the tests, so every level may tell it
        told["message"] = verdict.message
    if rank >= FEEDBACK_LEVELS.index("counts"):
        told["passed"], told["total"] = verdict.counts()
        if verdict.score is not None:
            told["score"] = {k: v for k, v in verdict.score.to_dict().items() if k != "terms"}
    if rank >= FEEDBACK_LEVELS.index("names"):
        told["cases"] = [{"case": case.case, "outcome": case.outcome} for case in verdict.cases]
        if verdict.score is not None and verdict.score.terms:
            terms = verdict.score.terms.items()
            told["terms"] = {family: statistics.fmean(each) for family, each in terms}
    if rank >= FEEDBACK_LEVELS.index("messages"):
        told["message"] = verdict.message
        if verdict.error_class is not None:
            told["error_class"] = verdict.error_class
        told["notes"] = list(verdict.notes)
        told["stdout"], told["stderr"] = (
            _without_source(text, not_shown) for text in (verdict.stdout, verdict.stderr)
        )
        for case, shown in zip(verdict.cases, told["cases"], strict=True):
            shown["message"] = _without_source(case.message, not_shown)
            if level == "full":
                shown["detail"] = case.detail
    return told


def tell(tests: Mapping[str, Any]) -> str:
    """A `report` as a text for the agent: per case its count and its first failure."""
    heading = f"Tests: {tests['status']}"
    is_open, terms = "score" in tests, tests.get("terms", {})
    passed_is = "at least as good as the paper's own method" if is_open else "passed"
    if tests.get("total"):
        heading += f", {tests['passed']} of {tests['total']} {passed_is}"
    lines = [f"{heading}."]
    if is_open:
        score = tests["score"]
        lines.append(Score(score.get("value"), score.get("se"), score["baseline"]).words + ".")
    cases = tests.get("cases", ())
    if tests.get("message") and not is_open and not any(case.get("message") for case in cases):
        lines.append(tests["message"])
    for name in dict.fromkeys(case["case"] for case in cases):
        runs = [case for case in cases if case["case"] == name]
        passed = sum(case["outcome"] == "passed" for case in runs)
        mean = f" mean {terms[name]:+.4f}," if name in terms else ""
        lines.append(f"- {name}:{mean} {passed} of {len(runs)} {passed_is}")
        worst = next((case for case in runs if case["outcome"] == "error"), None) or next(
            (case for case in runs if case["outcome"] != "passed"), None
        )
        if worst is not None:
            told = [worst.get("message", ""), worst.get("detail", "")]
            lines += [f"  {line}" for part in told if part for line in part.split("\n")]
    lines += [f"Note: {note}" for note in tests.get("notes", ())]
    for stream in ("stdout", "stderr"):
        if output := tests.get(stream, "").strip():
            lines += [f"--- {stream} ---", _both_ends(output)]
    return "\n".join(lines)


def _without_source(text: str, files: Collection[str]) -> str:
    """A text without the source lines of some files.

    They stand behind the place in the frames of a case's error, and indented below it where Python prints.
    """
    if not files:
        return text
    names = "|".join(map(re.escape, files))
    place = re.compile(
        rf"""(\ *(?:\S*/)?(?:{names}):\d+\ in\ \S+):  # a frame of an error, as boxes describe it
        | [ |+]*File\ "(?:[^"]*/)?(?:{names})",\ line\ \d+  # of a traceback
        | (?:\S*/)?(?:{names}):\d+:\ \w+:  # a warning""",
        re.VERBOSE,
    )
    kept: list[str] = []
    deeper_than: int | None = None
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" |"))
        if deeper_than is not None and indent > deeper_than:
            continue
        found = place.match(line)
        deeper_than = indent if found else None
        kept.append(found[1] if found and found[1] else line)
    return "\n".join(kept)


def _both_ends(output: str) -> str:
    """The start and the end of what was printed; one mark counts what the box left out and what is left out here."""
    if len(output) <= 2 * _END_CHARS:
        return output
    middle = output[_END_CHARS:-_END_CHARS]
    left_out = len(middle.encode())
    # Tests may print such a mark as well. The box keeps as much before its own as after it.
    marks = _LEFT_OUT.finditer(middle)
    if mark := min(marks, key=lambda it: abs(it.start() + it.end() - len(middle)), default=None):
        left_out += int(mark[1]) - len(mark[0].encode())
    return f"{output[:_END_CHARS]}\n[… {left_out} bytes left out …]\n{output[-_END_CHARS:]}"
