"""Charts of some runs, by Altair.

A chart is drawn once and fits light and dark pages: its text takes the colour of the page. Runs differ by shape and by dash as
well as by colour, and cells say their number, so that nothing is told by colour alone.
Not covered: the numbers (`rcb_env.report`), files of charts (`drawn.py`), and the page around them (`document.py`).
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from rcb_env.report.contamination import month_of
from rcb_env.report.error_classes import ErrorClasses
from rcb_env.report.kinds import Exposed
from rcb_env.report.paper_impact import PaperImpact
from rcb_env.report.scoring import Rate
from rcb_env.report.sheets import Curve, ending_shares
from rcb_env.report.slices import Slice
from rcb_env.report.summary import RunSummary
from rcb_env.view.drawn import Drawn
from rcb_env.view.texts import plain

_INK = "currentColor"
_COLOURS = ("#3b8fc4", "#d0722e", "#2f9e77", "#a56cc1", "#b8912a", "#cc5a7a", "#6b7f94", "#7a9a2e")
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 1], [1, 3], [10, 4], [3, 1, 1, 1])
_WIDTH = 720
_LABEL_PX = 240
_LETTERS = 90  # of all labels below an axis that fit beside each other
_PADDING = {"left": 28, "right": 12, "top": 5, "bottom": 5}  # a page's font may be wider than ours


def leaderboard(rates: Mapping[str, Rate | None], word: str = "Pass rate") -> Drawn:
    """Rates with their intervals, one run a line."""
    rows: list[dict[str, Any]] = [
        {"run": plain(name), **_bounds(rate)}
        for name, rate in rates.items()
        if rate is not None and rate.value is not None
    ]
    rows.sort(key=lambda row: -row["rate"])
    order = [row["run"] for row in rows]
    chart = _with_range(rows, alt.Y("run:N", title=None, sort=order, axis=_names()))
    about = "; ".join(f"{row['run']} {row['rate']:.1f} percent" for row in rows)
    return _drawn("leaderboard", f"{word} with its 95 % interval", about, chart)


def papers(summaries: Mapping[str, RunSummary]) -> Drawn:
    """Papers by runs, each cell with its rate."""
    rows = [
        {"run": plain(name), "paper": plain(paper.paper), "rate": paper.pass_rate.value}
        for name, one in summaries.items()
        for paper in one.score.papers
        if paper.pass_rate is not None and paper.pass_rate.value is not None
    ]
    data = _data(rows)
    x = alt.X(
        "run:N",
        title=None,
        sort=_order(summaries),
        axis=alt.Axis(orient="top", labelAngle=-30, labelLimit=_LABEL_PX),
    )
    y = alt.Y("paper:N", title=None, sort=None, axis=_names())
    scale = alt.Scale(domain=[0, 50, 100], range=["#a4443a", "#e9dfc9", "#2b6f8f"])
    cells = (
        alt.Chart(data)
        .mark_rect(stroke="white", strokeWidth=1)
        .encode(x=x, y=y, color=alt.Color("rate:Q", scale=scale, legend=None))
    )
    ink = alt.condition(
        "datum.rate < 22 || datum.rate > 78", alt.value("white"), alt.value("#1f2328")
    )
    words = (
        alt.Chart(data)
        .mark_text(fontSize=11)
        .encode(x=x, y=y, text=alt.Text("rate:Q", format=".0f"), color=ink)
    )
    width = max(120, min(_WIDTH, 90 * len(summaries)))
    chart = (cells + words).properties(width=width, height=alt.Step(22))
    about = "A table of pass rates, papers by runs; the sheet beside it has the numbers."
    return _drawn("papers", "Pass rate by paper, percent", about, chart)


def division(name: str, runs: Mapping[str, tuple[Slice, ...]]) -> Drawn:
    """Rates of the parts of one division, with intervals."""
    order = list(dict.fromkeys(part.name for cut in runs.values() for part in cut))
    rows = [
        {"run": plain(run), "part": part.name, **_bounds(part.rate)}
        for run, cut in runs.items()
        for part in cut
        if part.rate.value is not None
    ]
    data, offset = _data(rows), alt.XOffset("run:N", sort=_order(runs))
    slanted = sum(map(len, order)) > _LETTERS
    axis = alt.Axis(labelAngle=-30 if slanted else 0, labelLimit=_LABEL_PX)
    base = alt.Chart(data).encode(
        x=alt.X("part:N", title=name, sort=order, axis=axis), xOffset=offset
    )
    y = alt.Y("rate:Q", title="pass rate, percent", scale=alt.Scale(domain=[0, 100]))
    ranges = base.mark_rule(strokeWidth=2, opacity=0.55).encode(
        y=alt.Y("low:Q", title="pass rate, percent"), y2="high:Q", color=_colour(runs)
    )
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=y, color=_colour(runs), shape=_shape(runs)
    )
    chart = (ranges + points).properties(width=_WIDTH, height=240)
    about = f"Pass rates by {name}, one mark a run; the sheet beside it has the numbers."
    return _drawn(name.replace(" ", "-"), f"Pass rate by {name}", about, chart)


def cutoffs(found: Exposed) -> Drawn:
    """When papers and their code became public, against the knowledge cutoffs of models."""
    dated = {
        paper: each
        for paper, each in found.days.items()
        if each.v1 is not None or each.code is not None
    }
    order = sorted(dated, key=lambda paper: str(dated[paper].code or dated[paper].v1))
    events = [
        {"paper": plain(paper), "event": event, "day": day.isoformat()}
        for paper in order
        for event, day in (("first version", dated[paper].v1), ("first commit", dated[paper].code))
        if day is not None
    ]
    months: dict[datetime.date, list[str]] = {}
    for one in found.exposures:
        if (month := month_of(one.cutoff)) is not None:
            months.setdefault(month, []).append(one.name)
    when = alt.Scale(type="utc", nice=False, padding=12)
    y = alt.Y("paper:N", title=None, sort=_order(order), axis=_names())
    marks = ("first version", "first commit")
    shapes = alt.Scale(domain=marks, range=["diamond", "circle"])
    colours = alt.Scale(domain=marks, range=[_COLOURS[1], _COLOURS[0]])
    below = alt.Axis(orient="bottom", format="%Y-%m", labelAngle=-30)
    points = (
        alt.Chart(_data(events))
        .mark_point(filled=True, size=70, opacity=1)
        .encode(
            x=alt.X("day:T", title=None, scale=when, axis=below),
            y=y,
            shape=alt.Shape("event:N", scale=shapes, legend=alt.Legend(title=None)),
            color=alt.Color("event:N", scale=colours, legend=alt.Legend(title=None)),
        )
    )
    # Each line has its models as the label of a second axis, so that room is made for them.
    places = {
        int(datetime.datetime(d.year, d.month, 1, tzinfo=datetime.UTC).timestamp() * 1000): n
        for d, n in months.items()
    }
    words = {
        str(place): plain(names[0] if len(names) == 1 else f"{len(names)} models")
        for place, names in places.items()
    }
    above = alt.Axis(
        orient="top",
        values=list(places),
        labelExpr=f"{json.dumps(words)}[toNumber(datum.value)] || ''",
        labelAngle=-30,
        labelLimit=_LABEL_PX,
        labelOverlap=False,
        grid=False,
    )
    rules = (
        alt.Chart(_data([{"day": day.isoformat()} for day in months]))
        .mark_rule(strokeWidth=1.5, strokeDash=[4, 3], opacity=0.7, color=_INK)
        .encode(x=alt.X("day:T", title=None, scale=when, axis=above))
    )
    chart = (
        (points + rules)
        .resolve_axis(x="independent")
        .properties(width=_WIDTH - 120, height=alt.Step(20))
    )
    about = (
        "For each paper the days of its first version and of the first commit of its code; dashed lines are knowledge"
        " cutoffs. The sheet beside it has the days."
    )
    return _drawn("cutoffs", "First commits against knowledge cutoffs", about, chart)


def endings(summaries: Mapping[str, RunSummary]) -> Drawn | None:
    """Why episodes did not pass; None: all did."""
    shares = ending_shares(summaries)
    rows = [
        {"run": plain(run), "ending": plain(ending), "share": share}
        for run, found in shares.items()
        for ending, share in found.items()
    ]
    if not rows:
        return None
    shared = {str(row["ending"]): 0.0 for row in rows}
    for found in shares.values():
        for ending, share in found.items():
            shared[plain(ending)] += share
    order = sorted(shared, key=lambda ending: -shared[ending])
    data = _data(rows)
    base = alt.Chart(data).encode(
        y=alt.Y("ending:N", title=None, sort=order, axis=_names()),
        yOffset=alt.YOffset("run:N", sort=_order(summaries)),
        x=alt.X("share:Q", title="percent of the planned episodes"),
    )
    bars = base.mark_bar(height=alt.RelativeBandSize(0.8)).encode(color=_colour(summaries))
    words = base.mark_text(align="left", dx=4, fontSize=10, color=_INK).encode(
        text=alt.Text("share:Q", format=".1f")
    )
    chart = (bars + words).properties(width=_WIDTH - 60, height=alt.Step(14))
    about = "Shares of episodes by how they ended; the sheet beside it has the numbers."
    return _drawn("endings", "What went wrong", about, chart)


def error_classes(found: ErrorClasses) -> Drawn:
    """Shares of wrong answers by class, one bar a run; each part says its share."""
    shares = found.shares()
    order = found.found
    rows: list[dict[str, Any]] = []
    for run, parts in shares.items():
        before = 0.0
        for name in order:
            if share := parts.get(name, 0.0):
                rows.append(
                    {"run": plain(run), "class": name, "low": before, "high": before + share}
                    | {
                        "middle": before + share / 2,
                        "words": f"{name} {share:.0f}" if share >= 9 else "",
                    }
                )
                before += share
    scale = alt.Scale(domain=order, range=_ranged(_COLOURS, order))
    y = alt.Y("run:N", title=None, sort=_order(shares), axis=_names())
    x = alt.Scale(domain=[0, 100])
    base = alt.Chart(_data(rows)).encode(y=y)
    bars = base.mark_bar(stroke="white", strokeWidth=1).encode(
        x=alt.X("low:Q", title="percent of the wrong answers", scale=x),
        x2="high:Q",
        color=alt.Color("class:N", scale=scale, legend=alt.Legend(title=None)),
    )
    words = base.mark_text(fontSize=10, color="#1f2328").encode(
        x=alt.X("middle:Q", title="percent of the wrong answers", scale=x), text="words:N"
    )
    chart = (bars + words).properties(width=_WIDTH - 60, height=alt.Step(34))
    about = "Shares of wrong answers by error class, one bar a run; the sheet beside it has the numbers."
    return _drawn("error-classes", "Error classes of wrong answers", about, chart)


def paper_impact(found: PaperImpact) -> Drawn:
    """Papers by their pass rate without and with the paper's text: above the diagonal it helped."""
    names = [one.name for one in found.impacts]
    rows = [
        {"run": plain(one.name), "paper": plain(part.name), "x": part.without, "y": part.with_paper}
        for one in found.impacts
        for part in one.papers
    ]
    scale = alt.Scale(domain=[0, 100])
    x = alt.X("x:Q", title="without the paper, percent", scale=scale)
    y = alt.Y("y:Q", title="with the paper, percent", scale=scale)
    even = alt.Chart(_data([{"x": 0, "y": 0}, {"x": 100, "y": 100}]))
    line = even.mark_line(color=_INK, opacity=0.4, strokeDash=[4, 4], strokeWidth=1).encode(
        x=x, y=y
    )
    points = (
        alt.Chart(_data(rows))
        .mark_point(filled=True, size=70, opacity=0.85)
        .encode(x=x, y=y, color=_colour(names), shape=_shape(names))
    )
    chart = (line + points).properties(width=420, height=420)
    about = "Pass rates of papers without and with the paper's text; the sheets beside it have the numbers."
    return _drawn("paper-impact", "What the paper is worth, by paper", about, chart)


