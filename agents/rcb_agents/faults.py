"""What a server's refusal means: wait and try again, send something else, or give up.

Pure. Servers put their words into many shapes and word the same refusal in many ways, so this is a collection of what
they say; their words decide, wherever in the body they stand.
"""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rcb_env import ModelError, ModelRefusedRequest, NoAnswer

_RETRIED = frozenset((408, 409, 425, 429))  # and every 5xx
_LONGEST_WORDS = 4_000  # of a server, in characters; what it repeats of the prompt comes later
_OUT_OF_MONEY = re.compile(
    r"insufficient[_ ](?:quota|balance|credits?|funds)|billing_hard_limit_reached"
    r"|credit balance is too low|exceeded your current quota|out of credits",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"^(?:content_filter|content_policy_violation|invalid_prompt|ResponsibleAIPolicyViolation"
    r"|data_?inspection_?failed)$",
    re.IGNORECASE,
)
_FILTERED_WORDS = re.compile(r"Content Exists Risk", re.IGNORECASE)
_OVERFLOW = re.compile(
    # codes
    r"context_length_exceeded|context_window_exceeded|exceed_context_size|tokens_limit_reached"
    # the window, by any name
    r"|(?:maximum|max|model'?s|available) context (?:length|window|size)|max_model_len"
    r"|maximum (?:model|prompt|allowed input) length"
    r"|(?:exceed(?:s|ed|ing)?|(?:larger|longer|greater) than|over) "
    r"(?:max |the |this |its )?(?:[\w'’-]+ ){0,4}context"
    r"|context (?:window|size|length) (?:is |has been |was )?(?:full|exceed)"
    r"|with (?:a )?context length of only"
    # the prompt, by any name
    r"|(?:prompt|input|conversation|messages) (?:is |are )?too long"
    r"|(?:input|prompt)(?: tokens?)? (?:exceeds|is longer than) the"
    r"|(?:input|prompt|requested) token count\b.{0,40}\bexceeds"
    r"|(?:input|prompt) length\b.{0,40}\bexceed"
    r"|prompt exceeds (?:the )?max|range of input length should be"
    r"|too many (?:input |prompt )?tokens|tokens in request more than max"
    r"|tokens? exceeds? the (?:configured|maximum|model'?s) limit"
    r"|exceeds? the (?:maximum|max\.?) (?:number of )?(?:\w+ )?tokens|exceeded model token limit"
    r"|request body too large for .{0,80}\btokens"
    # prompt and completion together
    r"|input length and `?max_tokens`? exceed|tokens?`? \+ `?max_new_tokens`? must be"
    r"|inputs`? must have less than|max_tokens must be at least 1, got -"
    r"|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)
# A limit in tokens that is no window: it depends on the account and the minute, not on the prompt.
_RATE = re.compile(
    r"per (?:minute|hour|day|second)|rate.?limit|throttl|too many requests|please wait|\b[TR]P[MD]\b",
    re.IGNORECASE,
)
# A quota of the minute, worded as if it were of the account, comes back by itself.
_COMES_BACK = re.compile(
    r"(?:retry|try again) in (?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,9}(?:\.\d+)?) ?(ms|s))?",
    re.IGNORECASE,
)
_BEYOND_THE_ACCOUNT = re.compile(r"request (?:is )?too large", re.IGNORECASE)
_INCLUDE = re.compile(r"\binclude\b|encrypted[_ ]content", re.IGNORECASE)
_RENAME_MAX_TOKENS = re.compile(
    r"max_completion_tokens|unsupported|not supported|maximum allowed number of output tokens",
    re.IGNORECASE,
)
_UNKNOWN_FIELD = re.compile(
    r"unsupported|not supported|unknown|unrecognized|unexpected|not permitted|not allowed|forbidden"
    r"|additional propert",
    re.IGNORECASE,
)
_NO_SUCH_PATH = re.compile(r"endpoint|method|route|path|url|not found", re.IGNORECASE)


@dataclass(frozen=True)
class Said:
    """A server's words.

    Attributes:
        message: what it says; of several errors all.
        code: its name or number of the error, as text; "": none.
        kind: a second name of it, where there is one.
        param: the parameter it speaks of.
    """

    message: str
    code: str = ""
    kind: str = ""
    param: str = ""

    @property
    def all(self) -> str:
        """Everything that may give away what is meant."""
        return f"{self.code} {self.kind} {self.param} {self.message}"[:_LONGEST_WORDS]


def said_in(body: object) -> Said:
    """A server's words in an error body of any shape.

    Errors come as ``{"error": {...}}``, in a list, as a text, as ``{"error": "text"}``, as ``{"detail": [...]}`` with
    places, with the code beside the text, or as JSON text inside another error.
    """
    if isinstance(body, str):
        if body.lstrip()[:1] in ("{", "["):
            with contextlib.suppress(ValueError, RecursionError):
                inner = said_in(json.loads(body))
                return inner if inner.message else Said(body)
        return Said(body)
    if isinstance(body, list):
        every = [said_in(each) for each in body[:10]]
        first = next((each for each in every if each.code or each.param), Said(""))
        words = "; ".join(each.message for each in every if each.message)
        return Said(words, first.code, first.kind, first.param)
    if not isinstance(body, dict):
        return Said("")
    names = ("error", "errors", "detail", "details")
    inside = next((said_in(body[name]) for name in names if body.get(name)), Said(""))
    metadata = body.get("metadata")
    raw = (
        said_in(metadata["raw"]) if isinstance(metadata, dict) and metadata.get("raw") else Said("")
    )
    own = next((body[name] for name in ("message", "msg") if isinstance(body.get(name), str)), "")
    place = body.get("loc")
    if isinstance(place, list) and own:
        own = f"{'.'.join(map(str, place[:10]))}: {own}"
    return Said(
        ": ".join(dict.fromkeys(words for words in (own, inside.message, raw.message) if words)),
        _word(body.get("code")) or inside.code or raw.code,
        _word(body.get("type")) or _word(body.get("status")) or inside.kind or raw.kind,
        _word(body.get("param")) or inside.param or raw.param,
    )


def refused_parameter(status: int, said: Said, wanted: set[str], echoed: set[str]) -> str | None:
    """What to leave out ("temperature", "include", what came with a reply) or to rename or lessen ("max_tokens"), if it is that.

    Args:
        status: of the reply.
        said: the server's words.
        wanted: parameters that were sent under their usual names.
        echoed: names in the conversation that were sent because a reply came with them.
    """
    text = said.all
    if status not in (400, 422) or _OVERFLOW.search(text):
        return None
    if "temperature" in wanted and "temperature" in text:
        return "temperature"
    if "include" in wanted and _INCLUDE.search(text):
        return "include"
    if "max_tokens" in wanted and "max_tokens" in text and _RENAME_MAX_TOKENS.search(text):
        return "max_tokens"
    if _UNKNOWN_FIELD.search(text):
        for name in sorted(echoed, key=len, reverse=True):
            if re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", text):
                return name
    return None


def final(
    status: int,
    said: Said,
    shown: str,
    *,
    url: str,
    model: str,
    key_variable: str,
    has_key: bool,
    answered: bool,
) -> Exception | None:
    """The exception for what another try cannot change; None where one may help.

    Args:
        status: of the reply, or the one that its body tells of.
        said: the server's words.
        shown: the same, fit to be shown.
        url: what was called.
        model: the name that was sent.
        key_variable: where the key comes from.
        has_key: whether one was sent.
        answered: whether this server has answered a request for this model before.
    """
    if is_overflow(status, said):
        return NoAnswer("context_exceeded", shown)
    if any(map(_FILTERED.match, (said.code, said.kind))) or _FILTERED_WORDS.search(said.message):
        return NoAnswer("refused", shown)
    comes_back = status == 429 and _wait_in(said.message) is not None
    if status < 500 and (status == 402 or (_OUT_OF_MONEY.search(said.all) and not comes_back)):
        return refusal(url, f"wants payment ({status}): {shown}. Add credit, then resume the run")
    if status == 401 and not has_key:
        return refusal(url, f"wants a key (401): {shown}. {key_variable} is not set: export it")
    if status == 401:
        return refusal(url, f"refused the key (401): {shown}. Check {key_variable}")
    if status == 403:
        return refusal(
            url, f"does not allow this (403): {shown}. Check {key_variable} and the model"
        )
    if status == 404:
        return refusal(
            url,
            f"answered 404: {shown}. Check the model name {model!r}, and that the address has its"
            " /v1",
        )
    if status in (413, 429) and _BEYOND_THE_ACCOUNT.search(said.message) and _RATE.search(said.all):
        return ModelError(
            f"{url} takes no request of this size from this account ({status}): {shown}"
        )
    if may_pass(status):
        return None
    if answered:  # it is about this prompt, others went through
        return ModelError(f"{url} refused the request ({status}): {shown}")
    return refusal(url, f"refused the request ({status}): {shown}")


def is_overflow(status: int, said: Said) -> bool:
    """Whether the prompt is too long for the model; what is too much for a minute is not that."""
    if "context_length_exceeded" in (said.code, said.kind):
        return True
    if status == 429 or _RATE.search(said.all):
        return False
    return _OVERFLOW.search(said.all) is not None


def may_be_about_length(status: int, said: Said) -> bool:
    """Whether a request may have been refused for the length that it allows its reply."""
    return status in (400, 413, 422) and (is_overflow(status, said) or "tokens" in said.all)


def names_a_path(said: Said) -> bool:
    """Whether the words are about where the request went: the address is wrong."""
    return _NO_SUCH_PATH.search(said.message) is not None


def refusal(url: str, what: str) -> ModelRefusedRequest:
    """The error that ends a run."""
    return ModelRefusedRequest(f"{url} {what}")


def status_of(code: str) -> int | None:
    """The status that a code is, if it is one."""
    return int(code) if re.fullmatch(r"[45]\d\d", code) else None


def may_pass(status: int) -> bool:
    """Whether a status is of the kind that another try may better."""
    return 500 <= status < 600 or status in _RETRIED


def retry_after_s(headers: Mapping[str, str], words: str = "") -> float | None:
    """Seconds a server asks to wait: from a number or a date, else its words; None if it says nothing readable."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        try:
            seconds = float(text) * unit_s
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        when = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError):
        return _wait_in(words)
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.UTC)
    return max(0.0, (when - datetime.datetime.now(datetime.UTC)).total_seconds())


def _wait_in(words: str) -> float | None:
    found = _COMES_BACK.search(words[:_LONGEST_WORDS])
    if found is None or not any(found.groups()):
        return None
    hours, minutes, seconds, unit = found.groups()
    whole = int(hours or 0) * 3600 + int(minutes or 0) * 60
    return whole + float(seconds or 0) * (0.001 if unit == "ms" else 1.0)


def _word(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    # A number of thousands of digits cannot be written out.
    return value if isinstance(value, str) else str(value) if abs(value) < 10**9 else ""
