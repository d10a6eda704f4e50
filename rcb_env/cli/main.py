"""The group of commands, and how they end.

Exit codes: 0 all went well; 1 the command worked and its answer is no (a paper fails its check, no sandbox works, no episode of a run got a verdict);
2 it could not do what was asked (files that cannot be read or written included), with one line on stderr that starts
with ``rcb:``; 130 interrupted by Ctrl-C (143:
ended by SIGTERM). Episodes that fail are results, not errors, and so is a reader of a pipe that has left (`rcb ... | head`).
Any other exception is a bug of ours and keeps its traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError

from rcb_env.cli import (
    browse,
    check,
    clean,
    compare,
    completion,
    doctor,
    export,
    grade,
    images,
    import_,
    items,
    leaderboard,
    new,
    pull,
    results,
    run,
    serve,
    suggest,
    view,
)
from rcb_env.cli import config as defaults
from rcb_env.cli.output import echo
from rcb_env.errors import RcbError


class _Commands(click.Group):
    """Commands that end quietly when nobody reads their output any more."""

    def invoke(self, ctx: click.Context) -> Any:
        """As always, where click and rich would make a failure of a broken pipe."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            pass
        except SystemExit as error:  # rich's; an agent's own goes on
            if not isinstance(error.__context__, BrokenPipeError):
                raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):  # what is left in them is written at exit
            os.dup2(nowhere, stream.fileno())
        return 0


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="rcb-env", prog_name="rcb")
@click.option(
    "--no-config",
    is_flag=True,
    help="Read no rcb.toml or pyproject.toml for defaults of options (see `rcb config --help`).",
)
@click.pass_context
def rcb(context: click.Context, no_config: bool) -> None:
    """Evaluate agents that write research code."""
    if not no_config and context.invoked_subcommand != "config":
        defaults.apply(context, rcb)


for _command in (
    browse.list_,
    browse.show,
    run.run,
    serve.serve,
    grade.grade,
    import_.import_,
    results.report,
    compare.compare,
    items.items,
    leaderboard.leaderboard,
    results.trajectory,
    view.view,
    export.export,
    new.new,
    check.check,
    suggest.suggest,
    pull.pull,
    doctor.doctor,
    images.images,
    clean.clean,
    defaults.config,
    completion.completion,
):
    rcb.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run `rcb` and exit.

    Args:
        arguments: what follows ``rcb``; None: the command line's.
    """
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = rcb.main(args=arguments, prog_name="rcb", standalone_mode=False)
    except NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        more = f" (see `{context.command_path} --help`)" if context is not None else ""
        return _fail(error.format_message() + more)
    except RcbError as error:
        return _fail(str(error), getattr(error, "exit_code", 2))
    except OSError as error:
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        what = "the output" if error.filename is None else str(error.filename)
        return _fail(f"{what}: {error.strerror}")
    except (click.Abort, KeyboardInterrupt):
        echo("rcb: interrupted", err=True)
        return 130
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int = 2) -> int:
    echo("rcb: " + " ".join(message.split()), err=True)
    return code
