"""Options that mean the same wherever they occur, and options made of the fields of settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rcb_env.cli import completion
from rcb_env.env.settings import Setting, Settings, settings_of

if TYPE_CHECKING:
    from rcb_env.dataset.selection import Selection

_Command = TypeVar("_Command", bound=Callable[..., object])


class OrNone(click.ParamType[Any]):
    """A number, or "none" for no limit, so that a run that is gone on with can be rid of one."""

    def __init__(self, number: click.ParamType[Any]) -> None:
        self.number = number
        self.name = number.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or None."""
        return None if value == "none" else self.number.convert(value, param, ctx)


def split_commas(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """``--papers a,b --papers c`` is a, b and c; what names nothing is refused, as it would mean everything."""
    names: dict[str, None] = {}
    for value in values:
        named = [name.strip() for name in value.split(",") if name.strip()]
        if not named:
            raise click.BadParameter("it is empty; name at least one, or leave it out")
        names |= dict.fromkeys(named)
    return tuple(names)


dataset = click.option(
    "--dataset",
    default="bundled",
    show_default=True,
    metavar="NAME|FOLDER",
    shell_complete=completion.datasets,
    help="The data set: `bundled`, `researchcodebench` (run `rcb pull` first), or a folder with a papers.yaml.",
)
scope = click.option(
    "--scope",
    type=click.Choice(("region", "file", "paper", "library", "open")),
    help="What is to be written: a region of a paper's code, all regions of a file or of a paper at once,"
    " a whole library of which only the public surface is there, or an open"
    " challenge, whose best answer nobody has.  [default: region]",
)
papers = click.option(
    "--papers",
    multiple=True,
    callback=split_commas,
    metavar="A,B",
    shell_complete=completion.paper_list,
    help="Take only challenges of these papers.",
)
challenges = click.option(
    "--challenges",
    multiple=True,
    callback=split_commas,
    metavar="X,Y",
    shell_complete=completion.challenge_list,
    help="Take only these challenges.",
)
split = click.option(
    "--split",
    type=click.Choice(("train", "validation", "test")),
    help="Take only challenges of the papers that the data set's splits.yaml lists for it.",
)
difficulty = click.option(
    "--difficulty",
    callback=lambda _context, _parameter, value: _bounds(value),
    metavar="LEAST,MOST",
    help="Take only challenges that are as difficult, from 0 to 1: 0.2,0.8.",
)
difficulty_by = click.option(
    "--difficulty-by",
    metavar="lines|FILE",
    help="What difficulty is: the share of challenges with fewer lines, or the share of agents that did not solve it, in a"
    " FILE of `rcb items --csv`.  [default: lines]",
)
variant = click.option(
    "--variant",
    "variants",
    metavar="N|N-M|SPLIT",
    help="Take these variants, of papers that declare any: 7, 0-31, 1,5,9, or the numbers of a split: train, validation or test."
    " 0 is the published paper.  [default: 0]",
)
as_json = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="For scripts: JSON on stdout, everything else on stderr.",
)
cutoffs = click.option(
    "--cutoff",
    "cutoffs",
    multiple=True,
    metavar="NAME=YYYY-MM",
    help="The knowledge cutoff of a run's model, where no table has it; may be repeated.",
)
hierarchical = click.option(
    "--hierarchical",
    is_flag=True,
    help="Also fit a hierarchical model, challenges within papers. Needs the extra `statistics`.",
)
quiet = click.option("--quiet", "-q", is_flag=True, help="Print only progress, and what is wrong.")
verbose = click.option(
    "--verbose", "-v", is_flag=True, help="Also print a line for each part as it is finished."
)
sandbox = click.option(
    "--sandbox",
    default="auto",
    show_default=True,
    metavar="NAME|MODULE:CLASS",
    shell_complete=completion.sandboxes,
    help="Where code runs: auto, bubblewrap, docker, podman, or a class of your own. `rcb doctor` says what works here.",
)
cluster = click.option(
    "--cluster",
    metavar="auto|ADDRESS|local:N",
    help="Work on the nodes of a Ray cluster, --workers at once on each: the one this machine belongs to, one at an"
    " address, or N nodes made on this machine. Needs the extra `ray`.",
)
workers = click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="How many episodes are played at once.",
)
gradings = click.option(
    "--workers",
    type=click.IntRange(min=1),
    callback=lambda _context, _parameter, value: _boxes(value),
    help="How many gradings are made at once, each in a box.  [default: as many as the machine gives processors and memory for]",
)
boxes = click.option(
    "--boxes",
    type=click.IntRange(min=1),
    help="How many boxes run code at once.  [default: as many as the machine gives processors and memory for]",
)


