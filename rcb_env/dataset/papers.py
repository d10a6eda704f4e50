"""Papers, their challenges, and data sets of them.

Bytes are kept as they are on disk. Ids are the text that was written, and no two challenges share one.
Not covered: where they are read from (`rcb_env.dataset.loading`), whether tests and references are any good
(`rcb_env.certify`), how code is graded (`rcb_env.grading.grader`).
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rcb_env.dataset import interface, markers
from rcb_env.dataset.holes import Holes
from rcb_env.dataset.markers import Masked, Region
from rcb_env.dataset.unknown_names import unknown_name
from rcb_env.dataset.variant_names import published, variant_of
from rcb_env.errors import UsageError

if TYPE_CHECKING:
    from rcb_env.dataset.variants import Variants

Layout = Literal["native", "paper2code", "open"]
OPEN = "@open"
"""What the id of an open challenge ends with, and the name of a data set that holds these."""
TASK = "task.md"
"""The file of an open challenge that says what is to be written, and how it is measured."""
NOTES = {"native": "", "paper2code": "", "open": f"{TASK} says what it has to do."}
"""The second line of a placeholder, by layout: how long the best answer is nobody knows."""


@dataclass(frozen=True, eq=False)
class Paper:
    """One paper: its text, the code an agent may see, and the tests it may not.

    Attributes:
        dates: days by event; both layouts have ``v1`` and ``first_public_code`` where known.
        annotated: files with regions; paths are relative to the paper's folder, with ``/``.
        context: files shown beside the masked one in a prompt.
        files: every file a workspace is made from, as on disk: ``annotated``, ``context``, and what
            these need in order to be imported.
        tests: files an agent never sees. native: cases and checks; paper2code: the test script, the
            reference modules and the data files; open: the judge, the baseline and other answers.
        image: the packages the tests need, by the name of a folder under ``images/``.
        code_url: where the authors' own code is, or "".
        variants: what else its method could be; None: nothing is declared.
    """

    id: str
    title: str
    authors: tuple[str, ...]
    arxiv: str
    venue: str
    dates: Mapping[str, datetime.date]
    domain: str
    license: str
    layout: Layout
    root: Path
    text: str = field(repr=False)
    annotated: tuple[str, ...]
    context: tuple[str, ...]
    files: Mapping[str, bytes] = field(repr=False)
    tests: Mapping[str, bytes] = field(repr=False)
    image: str
    time_limit_s: float
    memory_limit_mb: int
    code_url: str = ""
    variants: Variants | None = field(default=None, repr=False)
    challenges: tuple[Challenge, ...] = field(default=(), repr=False)

    @property
    def published_id(self) -> str:
        """The id of the paper that this is a variant of; its own, if it is none."""
        return published(self.id)

    @cached_property
    def visible(self) -> Mapping[str, bytes]:
        """`files` without any tag line."""
        return {
            path: _encode(markers.strip_tags(_decode(data))) if b"paper2code" in data else data
            for path, data in self.files.items()
        }

    @cached_property
    def content_hash(self) -> str:
        """Hash of all that a prompt shows or a grade depends on, except which region is meant."""
        return digest(
            [
                ("paper", f"{self.id}\n{self.layout}\n{self.image}"),
                ("limits", f"{self.time_limit_s!r} {self.memory_limit_mb}"),
                ("lists", f"{self.annotated!r} {self.context!r}"),
                ("text", self.text),
                *self.visible.items(),
                *((f"hidden {path}", data) for path, data in self.tests.items()),
            ]
        )


@dataclass(frozen=True)
class Challenge:
    """One region of one file of a paper, to be written by an agent; or several of them at once.

    The region of an open challenge is all of a function; what stands in it is the paper's own method.

    Attributes:
        id: paper id, "/", slug of the hint; "-2", "-3" tell equal hints of one paper apart. Behind what is more than a
            region stands its scope, see `rcb_env.dataset.scopes`.
        file: the region's file, relative to the paper's folder; of several files their folder.
        region: of several regions what they have in common.
        lines: lines of code of the region, nested regions included; its weight in scaled scores.
        content_hash: changes whenever the prompt or the grading of this challenge may change.
        holes: several regions, of one paper; None: there is one.
    """

    id: str
    paper: Paper = field(repr=False, compare=False)
    file: str
    region: Region
    hint: str
    lines: int
    content_hash: str
    holes: Holes | None = field(default=None, repr=False, compare=False)

    @property
    def is_open(self) -> bool:
        """Whether it has a score, and no answer that is right."""
        return self.paper.layout == "open"

    @cached_property
    def _annotated(self) -> str:
        return _decode(self.paper.files[self.file])

    @cached_property
    def _masked(self) -> Masked:
        if self.holes is not None:
            raise TypeError(f"{self.id} has several regions: no single one is masked")
        return markers.mask(self._annotated, self.region, note=NOTES[self.paper.layout])

    def masked(self) -> Masked:
        """The region's file with the region cut out, and without tags; where there is one region."""
        return self._masked

    @property
    def files(self) -> tuple[str, ...]:
        """The files that something is missing in."""
        return (self.file,) if self.holes is None else tuple(self.holes.files)

    def masked_files(self, *, with_hint: bool = True) -> Mapping[str, str]:
        """These files as an agent sees them at first, by path."""
        if self.holes is not None:
            return self.holes.filled(self.holes.placeholders(with_hint=with_hint))
        masked = self._masked if with_hint else self._masked.without_hint()
        return {self.file: masked.text}

    @cached_property
    def reference(self) -> str:
        """The code that stands in the region, without the tags of inner regions; of several the text of an answer."""
        if self.holes is not None:
            return self.holes.join(self.holes.references)
        return markers.body(self._annotated, self.region)

    @cached_property
    def answer_hash(self) -> str:
        """Sixteen hex digits of the right answer, the same in all variants where it reads the same."""
        return digest([("id", published(self.id)), ("answer", self.reference)])[:16]

    @cached_property
    def defines(self) -> tuple[str, ...]:
        """What later code reads from the region, see `rcb_env.dataset.interface`."""
        if self.holes is not None:
            found = (name for names in self.defines_by_hole.values() for name in names)
            return tuple(dict.fromkeys(found))
        first = self._masked.before.count("\n") + 1
        return interface.defines(
            self._masked.fill(self.reference),
            range(first, first + self.reference.count("\n")),
            file=self.file,
            others=self._others,
        )

    @cached_property
    def defines_by_hole(self) -> Mapping[str, tuple[str, ...]]:
        """Of several regions what code outside of all of them reads, by the name of the region."""
        if self.holes is None:
            return {}
        return {hole.name: self.holes.defines(hole, self._others) for hole in self.holes}

    @property
    def _others(self) -> Mapping[str, str]:
        others = ((path, data) for path, data in self.paper.visible.items() if path[-3:] == ".py")
        return {path: _decode(data) for path, data in others if path not in self.files}

    def topic(self, *, with_hint: bool = True) -> tuple[str, str]:
        """What the paper is searched for: the hint, if it may be told, and the code before the region."""
        if self.holes is None:
            return self.hint if with_hint else "", self._masked.before
        return "\n".join(hole.hint for hole in self.holes if with_hint), ""

    def splice(self, code: str) -> str:
        """The annotated file, tags and all, with ``code`` in the region; where there is one."""
        return markers.splice(self._annotated, self.region, markers.without_mark(code))

    def tree(self, code: str | None = None) -> dict[str, bytes]:
        """The visible files with ``code`` in the region (None: the reference), without tags."""
        if self.holes is not None:
            codes = self.holes.references if code is None else self.holes.codes(code)
            return self._with(self.holes.filled(codes))
        region = self.reference if code is None else markers.without_mark(code)
        return self._with({self.file: self.masked().fill(region)})

    def workspace(self, *, with_hint: bool = True) -> dict[str, bytes]:
        """The visible files with the region masked: what an agent sees."""
        return self._with(self.masked_files(with_hint=with_hint))

    def _with(self, texts: Mapping[str, str]) -> dict[str, bytes]:
        return {**self.paper.visible, **{path: _encode(text) for path, text in texts.items()}}


