"""One model behind an API: a list of messages in, a `Reply` out.

Guarantees:
- Retries are made here and nowhere else (the library's own are off): after 429, 408, 409, 5xx, a
  lost connection, a time-out, or a 200 whose body tells of a failure or holds no message; as long
  as the server says, else with growing, seeded pauses.
- What comes back is either a `Reply`, or `NoAnswer` (the prompt does not fit, the request was
  refused for its content), or `ModelError` (no reply after all retries), or `ModelRefusedRequest`
  (key, model name, address or settings are wrong, or there is no money left).
- A key is never in a message, a record, a reply's fields or the cache, also where the server repeats it.
- A reply that came before for the same request is not asked for again (`cache`).
- A call ends when the time of its episode does, whatever it waits for. It is given no longer reply than budgets in
  tokens leave, and is not made where its prompt leaves no room. Prompts are estimated; a server that refuses such a
  length for a reply is asked without one.
Not covered: streaming; one request and what its answer means (`server`); batches (`batches`).
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rcb_agents import tokens
from rcb_agents.apis import Answer, Request
from rcb_agents.cache import ReplyCache, cache_folder
from rcb_agents.providers import resolve
from rcb_agents.registry import load_registry
from rcb_agents.replies import Reply, as_text
from rcb_agents.server import Attempt, Server
from rcb_env import BudgetSpent, ModelError, ModelSettings, NoAnswer, Usage, UsageError

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
        self.server = Server(settings, resolve(settings, registry.providers), seconds_left)
        self._random = random.Random(seed)
        folder = cache_folder(settings.cache, self.server.endpoint.host)
        self._cache = ReplyCache(folder, sample=sample, seed=seed) if folder else None
        self._batch = ReplyCache(batch / "replies", sample=sample, seed=seed) if batch else None
        self._batch_only = batch_only

    @property
    def url(self) -> str:
        """Where requests go."""
        return self.server.url

    @property
    def context_tokens(self) -> int | None:
        """The window; None: unknown."""
        return self._facts.context_tokens

    def describe(self) -> dict[str, object]:
        """What a record says of the model: where it is and what is known of it."""
        return {
            "url": self.url,
            "api": self.server.endpoint.api,
            "name": self.server.endpoint.model,
            **self._facts.model_dump(),
            "cache": str(self._cache.folder) if self._cache else None,
        }

    def check_price(self) -> None:
        """Make sure that a limit in money can be held.

        Raises:
            UsageError: nothing will tell what a call costs.
        """
        if self._facts.price is None and not self.server.endpoint.reports_cost:
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
        request = Request(
            self.settings, self.server.endpoint.model, messages, tools, self._max_tokens(prompt)
        )
        wanted = self.server.api.body(request)
        key = ""
        if self._cache is not None:
            key = self._cache.key(self.url, wanted)
            answer = self._stored(self._cache, key)
            if answer is not None:
                return self._reply(answer, prompt, answer.id, retries=0, replayed=True)
        if self._batch is not None:
            asked = self._batch.key(self.url, wanted)
            answer = self._stored(self._batch, asked)
            if answer is not None:
                return self._reply(answer, prompt, answer.id, retries=0, share=_BATCH_SHARE)
            if self._batch_only:
                raise Unanswered(asked, self.server.api.body(self._adapted(request)))
        reply, data = self._ask(request, prompt)
        if self._cache is not None and not reply.cut_at:
            self._cache.put(key, self.url, wanted, data)
        return reply

    def keep(self, key: str, data: Mapping[str, Any]) -> bool:
        """Keep what a batch has answered, if it is an answer."""
        if self._batch is None or not isinstance(self.server.api.read(data), Answer):
            return False
        self._batch.put(key, self.url, {}, data)
        return True

    # --- asking, until there is an answer ---

    def _stored(self, cache: ReplyCache, key: str) -> Answer | None:
        stored = cache.get(key)
        answer = self.server.api.read(stored) if stored is not None else None
        return answer if isinstance(answer, Answer) else None

    def _adapted(self, request: Request) -> Request:
        """Without what the model has refused."""
        return replace(request, without=frozenset(self.server.known.without))

    def _ask(self, request: Request, prompt: str) -> tuple[Reply, Mapping[str, Any]]:
        """Send a request until it is answered; gives the reply and the body that it came in."""
        room, left = self._room(prompt)
        echoed = self.server.api.echoes(request.messages)
        retries = 0
        while True:
            longest = request.max_tokens or self.context_tokens or math.inf
            limited = room < min(longest, self.server.known.too_long)
            asked = replace(request, max_tokens=int(room)) if limited else request
            try:
                body = self.server.api.body(self._adapted(asked))
                tried = self.server.attempt(body, echoed, room if limited else None)
            except TimeoutError:
                raise BudgetSpent("wall_time_spent") from None
            if tried.answer is not None:
                reply = self._reply(tried.answer, prompt, tried.request_id, retries)
                cut = limited and reply.finish_reason == "length"
                return replace(reply, cut_at=left) if cut else reply, tried.data
            if not tried.adapted:
                self._wait(tried, retries)
                retries += 1

    def _wait(self, tried: Attempt, retries: int) -> None:
        """Wait until it is time for the next try.

        Raises:
            ModelError: there is none.
            ModelRefusedRequest: nobody has been reached yet.
            BudgetSpent: the time is up before.
        """
        trouble, longest_s = self.server.clean(tried.trouble), self.settings.max_wait_s
        if tried.wait_s is not None and tried.wait_s > longest_s:
            raise ModelError(
                f"{self.url} asks to wait {tried.wait_s:.0f} s, longer than"
                f" {longest_s:g} s ({trouble}); resume the run later"
            )
        last = retries == self.settings.max_retries
        if last and tried.no_server and not self.server.known.answered:
            raise self.server.unreachable(trouble)
        if last:
            raise ModelError(f"{self.url} gave no reply, {retries + 1} times: {trouble}")
        pause_s = self._pause_s(retries) if tried.wait_s is None else tried.wait_s
        seconds_left = self._seconds_left()
        if seconds_left is not None and seconds_left <= pause_s:
            raise BudgetSpent("wall_time_spent")
        time.sleep(pause_s)

    def _pause_s(self, retries: int) -> float:
        longest: float = min(_FIRST_PAUSE_S * 2**retries, self.settings.max_wait_s)
        return longest * self._random.uniform(0.5, 1.0)

    # --- what fits ---

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

    # --- the reply ---

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
            refused=tuple(sorted(self.server.adaptable & self.server.known.without)),
            came_with=answer.came_with,
            sampled=answer.sampled,
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
