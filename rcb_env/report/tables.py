"""Tables for a terminal: one row per run, one row per paper, and what lies behind the rates.

Every headline rate stands beside its coverage and interval; when episodes are open (infra or
missing) the two bounds replace the impression of a finished number. Nothing is left out: each
state that occurred has its count.
Not covered: two runs (`pair_tables.py`), challenges as items (`item_tables.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rcb_env.errors import counted
from rcb_env.report.hierarchical import Hierarchical
from rcb_env.report.open_scores import OpenScores
from rcb_env.report.scoring import OPEN_STATES, Rate
from rcb_env.report.summary import RunSummary

EPISODE = ("challenge", "sample", "status", "end_reason", "steps", "test_runs")  # what a list says
HIERARCHICAL = "Hierarchical estimate (percent): challenges within papers"
HIERARCHICAL_COLUMNS = ("estimate", "95 %", "papers differ by", "challenges by", "correlation")
_NAMED = 12  # challenges of one state in a line


def rate_text(rate: Rate | None) -> str:
    """A rate for a table cell, with its bounds when something is open."""
    if rate is None:
        return "n/a"
    if rate.value is not None and rate.exact:
        return f"{rate.value:.1f}"
    return f"{number_text(rate.value)} ({rate.low:.1f} to {rate.high:.1f})"


def interval_text(rate: Rate | None) -> str:
    """A confidence interval for a table cell."""
    if rate is None or rate.interval is None:
        return "n/a"
    return f"{rate.interval.low:.1f} to {rate.interval.high:.1f}"


def proven_text(summary: RunSummary) -> str:
    """The proven pass rate for a table cell."""
    return "n/a" if summary.proven_pass_rate is None else f"{summary.proven_pass_rate:.1f}"


def states_text(states: Sequence[tuple[str, int]]) -> str:
    """The states that occurred, with their counts."""
    return ", ".join(f"{count} {state}" for state, count in states if count)


def runs_table(summaries: Sequence[RunSummary]) -> Table:
    """One row per run: rates, intervals, coverage and states."""
    table = Table(title="Pass rates (percent)", title_justify="left")
    table.add_column("agent")
    table.add_column("episodes", justify="right")
    table.add_column("pass rate", justify="right")
    table.add_column("95 %", justify="right")
    table.add_column("proven", justify="right")
    table.add_column("scaled", justify="right")
    table.add_column("95 %", justify="right")
    table.add_column("coverage", justify="right")
    has_scores = any(summary.open_scores for summary in summaries)
    if has_scores:
        table.add_column("score", justify="right")
    table.add_column("states")
    for summary in summaries:
        score = summary.score
        table.add_row(
            escape(summary.label),
            str(score.planned),
            rate_text(score.pass_rate),
            interval_text(score.pass_rate),
            proven_text(summary),
            rate_text(score.scaled_pass_rate),
            interval_text(score.scaled_pass_rate),
            f"{score.coverage:.0f} %",
            *([score_text(summary.open_scores)] if has_scores else []),
            states_text(list(score.states.items())),
        )
    return table


def score_text(scores: OpenScores | None) -> str:
    """The mean score of a run for a table cell, with its standard error."""
    if scores is None:
        return "n/a"
    return f"{scores.mean:+.3f}" + (f" ± {scores.se:.3f}" if scores.se is not None else "")


def open_table(scores: OpenScores) -> Table:
    """One row per open challenge of one run."""
    title = "Open challenges (0: the paper's own method; more is better)"
    table = Table(title=title, title_justify="left")
    table.add_column("challenge")
    for name in ("episodes", "failed", "score", "se", "baseline", "counts as"):
        table.add_column(name, justify="right")
    for one in scores.challenges:
        table.add_row(
            escape(one.challenge),
            str(one.episodes),
            str(one.episodes - one.scored),
            "n/a" if one.value is None else f"{one.value:+.3f}",
            "n/a" if one.se is None else f"{one.se:.3f}",
            f"{one.baseline:+.3f}",
            f"{one.counted:+.3f}",
        )
    return table


def curve_table(scores: OpenScores) -> Table:
    """The best score told by test runs, by how many there were and what they took."""
    table = Table(title="Best score in feedback, mean of the episodes", title_justify="left")
    for name in ("test runs", "score", "tokens", "USD"):
        table.add_column(name, justify="right")
    for point in scores.curve:
        table.add_row(
            str(point.test_runs),
            f"{point.score:+.3f}",
            amount_text(point.tokens),
            "n/a" if point.cost_usd is None else f"{point.cost_usd:.4f}",
        )
    return table


def papers_table(summary: RunSummary) -> Table:
    """One row per paper of one run."""
    table = Table(title=f"Per paper: {escape(summary.label)}", title_justify="left")
    table.add_column("paper")
    for name in ("challenges", "episodes", "pass rate", "scaled"):
        table.add_column(name, justify="right")
    table.add_column("states")
    for paper in summary.score.papers:
        table.add_row(
            escape(paper.paper),
            str(paper.challenges),
            str(paper.planned),
            rate_text(paper.pass_rate),
            rate_text(paper.scaled_pass_rate),
            states_text(list(paper.states.items())),
        )
    return table


def episodes_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """One row per episode: which it is, and how it ended."""
    table = Table()
    for name in EPISODE:
        right = name in ("sample", "steps", "test_runs")
        table.add_column(name.replace("_", " "), justify="right" if right else "left")
    table.columns[0].overflow = "fold"  # an id is there to be copied
    for row in rows:
        table.add_row(*(escape(str(row.get(name, ""))) for name in EPISODE))
    return table


def notes(summary: RunSummary) -> list[str]:
    """What a reader of the tables must know, one line each; empty for a plain complete run."""
    score, totals = summary.score, summary.totals
    lines = []
    left_open = states_text([(state, score.states[state]) for state in OPEN_STATES])
    if left_open:
        lines.append(
            f"{left_open}: they count as not passed. The bounds (from ... to ...) say how much they"
            " can change. Resume the run to settle them."
        )
    lines += [f"{state}: {names_text(names)}" for state, names in summary.not_solved.items()]
    lines += [f"infrastructure: {cause}" for cause in summary.infra_causes]
    lines += [f"the agent's own error: {cause}" for cause in summary.agent_errors]
    if len(score.samples) > 1:
        shown = ", ".join(f"{n} samples: {count}" for n, count in score.samples.items())
        lines.append(f"challenges have unequal numbers of samples ({shown})")
    if score.pass_rate_spread and len(score.pass_rate_spread.rates) > 1:
        spread, scaled = score.pass_rate_spread, score.scaled_spread
        lines.append(
            f"over {len(spread.rates)} completions: pass rate {spread.mean:.1f} ± {spread.std:.1f}"
            + (f", scaled {scaled.mean:.1f} ± {scaled.std:.1f}" if scaled else "")
        )
    for at in score.pass_at:
        if at.k > 1 and at.rate is not None:
            scaled_at = "" if at.scaled is None else f", scaled {at.scaled:.1f}"
            lines.append(f"pass@{at.k}: {at.rate:.1f}{scaled_at}")
    if score.nested_corrected:
        lines.append(f"scaled, each source line once: {rate_text(score.nested_corrected)}")
    if totals.tokens["calls"] or not totals.complete:
        lines.append(_usage_text(summary))
    if summary.record.get("config", {}).get("agent_sandbox") == "none":
        lines.append(
            "--agent-sandbox none: a program that played could read all that its user can, the answers too"
        )
    if summary.retried_episodes:
        lines.append(
            f"{counted(summary.retried_episodes, 'episode')} took more than one attempt; earlier attempts"
            " are not in these numbers"
        )
    return lines + list(summary.problems)


def names_text(challenges: Mapping[str, int]) -> str:
    """Names, the first ones; with the number of samples where there are several."""
    names = [
        name if count == 1 else f"{name} ({count} samples)" for name, count in challenges.items()
    ]
    more = f", and {len(names) - _NAMED} more (--json names all)" if names[_NAMED:] else ""
    return ", ".join(names[:_NAMED]) + more


def print_runs(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print what has one row per run."""
    console.print(runs_table(summaries))
    fitted = [(one.label, one.hierarchical) for one in summaries if one.hierarchical is not None]
    if fitted:
        console.print(hierarchical_table(fitted))


