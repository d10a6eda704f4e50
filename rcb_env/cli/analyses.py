"""`rcb report --by`: one question about runs, in every form that a report has."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rcb_env.cli import forms
from rcb_env.cli.output import console, echo

if TYPE_CHECKING:
    from rcb_env.report.sheet import Sheet
    from rcb_env.runs.store import RunStore
    from rcb_env.view.drawn import Drawn

BY = {
    "error": ("error_classes", "Why answers were wrong"),
    "paper": ("paper_impact", "What the paper is worth"),
    "sections": ("paper_use", "What of the paper was opened"),
    "memory": ("probes", "Traces of memory"),
    "official": ("parity", "Our verdicts and the public benchmark's"),
}
"""Name of a question -> module of `rcb_env.report` that answers it, and a title."""
KINDS = {
    "size": "lines of code",
    "domain": "domain",
    "hint": "words of the hint",
    "nesting": "nesting",
    "scope": "scope",
    "contamination": "contamination",
}
"""Name of a question about kinds of challenges -> division of `rcb_env.report.slices`."""


class Analysis(Protocol):
    """What such a module's `read` gives."""

    def sheets(self) -> Sequence[Sheet]:
        """As tables."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it: an entry a run."""


def report_by(
    question: str,
    stores: Mapping[str, RunStore],
    other_forms: dict[str, Any],
    *,
    as_json: bool,
    cutoffs: Mapping[str, str],
) -> None:
    """Print the answer to a question about some runs, or write it in the forms that were asked for.

    Args:
        question: a key of `BY` or `KINDS`.
        stores: runs by the names they are given.
        other_forms: as `forms.options` gives them.
        as_json: one object a line, one for each run.
        cutoffs: knowledge cutoffs of the models of some runs, as the user says them.

    Raises:
        UsageError: the runs do not hold what is asked for.
        StoreError: a run cannot be read, or a file not be written.
    """
    if question in KINDS:
        from rcb_env.report import kind_sheets

        title = f"By {KINDS[question]}"
        found: Analysis = kind_sheets.read(stores, KINDS[question], cutoffs)
    else:
        module, title = BY[question]
        found = importlib.import_module(f"rcb_env.report.{module}").read(stores)
    sheets = functools.cache(lambda: list(found.sheets()))
    if forms.give(
        other_forms,
        f"{title}: {', '.join(stores)}",
        sheets,
        lambda document: [document.Section(title, _drawn(question, found), sheets())],
    ):
        return
    if as_json:
        for name, told in found.to_dict().items():
            run = str(stores[name].folder) if name in stores else name
            echo(json.dumps({"run": run, question: told}))
        return
    forms.show(console(), sheets())


def _drawn(question: str, found: Any) -> list[Drawn]:
    from rcb_env.view import charts

    if question in KINDS:
        drawn = [charts.division(KINDS[question], found.parts)]
        return drawn + ([charts.cutoffs(found.exposed)] if found.exposed else [])
    if question == "error" and found.found:
        return [charts.error_classes(found)]
    return [charts.paper_impact(found)] if question == "paper" else []
