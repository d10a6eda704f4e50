"""What is told of each of several missing parts: name, place, size, and what other code reads from it.

Pure. Not covered: the words (`rcb_env.env.words`, and the agents' own).
"""

from __future__ import annotations

from dataclasses import dataclass

from rcb_env.dataset.holes import header
from rcb_env.dataset.papers import Challenge


@dataclass(frozen=True)
class Part:
    """One of several missing parts.

    Attributes:
        name: how an answer calls it.
        header: the line that begins it in an answer.
        whole: whether it is a file of which the public surface is left.
        line: where its placeholder begins, from 1.
        lines: how many lines of code are missing.
        defines: what code outside of all parts reads from it.
    """

    name: str
    header: str
    whole: bool
    file: str
    line: int
    lines: int
    indent: str
    defines: tuple[str, ...]


def parts(
    challenge: Challenge, *, with_hint: bool = True, with_interface: bool = True
) -> tuple[Part, ...]:
    """The missing parts of a challenge, in order; () where it is one region.

    Args:
        challenge: whose.
        with_hint: whether names say what is missing.
        with_interface: whether it is told what other code reads.
    """
    holes = challenge.holes
    if holes is None:
        return ()
    return tuple(
        Part(
            name=(name := holes.shown(hole, with_hint=with_hint)),
            header=header(name, whole=holes.whole),
            whole=holes.whole,
            file=hole.file,
            line=holes.files[hole.file].around(holes.of(hole.file).index(hole)).before.count("\n")
            + 1,
            lines=hole.region.lines,
            indent=hole.region.indent,
            defines=challenge.defines_by_hole[hole.name] if with_interface else (),
        )
        for hole in holes
    )
