"""A call to a model ends with the time of its episode, and its reply is no longer than the tokens leave: real HTTP."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from rcb_agents.client import OpenAIModel
from rcb_agents.throttle import Gate

from rcb_env.env.settings import Budgets
from rcb_env.play.agent import BudgetSpent, ModelSettings
from rcb_env.play.record import Episode

Server = Any  # its class lives in conftest.py, which cannot be imported from here
ANSWER = "```python\n    return x * factor + 1\n```"
QUESTION = [{"role": "user", "content": "Write it."}]


def settings(server: Server, **more: Any) -> ModelSettings:
    return ModelSettings(f"m-{id(server)}-{len(more)}", base_url=server.url, **more)


@pytest.fixture
def shot(play: Callable[..., Any], model_server: Server) -> Callable[[Budgets], Episode]:
    def run(budgets: Budgets) -> Episode:
        episode, _ = play("single-shot", server=model_server, budgets=budgets)
        assert isinstance(episode, Episode)
        return episode

    return run


@pytest.mark.parametrize("trouble", ["hangs", "drips", "asks to wait", "is away"])
def test_time_that_is_up_ends_the_call_and_every_wait_for_it(
    model_server: Server, shot: Callable[[Budgets], Episode], trouble: str
) -> None:
    """A server that took 20 s made 22.7 s of a budget of 4 s."""
    model_server.plays(
        {
            "hangs": model_server.hang(),
            "drips": drips,
            "asks to wait": model_server.status(503, Retry_After="50"),
            "is away": model_server.status(500),
        }[trouble]
    )
    episode = shot(Budgets(wall_s=1.5))
    assert episode.end_reason == "wall_time_spent"
    assert episode.status == "no_change", "what is there is graded"
    assert episode.wall_s < 30, "far from the minute that the server would take"


def drips(exchange: Any) -> None:
    exchange.send_response(200)
    exchange.send_header("Content-Type", "application/json")
    exchange.send_header("Content-Length", "1000")
    exchange.end_headers()
    for _ in range(60):
        exchange.wfile.write(b" ")
        exchange.wfile.flush()
        exchange.server._over.wait(1)


def test_a_turn_at_a_server_is_waited_for_no_longer_than_there_is_time() -> None:
    gate = Gate()
    with gate.passing() as began:
        gate.narrow(began, None)
        with pytest.raises(TimeoutError), gate.passing(0.05):
            pytest.fail("it is full")
    gate.narrow(math.inf, 60.0)
    with pytest.raises(TimeoutError), gate.passing(0.05):
        pytest.fail("nobody may send now")


def test_a_reply_is_no_longer_than_the_tokens_of_an_episode_leave(
    model_server: Server, shot: Callable[[Budgets], Episode]
) -> None:
    """A budget of 9000 tokens let an episode use 16,484."""
    model_server.plays(model_server.counted(ANSWER, 20))
    sent = shot(Budgets()).usage.prompt_tokens
    fits = shot(Budgets(tokens=sent + 20))
    assert (fits.status, fits.usage.tokens) == ("passed", sent + 20)
    cut = shot(Budgets(tokens=sent + 15))
    assert (cut.status, cut.end_reason) == ("no_change", "tokens_spent")
    assert cut.usage.tokens == sent + 15
    asked = len(model_server.requests)
    none = shot(Budgets(tokens=sent))
    assert (none.end_reason, none.usage.calls) == ("tokens_spent", 0)
    assert len(model_server.requests) == asked == 3
    lengths = [request["body"].get("max_tokens") for request in model_server.requests]
    assert lengths == [None, 20, 15]


def test_four_seconds_are_not_twenty_and_9000_tokens_not_16484(
    play: Callable[..., Any], model_server: Server
) -> None:
    """Each call was bounded by itself, so the last one of an episode went as far beyond as it liked."""
    model_server.plays(model_server.slow(20, ANSWER))
    slow, _ = play("single-shot", server=model_server, budgets=Budgets(wall_s=4))
    assert slow.end_reason == "wall_time_spent"
    assert slow.wall_s < 20, "before the server was done"
    model_server.requests.clear()
    model_server.plays(model_server.counted("```python\n    return x\n```", 4000))
    episode, records = play(
        "repair:rounds=5", server=model_server, budgets=Budgets(tokens=9000), settings={"name": "m"}
    )
    assert (episode.end_reason, episode.usage.tokens) == ("tokens_spent", 9000)
    usages = [call["reply"]["usage"] for call in records.of("model_call")]
    asked = [request["body"]["max_tokens"] for request in model_server.requests]
    left = 9000
    for usage, most in zip(usages, asked, strict=True):
        left -= usage["prompt_tokens"]
        assert most == left, "what is left beside the prompt"
        left -= usage["completion_tokens"]
    assert len(asked) == 3


def test_a_length_that_a_server_refuses_is_left_out_until_less_is_left(
    model_server: Server,
) -> None:
    """Where a budget leaves more than a model can write, its server must not end the run for it."""
    left = [900, 800, 50]  # before each call
    model = OpenAIModel(settings(model_server, cache="off"), room_for_reply=lambda _: left[0])
    refused = model_server.error(400, "max_tokens is too large: 700. At most 500 tokens are made")
    model_server.plays(refused, "ok")
    for _ in range(3):
        assert model.complete(QUESTION).text == "ok"
        left.append(left.pop(0))
    lengths = [request["body"].get("max_tokens") for request in model_server.requests]
    assert lengths == [900, None, 800, 50]


def test_a_length_is_given_by_its_other_name_where_the_server_wants_that(
    model_server: Server,
) -> None:
    model = OpenAIModel(settings(model_server), room_for_reply=lambda _: 50)
    model_server.plays(
        model_server.error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'"),
        "ok",
    )
    assert model.complete(QUESTION).text == "ok"
    first, second = (request["body"] for request in model_server.requests)
    assert (first["max_tokens"], second["max_completion_tokens"]) == (50, 50)
    assert "max_tokens" not in second


def test_a_reply_that_a_budget_cut_short_is_not_kept_for_later(
    model_server: Server, tmp_path: Any
) -> None:
    model_server.plays(model_server.counted("a long answer", 20))
    asked = settings(model_server, cache=str(tmp_path))
    short = OpenAIModel(asked, room_for_reply=lambda _: 5).complete(QUESTION)
    assert (short.finish_reason, short.usage.completion_tokens) == ("length", 5)
    whole = OpenAIModel(asked).complete(QUESTION)
    assert (whole.finish_reason, whole.usage.replayed_calls) == ("stop", 0)


def test_no_call_is_begun_when_the_time_is_up(model_server: Server) -> None:
    model = OpenAIModel(settings(model_server), seconds_left=lambda: 0.0)
    with pytest.raises(BudgetSpent, match="wall time spent"):
        model.complete(QUESTION)
    assert model_server.requests == []
