"""One model behind an API: a list of messages in, a `Reply` out.

Guarantees:
- Retries are made here and nowhere else (the library's own are off): after 429, 408, 409, 5xx, a
  lost connection, a time-out, or a 200 whose body tells of a failure or holds no message; as long
  as the server says, else with growing, seeded pauses.
- What comes back is either a `Reply`, or `NoAnswer` (the prompt does not fit, the request was
  refused for its content), or `ModelError` (no reply after all retries), or `ModelRefusedRequest`
  (key, model name, address or settings are wrong, or there is no money left).
- A key is never in a message, a record, a reply's fields or the cache, also where the server repeats it.
- A parameter the model does not know (temperature, max_tokens) is left out or renamed once, and
  that is remembered for the process.
- No more requests at once than a server takes (`throttle`); a reply that came before for the same
  request is not asked for again (`cache`).
- A call ends when the time of its episode does, whatever it waits for. It is given no longer reply than budgets in
  tokens leave, and is not made where its prompt leaves no room. Prompts are estimated; a server that refuses such a
  length for a reply is asked without one.
- Nothing that a server sends is anybody else's fault: what no answer can be read from is a lost reply.
Not covered: streaming; the bodies (`apis`); their size and time (`intake`); proxies (`reaching`).
"""

from __future__ import annotations

import functools
import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rcb_agents import faults, intake, reaching, tokens
from rcb_agents.apis import APIS, Answer, Failed, Lost
from rcb_agents.cache import ReplyCache, cache_folder
from rcb_agents.faults import Said
from rcb_agents.providers import resolve
from rcb_agents.registry import load_registry
from rcb_agents.replies import Reply, as_text
from rcb_agents.throttle import gate_of
from rcb_env import (
    BudgetSpent,
    ModelError,
    ModelSettings,
    NoAnswer,
    Usage,
    UsageError,
    without_credentials,
)

_FIRST_PAUSE_S = 0.5
_BATCH_SHARE = 0.5  # of the price, by all providers


class Unanswered(Exception):
    """A question that a batch has not answered yet.

    Args:
        key: its own.
        body: of its request.
    """

    def __init__(self, key: str, body: Mapping[str, Any]) -> None:
        super().__init__(key)
        self.key = key
        self.body = body


