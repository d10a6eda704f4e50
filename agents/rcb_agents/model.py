"""One model behind an OpenAI-compatible API: a list of messages in, a `Reply` out.

Guarantees:
- Retries are made here and nowhere else (the library's own are off): after 429, 408, 409, 5xx, a
  lost connection, a time-out, or a reply without choices; as long as the server says, else with
  growing, seeded pauses.
- What comes back is either a `Reply`, or `NoAnswer` (the prompt does not fit, the request was
  refused for its content), or `ModelError` (no reply after all retries), or `ModelRefusedRequest`
  (key, model name, address or settings are wrong, or there is no money left).
- A key is never in a message, a record or a reply's fields.
- A parameter the model does not know (temperature, max_tokens) is left out or renamed once, and
  that is remembered for the process.
Proxy variables are the library's: it follows HTTPS_PROXY and NO_PROXY.
Not covered: streaming, tool calls, other APIs; a server that sends one byte now and then for ever.
"""

from __future__ import annotations

import datetime
import email.utils
import functools
import json
import math
import os
import random
import re
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rcb_agents import tokens
from rcb_agents.prices import price_of
from rcb_env import (
    ModelError,
    ModelRefusedRequest,
    ModelSettings,
    NoAnswer,
    Task,
    Usage,
    UsageError,
    without_credentials,
)

if TYPE_CHECKING:
    import openai

OPENAI_URL = "https://api.openai.com/v1"

_FIRST_PAUSE_S = 0.5
_CONNECT_S = 10.0
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
_RENAME_MAX_TOKENS = re.compile(r"max_completion_tokens|unsupported|not supported", re.IGNORECASE)


@dataclass(frozen=True)
class Reply:
    """What a model said.

    Attributes:
        text: the answer; "" when none came, for instance when all tokens went into reasoning.
        reasoning: what the server shows of the reasoning; kept, never graded.
        finish_reason: as the server gave it: "stop", "length", "content_filter", ...
        refusal: the model's own words when it refused.
        usage: of this call.
        request_id: the server's name for the request.
        retries: how often the request was sent again.
    """

    text: str
    reasoning: str = ""
    finish_reason: str | None = None
    refusal: str | None = None
    usage: Usage = field(default_factory=Usage)
    request_id: str | None = None
    retries: int = 0


class Model(Protocol):
    """Anything that answers messages."""

    def complete(self, messages: Sequence[Mapping[str, Any]]) -> Reply:
        """One completion."""
        ...


def open_model(task: Task) -> Model:
    """The model a task names: behind an API, or simulated.

    Raises:
        UsageError: the task has no model, or its name or address makes no sense.
    """
    if task.model is None:
        raise UsageError("this agent needs a model: add --model NAME")
    if task.model.name.partition(":")[0] == "simulated":
        from rcb_agents.simulated import SimulatedModel

        return SimulatedModel.named(task.model.name, task)
    return OpenAIModel(task.model, seed=task.seed)


class Conversation:
    """Messages with one model; every exchange is recorded and paid for as it happens."""

    def __init__(self, model: Model, task: Task, **notes: object) -> None:
        self.messages: list[dict[str, Any]] = []
        self._model = model
        self._task = task
        self._notes = notes
        self._recorded = 0

    def ask(self, text: str) -> Reply:
        """Say something and get the reply.

        Raises:
            BudgetSpent: the reply came, and the budget is gone.
        """
        self.messages.append({"role": "user", "content": text})
        call: dict[str, object] = {
            "model": self._task.model.name if self._task.model else "",
            **self._notes,
            "earlier_messages": self._recorded,
            "messages": [dict(message) for message in self.messages[self._recorded :]],
        }
        try:
            reply = self._model.complete(self.messages)
        except (NoAnswer, ModelError) as error:
            self._task.record("model_call", {**call, "error": str(error)})
            raise
        self._recorded = len(self.messages)
        self._task.record("model_call", {**call, "reply": asdict(reply)})
        self.messages.append({"role": "assistant", "content": reply.text})
        self._recorded += 1  # the reply stands in the record already
        self._task.spend(reply.usage)
        return reply


@dataclass
class _Known:
    """What a server has shown of itself in this process."""

    answered: bool = False
    without: set[str] = field(default_factory=set)


_known: dict[tuple[str, str], _Known] = {}