def effort(curve: Curve) -> Drawn:
    """Rates by how much of something the episodes took."""
    rows = [
        {"run": plain(run), "limit": limit, "rate": rate}
        for run, rates in curve.rates.items()
        for limit, rate in zip(curve.limits, rates, strict=True)
    ]
    names = list(curve.rates)
    what = "US dollars" if curve.effort == "USD" else curve.effort
    axis = alt.Axis() if curve.effort == "USD" else alt.Axis(tickMinStep=1)
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("limit:Q", title=f"at most so many {what}", axis=axis),
        y=alt.Y("rate:Q", title="solved, percent", scale=alt.Scale(domain=[0, 100])),
        color=_colour(names),
    )
    dashes = alt.StrokeDash(
        "run:N", scale=alt.Scale(domain=_order(names), range=_ranged(_DASHES, names)), legend=None
    )
    lines = base.mark_line(interpolate="step-after", strokeWidth=2).encode(strokeDash=dashes)
    points = base.mark_point(filled=True, size=36, opacity=1).encode(shape=_shape(names))
    chart = (lines + points).properties(width=_WIDTH, height=240)
    name = curve.effort.lower().replace(" ", "-")
    about = f"Shares of challenges solved with at most so many {what}, one line a run."
    return _drawn(f"at-equal-{name}", f"Solved with at most so many {what}", about, chart)