@dataclass
class _Known:
    """What a server has shown of itself in this process."""

    answered: bool = False
    without: set[str] = field(default_factory=set)
    too_long: float = math.inf
    """A length for a reply that it refused."""


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
    """A model behind an API, most often one that speaks the OpenAI protocol.

    Args:
        settings: model, address and limits.
        seed: of the pauses between retries, and of what is cached at a temperature but 0.
        sample: the episode's index, for the cache.
        seconds_left: of the episode; None: its time has no limit.
        room_for_reply: as a task has it.
        batch: folder of the replies of batches, which are not asked for again; None: there are none.
        batch_only: nothing else is asked.

    Raises:
        UsageError: the address, the key, the file of models, a provider's library, or a variable for
            proxies or certificates is missing or wrong.
    """

    def __init__(
        self,
        settings: ModelSettings,
        *,
        seed: int = 0,
        sample: int = 0,
        seconds_left: Callable[[], float | None] = lambda: None,
        room_for_reply: Callable[[int], int | None] = lambda _: None,
        batch: Path | None = None,
        batch_only: bool = False,
    ) -> None:
        self.settings = settings
        self._seconds_left = seconds_left
        self._room_for_reply = room_for_reply
        registry = load_registry(settings.models_file)
        self._facts = registry.facts_of(settings)
        self._endpoint = resolve(settings, registry.providers)
        self._api = APIS[self._endpoint.api]
        self.url = without_credentials(self._endpoint.base_url + self._api.path)
        self._client()  # what is wrong with proxies or certificates is told before anything is sent
        self._random = random.Random(seed)
        self._server = _known.setdefault((self.url, settings.name), _Known())
        self._gate = gate_of(self._endpoint.base_url)
        folder = cache_folder(settings.cache, self._endpoint.host)
        self._cache = ReplyCache(folder, sample=sample, seed=seed) if folder else None
        self._batch = ReplyCache(batch / "replies", sample=sample, seed=seed) if batch else None
        self._batch_only = batch_only

    @property
    def context_tokens(self) -> int | None:
        """The window; None: unknown."""
        return self._facts.context_tokens

    def describe(self) -> dict[str, object]:
        """What a record says of the model: where it is and what is known of it."""
        return {
            "url": self.url,
            "api": self._endpoint.api,
            "name": self._endpoint.model,
            **self._facts.model_dump(),
            "cache": str(self._cache.folder) if self._cache else None,
        }

    def check_price(self) -> None:
        """Make sure that a limit in money can be held.

        Raises:
            UsageError: nothing will tell what a call costs.
        """
        if self._facts.price is None and not self._endpoint.reports_cost:
            raise UsageError(
                "the price of this model is unknown, so a limit in money cannot be held: give --input-price"
                " and --output-price, or leave out --budget-usd and --run-budget-usd"
            )

    def complete(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> Reply:
        """One completion.

        Raises:
            NoAnswer: "context_exceeded" or "refused".
            ModelError: no reply after all retries.
            ModelRefusedRequest: no request of this kind can succeed.
            BudgetSpent: the call does not fit into what is left of a budget, or its time is up.
            Unanswered: it is for a batch.
        """
        prompt = "\n".join((as_text(messages), *map(json.dumps, tools)))
        echoed = self._api.echoes(messages)
        max_tokens = self._max_tokens(prompt)
        make = functools.partial(
            self._api.body, self.settings, self._endpoint.model, messages, tools
        )
        wanted = make(max_tokens, frozenset())
        key = ""
        if self._cache is not None:
            key = self._cache.key(self.url, wanted)
            stored = self._cache.get(key)
            answer = self._api.read(stored) if stored is not None else None
            if isinstance(answer, Answer):
                return self._reply(answer, prompt, answer.id, retries=0, replayed=True)
        if self._batch is not None:
            asked = self._batch.key(self.url, wanted)
            stored = self._batch.get(asked)
            answer = self._api.read(stored) if stored is not None else None
            if isinstance(answer, Answer):
                return self._reply(answer, prompt, answer.id, retries=0, share=_BATCH_SHARE)
            if self._batch_only:
                raise Unanswered(asked, make(max_tokens, frozenset(self._server.without)))
        room, left = self._room(prompt)
        longest = self.context_tokens or math.inf
        retries = 0
        while True:
            limited = room < min(max_tokens or longest, self._server.too_long)
            body = make(int(room) if limited else max_tokens, frozenset(self._server.without))
            try:
                tried = self._try(body, echoed, room if limited else None)
            except TimeoutError:
                raise BudgetSpent("wall_time_spent") from None
            if tried.answer is not None:
                self._server.answered = True
                cut = limited and tried.answer.finish_reason == "length"
                if self._cache is not None and not cut:
                    self._cache.put(key, self.url, wanted, tried.data)
                reply = self._reply(tried.answer, prompt, tried.request_id, retries)
                return replace(reply, cut_at=left) if cut else reply
            if tried.adapted:
                continue
            trouble = self._clean(tried.trouble)
            longest_s = self.settings.max_wait_s
            if tried.wait_s is not None and tried.wait_s > longest_s:
                raise ModelError(
                    f"{self.url} asks to wait {tried.wait_s:.0f} s, longer than"
                    f" {longest_s:g} s ({trouble}); resume the run later"
                )
            last = retries == self.settings.max_retries
            if last and tried.no_server and not self._server.answered:
                raise faults.refusal(self.url, reaching.why_not(self._endpoint.base_url, trouble))
            if last:
                raise ModelError(f"{self.url} gave no reply, {retries + 1} times: {trouble}")
            pause_s = self._pause_s(retries) if tried.wait_s is None else tried.wait_s
            seconds_left = self._seconds_left()
            if seconds_left is not None and seconds_left <= pause_s:
                raise BudgetSpent("wall_time_spent")
            time.sleep(pause_s)
            retries += 1

    # --- what a batch needs ---

    @property
    def api(self) -> str:
        """What is spoken."""
        return self._endpoint.api

    @property
    def base_url(self) -> str:
        """The address, with whatever password is in it."""
        return self._endpoint.base_url

    @property
    def path(self) -> str:
        """Where requests go, below the address."""
        return self._api.path

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be in no record."""
        return self._endpoint.secrets

    def talk(self, say: Callable[..., Any], *words: object) -> Any:
        """Say something else to the server: a function of the library's client, and what else it takes.

        Raises:
            ModelError: it did not go well.
        """
        try:
            return say(self._client(), *words)
        except Exception as error:  # whatever a library makes of a server's words
            why = error.__cause__ if type(error).__name__ == "APIConnectionError" else error
            raise ModelError(f"{self.url}: the batch: {self._clean(str(why))}") from error

    def keep(self, key: str, data: Mapping[str, Any]) -> bool:
        """Keep what a batch has answered, if it is an answer."""
        if self._batch is None or not isinstance(self._api.read(data), Answer):
            return False
        self._batch.put(key, self.url, {}, data)
        return True

    def learn(self, status: int, body: Mapping[str, Any]) -> tuple[bool, str]:
        """Whether a refusal names what can be left out, and its words."""
        said = self._said(json.dumps(body))
        name = faults.refused_parameter(status, said, self._adaptable(), set())
        self._server.without |= {name} if name else set()
        return name is not None, self._clean(said.message)

    def leave_out(self, names: Sequence[str]) -> None:
        """Leave out, or rename, what the model has refused in an earlier session."""
        self._server.without |= {*names}

    def left_out(self) -> list[str]:
        """What the model has refused so far."""
        return sorted(self._server.without)

    # --- the request ---

    def _try(self, body: Mapping[str, Any], echoed: set[str], room: float | None) -> _Attempt:
        """Send a request.

        Args:
            body: of it.
            echoed: names in it that came from the server.
            room: the length of the reply, if a budget has set it.

        Raises:
            TimeoutError: the episode's time is up.
        """
        with self._gate.passing(self._seconds_left()) as began:
            longest_s, hurries = self._longest_s()
            try:
                raw = self._api.send(self._client(), body, longest_s)
            except Lost as lost:
                if lost.timed_out and hurries:
                    raise TimeoutError from None
                why = f"the connection failed: {lost}"
                if lost.timed_out:
                    why = f"no reply within {longest_s:g} s"
                return _Attempt(trouble=why, no_server=reaching.nobody_reached(lost))
            if raw.status != 200:
                said = self._said(raw.text)
                return self._refused(raw.status, said, echoed, room, began, raw.headers)
            tried = self._completion(raw.text, raw.headers)
            if isinstance(tried, Failed):
                # The server answered 200 and put the failure of the one behind it into the body.
                status = faults.status_of(tried.said.code) or 502
                return self._refused(status, tried.said, echoed, room, began, raw.headers)
        if tried.answer is not None:
            self._gate.widen()
        return tried

    def _refused(
        self,
        status: int,
        said: Said,
        echoed: set[str],
        room: float | None,
        began: float,
        headers: Mapping[str, str],
    ) -> _Attempt:
        """What to do after a refusal.

        Raises:
            NoAnswer: the prompt is too long, or was refused for its content.
            ModelError: another try cannot change it.
        """
        wanted = self._adaptable() | ({"max_tokens"} if room is not None else set())
        wanted -= self._server.without
        name = faults.refused_parameter(status, said, wanted, echoed - self._server.without)
        if name is not None:
            self._server.without.add(name)
            return _Attempt(adapted=True)
        if room is not None and faults.may_be_about_length(status, said):
            self._server.too_long = min(room, self._server.too_long)
            return _Attempt(adapted=True)
        shown = self._clean(said.message) or "without a word"
        if status == 407 and (proxy := reaching.proxy_of(self._endpoint.base_url)):
            raise faults.refusal(
                self.url, f"is behind a proxy that refuses (407): check {proxy[0]}"
            )
        final = faults.final(
            status,
            said,
            shown,
            url=self.url,
            model=self._endpoint.model,
            key_variable=self._endpoint.key_variable,
            has_key=bool(self._endpoint.key),
            answered=self._server.answered,
        )
        if final is not None:
            raise final
        wait_s = faults.retry_after_s(headers, said.message)
        if status == 429 or (status == 503 and wait_s is not None):
            heeded = wait_s is not None and wait_s <= self.settings.max_wait_s
            self._gate.narrow(began, wait_s if heeded else None)
        return _Attempt(trouble=f"status {status}: {shown}", wait_s=wait_s)

    def _client(self) -> Any:
        end = self._endpoint
        return reaching.connect(self._api.connect, end.base_url, end.key)

    def _longest_s(self) -> tuple[float, bool]:
        """The longest wait for a reply, and whether it is the end of the episode's time that sets it.

        Raises:
            TimeoutError: the time is up.
        """
        seconds_left = self._seconds_left()
        if seconds_left is None or seconds_left >= self.settings.timeout_s:
            return self.settings.timeout_s, False
        if seconds_left <= 0:
            raise TimeoutError
        return seconds_left, True

    def _room(self, prompt: str) -> tuple[float, int]:
        """Tokens that budgets leave for the reply to a prompt, and for both together.

        Raises:
            BudgetSpent: none for the reply.
        """
        if self._room_for_reply(0) is None:
            return math.inf, 0
        needed = tokens.estimate(prompt, self.settings.name)
        room = self._room_for_reply(needed)
        return (math.inf, 0) if room is None else (room, needed + room)

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
        """One line that a terminal can show, without the key, which some servers repeat."""
        text = intake.without(text[:100_000], self._endpoint.secrets)
        shown = "".join(char if char.isprintable() else " " for char in text)
        return " ".join(shown.split())[:300]

    def _said(self, text: str) -> Said:
        """The words of an error's body."""
        try:
            said = faults.said_in(intake.parsed(text, self._endpoint.secrets))
        except ValueError:
            said = Said("")
        return said if said.message else Said(text, said.code, said.kind, said.param)

    def _adaptable(self) -> set[str]:
        """The parameters of a request that can be left out or renamed."""
        settings = self.settings
        given = {n for n in ("temperature", "max_tokens") if getattr(settings, n) is not None}
        return given | self._api.optional

    # --- the reply ---

    def _completion(self, text: str, headers: Mapping[str, str]) -> _Attempt | Failed:
        """The completion in a 200, or what its body says of a failure, or why another try may help.

        Raises:
            ModelRefusedRequest: the address is wrong.
        """
        try:
            data = intake.parsed(text, self._endpoint.secrets)
        except ValueError as error:
            if text.lstrip()[:1] in ("{", "["):
                return _Attempt(trouble=f"a reply that is cut off or damaged: {error}")
            data = None
        read = self._api.read(data) if isinstance(data, dict) else None
        if isinstance(read, Failed):
            return read
        if isinstance(read, Answer):
            request_id = self._clean(headers.get("x-request-id", "")) or read.id
            return _Attempt(read, data, request_id)
        said = faults.said_in(data) if isinstance(data, dict | list) else Said("")
        if said.message and not faults.names_a_path(said):
            return Failed(said)
        shown = self._clean(said.message or text)[:120] or "nothing"
        if self._server.answered:
            return _Attempt(trouble=f"no {self._api.what} but {shown!r}")
        kind = headers.get("content-type", "").partition(";")[0]
        raise faults.refusal(
            self.url,
            f"answered, but not with a {self._api.what} ({self._clean(kind) or 'no type'}): {shown!r}."
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
        share: float = 1.0,
    ) -> Reply:
        return Reply(
            text=answer.text,
            reasoning=answer.reasoning,
            finish_reason=answer.finish_reason,
            refusal=answer.refusal,
            tool_calls=answer.tool_calls,
            usage=self._usage(answer, prompt, replayed, share),
            request_id=request_id,
            retries=retries,
            refused=tuple(sorted(self._adaptable() & self._server.without)),
            came_with=answer.came_with,
        )

    def _usage(self, answer: Answer, prompt: str, replayed: bool, share: float) -> Usage:
        sent, made = answer.prompt_tokens, answer.completion_tokens
        estimated = sent is None or made is None
        if sent is None:
            sent = tokens.estimate(prompt, self.settings.name)
        if made is None:
            calls = (call.arguments for call in answer.tool_calls)
            made = tokens.estimate(
                "".join((answer.reasoning, answer.text, *calls)), self.settings.name
            )
        cached = min(answer.cached_tokens or 0, sent)
        price = self._facts.price
        cost = answer.cost_usd  # what is charged is right, what we know of prices may be old
        if cost is None and price is not None:
            written = min(answer.cache_written_tokens or 0, sent - cached)
            cost = price.of(sent, made, cached, written) * share
        return Usage(
            prompt_tokens=sent,
            completion_tokens=made,
            reasoning_tokens=answer.reasoning_tokens or 0,
            cost_usd=0.0 if replayed else cost,
            calls=1,
            estimated=estimated,
            replayed_calls=1 if replayed else 0,
            replayed_tokens=sent + made if replayed else 0,
            cached_tokens=cached,
        )
