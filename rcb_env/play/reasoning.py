"""What of a model's reply is no answer: its reasoning, channels that nobody reads, and tokens around its turn.

Guarantees: pure; never raises, whatever the text.
Not covered: where in a reply its code is (`rcb_env.play.extraction`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rcb_env.play.fences import in_block

# Not in quotes, in single backquotes, or at the end of a word; a fence may touch it.
_THOUGHT = r"(?:think|thinking|thoughts?|reason|reasoning|reflection|analysis|scratchpad)"
_THINK = re.compile(
    r"""(?<!["'\\])(?<!(?<!``)`)(?:(?<!\w)|(?=[<\[◁]/|<\|/|<\|end_|<\|\w+_end|<channel\||<unused95>))"""
    rf"""(?:<(?P<xml>/?)(?:\w{{1,20}}:|longcat_)?{_THOUGHT}(?::\w{{1,20}})?>|\[(?P<square>/?)THINK\]|◁(?P<triangle>/?){_THOUGHT}▷"""
    rf"""|<\|(?P<slash>/?){_THOUGHT}\|>|<\|{_THOUGHT}_(?:start|begin|(?P<after>end))\|>"""
    rf"""|<\|(?:begin|start|(?P<before>end))_(?:of_)?{_THOUGHT}\|>"""
    r"""|<(?:\|channel>|unused94>)thought|(?P<gemma><channel\|>|<unused95>))"""
    r"""(?!["'\\])(?!`(?!``))""",
    re.IGNORECASE,
)
# What the models of one family put around each part of a reply; only the last part is the answer.
_CHANNEL = re.compile(
    r"\s*(?:<\|start\|>\s*assistant)?\s*<\|channel\|>\s*(?P<name>\w+)[^<\n]*(?:<\|constrain\|>\w+)?<\|message\|>"
)
_CHANNEL_END = re.compile(r"<\|(?:end|call)\|>|(?=<\|start\|>|<\|channel\|>)")
_BARE_CHANNEL = re.compile(
    r"\s*analysis[A-Z].*?assistantfinal", re.DOTALL
)  # its tokens were dropped
# Tokens that begin a turn, and those after which nothing is the model's answer any more.
_TURN = re.compile(
    r"\s*(?:<\|im_start\|>\s*assistant|<\|start_header_id\|>\s*assistant\s*<\|end_header_id\|>"
    r"|<\|assistant\|>|<start_of_turn>\s*model|<｜Assistant｜>|<s>|<bos>)[ \t]*\n?"
)
_END_OF_TURN = re.compile(
    r"<\|(?:im_end|im_start|endoftext|end_of_text|eot_id|eom_id|return|end|eos|user|endofturn|end_of_turn)\|>"
    r"|</s>|<eos>|</longcat_s>|<(?:end|start)_of_turn>|<turn\|>|<\|turn>|<｜(?:end▁of▁sentence|User)｜>|\[(?:eos|EOS)\]"
)


def without_start_of_turn(text: str) -> str:
    """A reply without the token that begins the model's turn."""
    return _TURN.sub("", text) if _TURN.match(text) else text


def without_reasoning(text: str) -> tuple[str, bool]:
    """The reply without reasoning at its beginning; True if the reasoning never ends.

    A tag counts only at the beginning or the end of a line and away from quotes: code may well
    speak of such tags. What ends the reasoning that a reply begins with may stand within a line,
    if no other tag does. A lone closing tag (the opening one was in the prompt) must not be in a
    block of code.
    """
    while True:
        all_tags = list(_THINK.finditer(text))
        tags = [found for found in all_tags if _at_edge(text, found)]
        opening = next((tag for tag in tags if not _closes(tag)), None)
        closing = next((tag for tag in tags if _closes(tag)), None)
        if opening is not None and not text[: opening.start()].strip():
            closing = closing or next((tag for tag in all_tags if _closes(tag)), None)
            if closing is None:
                return "", True
        elif (
            closing is None
            or (opening is not None and opening.start() < closing.start())
            or in_block(text[closing.end() :])
        ):
            return text, False
        text = text[closing.end() :]


def without_channels(text: str) -> tuple[str, bool]:
    """A reply in channels without those that are no answer; True if it ends in one of these."""
    if bare := _BARE_CHANNEL.match(text):
        return text[bare.end() :], False
    while opening := _CHANNEL.match(text):
        text = text[opening.end() :]
        if opening["name"] == "final":
            break
        end = _CHANNEL_END.search(text)
        if end is None:
            return "", True
        text = text[end.end() :]
    return text, False


def ends_in_reasoning(text: str) -> bool:
    """Whether the last that a reply says of reasoning is that it begins."""
    tags = [found for found in _THINK.finditer(text) if _at_edge(text, found)]
    return bool(tags) and not _closes(tags[-1])


def begins_reasoning(line: str) -> bool:
    """Whether a line of a reply begins with what begins reasoning."""
    tag = _THINK.match(line.strip())
    return tag is not None and not _closes(tag)


def ends_reasoning(line: str) -> bool:
    """Whether a line holds what ends reasoning."""
    return any(_closes(tag) for tag in _THINK.finditer(line))


def ends_turn(line: str) -> bool:
    """Whether a line outside of code begins or ends with a token that ends the turn."""
    text = line.strip()
    return any(
        not found.start() or (found.end() == len(text) and text[found.start() - 1] not in "`\"'")
        for found in _END_OF_TURN.finditer(text)
    )


def ends_of_turn(text: str) -> Iterator[int]:
    """Where the tokens begin that end a turn."""
    return (token.start() for token in _END_OF_TURN.finditer(text))


def _closes(tag: re.Match[str]) -> bool:
    return any(tag.groups())


def _at_edge(text: str, tag: re.Match[str]) -> bool:
    before = text[: tag.start()].rpartition("\n")[2]
    after = text[tag.end() :].partition("\n")[0]
    return not before.strip() or not after.strip()
