"""Agents play episodes: the real environment, real boxes, and a model API that does as it is told."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest
from rcb_agents import prompts
from rcb_agents.client import OpenAIModel

from rcb_env.env.actions import ToolCall
from rcb_env.env.settings import Budgets, Shown
from rcb_env.errors import ModelError, ModelRefusedRequest, StoreError, UsageError
from rcb_env.play.agent import ModelSettings, NoAnswer, Task, Turn, Usage
from rcb_env.play.record import Episode

Server = Any  # its class lives in conftest.py, which cannot be imported from here
Play = Callable[..., tuple[Episode, Any]]  # the fixture is there, too
RIGHT = "    return x * factor + 1\n"
WRONG = "    return x * factor\n"


def fenced(code: str) -> str:
    return f"```python\n{code}```"


@dataclass(frozen=True)
class Scripted:
    """An agent that yields what it is given; an exception is raised."""

    moves: tuple[object, ...]

    def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
        for move in self.moves:
            if isinstance(move, BaseException):
                raise move
            if isinstance(move, Usage):
                task.spend(move)
                continue
            if callable(move):
                move(task)
                continue
            yield move  # type: ignore[misc]


def write(code: str) -> ToolCall:
    return ToolCall("write_region", {"code": code})


# --- oracles ----------------------------------------------------------------------------------


def test_the_reference_passes_and_doing_nothing_does_not(play: Play) -> None:
    episode, records = play("reference")
    assert (episode.status, episode.end_reason, episode.code) == ("passed", "submitted", RIGHT)
    assert records.tools == ["write_region", "submit"]
    assert episode.verdict is not None
    assert episode.verdict["timings"]
    episode, _ = play("noop")
    assert (episode.status, episode.end_reason) == ("no_change", "submitted")


@pytest.mark.parametrize(("skill", "status"), [(1, "passed"), (0, "failed")])
def test_a_simulated_model_is_as_good_as_its_skill(play: Play, skill: int, status: str) -> None:
    episode, records = play(f"simulated:skill={skill}")
    assert episode.status == status
    assert "simulated" in episode.agent
    (call,) = records.of("model_call")
    assert "simulated" in call["model"]
    assert "simulated" in call["reply"]["text"]


def test_a_simulated_model_depends_on_the_seed_alone(play: Play, model_server: Server) -> None:
    named = {"name": "simulated:skill=0.4"}
    first = [
        play("repair:rounds=2", server=model_server, settings=named, seed=n)[0] for n in range(6)
    ]
    again = [
        play("repair:rounds=2", server=model_server, settings=named, seed=n)[0] for n in range(6)
    ]
    assert [each.code for each in first] == [each.code for each in again]
    assert len({each.steps for each in first}) > 1
    assert model_server.requests == []


def test_a_simulated_model_with_a_wrong_name_is_refused(play: Play, model_server: Server) -> None:
    for name in ("simulated:skill=2", "simulated:luck=1", "simulated:skill=x"):
        with pytest.raises(UsageError, match=r"simulated:skill=0\.5"):
            play("single-shot", server=model_server, settings={"name": name})


# --- single shot ------------------------------------------------------------------------------


def test_one_completion_is_submitted_as_it_is(play: Play, model_server: Server) -> None:
    model_server.plays(f"Here:\n{fenced(RIGHT)}\nDone.")
    episode, records = play("single-shot", server=model_server)
    assert (episode.status, episode.code) == ("passed", RIGHT)
    assert (episode.usage.calls, episode.usage.tokens, episode.usage.cost_usd) == (1, 120, None)
    assert [kind for kind, _ in records.kept] == [
        *("start", "model", "prompt_plan", "model_call", "extraction", "step", "step", "end")
    ]
    (call,) = records.of("model_call")
    assert call["reply"]["text"] == f"Here:\n{fenced(RIGHT)}\nDone."  # the raw reply
    assert call["prompts"] == prompts.VERSION
    sent = model_server.requests[0]["body"]
    assert sent["temperature"] == 0.0
    assert call["messages"] == sent["messages"]


def test_the_prompt_shows_paper_code_and_rules(play: Play, model_server: Server) -> None:
    play("single-shot", server=model_server)
    play("single-shot", server=model_server, task={"shown": Shown(paper="none")})
    with_paper, without = (
        request["body"]["messages"][0]["content"] for request in model_server.requests
    )
    assert "Multiply {x} by the factor" in with_paper
    assert "Multiply {x} by the factor" not in without
    for prompt in (with_paper, without):
        assert '## src/small.py\n\n"""Scaling."""' in prompt
        assert '    # TODO: Implement block "scale"\n' in prompt
        assert "indentation of the TODO: 4 spaces" in prompt
        assert RIGHT.strip() not in prompt
        assert "paper2code" not in prompt


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"text": f"```python\n{RIGHT}    x = 'cut", "finish": "length"}, "truncated"),
        ({"reasoning_content": fenced(RIGHT), "finish": "length"}, "truncated"),
        ({"text": ""}, "empty"),
        ({"text": None, "refusal": "No."}, "refused"),
        ({"text": fenced(RIGHT), "finish": "content_filter"}, "refused"),
        ({"text": "I would multiply."}, "no_code"),
        ({"text": f"<think>\n{fenced(RIGHT)}"}, "truncated"),
    ],
)
def test_a_reply_without_an_answer_is_invalid_with_its_reason(
    play: Play, model_server: Server, reply: dict[str, Any], reason: str
) -> None:
    """Cases C007 and C055: a cut-off reply or null content crashed the run, or looked like code
    that fails its tests. The draft is stored, never graded, and what it took is counted."""
    model_server.plays(model_server.answer(**reply))
    episode, records = play("single-shot", server=model_server)
    assert (episode.status, episode.end_reason) == ("invalid", reason)
    assert episode.verdict is None
    assert episode.error
    assert episode.usage.tokens == 120
    assert records.of("model_call")[0]["reply"]["text"] == (reply.get("text") or "")


def test_a_prompt_that_does_not_fit_is_invalid(play: Play, model_server: Server) -> None:
    """Case C059, greedy: the status says that the context was exceeded."""
    model_server.plays(model_server.error(400, "x", code="context_length_exceeded"))
    episode, records = play("single-shot", server=model_server)
    assert (episode.status, episode.end_reason) == ("invalid", "context_exceeded")
    assert "context_exceeded" in records.of("model_call")[0]["error"]


def test_a_model_without_a_reply_is_infrastructure(play: Play, model_server: Server) -> None:
    model_server.plays(model_server.status(500))
    episode, _ = play("single-shot", server=model_server, settings={"max_retries": 0})
    assert (episode.status, episode.end_reason) == ("infra_error", "model_error")
    assert "status 500" in episode.error


def test_a_refused_key_stops_the_run(play: Play, model_server: Server) -> None:
    model_server.plays(model_server.error(401, "bad key"))
    with pytest.raises(ModelRefusedRequest, match="OPENAI_API_KEY"):
        play("single-shot", server=model_server)


# --- repair -----------------------------------------------------------------------------------


def test_a_failure_is_repaired_with_what_the_tests_say(play: Play, model_server: Server) -> None:
    model_server.plays(fenced(WRONG), fenced(RIGHT))
    episode, records = play("repair", server=model_server)
    assert (episode.status, episode.test_runs) == ("passed", 2)
    assert records.tools == ["write_region", "run_tests", "write_region", "run_tests", "submit"]
    second = model_server.requests[1]["body"]["messages"]
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert records.of("step")[1]["text"] in second[2]["content"]
    # Each message is in the trajectory once: the reply of the first call is not repeated.
    calls = records.of("model_call")
    assert [call["earlier_messages"] for call in calls] == [0, 2]
    assert [len(call["messages"]) for call in calls] == [1, 1]


def test_a_fresh_history_shows_the_last_try_only(play: Play, model_server: Server) -> None:
    model_server.plays(fenced("    return 1\n"), fenced(WRONG), fenced(RIGHT))
    episode, _ = play("repair:history=fresh", server=model_server)
    assert episode.passed
    (message,) = model_server.requests[2]["body"]["messages"]
    assert WRONG in message["content"]
    assert "TODO" in message["content"]
    assert "return 1\n" not in message["content"]


def test_the_last_round_is_submitted_without_another_test(play: Play, model_server: Server) -> None:
    model_server.plays(fenced(WRONG))
    episode, records = play("repair:rounds=1", server=model_server)
    assert (episode.status, episode.usage.calls) == ("failed", 2)
    assert records.tools == ["write_region", "run_tests", "write_region", "submit"]


def test_without_rounds_repair_is_the_single_shot(play: Play, model_server: Server) -> None:
    model_server.plays(fenced(WRONG))
    for agent in ("repair:rounds=0", "single-shot"):
        assert play(agent, server=model_server)[1].tools == ["write_region", "submit"]
    first, second = (request["body"]["messages"] for request in model_server.requests)
    assert first == second


def test_a_reply_without_code_costs_a_round(play: Play, model_server: Server) -> None:
    model_server.plays("Let me think.", fenced(RIGHT))
    episode, _ = play("repair:rounds=1", server=model_server)
    assert episode.passed
    model_server.plays("Let me think.")
    episode, _ = play("repair:rounds=1", server=model_server)
    assert (episode.status, episode.end_reason) == ("invalid", "no_code")


def test_an_overflow_after_work_grades_the_work(play: Play, model_server: Server) -> None:
    """Case C059, multi-turn: the work so far is graded and the reason of the end is stored."""
    model_server.plays(fenced(WRONG), model_server.error(400, "prompt is too long: 9 > 8"))
    episode, _ = play("repair", server=model_server)
    assert (episode.status, episode.end_reason) == ("failed", "context_exceeded")
    assert episode.code == WRONG


def test_spent_test_runs_end_the_repair(play: Play, model_server: Server) -> None:
    model_server.plays(fenced(WRONG))
    episode, _ = play("repair:rounds=9", server=model_server, max_test_runs=1)
    assert (episode.status, episode.end_reason, episode.usage.calls) == ("failed", "submitted", 2)


# --- the loop ---------------------------------------------------------------------------------


def test_an_agent_that_just_ends_is_graded_as_it_stands(play: Play) -> None:
    episode, _ = play(Scripted((write(RIGHT),)))
    assert (episode.status, episode.end_reason) == ("passed", "stopped")


def test_spent_steps_are_graded_as_they_stand(play: Play) -> None:
    episode, _ = play(Scripted((write(RIGHT),) * 5), max_steps=2)
    assert (episode.status, episode.end_reason, episode.steps) == ("passed", "steps_spent", 2)


def test_after_submit_nothing_is_done(play: Play) -> None:
    """Case C057: a submit together with other calls."""
    after: list[Task] = []
    episode, records = play(Scripted((write(RIGHT), ToolCall("submit"), after.append)))
    assert (episode.passed, records.tools, after) == (True, ["write_region", "submit"], [])


@pytest.mark.parametrize(
    "action",
    [ToolCall("bash", {"x": 1}), ToolCall(""), {"tool": 1}, ToolCall("undo")],
)
def test_a_wrong_action_is_answered_and_costs_a_step(play: Play, action: object) -> None:
    """Case C057: a made-up tool crashed the run, or was answered with nothing to learn from."""
    episode, records = play(Scripted((action, write(RIGHT))))
    assert (episode.passed, episode.steps) == (True, 3)
    assert records.of("step")[0]["error"]


@pytest.mark.parametrize(
    ("usage", "budgets", "reason"),
    [
        (Usage(90, 11), Budgets(tokens=100), "tokens_spent"),
        (Usage(cost_usd=0.2), Budgets(cost_usd=0.1), "cost_spent"),
        (Usage(), Budgets(wall_s=1e-6), "wall_time_spent"),
    ],
)
def test_a_spent_budget_is_graded_as_it_stands(
    play: Play, usage: Usage, budgets: Budgets, reason: str
) -> None:
    episode, _ = play(Scripted((usage, write(RIGHT))), budgets=budgets)
    assert (episode.status, episode.end_reason) == ("no_change", reason)


def test_a_budget_ends_also_an_agent_that_ignores_it(play: Play) -> None:
    class Deaf:
        def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
            yield write(WRONG)
            while True:
                with contextlib.suppress(Exception):  # the fault this test is about
                    task.spend(Usage(60, 0))
                yield ToolCall("list_files")

    episode, records = play(Deaf(), budgets=Budgets(tokens=100))
    assert (episode.status, episode.end_reason) == ("failed", "tokens_spent")
    assert records.tools == ["write_region", "list_files", "submit"]


def test_a_cost_budget_without_a_price_is_the_users_mistake(play: Play) -> None:
    with pytest.raises(UsageError, match="price of this model is unknown"):
        play(Scripted((Usage(cost_usd=None),)), budgets=Budgets(cost_usd=1.0))


def test_a_fault_of_the_agent_is_infrastructure_with_its_cause(play: Play) -> None:
    episode, records = play(Scripted((write(RIGHT), ZeroDivisionError("by\nnought"))))
    assert (episode.status, episode.end_reason) == ("infra_error", "agent_error")
    assert episode.error.startswith("ZeroDivisionError: by nought (test_agents.py:")
    assert "Traceback" in records.of("agent_error")[0]["traceback"]


@pytest.mark.parametrize(
    ("move", "says"),
    [
        (("submit", {}), "yielded a tuple; yield rcb_env.ToolCall(name, arguments)"),
        (None, "yielded None; yield rcb_env.ToolCall(name, arguments)"),
        ("submit", "yielded a str; yield rcb_env.ToolCall(name, arguments)"),
        (ToolCall("undo", "x"), "yielded a ToolCall whose arguments are a str, not a dict"),  # type: ignore[arg-type]
        (write(b"x"), "yielded a ToolCall that cannot be written as JSON: "),  # type: ignore[arg-type]
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_tool_call_is_a_fault_of_the_agent(play: Play, move: object, says: str) -> None:
    """It was scored as an attempt that changed nothing, or ended the run with a traceback."""
    episode, _ = play(Scripted((write(RIGHT), move)))
    assert (episode.status, episode.end_reason) == ("infra_error", "agent_error")
    assert episode.error.startswith(f"Scripted.play {says}")


@pytest.mark.parametrize(("answer", "kind"), [(None, "None"), ([], "a list")])
def test_an_agent_that_is_no_generator_is_told(play: Play, answer: object, kind: str) -> None:
    class Wrong:
        def play(self, task: Task) -> Any:
            return answer if task else None

    episode, _ = play(Wrong())
    assert episode.end_reason == "agent_error"
    assert f"Wrong.play returned {kind}; make it a generator" in episode.error


def test_a_fault_while_an_agent_is_closed_costs_nothing(play: Play) -> None:
    class Messy:
        def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
            try:
                yield write(RIGHT if task else WRONG)
                yield ToolCall("submit")
            finally:
                raise RuntimeError("late")

    assert play(Messy())[0].passed


@pytest.mark.parametrize("error", [StoreError("full"), UsageError("no"), KeyboardInterrupt()])
def test_what_would_hit_every_episode_is_raised(play: Play, error: BaseException) -> None:
    with pytest.raises(type(error)):
        play(Scripted((error,)))


def test_no_answer_and_model_errors_of_any_agent_are_told_apart(play: Play) -> None:
    assert play(Scripted((NoAnswer("empty"),)))[0].status == "invalid"
    assert play(Scripted((ModelError("away"),)))[0].status == "infra_error"
    assert play(Scripted((write(RIGHT), NoAnswer("empty"))))[0].status == "passed"


def test_every_step_is_on_record_before_the_next_begins(play: Play) -> None:
    """Case C078: a trajectory that is written at the end is lost with the process."""

    @dataclass(frozen=True)
    class Watching:
        def play(self, task: Task) -> Generator[ToolCall, Turn, None]:
            task.record("note", {"before": "first"})
            yield ToolCall("list_files")
            task.record("note", {"before": "second"})
            yield write(RIGHT)

    _, records = play(Watching())
    assert [kind for kind, _ in records.kept] == [
        *("start", "note", "step", "note", "step", "step", "end")
    ]


def test_the_key_is_in_no_record(
    play: Play, model_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C053: the API key was found in logs and trajectories."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    model_server.plays(model_server.error(500, "sk-very-secret-0123456789 is overloaded"))
    episode, records = play("single-shot", server=model_server, settings={"max_retries": 0})
    assert "overloaded" in episode.error
    assert "very-secret" not in json.dumps([records.kept, episode.to_dict()])


def test_an_episode_tells_its_time(play: Play) -> None:
    episode, records = play(Scripted((lambda _: time.sleep(0.05), write(RIGHT))))
    assert episode.wall_s >= 0.05
    steps = records.of("step")
    assert [step["index"] for step in steps] == [0, 1]
    assert 0.05 <= steps[0]["elapsed_s"] <= steps[1]["elapsed_s"] <= episode.wall_s
    assert episode.started_at.endswith("+00:00")


def test_models_are_opened_once_an_episode(model_server: Server) -> None:
    """The connection pool is shared: a thousand episodes do not open a thousand."""
    settings = ModelSettings("m", base_url=model_server.url)
    first, second = OpenAIModel(settings), OpenAIModel(settings)
    assert first.server._client() is second.server._client()