@dataclass(frozen=True)
class Dataset:
    """Papers in the order of ``papers.yaml``."""

    name: str
    papers: tuple[Paper, ...]

    @cached_property
    def challenges(self) -> tuple[Challenge, ...]:
        """All challenges, paper by paper, file by file, in the order of their start tags."""
        return tuple(challenge for paper in self.papers for challenge in paper.challenges)

    def __iter__(self) -> Iterator[Challenge]:
        return iter(self.challenges)

    def __len__(self) -> int:
        """Of its challenges."""
        return len(self.challenges)

    @cached_property
    def _by_id(self) -> dict[str, Challenge]:
        return {challenge.id: challenge for challenge in self.challenges}

    def challenge(self, id: str) -> Challenge:
        """The challenge called ``id``, also of a variant.

        Raises:
            UsageError: there is none; names the nearest ones.
            PaperError: the paper's file of knobs is broken.
        """
        found = self._by_id.get(id) or self._by_id.get(published(id))
        if found is None:
            raise self._unknown("challenge", id, self._by_id)
        return found if found.id == id else self.variant(found, variant_of(id))

    def paper(self, id: str) -> Paper:
        """The paper called ``id``, also of a variant.

        Raises:
            UsageError: there is none; names the nearest ones.
            PaperError: its file of knobs is broken.
        """
        by_id = {paper.id: paper for paper in self.papers}
        found = by_id.get(id) or by_id.get(published(id))
        if found is None:
            raise self._unknown("paper", id, by_id)
        return found if found.id == id else _variant(found, variant_of(id))

    def variant(self, challenge: Challenge, number: int) -> Challenge:
        """The same challenge of another variant of its paper.

        Args:
            challenge: one of this data set.
            number: of the variant; 0 is the published paper.

        Raises:
            UsageError: the paper declares no variants.
            PaperError: its file of knobs is broken.
        """
        place = self._places[challenge.id]
        return _variant(challenge.paper, number).challenges[place]

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where challenges stand in their papers."""
        return {
            one.id: place for paper in self.papers for place, one in enumerate(paper.challenges)
        }

    def _unknown(self, kind: str, name: str, known: Iterable[str]) -> UsageError:
        papers = {paper.id: (paper.root / "open").is_dir() for paper in self.papers}
        return unknown_name(kind, name, known, dataset=self.name, papers=papers)

    def select(
        self,
        *,
        papers: Iterable[str] | None = None,
        challenges: Iterable[str] | None = None,
    ) -> tuple[Challenge, ...]:
        """Challenges of these papers and among these challenges, in the order of the data set.

        Args:
            papers: paper ids; None or empty: all.
            challenges: challenge ids; None or empty: all.

        Raises:
            UsageError: an id is unknown, or no challenge fits both.
        """
        wanted_papers, wanted = _names(papers), _names(challenges)
        for name in wanted_papers:
            self.paper(name)
        for name in wanted:
            self.challenge(name)
        numbers: dict[str, set[int]] = {}  # of variants, by published id
        for name in wanted or wanted_papers:
            numbers.setdefault(published(name), set()).add(variant_of(name))
        of_papers = {published(name) for name in wanted_papers}
        chosen = tuple(
            self.variant(challenge, number)
            for challenge in self.challenges
            if not wanted_papers or challenge.paper.id in of_papers
            for number in (
                sorted(numbers.get(challenge.id if wanted else challenge.paper.id, ()))
                if numbers
                else (0,)
            )
        )
        if not chosen:
            raise UsageError(
                f"none of the challenges {', '.join(sorted(wanted))} belongs to"
                f" {', '.join(sorted(wanted_papers))}; drop one of the two selections"
            )
        return chosen

    @cached_property
    def content_hash(self) -> str:
        """Hash over the ids and contents of all challenges."""
        return digest((challenge.id, challenge.content_hash) for challenge in self.challenges)


def _variant(paper: Paper, number: int) -> Paper:
    if not number:
        return paper
    if paper.variants is None:
        raise UsageError(f"{paper.id} declares no variants; leave out ~{number}")
    return paper.variants.of(paper, number)


def _names(names: Iterable[str] | None) -> set[str]:
    return {names} if isinstance(names, str) else set(names or ())


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # Half a surrogate pair, as JSON can carry it. It is no valid source, and the candidate's
        # interpreter shall say so; it is not our error.
        return text.encode("utf-8", "surrogatepass")


def digest(parts: Iterable[tuple[str, str | bytes]]) -> str:
    """Hash of named contents, in their order."""
    state = hashlib.sha256()
    for name, content in parts:
        data = content if isinstance(content, bytes) else _encode(content)
        state.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogatepass"))
        state.update(data)
    return state.hexdigest()
