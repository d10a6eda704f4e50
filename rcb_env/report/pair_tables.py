"""Two runs side by side, as tables for a terminal.

Not covered: how the numbers come about (`rcb_env.report.comparison`); one run (`tables.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rcb_env.errors import counted
from rcb_env.report.comparison import ByEffort, RunPair
from rcb_env.report.disagreements import Disagreement, counts
from rcb_env.report.power import ROUGH_BELOW, SHARE, Needed, Power
from rcb_env.report.recall import RecallGap
from rcb_env.report.tables import (
    amount_text,
    hierarchical_table,
    interval_text,
    number_text,
    rate_text,
)


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
            number_text(first),
            number_text(second),
            rate_text(difference),
            interval_text(difference),
        )
    return table


def effort_table(effort: ByEffort) -> Table:
    """Pass rates by how much of something the episodes took."""
    table = Table()
    table.add_column(f"at most ... {effort.effort}")
    for limit in effort.limits:
        table.add_column(amount_text(limit), justify="right")
    table.add_column("mean of an episode", justify="right")
    for name, rates, mean in (("A", effort.a, effort.mean_a), ("B", effort.b, effort.mean_b)):
        shown = rates or (None,) * len(effort.limits)
        table.add_row(name, *(number_text(rate) for rate in shown), amount_text(mean))
    return table


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
    lines += _same_code(pair.disagreements, brief=brief)
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


def _same_code(found: tuple[Disagreement, ...], *, brief: bool) -> list[str]:
    if not found:
        return []
    causes = ", ".join(f"{count} {cause}" for cause, count in counts(found).items())
    head = f"{counted(len(found), 'equal answer')} with two verdicts ({causes})"
    if brief:
        return [head]
    listed = [
        f"  {one.challenge}{f' sample {one.sample}' if one.sample else ''}: {one.a} in A, {one.b} in B ({one.cause});"
        f" {one.told}"
        for one in found
    ]
    return [f"{head}:", *listed]


def recall_table(gaps: Sequence[RecallGap]) -> Table:
    """Runs on published papers and on their variants, in percent and percentage points."""
    table = Table(title="Recall gap: published minus varied", title_justify="left")
    table.add_column("run")
    for title in ("challenges", "papers", "variants", "published", "varied", "gap", "95 %", "p"):
        table.add_column(title, justify="right")
    for one in gaps:
        table.add_row(
            escape(one.run),
            str(one.challenges),
            str(one.papers),
            str(one.variants),
            number_text(one.published),
            number_text(one.varied),
            rate_text(one.gap),
            interval_text(one.gap),
            f"{one.p_value:.3f}",
        )
    return table