def _data(rows: Sequence[Mapping[str, Any]]) -> Any:
    data: Any = alt.Data
    return data(values=list(rows))


def _with_range(rows: Sequence[Mapping[str, Any]], y: alt.Y) -> Any:
    base = alt.Chart(_data(rows)).encode(y=y)
    scale = alt.Scale(domain=[0, 100])
    ranges = base.mark_rule(strokeWidth=3, opacity=0.45, color=_COLOURS[0]).encode(
        x=alt.X("low:Q", title="percent", scale=scale), x2="high:Q"
    )
    points = base.mark_point(filled=True, size=80, opacity=1, color=_COLOURS[0]).encode(
        x=alt.X("rate:Q", title="percent", scale=scale)
    )
    words = base.mark_text(dy=-11, fontSize=11, color=_INK).encode(
        x="rate:Q", text=alt.Text("rate:Q", format=".1f")
    )
    return (ranges + points + words).properties(width=_WIDTH - 60, height=alt.Step(36))


def _bounds(rate: Rate) -> dict[str, float | None]:
    interval = rate.interval
    return {
        "rate": rate.value,
        "low": interval.low if interval else rate.value,
        "high": interval.high if interval else rate.value,
    }


def _names() -> alt.Axis:
    return alt.Axis(labelLimit=_LABEL_PX)


