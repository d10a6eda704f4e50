"""What goes into a prompt, so that it fits the model's window.

The rule. The file with the missing part, the task and its rules are always whole; if they alone do
not fit, the attempt ends as "context_exceeded". If all does not fit, the paper gives way first, by
whole sections, the one that says least about the missing part first; then the paper's other files,
whole, the last one first. Later in a conversation the oldest rounds are left out, each a reply
together with all answers to it; the first message and the last round always stay.
A tenth of the window is kept free, as counts are estimates, and the longest completion's room with
it. Where the window is unknown nothing is trimmed before a server refuses.

What was planned and what was trimmed is in the trajectory. Pure but for that record.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rcb_agents import tokens
from rcb_agents.replies import as_text
from rcb_env import NoAnswer, Task

if TYPE_CHECKING:
    from rcb_agents.model import Model

Render = Callable[[Task, str, Mapping[str, str]], str]
"""Makes a prompt of a task, a paper's text ("": none) and context files by path."""

_MARGIN = 0.1
_REPLY_SHARE, _LONGEST_REPLY = 0.25, 16_000  # room for a completion whose length is not limited
_HISTORY_SHARE = 0.5  # of the room of a first prompt, where a long conversation is to follow
_SECTIONS_SHARE = 0.25  # of the paper's text, for prompts that are to hold sections only
_HEADING = re.compile(r"^(?:#{1,6} |\\(?:sub)*section\*?\{)", re.MULTILINE)
_PARAGRAPHS_CHARS = (
    2_000  # a paper without headings is cut at blank lines, into parts of about this
)
_WORD = re.compile(r"[A-Za-z][A-Za-z]+")
_NEAR_CHARS = 1_500  # of the code before the missing part, in what the paper is searched for
_OMITTED = "[...]"


def first_prompt(task: Task, model: Model, render: Render, *, talks: bool = False) -> str:
    """The first prompt of a conversation, trimmed by the rule.

    Args:
        task: what its prompt is made of; says how much of the paper may be shown at all.
        model: whose window it has to fit.
        render: makes the text.
        talks: whether room is kept for a long conversation.

    Raises:
        NoAnswer: what is never trimmed does not fit.
    """
    sections = split_sections(task.paper_text.strip())
    ranked = rank(sections, _looked_for(task))
    kept = list(range(len(sections)))
    if task.paper_shown == "sections":
        kept = _best(sections, ranked, sum(map(len, sections)) * _SECTIONS_SHARE)
    context = dict(task.context_files)
    room = room_for_prompt(task, model)
    if room is not None and talks:
        room = int(room * _HISTORY_SHARE)
    name = task.model.name if task.model else ""
    trimmed: list[str] = []
    prompt = render(task, join_sections(sections, kept), context)
    if room is not None and tokens.at_most(prompt) > room:
        drops = [index for index in ranked if index in kept]
        while tokens.estimate(prompt, name) > room:
            if drops:
                # Small sections alone would take many rounds: as many go as are missing, at least.
                missing = (tokens.estimate(prompt, name) - room) * 2  # two characters to a token
                gone = 0
                while drops and gone < max(missing, 1):
                    index = drops.pop()
                    gone += len(sections[index])
                    kept.remove(index)
                    trimmed.append(f"paper: {_title(sections[index])}")
            elif context:
                path = list(context)[-1]
                del context[path]
                trimmed.append(f"file: {path}")
            else:
                raise NoAnswer(
                    "context_exceeded",
                    f"task and code alone have about {tokens.estimate(prompt, name)} tokens,"
                    f" {room} fit",
                )
            prompt = render(task, join_sections(sections, kept), context)
    paper = join_sections(sections, kept)
    task.record(
        "prompt_plan",
        {
            "window": model.context_tokens,
            "room": room,
            "chars": {
                "paper": len(paper),
                "context": sum(map(len, context.values())),
                "code": len(task.masked_file),
                "all": len(prompt),
            },
            "tokens": tokens.estimate(prompt, name) if room is not None and trimmed else None,
            "paper": task.paper_shown,
            "trimmed": trimmed,
        },
    )
    return prompt