class OpenAIModel:
    """Chat completions through the ``openai`` package.

    Args:
        settings: model, address and limits.
        seed: of the pauses between retries.

    Raises:
        UsageError: the address is none, or OpenAI's own API is to be used without a key.
    """

    def __init__(self, settings: ModelSettings, *, seed: int = 0) -> None:
        self.settings = settings
        base_url = (settings.base_url or os.environ.get("OPENAI_BASE_URL") or "").strip()
        self._base_url = (base_url or OPENAI_URL).rstrip("/").removesuffix("/chat/completions")
        parts = urllib.parse.urlsplit(self._base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"the model's address {without_credentials(self._base_url)!r} is none;"
                " write it like http://127.0.0.1:8000/v1"
            )
        self.url = without_credentials(f"{self._base_url}/chat/completions")
        self._key = os.environ.get("OPENAI_API_KEY", "").strip()
        if not self._key and parts.hostname == urllib.parse.urlsplit(OPENAI_URL).hostname:
            raise UsageError(
                f"OPENAI_API_KEY is not set, and {self.url} needs it;"
                " set it, or name another server with --base-url"
            )
        self._random = random.Random(seed)
        self._price = price_of(settings)
        self._server = _known.setdefault((self.url, settings.name), _Known())

    def complete(self, messages: Sequence[Mapping[str, Any]]) -> Reply:
        """One completion.

        Raises:
            NoAnswer: "context_exceeded" or "refused".
            ModelError: no reply after all retries.
            ModelRefusedRequest: no request of this kind can succeed.
        """
        import openai

        prompt = "\n".join(str(message.get("content", "")) for message in messages)
        max_tokens = self._max_tokens(prompt)
        retries = 0
        while True:
            wait_s: float | None = None
            try:
                raw = self._client().chat.completions.with_raw_response.create(
                    **self._parameters(messages, max_tokens)
                )
                data, trouble = self._completion(raw.text, raw.headers)
                if data is not None:
                    self._server.answered = True
                    request_id = raw.headers.get("x-request-id") or _text(data.get("id")) or None
                    return self._reply(data, prompt, request_id, retries)
            except openai.APITimeoutError:
                trouble = f"no reply within {self.settings.timeout_s:g} s"
            except openai.APIConnectionError as error:
                trouble = f"the connection failed: {error.__cause__ or error}"
            except openai.APIStatusError as error:
                if self._adapted(error):
                    continue
                self._raise_if_final(error)
                trouble = f"status {error.status_code}: {error.message}"
                wait_s = retry_after_s(error.response.headers)
            trouble = self._clean(trouble)
            if wait_s is not None and wait_s > self.settings.max_wait_s:
                raise ModelError(
                    f"{self.url} asks to wait {wait_s:.0f} s, longer than"
                    f" {self.settings.max_wait_s:g} s ({trouble}); resume the run later"
                )
            if retries == self.settings.max_retries:
                raise ModelError(f"{self.url} gave no reply, {retries + 1} times: {trouble}")
            time.sleep(self._pause_s(retries) if wait_s is None else wait_s)
            retries += 1

    # --- the request ---

    def _client(self) -> openai.OpenAI:
        return _client(os.getpid(), self._base_url, self._key, self.settings.timeout_s)

    def _parameters(
        self, messages: Sequence[Mapping[str, Any]], max_tokens: int | None
    ) -> dict[str, Any]:
        without = self._server.without
        wanted = {
            "temperature": None if "temperature" in without else self.settings.temperature,
            "max_completion_tokens" if "max_tokens" in without else "max_tokens": max_tokens,
            "reasoning_effort": self.settings.reasoning_effort,
        }
        return {
            "model": self.settings.name,
            "messages": [_sendable(message) for message in messages],
            **{name: value for name, value in wanted.items() if value is not None},
        }

    def _max_tokens(self, prompt: str) -> int | None:
        """The longest completion that fits; at least 1.

        Raises:
            NoAnswer: the prompt alone is too long for the window that the settings name.
        """
        window, wanted = self.settings.context_tokens, self.settings.max_tokens
        if window is None:
            return wanted
        needed = tokens.estimate(prompt, self.settings.name)
        if needed >= window:
            raise NoAnswer(
                "context_exceeded", f"the prompt has about {needed} tokens, the window {window}"
            )
        return None if wanted is None else min(wanted, window - needed)

    def _pause_s(self, retries: int) -> float:
        longest: float = min(_FIRST_PAUSE_S * 2**retries, self.settings.max_wait_s)
        return longest * self._random.uniform(0.5, 1.0)

    # --- errors ---

    def _clean(self, text: str) -> str:
        """One line without the key, which some servers repeat."""
        if len(self._key) >= 4:
            text = text.replace(self._key, "[key]")
        return " ".join(text.split())[:300]

    def _adapted(self, error: openai.APIStatusError) -> bool:
        """Whether a parameter was refused that can be left out or renamed."""
        without = self._server.without
        text = f"{error.param} {error.message}"
        if error.status_code not in (400, 422) or _OVERFLOW.search(text):
            return False
        for name, value in (
            ("temperature", self.settings.temperature),
            ("max_tokens", self.settings.max_tokens),
        ):
            if value is None or name in without or name not in text:
                continue
            if name == "max_tokens" and not _RENAME_MAX_TOKENS.search(text):
                continue
            without.add(name)
            return True
        return False

    def _raise_if_final(self, error: openai.APIStatusError) -> None:
        """Raise what another try cannot change."""
        status, code = error.status_code, error.code or ""
        said = self._clean(error.message)
        if status < 500 and _OVERFLOW.search(f"{code} {error.message}"):
            raise NoAnswer("context_exceeded", said)
        if code in _FILTERED:
            raise NoAnswer("refused", said)
        if status == 401:
            raise self._refusal(f"refused the key (401): {said}. Check OPENAI_API_KEY")
        if status == 403:
            raise self._refusal(
                f"does not allow this (403): {said}. Check OPENAI_API_KEY and the model"
            )
        if status == 404:
            raise self._refusal(
                f"answered 404: {said}. Check the model name {self.settings.name!r}, and that the"
                " address has its /v1"
            )
        if status == 402 or code in _OUT_OF_MONEY:
            raise self._refusal(
                f"wants payment ({status}): {said}. Add credit, then resume the run"
            )
        if status >= 500 or status in _RETRIED:
            return
        if self._server.answered:  # it is about this prompt, others went through
            raise ModelError(f"{self.url} refused the request ({status}): {said}")
        raise self._refusal(f"refused the request ({status}): {said}")

    def _refusal(self, what: str) -> ModelRefusedRequest:
        return ModelRefusedRequest(f"{self.url} {what}")

    # --- the reply ---

    def _completion(
        self, text: str, headers: Mapping[str, str]
    ) -> tuple[dict[str, Any] | None, str]:
        """The completion in a 200, or what to say of a body that another try may better."""
        try:
            data = json.loads(text)
        except ValueError:
            data = None
        if isinstance(data, dict) and isinstance(choices := data.get("choices"), list):
            if choices and isinstance(choices[0], dict) and "message" in choices[0]:
                return data, ""
            return None, "a reply without choices"
        if data is None and text.lstrip()[:1] == "{":
            return None, "a reply that is cut off"
        shown = self._clean(text)[:120] or "nothing"
        if isinstance(data, dict) and isinstance(error := data.get("error"), dict):
            # Some gateways answer 200 and put the failure of the server behind them into the body.
            shown = self._clean(str(error.get("message", error)))
            if str(error.get("code", "")).isdigit():
                status = int(error["code"])
                if status >= 500 or status in _RETRIED:
                    return None, f"status {status}: {shown}"
        if self._server.answered:
            return None, f"no chat completion but {shown!r}"
        kind = headers.get("content-type", "").partition(";")[0]
        raise self._refusal(
            f"answered, but not with a chat completion ({kind or 'no type'}): {shown!r}."
            " Check the address; most end with /v1"
        )

    def _reply(
        self, data: Mapping[str, Any], prompt: str, request_id: str | None, retries: int
    ) -> Reply:
        choice = data["choices"][0]
        message = choice["message"] if isinstance(choice["message"], dict) else {}
        text = _text(message.get("content"))
        reasoning = _text(message.get("reasoning_content")) or _text(message.get("reasoning"))
        return Reply(
            text=text,
            reasoning=reasoning,
            finish_reason=_text(choice.get("finish_reason")) or None,
            refusal=_text(message.get("refusal")) or None,
            usage=self._usage(data.get("usage"), prompt, reasoning + text),
            request_id=request_id,
            retries=retries,
        )

    def _usage(self, given: object, prompt: str, completion: str) -> Usage:
        counts = given if isinstance(given, dict) else {}
        details = counts.get("completion_tokens_details")
        sent, made = _count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens"))
        estimated = sent is None or made is None
        if sent is None:
            sent = tokens.estimate(prompt, self.settings.name)
        if made is None:
            made = tokens.estimate(completion, self.settings.name)
        thought = _count(details.get("reasoning_tokens")) if isinstance(details, dict) else None
        return Usage(
            prompt_tokens=sent,
            completion_tokens=made,
            reasoning_tokens=thought or 0,
            cost_usd=self._price.of(sent, made) if self._price else None,
            calls=1,
            estimated=estimated,
        )


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


@functools.lru_cache(maxsize=8)
def _client(process: int, base_url: str, key: str, timeout_s: float) -> openai.OpenAI:  # noqa: ARG001
    """One client for all episodes; not shared with a forked process, whose sockets it would use."""
    import openai

    return openai.OpenAI(
        base_url=base_url,
        api_key=key or "none",  # servers on one's own machine want no key, the library wants one
        timeout=openai.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S)),
        max_retries=0,
    )


def _sendable(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message that can be sent as UTF-8; replies may hold half a surrogate pair."""
    return {
        key: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for key, value in message.items()
    }


def _text(value: object) -> str:
    """A text, or the texts of a list of parts; "" for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