def print_report(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print everything about some runs."""
    print_runs(console, summaries)
    for summary in summaries:
        console.print(papers_table(summary))
        if summary.open_scores is not None:
            console.print(open_table(summary.open_scores))
            if len(summary.open_scores.curve) > 1:
                console.print(curve_table(summary.open_scores))
        lines = notes(summary)
        if len(summaries) > 1 and lines:
            console.print(f"{summary.label}:", markup=False, highlight=False)
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def hierarchical_table(found: Iterable[tuple[str, Hierarchical]]) -> Table:
    """One row per run, or per pair of them: the mean of a hierarchical model, and what spreads about it."""
    table = Table(title=HIERARCHICAL, title_justify="left")
    table.add_column("of")
    for name in HIERARCHICAL_COLUMNS:
        table.add_column(name, justify="right")
    for name, one in found:
        table.add_row(escape(name), *hierarchical_cells(one))
    return table


def hierarchical_cells(one: Hierarchical) -> tuple[str, ...]:
    """The cells of `HIERARCHICAL_COLUMNS`."""
    interval = "n/a"
    if one.interval is not None:
        interval = f"{one.interval.low:.1f} to {one.interval.high:.1f}"
    alike = "n/a" if one.alike is None else f"{one.alike:.2f}"
    return (
        number_text(one.estimate),
        interval,
        number_text(one.between),
        number_text(one.within),
        alike,
    )


def number_text(value: float | None) -> str:
    """A number for a table cell."""
    return "n/a" if value is None else f"{value:.1f}"


def amount_text(value: float | None) -> str:
    """What something took, for a table cell."""
    if value is None:
        return "n/a"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _usage_text(summary: RunSummary) -> str:
    totals = summary.totals
    if not (totals.complete or any(totals.tokens.values())):
        text = "model: calls and tokens unknown, as the agent reports none"
    else:
        text = (
            f"model: {'' if totals.complete else 'at least '}{totals.tokens['calls']} calls, "
            f"{totals.tokens['prompt_tokens']} prompt and {totals.tokens['completion_tokens']} completion tokens"
        )
    if totals.estimated:
        text += " (partly estimated)"
    if totals.cost_usd or totals.cost_known:
        text += f", {'' if totals.cost_known else 'at least '}{totals.cost_usd:.4f} USD"
    else:
        text += ", cost unknown"
    return text
