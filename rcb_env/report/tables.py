"""Tables for a terminal: one row per run, one row per paper, and what lies behind the rates.

Every headline rate stands beside its coverage and interval; when episodes are open (infra or
missing) the two bounds replace the impression of a finished number. Nothing is left out: each
state that occurred has its count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rcb_env.errors import counted
from rcb_env.report.comparison import ByEffort, RunPair
from rcb_env.report.hierarchical import Hierarchical
from rcb_env.report.items import FINDINGS, SAYS_NOTHING, Item, ItemAnalysis
from rcb_env.report.open_scores import OpenScores
from rcb_env.report.power import ROUGH_BELOW, SHARE, Needed, Power
from rcb_env.report.scoring import OPEN_STATES, Rate
from rcb_env.report.summary import RunSummary

EPISODE = ("challenge", "sample", "status", "end_reason", "steps", "test_runs")  # what a list says
HIERARCHICAL = "Hierarchical estimate (percent): challenges within papers"
HIERARCHICAL_COLUMNS = ("estimate", "95 %", "papers differ by", "challenges by", "correlation")
_NAMED = 12  # challenges of one state in a line
_ITEMS = 30  # challenges in a table of items


def rate_text(rate: Rate | None) -> str:
    """A rate for a table cell, with its bounds when something is open."""
    if rate is None:
        return "n/a"
    if rate.value is not None and rate.exact:
        return f"{rate.value:.1f}"
    return f"{_number(rate.value)} ({rate.low:.1f} to {rate.high:.1f})"


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
            _amount(point.tokens),
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
    lines += [f"{state}: {_named(names)}" for state, names in summary.not_solved.items()]
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


def _named(challenges: Mapping[str, int]) -> str:
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


def comparison_table(pair: RunPair) -> Table:
    """Run B against run A, in percent and percentage points."""
    comparison = pair.comparison
    table = Table(
        title=f"{counted(comparison.challenges, 'challenge')} of {counted(pair.papers, 'paper')} in both runs",
        title_justify="left",
    )
    table.add_column("percent")
    for name in (escape(f"A: {pair.a}"), escape(f"B: {pair.b}"), "B - A", "95 %"):
        table.add_column(name, justify="right")
    for title, first, second, difference in (
        ("pass rate", comparison.a, comparison.b, comparison.difference),
        ("scaled", comparison.a_scaled, comparison.b_scaled, comparison.scaled_difference),
    ):
        table.add_row(
            title,
            _number(first),
            _number(second),
            rate_text(difference),
            interval_text(difference),
        )
    return table


def effort_table(effort: ByEffort) -> Table:
    """Pass rates by how much of something the episodes took."""
    table = Table()
    table.add_column(f"at most ... {effort.effort}")
    for limit in effort.limits:
        table.add_column(_amount(limit), justify="right")
    table.add_column("mean of an episode", justify="right")
    for name, rates, mean in (("A", effort.a, effort.mean_a), ("B", effort.b, effort.mean_b)):
        shown = rates or (None,) * len(effort.limits)
        table.add_row(name, *(_number(rate) for rate in shown), _amount(mean))
    return table


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
    return (_number(one.estimate), interval, _number(one.between), _number(one.within), alike)


def power_table(power: Power) -> Table:
    """One row per gap: how many papers, or challenges, it would take to see it."""
    table = Table(
        title=f"Needed to see a gap in {SHARE:.0%} of cases".replace("%", " %"),
        title_justify="left",
    )
    these = f"or challenges in these {power.papers} papers"
    for name in ("gap", "papers like these", "with challenges", these):
        table.add_column(name, justify="right")
    for one in power.needed:
        table.add_row(
            f"{one.gap:.1f}{' (found)' if one.found else ''}",
            f"{one.papers:,}",
            f"{one.challenges:,}",
            in_these_text(power, one),
        )
    return table


def in_these_text(power: Power, one: Needed) -> str:
    """How many challenges in the papers at hand show a gap."""
    if one.in_these_papers is not None:
        return f"{one.in_these_papers:,}"
    return "n/a" if power.least_gap is None else "no number does"


def power_text(power: Power) -> str:
    """What gap two runs can show, in a sentence."""
    papers, often = f"these {power.papers} papers", f"{SHARE * 10:.0f} of 10 cases"
    if power.smallest_gap >= 100:
        return f"{papers} are too few to show any gap in {often}"
    text = f"{papers} show a true gap of {power.smallest_gap:.1f} points in {often}"
    rough = f" (a rough guess: fewer than {ROUGH_BELOW} papers)"
    return text + (rough if power.papers < ROUGH_BELOW else "")


def p_text(pair: RunPair) -> str:
    """The p-value of a comparison, and what is left of it among all that were made."""
    text = f"{pair.comparison.p_value:.3g}"
    if pair.p_holm is None:
        return text
    return f"{text} ({pair.p_holm:.3g} corrected for {pair.pairs} comparisons, Holm)"


def print_comparison(
    console: Console, pair: RunPair, *, brief: bool = False, power: bool = False
) -> None:
    """Print everything about run B against run A.

    Args:
        console: where to.
        pair: what to print.
        brief: only the rates, the test and the warnings.
        power: also how many papers or challenges it would take to see a gap.
    """
    comparison = pair.comparison
    console.print(comparison_table(pair))
    if comparison.hierarchical is not None:
        console.print(hierarchical_table([("B - A", comparison.hierarchical)]))
    discordant = [("A", comparison.only_a_better), ("B", comparison.only_b_better)]
    lines = [
        f"solved by A more often: {len(discordant[0][1])}; by B: {len(discordant[1][1])};"
        f" exact McNemar p = {p_text(pair)}"
    ]
    if comparison.power is not None:
        lines.append(power_text(comparison.power))
    elif power:
        lines.append(
            "what gap would be seen cannot be said: the runs differ alike in every paper, or there is one paper only"
        )
    if not brief:
        lines += [f"only {name}: {', '.join(names)}" for name, names in discordant if names]
    lines += [f"warning: {warning}" for warning in comparison.warnings]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if power and comparison.power is not None:
        console.print()
        console.print(power_table(comparison.power))
    if brief:
        return
    console.print("\nPass rate by what the episodes took (percent):")
    for effort in pair.efforts:
        if len(effort.limits) > 1:
            console.print(effort_table(effort))


def items_table(items: Sequence[Item]) -> Table:
    """One row per challenge: who solved it, and how that goes with the rest."""
    table = Table()
    table.add_column("challenge", overflow="fold")
    for name in ("lines", "solved by", "percent", "discrimination", "95 %"):
        table.add_column(name, justify="right")
    table.add_column("look at it")
    for item in items:
        interval = "n/a" if item.low is None else f"{item.low:+.2f} to {item.high:+.2f}"
        table.add_row(
            escape(item.challenge),
            str(item.lines),
            f"{item.solved_by} of {item.agents}",
            f"{item.solved:.1f}",
            "n/a" if item.discrimination is None else f"{item.discrimination:+.2f}",
            interval,
            item.finding or "",
        )
    return table


def print_items(console: Console, found: ItemAnalysis, *, every: bool = False) -> None:
    """Print challenges as the items of a test.

    Args:
        console: where to.
        found: what to print.
        every: all challenges, not the first ones only.
    """
    dividing = [item for item in found.items if item.finding not in SAYS_NOTHING]
    shown = found.items if every else dividing[:_ITEMS]
    console.print(items_table(shown))
    lines = []
    if not every and len(shown) < len(dividing):
        lines.append(
            f"{len(dividing) - len(shown)} more divide agents: --all, --csv and --json give every challenge"
        )
    told = f"{counted(len(found.items), 'challenge')}, {counted(len(found.agents), 'agent')}"
    if found.reliability is not None:
        told += f"; reliability of the agents' order (Cronbach's alpha): {found.reliability:.2f}"
    lines.append(told)
    for finding, meaning in FINDINGS.items():
        names = {item.challenge: 1 for item in found.items if item.finding == finding}
        if names:
            lines.append(f"{finding} ({meaning}): {len(names)}: {_named(names)}")
    for line in (*lines, *found.notes):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.1f}"


def _amount(value: float | None) -> str:
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
