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
- No more requests at once than a server takes (`throttle`); a reply that came before for the same
  request is not asked for again (`cache`).
Proxy variables are the library's: it follows HTTPS_PROXY and NO_PROXY.
Not covered: streaming; a server that sends one byte now and then for ever; the bodies (`apis`).
"""

from __future__ import annotations

import functools
import json
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rcb_agents import faults, tokens
from rcb_agents.apis import APIS, Answer
from rcb_agents.cache import ReplyCache, cache_folder
from rcb_agents.providers import resolve
from rcb_agents.registry import load_registry
from rcb_agents.replies import Reply
from rcb_agents.throttle import gate_of
from rcb_env import ModelError, ModelSettings, NoAnswer, Usage, without_credentials

if TYPE_CHECKING:
    import openai

_FIRST_PAUSE_S = 0.5
_CONNECT_S = 10.0


@dataclass
class _Known:
    """What a server has shown of itself in this process."""

    answered: bool = False
    without: set[str] = field(default_factory=set)


_known: dict[tuple[str, str], _Known] = {}


@dataclass(frozen=True)
class _Attempt:
    """How one request went: a body and what it says, or what to do next."""

    answer: Answer | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    request_id: str | None = None
    trouble: str = ""
    no_server: bool = False
    wait_s: float | None = None
    adapted: bool = False


class OpenAIModel:
    """A model through the ``openai`` package.

    Args:
        settings: model, address and limits.
        seed: of the pauses between retries, and of what is cached at a temperature but 0.
        sample: the episode's index, for the cache.

    Raises:
        UsageError: the address is none, a key is missing, or the file of models is broken.
    """

    def __init__(self, settings: ModelSettings, *, seed: int = 0, sample: int = 0) -> None:
        self.settings = settings
        registry = load_registry(settings.models_file)
        self._facts = registry.facts_of(settings)
        self._endpoint = resolve(settings, registry.providers)
        self._api = APIS[settings.api]
        self.url = without_credentials(self._endpoint.base_url + self._api.path)
        self._random = random.Random(seed)
        self._server = _known.setdefault((self.url, settings.name), _Known())
        self._gate = gate_of(self._endpoint.base_url)
        folder = cache_folder(settings.cache, self._endpoint.host)
        self._cache = ReplyCache(folder, sample=sample, seed=seed) if folder else None

    @property
    def context_tokens(self) -> int | None:
        """The window; None: unknown."""
        return self._facts.context_tokens

    def describe(self) -> dict[str, object]:
        """What a record says of the model: where it is and what is known of it."""
        return {
            "url": self.url,
            "name": self._endpoint.model,
            **self._facts.model_dump(),
            "cache": str(self._cache.folder) if self._cache else None,
        }

    def complete(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> Reply:
        """One completion.

        Raises:
            NoAnswer: "context_exceeded" or "refused".
            ModelError: no reply after all retries.
            ModelRefusedRequest: no request of this kind can succeed.
        """
        prompt = _as_text(messages, tools)
        max_tokens = self._max_tokens(prompt)
        make = functools.partial(
            self._api.body, self.settings, self._endpoint.model, messages, tools, max_tokens
        )
        wanted = make(frozenset())
        key = ""
        if self._cache is not None:
            key = self._cache.key(self.url, wanted)
            stored = self._cache.get(key)
            answer = self._api.read(stored) if stored is not None else None
            if isinstance(answer, Answer):
                return self._reply(answer, prompt, answer.id, retries=0, replayed=True)
        retries = 0
        while True:
            tried = self._try(make(frozenset(self._server.without)))
            if tried.answer is not None:
                self._server.answered = True
                if self._cache is not None:
                    self._cache.put(key, self.url, wanted, tried.data)
                return self._reply(tried.answer, prompt, tried.request_id, retries)
            if tried.adapted:
                continue
            trouble = self._clean(tried.trouble)
            longest_s = self.settings.max_wait_s
            if tried.wait_s is not None and tried.wait_s > longest_s:
                raise ModelError(
                    f"{self.url} asks to wait {tried.wait_s:.0f} s, longer than"
                    f" {longest_s:g} s ({trouble}); resume the run later"
                )
            if (
                retries == self.settings.max_retries
                and tried.no_server
                and not self._server.answered
            ):
                raise faults.refusal(
                    self.url,
                    f"cannot be reached ({trouble}). Start the server, or name another with --base-url",
                )
            if retries == self.settings.max_retries:
                raise ModelError(f"{self.url} gave no reply, {retries + 1} times: {trouble}")
            time.sleep(self._pause_s(retries) if tried.wait_s is None else tried.wait_s)
            retries += 1

    # --- the request ---

    def _try(self, body: Mapping[str, Any]) -> _Attempt:
        import openai

        with self._gate.passing() as began:
            try:
                raw = self._api.send(self._client(), body)
                tried = self._completion(raw.text, raw.headers)
            except openai.APITimeoutError:
                return _Attempt(trouble=f"no reply within {self.settings.timeout_s:g} s")
            except openai.APIConnectionError as error:
                why = f"the connection failed: {error.__cause__ or error}"
                return _Attempt(trouble=why, no_server=_is_unreachable(error))
            except openai.APIStatusError as error:
                if self._adapted(error):
                    return _Attempt(adapted=True)
                self._raise_if_final(error)
                wait_s = faults.retry_after_s(error.response.headers)
                if error.status_code == 429 or (error.status_code == 503 and wait_s is not None):
                    heeded = wait_s is not None and wait_s <= self.settings.max_wait_s
                    self._gate.narrow(began, wait_s if heeded else None)
                return _Attempt(
                    trouble=f"status {error.status_code}: {error.message}", wait_s=wait_s
                )
        if tried.answer is not None:
            self._gate.widen()
        return tried

    def _client(self) -> openai.OpenAI:
        return _client(
            os.getpid(), self._endpoint.base_url, self._endpoint.key, self.settings.timeout_s
        )

    def _max_tokens(self, prompt: str) -> int | None:
        """The longest completion that fits; at least 1.

        Raises:
            NoAnswer: the prompt alone is too long for the window.
        """
        window, wanted = self.context_tokens, self.settings.max_tokens
        if window is None or tokens.at_most(prompt) + (wanted or 0) < window:
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
        if len(self._endpoint.key) >= 4:
            text = text.replace(self._endpoint.key, "[key]")
        return " ".join(text.split())[:300]

    def _adapted(self, error: openai.APIStatusError) -> bool:
        """Whether a parameter was refused that can be left out or renamed."""
        name = faults.refused_parameter(
            error.status_code,
            f"{error.param} {error.message}",
            self._adaptable() - self._server.without,
        )
        if name is not None:
            self._server.without.add(name)
        return name is not None

    def _adaptable(self) -> set[str]:
        """The parameters of a request that can be left out or renamed."""
        settings = self.settings
        given = {n for n in ("temperature", "max_tokens") if getattr(settings, n) is not None}
        return given | ({"include"} if settings.api == "responses" else set())

    def _raise_if_final(self, error: openai.APIStatusError) -> None:
        """Raise what another try cannot change."""
        final = faults.final(
            error.status_code,
            error.code or "",
            error.message,
            said=self._clean(error.message),
            url=self.url,
            model=self._endpoint.model,
            key_variable=self._endpoint.key_variable,
            has_key=bool(self._endpoint.key),
            answered=self._server.answered,
        )
        if final is not None:
            raise final

    # --- the reply ---

    def _completion(self, text: str, headers: Mapping[str, str]) -> _Attempt:
        """The completion in a 200, or what to say of a body that another try may better."""
        try:
            data = json.loads(text)
        except ValueError:
            data = None
        answer = self._api.read(data) if isinstance(data, dict) else None
        if isinstance(answer, str):
            return _Attempt(trouble=answer)
        if answer is not None:
            return _Attempt(answer, data, headers.get("x-request-id") or answer.id)
        if data is None and text.lstrip()[:1] == "{":
            return _Attempt(trouble="a reply that is cut off")
        shown = self._clean(text)[:120] or "nothing"
        if isinstance(data, dict) and isinstance(error := data.get("error"), dict):
            # Some gateways answer 200 and put the failure of the server behind them into the body.
            shown = self._clean(str(error.get("message", error)))
            if faults.may_pass(error.get("code")):
                return _Attempt(trouble=f"status {error['code']}: {shown}")
        if self._server.answered:
            return _Attempt(trouble=f"no {self._api.what} but {shown!r}")
        kind = headers.get("content-type", "").partition(";")[0]
        raise faults.refusal(
            self.url,
            f"answered, but not with a {self._api.what} ({kind or 'no type'}): {shown!r}."
            " Check the address; most end with /v1",
        )

    def _reply(
        self,
        answer: Answer,
        prompt: str,
        request_id: str | None,
        retries: int,
        *,
        replayed: bool = False,
    ) -> Reply:
        return Reply(
            text=answer.text,
            reasoning=answer.reasoning,
            finish_reason=answer.finish_reason,
            refusal=answer.refusal,
            tool_calls=answer.tool_calls,
            usage=self._usage(answer, prompt, replayed),
            request_id=request_id,
            retries=retries,
            refused=tuple(sorted(self._adaptable() & self._server.without)),
            reasoning_items=answer.reasoning_items,
        )

    def _usage(self, answer: Answer, prompt: str, replayed: bool) -> Usage:
        sent, made = answer.prompt_tokens, answer.completion_tokens
        estimated = sent is None or made is None
        if sent is None:
            sent = tokens.estimate(prompt, self.settings.name)
        if made is None:
            calls = (call.arguments for call in answer.tool_calls)
            made = tokens.estimate(
                "".join((answer.reasoning, answer.text, *calls)), self.settings.name
            )
        price = self._facts.price
        cost = price.of(sent, made) if price else None
        return Usage(
            prompt_tokens=sent,
            completion_tokens=made,
            reasoning_tokens=answer.reasoning_tokens or 0,
            cost_usd=0.0 if replayed else cost,
            calls=1,
            estimated=estimated,
            replayed_calls=1 if replayed else 0,
            replayed_tokens=sent + made if replayed else 0,
        )


def _is_unreachable(error: BaseException) -> bool:
    """Whether no connection was made at all: nobody listens there, or nobody knows the name."""
    cause: BaseException | None = error
    while cause is not None:
        if (
            type(cause).__name__ == "ConnectError"
        ):  # of the HTTP library, which is not imported here
            return True
        cause = cause.__cause__
    return False


def _as_text(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
    """Everything that is sent, as a text whose tokens can be counted."""
    parts = [str(message.get("content") or "") for message in messages]
    parts += [json.dumps(message["tool_calls"]) for message in messages if "tool_calls" in message]
    parts += [json.dumps(tool) for tool in tools]
    return "\n".join(parts)


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
