"""Tab completion in bash, zsh and fish: `rcb completion`, and the names that options and arguments complete to.

The scripts and the protocol are click's. Guarantees: nothing is printed beside names, and what cannot be found out (a data set
that is broken or not there) completes to nothing.
Not covered: settings behind an agent's name, as bash takes a colon for the end of a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, FishComplete, ShellComplete, get_completion_class

from rcb_env.errors import RcbError
from rcb_env.report.printable import printable

if TYPE_CHECKING:
    from rcb_env.dataset.papers import Dataset

_VARIABLE = "_RCB_COMPLETE"  # what click listens to
_Names = Iterable[tuple[str, str]]
_Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which a shell completes commands, options, papers, challenges and agents of rcb.

    For bash put this line into ~/.bashrc: eval "$(rcb completion bash)". For zsh, into ~/.zshrc after compinit: eval
    "$(rcb completion zsh)". For fish, into ~/.config/fish/config.fish: rcb completion fish | source
    """
    from rcb_env.cli.output import echo

    kind = _Fish if shell == "fish" else get_completion_class(shell) or ShellComplete
    echo(kind(context.find_root().command, {}, "rcb", _VARIABLE).source())


class _Fish(FishComplete):
    """Lets names have commas: click's own script cuts them there."""

    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    )


def _of(names: Callable[[click.Context], _Names], *, listed: bool = False) -> _Complete:
    """Completion to names, or behind commas to further ones.

    Args:
        names: each with what it is, in a few words.
        listed: whether several may be written, with commas between.
    """

    def complete(
        context: click.Context, _parameter: click.Parameter, begun: str
    ) -> list[CompletionItem[str]]:
        before, comma, last = begun.rpartition(",") if listed else ("", "", begun)
        taken = before.split(",")
        try:
            found = [
                CompletionItem(before + comma + name, help=printable(about).partition("\n")[0])
                for name, about in names(context)
                if name.startswith(last) and name not in taken
            ]
        except (RcbError, OSError):
            return []
        return found

    return complete


def _dataset(context: click.Context) -> Dataset:
    from rcb_env.dataset.loading import load_dataset
    from rcb_env.dataset.scopes import in_scope

    given = context.params
    return load_dataset(in_scope(given.get("dataset") or "bundled", given.get("scope")))


def _papers(context: click.Context) -> _Names:
    return [(paper.id, paper.title) for paper in _dataset(context).papers]


def _challenges(context: click.Context) -> _Names:
    if run := context.params.get("run"):
        from rcb_env.runs.store import RunStore

        planned = RunStore.open(run).record.get("plan", ())
        return [(entry["challenge"], "") for entry in planned]
    wanted = context.params.get("papers") or ()
    dataset = _dataset(context)
    return [(one.id, one.hint) for one in dataset.select(papers=wanted or None)]


def _agents(_context: click.Context) -> _Names:
    from rcb_env.play.registry import AGENTS
    from rcb_env.plugins import names

    return [(name, "") for name in names(AGENTS)]


def _sandboxes(_context: click.Context) -> _Names:
    from rcb_env import sandbox

    return [(name, "") for name in ("auto", *sandbox.names())]


def _either(names: _Complete, files: _Complete) -> _Complete:
    """Names, and files where no name begins so."""

    def complete(
        context: click.Context, parameter: click.Parameter, begun: str
    ) -> list[CompletionItem[str]]:
        return names(context, parameter, begun) or files(context, parameter, begun)

    return complete


def _datasets(_context: click.Context) -> _Names:
    from rcb_env.dataset.loading import NAMES

    return [(name, "") for name in NAMES]


def _published(_context: click.Context) -> _Names:
    from rcb_env.dataset.published import PUBLISHED

    return [(name, "") for name in PUBLISHED]


def folders(_context: click.Context, _parameter: Any, begun: str) -> list[CompletionItem[str]]:
    """Completes to folders."""
    return [CompletionItem(begun, type="dir")]


def files(_context: click.Context, _parameter: Any, begun: str) -> list[CompletionItem[str]]:
    """Completes to files and folders."""
    return [CompletionItem(begun, type="file")]


papers = _of(_papers)
"""Completes to a paper of the data set that the command line names."""
paper_list = _of(_papers, listed=True)
challenges = _of(_challenges)
"""Completes to a challenge of the run, or of the data set, scope and papers, that the command line names."""
challenge_list = _of(_challenges, listed=True)
agents = _of(_agents)
agent_list = _of(_agents, listed=True)
sandboxes = _of(_sandboxes)
datasets = _either(_of(_datasets), folders)
published = _of(_published)