def _bounds(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        least, most = (float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter("write two numbers from 0 to 1, such as 0.2,0.8") from None
    return least, most


def _boxes(wanted: int | None) -> int:
    from rcb_env.sandbox.machine import boxes

    return boxes(wanted)


def selection(command: _Command) -> _Command:
    """Add the options that say which challenges are meant."""
    return dataset(scope(narrowing(command)))


def narrowing(command: _Command) -> _Command:
    """Add the options that leave out some challenges of a data set."""
    return papers(challenges(variant(split(difficulty(difficulty_by(command))))))


def selected(given: Mapping[str, Any]) -> Selection | None:
    """What the options of `narrowing` say; None: nothing.

    Raises:
        UsageError: the values make no sense.
    """
    from rcb_env.dataset.selection import Selection

    names = ("papers", "challenges", "split", "difficulty", "difficulty_by", "variants")
    asked = {name: given[name] for name in names if given.get(name)}
    return Selection.of(asked) if asked else None


def narrowed(dataset: str, given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The challenges that ``--split``, ``--difficulty`` and ``--variant`` leave, in place of ``papers`` and ``challenges``; {} without them.

    Raises:
        UsageError: none is left, or a name is unknown.
    """
    from rcb_env.dataset.loading import load_dataset

    chosen = selected(given)
    if chosen is None or not (chosen.split or chosen.difficulty or chosen.variants):
        return {}
    found = chosen.among(load_dataset(dataset))
    return {"papers": (), "challenges": tuple(one.id for one in found)}


def cutoffs_of(given: Sequence[str], runs: Mapping[str, object]) -> dict[str, str]:
    """What ``--cutoff NAME=YYYY-MM`` says, by the name of a run.

    Raises:
        UsageError: it is no such text, or no run has that name.
    """
    from rcb_env.errors import UsageError, unknown
    from rcb_env.report.contamination import month_of

    found = {}
    for text in given:
        name, equals, cutoff = text.rpartition("=")
        if not equals or month_of(cutoff) is None:
            raise UsageError(f"--cutoff {text}: write NAME=YYYY-MM")
        if name not in runs:
            raise unknown("run", name, runs, where="the names of the runs' folders")
        found[name] = cutoff
    return found


def settings(
    *nouns: type[Settings], only: Collection[str] = (), ours: bool = True
) -> Callable[[_Command], _Command]:
    """Add an option for each field of these nouns, named in a command's values as the field is.

    Args:
        nouns: for instance `Shown` and `Rules`.
        only: the names of the fields; empty: all of them.
        ours: whether with those that mean something only for an agent that we run.
    """
    fields = [
        each
        for each in _leaves(nouns)
        if (not only or each.name in only) and (ours or not each.mark.ours)
    ]

    def add(command: _Command) -> _Command:
        for each in reversed(fields):  # the last one added is the first in --help
            command = _option(each)(command)
        return command

    return add


def _leaves(nouns: Iterable[type[Settings]]) -> Iterator[Setting]:
    for noun in nouns:
        for each in settings_of(noun):
            if each.is_noun:
                yield from _leaves([each.kind])
            else:
                yield each


def _option(each: Setting) -> Callable[[_Command], _Command]:
    flag = each.mark.option or "--" + each.name.removeprefix("with_").replace("_", "-")
    if each.kind is bool:
        both = f"{flag}/--no-{flag.removeprefix('--')}"
        return click.option(both, each.name, default=each.default, help=each.about)
    if each.kind is tuple:
        return click.option(flag, each.name, multiple=True, metavar="TEXT", help=each.about)
    return click.option(
        flag,
        each.name,
        type=_type(each),
        default=each.default,
        show_default=each.default is not None,
        help=each.about,
    )


def _type(each: Setting) -> click.ParamType[Any]:
    if each.choices:
        return click.Choice(each.choices)
    if each.kind is str:
        return click.STRING
    least, more_than = each.mark.least, each.mark.more_than
    is_open = more_than is not None
    bounds: Any = {"min": more_than if is_open else least, "min_open": is_open}
    return click.IntRange(**bounds) if each.kind is int else click.FloatRange(**bounds)
