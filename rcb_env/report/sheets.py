"""Reports as plain sheets of text, for Markdown, LaTeX and pages.

One run is a column or a row under the name it is given.
Not covered: a sheet itself (`sheet.py`), tables in a terminal (`tables.py`), charts (`rcb_env.view.charts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rcb_env.report import kind_sheets
from rcb_env.report.comparison import RunPair, Side, limits_of
from rcb_env.report.hierarchical import Hierarchical
from rcb_env.report.kinds import Exposed, exposed, kinds_of
from rcb_env.report.pair_tables import in_these_text, p_text, power_text
from rcb_env.report.power import SHARE, Power
from rcb_env.report.scoring import MODEL_FAILURES, OPEN_STATES
from rcb_env.report.sheet import Sheet
from rcb_env.report.slices import Slice, divisions
from rcb_env.report.summary import RunSummary, summarize
from rcb_env.report.tables import (
    HIERARCHICAL,
    HIERARCHICAL_COLUMNS,
    amount_text,
    hierarchical_cells,
    interval_text,
    number_text,
    proven_text,
    rate_text,
    score_text,
)
from rcb_env.runs.store import RunStore

_SET_EQUAL = ("test runs", "tokens", "USD")


@dataclass(frozen=True)
class Curve:
    """Rates of several runs by how much of something their episodes took."""

    effort: str
    limits: tuple[float, ...]
    rates: Mapping[str, tuple[float, ...]]
    """Percent at each limit, by run; runs of which it is not known are left out."""
    means: Mapping[str, float | None]
    """Of one finished episode."""


def open_challenges(summaries: Mapping[str, RunSummary]) -> list[Sheet]:
    """Scores of open challenges, challenges by runs; nothing where there are none."""
    cells: dict[str, dict[str, str]] = {}
    for name, one in summaries.items():
        for scored in one.open_scores.challenges if one.open_scores else ():
            value = "failed" if scored.value is None else f"{scored.value:+.3f}"
            error = "" if scored.se is None else f" ± {scored.se:.3f}"
            cells.setdefault(scored.challenge, {})[name] = f"{value}{error}"
    if not cells:
        return []
    rows = [(name, *(found.get(run, "") for run in summaries)) for name, found in cells.items()]
    scores = [one.open_scores for one in summaries.values()]
    rows.append(("mean", *("" if one is None else f"{one.mean:+.3f}" for one in scores)))
    note = (
        "0 is the paper's own method, and more is better. In the mean an answer that failed, or did worse than the"
        " baseline, counts as the baseline."
    )
    return [Sheet("Open challenges", ("challenge", *summaries), tuple(rows), note)]


@dataclass(frozen=True)
class Numbers:
    """What a report on some runs is made of; runs by the names they are given."""

    summaries: Mapping[str, RunSummary]
    parts: Mapping[str, Mapping[str, tuple[Slice, ...]]]
    """Of each run by division, see `divisions`."""
    exposed: Exposed
    """What its model may have seen."""
    sides: Mapping[str, Side]

    def sheets(self) -> list[Sheet]:
        """All of it."""
        return [
            leaderboard(self.summaries),
            *hierarchical({name: one.hierarchical for name, one in self.summaries.items()}),
            papers(self.summaries),
            *(kind_sheets.division(name, runs) for name, runs in self.parts.items()),
            *kind_sheets.contamination(self.exposed),
            endings(self.summaries),
            *open_challenges(self.summaries),
            *map(at_equal, equal_efforts(self.sides)),
        ]


def numbers(
    stores: Mapping[str, RunStore],
    *,
    hierarchical: bool = False,
    cutoffs: Mapping[str, str] | None = None,
) -> Numbers:
    """Read some runs.

    Args:
        stores: runs by the names they are given.
        hierarchical: also fit hierarchical estimates, which need statsmodels.
        cutoffs: of the models of some runs, where the user says them.

    Raises:
        UsageError: statsmodels is missing.
        StoreError: one cannot be read.
    """
    sides = {name: Side(store) for name, store in stores.items()}
    outcomes = {name: side.outcomes() for name, side in sides.items()}
    kinds = {
        name: kinds_of(store.record, (cutoffs or {}).get(name)) for name, store in stores.items()
    }
    return Numbers(
        summaries={
            name: summarize(store, hierarchical=hierarchical) for name, store in stores.items()
        },
        parts=divisions(outcomes, kinds),
        exposed=exposed(outcomes, kinds),
        sides=sides,
    )


def leaderboard(summaries: Mapping[str, RunSummary]) -> Sheet:
    """One row a run: rates with intervals, the score where a run has one, coverage, and what it took."""
    has_scores = any(one.open_scores for one in summaries.values())
    rates = ("pass rate", "95 %", "proven", "scaled", "95 %")
    columns = ("run", "episodes", *rates, *(["score"] if has_scores else []), "coverage", "tokens")
    rows = [
        (
            name,
            str(one.score.planned),
            rate_text(one.score.pass_rate),
            interval_text(one.score.pass_rate),
            proven_text(one),
            rate_text(one.score.scaled_pass_rate),
            interval_text(one.score.scaled_pass_rate),
            *([score_text(one.open_scores)] if has_scores else []),
            f"{one.score.coverage:.0f} %",
            _tokens(one),
            _money(one),
            one.label,
        )
        for name, one in sorted(
            summaries.items(), key=lambda item: item[1].score.pass_rate.value or 0.0, reverse=True
        )
    ]
    note = "Percent. Intervals are over papers. Unfinished episodes count as not passed."
    return Sheet("Leaderboard", (*columns, "USD", "agent"), tuple(rows), note)


def hierarchical(found: Mapping[str, Hierarchical | None]) -> list[Sheet]:
    """Hierarchical estimates, one row each; nothing where there are none."""
    rows = [(name, *hierarchical_cells(one)) for name, one in found.items() if one is not None]
    return [Sheet(HIERARCHICAL, ("of", *HIERARCHICAL_COLUMNS), tuple(rows))] if rows else []


def papers(summaries: Mapping[str, RunSummary]) -> Sheet:
    """Pass rates, papers by runs."""
    cells: dict[str, dict[str, str]] = {}
    for name, one in summaries.items():
        for paper in one.score.papers:
            cells.setdefault(paper.paper, {})[name] = rate_text(paper.pass_rate)
    rows = [(paper, *(found.get(name, "") for name in summaries)) for paper, found in cells.items()]
    return Sheet("Pass rate by paper", ("paper", *summaries), tuple(rows), "Percent.")


def endings(summaries: Mapping[str, RunSummary]) -> Sheet:
    """Why episodes did not pass: error classes of failed ones, and the other states."""
    shares = ending_shares(summaries)
    names = dict.fromkeys(name for found in shares.values() for name in found)
    rows = [
        (name, *(f"{found[name]:.1f}" if name in found else "0" for found in shares.values()))
        for name in names
    ]
    note = "Percent of the planned episodes."
    return Sheet("What went wrong", ("ending", *summaries), tuple(rows), note)


def ending_shares(summaries: Mapping[str, RunSummary]) -> dict[str, dict[str, float]]:
    """Percent of the planned episodes by run and ending, without those that passed."""
    found = {}
    for name, one in summaries.items():
        counts = {f"failed: {kind}": n for kind, n in one.totals.error_classes.most_common()}
        rest = one.score.states["failed"] - sum(counts.values())
        counts |= {"failed: no class": rest} if rest > 0 else {}
        for state in (*MODEL_FAILURES, *OPEN_STATES):
            if state != "failed" and one.score.states[state]:
                counts[state.replace("_", " ")] = one.score.states[state]
        found[name] = {ending: 100 * n / one.score.planned for ending, n in counts.items()}
    return found


def equal_efforts(sides: Mapping[str, Side], *, most: int = 8) -> list[Curve]:
    """Rates by what two ways of working are set equal in, on the challenges that all runs planned.

    Args:
        sides: the runs.
        most: limits of one curve.
    """
    common = set.intersection(*({row.challenge for row in side.plan} for side in sides.values()))
    found = []
    for effort in _SET_EQUAL if common else ():
        known = {name: side.known(effort, common) for name, side in sides.items()}
        limits = limits_of([value for values in known.values() for value in values or ()], most)
        if len(limits) > 1:
            rates = {
                name: sides[name].rates(effort, limits, common)
                for name, values in known.items()
                if values is not None
            }
            means = {name: sum(v) / len(v) if v else None for name, v in known.items()}
            found.append(Curve(effort, limits, rates, means))
    return found


def at_equal(curve: Curve) -> Sheet:
    """Rates at equal limits, one row a run."""
    rows = [
        (
            name,
            *(f"{rate:.1f}" for rate in curve.rates[name]),
            amount_text(curve.means[name]),
        )
        if name in curve.rates
        else (name, *("n/a" for _ in curve.limits), "unknown")
        for name in curve.means
    ]
    columns = ("run", *(f"≤ {amount_text(limit)}" for limit in curve.limits), "mean of an episode")
    note = "Percent of the challenges that were solved with at most so much."
    return Sheet(f"Pass rate at equal {curve.effort}", columns, tuple(rows), note)


def pair(found: RunPair) -> list[Sheet]:
    """Run B against run A: the rates, and the challenges that only one of them solved more often."""
    one = found.comparison
    rates = [
        (title, number_text(a), number_text(b), rate_text(difference), interval_text(difference))
        for title, a, b, difference in (
            ("pass rate", one.a, one.b, one.difference),
            ("scaled", one.a_scaled, one.b_scaled, one.scaled_difference),
        )
    ]
    columns = ("percent", found.a, found.b, "difference", "95 %")
    note = (
        f"{one.challenges} challenges of {found.papers} papers. {found.a} solved {len(one.only_a_better)} more often,"
        f" {found.b} {len(one.only_b_better)}; exact McNemar p = {p_text(found)}."
    )
    if one.power is not None:
        note += f" {power_text(one.power).capitalize()}."
    better = [(name, found.a) for name in one.only_a_better]
    better += [(name, found.b) for name in one.only_b_better]
    sheets = [Sheet(f"{found.b} against {found.a}", columns, tuple(rates), note)]
    sheets += hierarchical({"difference": one.hierarchical})
    if one.power is not None:
        sheets.append(_power(one.power))
    if better:
        sheets.append(Sheet("Solved more often by one", ("challenge", "by"), tuple(better)))
    return sheets


def _power(found: Power) -> Sheet:
    """How many papers, or challenges, it would take to see a gap."""
    rows = [
        (
            f"{one.gap:.1f}{' (found)' if one.found else ''}",
            f"{one.papers:,}",
            f"{one.challenges:,}",
            in_these_text(found, one),
        )
        for one in found.needed
    ]
    columns = ("gap in points", "papers", "with challenges", f"challenges in {found.papers} papers")
    note = f"To see a gap in {SHARE * 10:.0f} of 10 cases, one of the last two is needed."
    return Sheet("What it takes to see a gap", columns, tuple(rows), note)


def _tokens(one: RunSummary) -> str:
    tokens = one.totals.tokens
    total = tokens["prompt_tokens"] + tokens["completion_tokens"]
    if not one.totals.complete:
        return f"at least {total:,}" if total else "unknown"
    return f"{total:,}"


def _money(one: RunSummary) -> str:
    totals = one.totals
    if totals.cost_known:
        return f"{totals.cost_usd:.2f}" if totals.cost_usd >= 10 else f"{totals.cost_usd:.4g}"
    return f"at least {totals.cost_usd:.4g}" if totals.cost_usd else "unknown"