def _order(names: Mapping[str, Any] | Sequence[str]) -> list[str]:
    return [plain(name) for name in names]


def _ranged(values: Sequence[Any], names: Mapping[str, Any] | Sequence[str]) -> list[Any]:
    return [values[number % len(values)] for number in range(len(names))]


def _colour(names: Mapping[str, Any] | Sequence[str]) -> alt.Color:
    scale = alt.Scale(domain=_order(names), range=_ranged(_COLOURS, names))
    return alt.Color("run:N", scale=scale, legend=alt.Legend(title=None))


def _shape(names: Mapping[str, Any] | Sequence[str]) -> alt.Shape:
    scale = alt.Scale(domain=_order(names), range=_ranged(_SHAPES, names))
    return alt.Shape("run:N", scale=scale, legend=alt.Legend(title=None))


def _drawn(name: str, title: str, about: str, chart: Any) -> Drawn:
    axis = {
        "grid": True,
        "gridOpacity": 0.15,
        "gridColor": _INK,
        "domainOpacity": 0.4,
        "tickOpacity": 0.4,
    }
    quiet = {
        "labelColor": _INK,
        "titleColor": _INK,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 11,
    }
    config = {
        "background": None,
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {**axis, **quiet, "domainColor": _INK, "tickColor": _INK},
        "axisBand": {"grid": False},
        "legend": {**quiet, "orient": "top", "labelLimit": _LABEL_PX},
    }
    spec = chart.to_dict()
    spec.pop("usermeta", None)
    spec["config"] = config
    spec["padding"] = _PADDING
    return Drawn(name, title, about, spec)
