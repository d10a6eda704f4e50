"""Every error rcb-env raises on purpose, one branch per boundary.

    RcbError
    ├── UsageError              what the user asked for cannot be done: unknown name, bad flag, bad file
    │   └── PaperError          a paper folder is broken; carries the file and the line
    ├── SandboxError            a box or the machinery around it failed: infrastructure, never a verdict
    │   ├── SandboxUnavailable  no sandbox works on this machine, or its environment cannot be set up
    │   └── BoxDied             a box ended, hung, or answered with something that is not the protocol
    ├── ModelError              the model API gave no reply that can be graded: infrastructure
    │   └── ModelRefusedRequest the request itself is wrong (key, model name, URL): trying again cannot help
    ├── AgentError              an agent broke its contract (an exception of its own, an unknown agent setting)
    └── StoreError              a run directory cannot be written, read or resumed

The command line prints the message of any of these as one line and exits with a non-zero code; every other
exception is a bug of ours and keeps its traceback. A message says what, where, and what to do next.
Not covered: what an agent's code does wrong inside a box. That is data (a `Verdict`), never an exception.
"""

from __future__ import annotations

import difflib
import traceback
import urllib.parse
from collections.abc import Iterable
from pathlib import PurePath


class RcbError(Exception):
    """Root of the tree; never raised itself."""


class UsageError(RcbError):
    """The user asked for something that does not exist or cannot be done."""


class PaperError(UsageError):
    """A paper folder is broken.

    Args:
        message: what is wrong and what to write instead.
        path: the file, as the user would name it.
        line: 1-based line, when one line is to blame.
    """

    def __init__(self, message: str, *, path: str, line: int | None = None) -> None:
        where = path if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {message}")
        self.path = path
        self.line = line
        self.reason = message


class SandboxError(RcbError):
    """A box, or the machinery that makes boxes, failed."""


class SandboxUnavailable(SandboxError):
    """No sandbox works here, or its environment cannot be set up; the message says how to get one.

    Args:
        why: what does not work.
        fix: what to do to get it, most often a command; "" where `why` says all.
    """

    def __init__(self, why: str, *, fix: str = "") -> None:
        super().__init__(f"{why}; {fix}" if fix else why)
        self.why = why
        self.fix = fix


class BoxDied(SandboxError):
    """A box ended, hung, or sent something that is not the protocol. Start another one.

    Args:
        message: what happened.
        out_of_memory: the kernel ended the box because its memory limit was reached.
        from_outside: something beyond the box ended it: a kill on the host, an engine that is gone.

    Attributes:
        during_run: code of a run was in the box and may have ended it. What happens before, or from
            outside, is never its doing.
    """

    def __init__(
        self, message: str, *, out_of_memory: bool = False, from_outside: bool = False
    ) -> None:
        super().__init__(message)
        self.out_of_memory = out_of_memory
        self.from_outside = from_outside
        self.during_run = False


class ModelError(RcbError):
    """The model API gave no usable reply after all retries."""


class ModelRefusedRequest(ModelError):
    """The API refused the request for a reason that will not change: key, model name, or URL."""


class AgentError(RcbError):
    """An agent broke its contract."""


class StoreError(RcbError):
    """A run directory cannot be written, read, or resumed."""


def counted(count: int, noun: str) -> str:
    """A number with its noun, such as "1 line" or "3 lines"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def blame(error: BaseException) -> str:
    """What somebody else's code raised, with the file and the line where it did."""
    frames = traceback.extract_tb(error.__traceback__)
    place, text = (frames[-1].filename, frames[-1].lineno) if frames else ("", None), str(error)
    if isinstance(error, SyntaxError) and error.filename:
        place, text = (error.filename, error.lineno), error.msg
    where = f" ({PurePath(place[0]).name}:{place[1]})" if place[0] else ""
    return f"{type(error).__name__}: {text}{where}"


def unknown(kind: str, name: str, known: Iterable[str], *, where: str = "") -> UsageError:
    """The error for a name nobody knows, with the nearest names and the place to look.

    Args:
        kind: what is named, for instance ``"challenge"``.
        name: what the user wrote.
        known: every valid name.
        where: the command that lists the valid names, for instance ``"rcb list challenges"``; "":
            there are so few that the message lists them.
    """
    names = list(known)
    by_lowercase = {candidate.lower(): candidate for candidate in names}
    near = difflib.get_close_matches(name.lower(), list(by_lowercase), n=3, cutoff=0.5)
    hint = f" Did you mean {', '.join(by_lowercase[n] for n in near)}?" if near else ""
    listing = f" `{where}` lists them." if where else f" Write one of {', '.join(names)}."
    return UsageError(f"unknown {kind} {name!r}.{hint}{listing}")


def without_credentials(url: str) -> str:
    """An address without the ``user:password@`` it may hold, for messages and records."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return url
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
