"""One request to a model's server, and what its answer means: an answer, or what to do next.

Guarantees:
- A parameter the model does not know (temperature, max_tokens) is left out or renamed once, and that is remembered for
  the process; so is a length for a reply that the server refuses.
- No more requests at once than a server takes (`throttle`).
- A key is never in a message, also where the server repeats it.
- Nothing that a server sends is anybody else's fault: what no answer can be read from is a lost reply.
Not covered: when to try again (`client`); the bodies (`apis`); their size and time (`intake`); proxies (`reaching`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rcb_agents import faults, intake, reaching
from rcb_agents.apis import APIS, Answer, Failed, Lost
from rcb_agents.faults import Said
from rcb_agents.providers import Endpoint
from rcb_agents.throttle import gate_of
from rcb_env import ModelError, ModelRefusedRequest, ModelSettings, without_credentials


@dataclass
class Known:
    """What a server has shown of itself in this process."""

    answered: bool = False
    without: set[str] = field(default_factory=set)
    """Names of what it has refused in a request."""
    too_long: float = math.inf
    """A length for a reply that it refused."""


_known: dict[tuple[str, str], Known] = {}


@dataclass(frozen=True)
class Attempt:
    """How one request went: a body and what it says, or what to do next."""

    answer: Answer | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    request_id: str | None = None
    trouble: str = ""
    no_server: bool = False
    wait_s: float | None = None
    adapted: bool = False
    """The next request is another one, and goes out at once."""


class Server:
    """Where a model answers.

    Args:
        settings: of the model.
        endpoint: where requests go.
        seconds_left: of the episode; None: its time has no limit.

    Raises:
        UsageError: a provider's library is missing, or a variable for proxies or certificates cannot work.
    """

    def __init__(
        self,
        settings: ModelSettings,
        endpoint: Endpoint,
        seconds_left: Callable[[], float | None],
    ) -> None:
        self.endpoint = endpoint
        self.api = APIS[endpoint.api]
        self.url = without_credentials(endpoint.base_url + self.api.path)
        self.known = _known.setdefault((self.url, settings.name), Known())
        self._settings = settings
        self._seconds_left = seconds_left
        self._gate = gate_of(endpoint.base_url)
        self._client()  # what is wrong with proxies or certificates is told before anything is sent

    @property
    def adaptable(self) -> set[str]:
        """The parameters of a request that can be left out or renamed."""
        settings = self._settings
        given = {n for n in ("temperature", "max_tokens") if getattr(settings, n) is not None}
        return given | self.api.optional

    def attempt(self, body: Mapping[str, Any], echoed: set[str], room: float | None) -> Attempt:
        """Send a request.

        Args:
            body: of it.
            echoed: names in it that came from the server.
            room: the length of the reply, if a budget has set it.

        Raises:
            TimeoutError: the episode's time is up.
            NoAnswer: the prompt is too long, or was refused for its content.
            ModelError: another try cannot change it.
            ModelRefusedRequest: no request of this kind can succeed.
        """
        with self._gate.passing(self._seconds_left()) as began:
            longest_s, hurries = self._longest_s()
            try:
                raw = self.api.send(self._client(), body, longest_s)
            except Lost as lost:
                if lost.timed_out and hurries:
                    raise TimeoutError from None
                why = f"the connection failed: {lost}"
                if lost.timed_out:
                    why = f"no reply within {longest_s:g} s"
                return Attempt(trouble=why, no_server=reaching.nobody_reached(lost))
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
            self.known.answered = True
        return tried

    def unreachable(self, trouble: str) -> ModelRefusedRequest:
        """What to raise where nobody is reached."""
        return faults.refusal(self.url, reaching.why_not(self.endpoint.base_url, trouble))

    def clean(self, text: str) -> str:
        """One line that a terminal can show, without the key, which some servers repeat."""
        text = intake.without(text[:100_000], self.endpoint.secrets)
        shown = "".join(char if char.isprintable() else " " for char in text)
        return " ".join(shown.split())[:300]

    # --- what a batch needs ---

    def talk(self, say: Callable[..., Any], *words: object) -> Any:
        """Say something else to the server: a function of the library's client, and what else it takes.

        Raises:
            ModelError: it did not go well.
        """
        try:
            return say(self._client(), *words)
        except Exception as error:  # whatever a library makes of a server's words
            why = error.__cause__ if type(error).__name__ == "APIConnectionError" else error
            raise ModelError(f"{self.url}: the batch: {self.clean(str(why))}") from error

    def learn(self, status: int, body: Mapping[str, Any]) -> tuple[bool, str]:
        """Whether a refusal names what can be left out, and its words."""
        said = self._said(json.dumps(body))
        name = faults.refused_parameter(status, said, self.adaptable, set())
        self.known.without |= {name} if name else set()
        return name is not None, self.clean(said.message)

    def leave_out(self, names: Sequence[str]) -> None:
        """Leave out, or rename, what the model has refused in an earlier session."""
        self.known.without |= {*names}

    def left_out(self) -> list[str]:
        """What the model has refused so far."""
        return sorted(self.known.without)

    # --- inside ---

    def _client(self) -> Any:
        return reaching.connect(self.api.connect, self.endpoint.base_url, self.endpoint.key)

    def _longest_s(self) -> tuple[float, bool]:
        """The longest wait for a reply, and whether it is the end of the episode's time that sets it.

        Raises:
            TimeoutError: the time is up.
        """
        seconds_left = self._seconds_left()
        if seconds_left is None or seconds_left >= self._settings.timeout_s:
            return self._settings.timeout_s, False
        if seconds_left <= 0:
            raise TimeoutError
        return seconds_left, True

    def _refused(
        self,
        status: int,
        said: Said,
        echoed: set[str],
        room: float | None,
        began: float,
        headers: Mapping[str, str],
    ) -> Attempt:
        """What to do after a refusal.

        Raises:
            NoAnswer: the prompt is too long, or was refused for its content.
            ModelError: another try cannot change it.
        """
        wanted = self.adaptable | ({"max_tokens"} if room is not None else set())
        wanted -= self.known.without
        name = faults.refused_parameter(status, said, wanted, echoed - self.known.without)
        if name is not None:
            self.known.without.add(name)
            return Attempt(adapted=True)
        if room is not None and faults.may_be_about_length(status, said):
            self.known.too_long = min(room, self.known.too_long)
            return Attempt(adapted=True)
        shown = self.clean(said.message) or "without a word"
        if status == 407 and (proxy := reaching.proxy_of(self.endpoint.base_url)):
            raise faults.refusal(
                self.url, f"is behind a proxy that refuses (407): check {proxy[0]}"
            )
        final = faults.final(
            status,
            said,
            shown,
            url=self.url,
            model=self.endpoint.model,
            key_variable=self.endpoint.key_variable,
            has_key=bool(self.endpoint.key),
            answered=self.known.answered,
        )
        if final is not None:
            raise final
        wait_s = faults.retry_after_s(headers, said.message)
        if status == 429 or (status == 503 and wait_s is not None):
            heeded = wait_s is not None and wait_s <= self._settings.max_wait_s
            self._gate.narrow(began, wait_s if heeded else None)
        return Attempt(trouble=f"status {status}: {shown}", wait_s=wait_s)

    def _completion(self, text: str, headers: Mapping[str, str]) -> Attempt | Failed:
        """The completion in a 200, or what its body says of a failure, or why another try may help.

        Raises:
            ModelRefusedRequest: the address is wrong.
        """
        try:
            data = intake.parsed(text, self.endpoint.secrets)
        except ValueError as error:
            if text.lstrip()[:1] in ("{", "["):
                return Attempt(trouble=f"a reply that is cut off or damaged: {error}")
            data = None
        read = self.api.read(data) if isinstance(data, dict) else None
        if isinstance(read, Failed):
            return read
        if isinstance(read, Answer):
            request_id = self.clean(headers.get("x-request-id", "")) or read.id
            return Attempt(read, data, request_id)
        said = faults.said_in(data) if isinstance(data, dict | list) else Said("")
        if said.message and not faults.names_a_path(said):
            return Failed(said)
        shown = self.clean(said.message or text)[:120] or "nothing"
        if self.known.answered:
            return Attempt(trouble=f"no {self.api.what} but {shown!r}")
        kind = headers.get("content-type", "").partition(";")[0]
        raise faults.refusal(
            self.url,
            f"answered, but not with a {self.api.what} ({self.clean(kind) or 'no type'}): {shown!r}."
            " Check the address; most end with /v1",
        )

    def _said(self, text: str) -> Said:
        """The words of an error's body."""
        try:
            said = faults.said_in(intake.parsed(text, self.endpoint.secrets))
        except ValueError:
            said = Said("")
        return said if said.message else Said(text, said.code, said.kind, said.param)
