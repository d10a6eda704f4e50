"""What a server's refusal means: wait and try again, send something else, or give up.

Pure. Servers word the same refusal in many ways, so this is a collection of what they say.
"""

from __future__ import annotations

import datetime
import email.utils
import math
import re
from collections.abc import Mapping

from rcb_env import ModelError, ModelRefusedRequest, NoAnswer

_RETRIED = frozenset((408, 409, 425, 429))  # and every 5xx
_OUT_OF_MONEY = ("insufficient_quota", "billing_hard_limit_reached")
_FILTERED = ("content_filter", "content_policy_violation", "invalid_prompt")
_OVERFLOW = re.compile(
    r"context_length_exceeded|(?:maximum|max|model'?s) context (?:length|window|size)|max_model_len"
    r"|(?:exceeds?|exceeded|larger than|over) the (?:\w+ ){0,3}context|context window (?:is )?full"
    r"|prompt is too long|input is too long|input length and `?max_tokens`? exceed"
    r"|(?:input|prompt) (?:tokens? )?(?:exceeds|is longer than) the|too many (?:input )?tokens"
    r"|reduce the length of the (?:messages|prompt|input)|max_tokens must be at least 1, got -",
    re.IGNORECASE,
)
_INCLUDE = re.compile(r"\binclude\b|encrypted[_ ]content", re.IGNORECASE)
_RENAME_MAX_TOKENS = re.compile(r"max_completion_tokens|unsupported|not supported", re.IGNORECASE)


def refused_parameter(status: int, text: str, wanted: set[str]) -> str | None:
    """The parameter to leave out ("temperature", "include") or to rename ("max_tokens"), if it is that.

    Args:
        status: of the reply.
        text: the server's words.
        wanted: parameters that were sent under their usual names.
    """
    if status not in (400, 422) or _OVERFLOW.search(text):
        return None
    if "temperature" in wanted and "temperature" in text:
        return "temperature"
    if "include" in wanted and _INCLUDE.search(text):
        return "include"
    if "max_tokens" in wanted and "max_tokens" in text and _RENAME_MAX_TOKENS.search(text):
        return "max_tokens"
    return None


def final(
    status: int,
    code: str,
    message: str,
    *,
    said: str,
    url: str,
    model: str,
    key_variable: str,
    has_key: bool,
    answered: bool,
) -> Exception | None:
    """The exception for what another try cannot change; None where one may help.

    Args:
        status: of the reply.
        code: OpenAI's error code, or "".
        message: the server's words.
        said: the same, fit to be shown.
        url: what was called.
        model: the name that was sent.
        key_variable: where the key comes from.
        has_key: whether one was sent.
        answered: whether this server has answered a request for this model before.
    """
    if status < 500 and _OVERFLOW.search(f"{code} {message}"):
        return NoAnswer("context_exceeded", said)
    if code in _FILTERED:
        return NoAnswer("refused", said)
    if status == 401 and not has_key:
        return refusal(url, f"wants a key (401): {said}. {key_variable} is not set: export it")
    if status == 401:
        return refusal(url, f"refused the key (401): {said}. Check {key_variable}")
    if status == 403:
        return refusal(
            url, f"does not allow this (403): {said}. Check {key_variable} and the model"
        )
    if status == 404:
        return refusal(
            url,
            f"answered 404: {said}. Check the model name {model!r}, and that the address has its"
            " /v1",
        )
    if status == 402 or code in _OUT_OF_MONEY:
        return refusal(url, f"wants payment ({status}): {said}. Add credit, then resume the run")
    if may_pass(status):
        return None
    if answered:  # it is about this prompt, others went through
        return ModelError(f"{url} refused the request ({status}): {said}")
    return refusal(url, f"refused the request ({status}): {said}")


def refusal(url: str, what: str) -> ModelRefusedRequest:
    """The error that ends a run."""
    return ModelRefusedRequest(f"{url} {what}")


def may_pass(status: object) -> bool:
    """Whether a status, or a text that is one, is of the kind that another try may better."""
    text = str(status)
    return text.isdigit() and (500 <= int(text) < 600 or int(text) in _RETRIED)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds a server asks to wait: from a number or a date; None if it says nothing readable."""
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
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.UTC)
    return max(0.0, (when - datetime.datetime.now(datetime.UTC)).total_seconds())