def room_for_prompt(task: Task, model: Model) -> int | None:
    """Tokens a prompt may have; None: the window is unknown."""
    window = model.context_tokens
    if window is None:
        return None
    reply = task.model.max_tokens if task.model else None
    if reply is None:
        reply = min(int(window * _REPLY_SHARE), _LONGEST_REPLY)
    return max(1, int(window * (1 - _MARGIN)) - reply)


def left_out(messages: Sequence[Mapping[str, Any]], room: int | None, model: str) -> range:
    """The messages, by index, that are left out so that the others fit.

    A round begins with each reply, so calls and their answers go together.

    Args:
        messages: the whole conversation.
        room: tokens; None: no limit.
        model: whose tokens.
    """
    if room is None or sum(map(_most, messages)) <= room:
        return range(0)
    sizes = [tokens.estimate(as_text([message]), model) for message in messages]
    starts = _rounds(messages)
    for start in starts[1:]:
        gone = range(starts[0], start)
        if sum(sizes) - sum(sizes[index] for index in gone) <= room or start == starts[-1]:
            return gone
    return range(0)


def older_half(messages: Sequence[Mapping[str, Any]], already: range) -> range | None:
    """More to leave out where a server has refused; None: only the last round is left."""
    starts = [start for start in _rounds(messages) if start >= already.stop]
    return range(_rounds(messages)[0], starts[len(starts) // 2]) if len(starts) > 1 else None


def _rounds(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    return [n for n, message in enumerate(messages) if message["role"] == "assistant"]


def _most(message: Mapping[str, Any]) -> int:
    return tokens.at_most(as_text([message]))


# --- sections of a paper ----------------------------------------------------------------------


def split_sections(text: str) -> list[str]:
    """A text at its headings (Markdown or TeX); their concatenation is the text."""
    if not text:
        return []
    cuts = [found.start() for found in _HEADING.finditer(text)]
    if len(cuts) < 2:
        cuts, last = [], 0
        for blank in re.finditer(r"\n[ \t]*\n", text):
            if blank.end() - last >= _PARAGRAPHS_CHARS:
                cuts.append(blank.end())
                last = blank.end()
    edges = sorted({0, *cuts, len(text)})
    return [text[start:end] for start, end in itertools.pairwise(edges)]


def rank(sections: Sequence[str], looked_for: str) -> list[int]:
    """Sections by how much they say about something, best first; the opening one always leads.

    A word counts the more, the fewer sections have it; long sections gain nothing by length.
    """
    words = [Counter(word.lower() for word in _WORD.findall(section)) for section in sections]
    having = Counter(word for counts in words for word in counts)
    wanted = Counter(word.lower() for word in _WORD.findall(looked_for))

    def score(counts: Counter[str]) -> float:
        total = sum(
            min(weight, 3) * (1 + math.log(counts[word])) * math.log(1 + len(words) / having[word])
            for word, weight in wanted.items()
            if counts[word]
        )
        return total / math.sqrt(10 + counts.total())

    order = sorted(range(1, len(sections)), key=lambda n: (-score(words[n]), n))
    return [0, *order] if sections else []


def join_sections(sections: Sequence[str], kept: Sequence[int]) -> str:
    """The sections that are kept, in the paper's order, with a mark where others were."""
    parts: list[str] = []
    before = -1
    for index in [*sorted(kept), len(sections)]:
        if index > before + 1 and kept:
            parts.append(f"{_OMITTED}\n\n")
        if index < len(sections):
            parts.append(sections[index])
        before = index
    return "".join(parts).strip()


def _best(sections: Sequence[str], ranked: Sequence[int], most_chars: float) -> list[int]:
    kept: list[int] = []
    chars = 0
    for index in ranked:
        # The opening and the best one always; further ones while they fit.
        if len(kept) < 2 or chars + len(sections[index]) <= most_chars:
            kept.append(index)
            chars += len(sections[index])
    return sorted(kept)


def _looked_for(task: Task) -> str:
    return "\n".join([*[task.hint] * 3, task.masked.before[-_NEAR_CHARS:]])


def _title(section: str) -> str:
    return section.strip().split("\n", 1)[0][:80]
