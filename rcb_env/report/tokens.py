"""Rows in the tokens of one model, as a trainer takes them.

``input_ids`` is the whole conversation in the model's chat template. ``labels`` has the same tokens where the model is to
learn them, its own words in messages whose mask is 1, and -100 elsewhere. Both names are those of `transformers`, and
TRL's `SFTTrainer` takes rows that have them as they are.

What a model writes of a message is what its template marks with ``{% generation %}``. In the place of a template without
marks comes the one that TRL ships for training that model. Where TRL has none either, it is what a message adds to the
conversation before it, up to the end of the turn.

Guarantees: a template whose marks do not fit the messages is refused, and so is one without marks that words earlier
messages anew when others follow.
Not covered: pairs, whose trainers tokenize them; cutting long rows.
"""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rcb_env.errors import UsageError
from rcb_env.report.rows import Row

Span = tuple[int, int]
"""From where to where tokens are, the last one not included."""
TOKENS = ("input_ids", "labels")
"""The columns."""
IGNORED = -100
"""A label that no trainer counts."""
_MARK = re.compile(r"\{%-?\s*generation\s*-?%\}")


class RowTokenizer:
    """Adds the tokens of one model.

    Args:
        name: of the tokenizer: a folder, or a name that a hub knows.
        template: a file with the chat template to use; None: the tokenizer's own.

    Raises:
        UsageError: transformers is missing, there is no such tokenizer, or a file cannot be read.
    """

    def __init__(self, name: str, template: str | Path | None = None) -> None:
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise UsageError(
                f"--tokenizer needs the package transformers ({error}): pip install 'rcb-env[trl]'"
            ) from None
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(name)
        except (OSError, ValueError) as error:
            first = (str(error).strip().splitlines() or ["no reason given"])[0]
            raise UsageError(
                f"--tokenizer {name}: it cannot be loaded ({first[:200]}); write the folder of a model"
            ) from None
        if template is not None:
            try:
                self._tokenizer.chat_template = Path(template).read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(
                    f"--chat-template {template}: it cannot be read ({error})"
                ) from None
        self._template = _marked(self._tokenizer)

    def tokens(self, row: Row) -> dict[str, list[int]]:
        """``input_ids`` and ``labels`` of a row.

        Raises:
            UsageError: the template does not render it, or marks something else than its messages.
        """
        where = f"{row['challenge']}, sample {row['sample']}"
        try:
            ids, spans = self._by_marks(row) if self._template else self._by_prefixes(row)
        except Exception as error:  # a template may raise anything
            raise UsageError(
                f"{where}: the chat template does not render it ({type(error).__name__}: {error})."
                " Some need --arguments text"
            ) from error
        learnt = [
            mask
            for message, mask in zip(row["messages"], row["mask"], strict=True)
            if message["role"] == "assistant"
        ]
        if len(spans) != len(learnt):
            raise UsageError(
                f"{where}: the chat template shows {len(spans)} messages as the model's, which wrote"
                f" {len(learnt)}; pass one with {{% generation %}} around each with --chat-template"
            )
        labels = [IGNORED] * len(ids)
        for (start, end), mask in zip(spans, learnt, strict=True):
            if mask:
                end = self._end_of_turn(ids, start, end)
                labels[start:end] = ids[start:end]
        return {"input_ids": ids, "labels": labels}

    def _end_of_turn(self, ids: Sequence[int], start: int, end: int) -> int:
        """Without the line end that many templates put behind a turn, which no model gets to write."""
        for at in range(end - 1, start - 1, -1):
            if ids[at] == self._tokenizer.eos_token_id:
                return at + 1
        return end

    def _by_marks(self, row: Row) -> tuple[list[int], list[Span]]:
        made = self._rendered(
            row,
            row["messages"],
            chat_template=self._template,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        return list(made["input_ids"]), _runs(made["assistant_masks"])

    def _by_prefixes(self, row: Row) -> tuple[list[int], list[Span]]:
        messages = row["messages"]
        whole = str(self._rendered(row, messages, tokenize=False))
        made = self._tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
        begins = [start for start, _ in made["offset_mapping"]]
        spans: list[Span] = []
        for at, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before = str(
                self._rendered(row, messages[:at], tokenize=False, add_generation_prompt=True)
            )
            after = str(self._rendered(row, messages[: at + 1], tokenize=False))
            if whole.startswith(after) and after.startswith(before):
                span = (bisect_left(begins, len(before)), bisect_left(begins, len(after)))
                spans.append(span)
        return list(made["input_ids"]), spans

    def _rendered(self, row: Row, messages: Sequence[Any], **how: Any) -> Any:
        tools = json.loads(row["tools"]) or None
        return self._tokenizer.apply_chat_template(messages, tools=tools, **how)


def _runs(marks: Sequence[int]) -> list[Span]:
    """Where runs of ones begin and end."""
    found, at = [], 0
    for mark, run in itertools.groupby(marks):
        end = at + len(list(run))
        if mark:
            found.append((at, end))
        at = end
    return found


def _marked(tokenizer: Any) -> str | None:
    """The tokenizer's template with marks, or TRL's version of it; None: there is none."""
    own = tokenizer.chat_template
    if isinstance(own, str) and _MARK.search(own):
        return own
    try:
        from trl.chat_template_utils import get_training_chat_template

        found: str | None = get_training_chat_template(tokenizer)
    except (ImportError, ValueError):  # the second is its word for a template that it does not know
        return None
    return found
