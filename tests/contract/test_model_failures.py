"""A provider's failure is never a model's wrong answer, whatever form it has and however late it comes."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rcb_agents import intake
from rcb_agents.apis import APIS, Answer, Failed
from rcb_agents.client import OpenAIModel
from rcb_agents.faults import Said, is_overflow, said_in

from rcb_env.errors import ModelError, ModelRefusedRequest
from rcb_env.play.agent import ModelSettings, NoAnswer
from rcb_env.play.record import Episode

Server = Any  # its class lives in conftest.py, which cannot be imported from here
Play = Callable[..., tuple[Episode, Any]]
QUESTION = [{"role": "user", "content": "Write it."}]
RIGHT = "```python\n    return x * factor + 1\n```"
HALF = "```python\n    return x\n```"
KEY = "sk-very-secret/0123456789"


def model(server: Server, **settings: Any) -> OpenAIModel:
    chosen = {"name": f"m-{id(server)}-{time.monotonic()}", "base_url": server.url, **settings}
    return OpenAIModel(ModelSettings(max_wait_s=0.01, **chosen))


def body(server: Server, text: object = None, finish: str | None = "stop", **fields: Any) -> Any:
    """A behaviour: a 200 with a completion that has further fields, or some of its own replaced."""
    made = {**server.completion(text, finish=finish), **fields}
    return lambda exchange: exchange.send(200, made)


def choice(server: Server, **fields: Any) -> Any:
    whole = server.completion(HALF)
    whole["choices"][0].update(fields)
    return lambda exchange: exchange.send(200, whole)


FAILURES: dict[str, Callable[[Server], Any]] = {
    "an error beside an empty text": lambda s: body(
        s, "", "error", error={"message": "upstream died"}
    ),
    "an error beside half an answer": lambda s: choice(
        s, finish_reason="error", error={"code": 502, "message": "upstream died"}
    ),
    "half an answer that ends with error": lambda s: body(s, HALF, "error"),
    "abort": lambda s: body(s, HALF, "abort"),
    "abort in an object": lambda s: choice(s, finish_reason={"type": "abort", "message": "bye"}),
    "network_error": lambda s: body(s, HALF, "network_error"),
    "no resources": lambda s: body(s, HALF, "insufficient_system_resource"),
    "message null": lambda s: choice(s, message=None),
    "no choices": lambda s: body(s, choices=[]),
    "choices null": lambda s: body(s, choices=None, error={"message": "no instance", "code": None}),
    "choices null and a text": lambda s: body(s, choices=None, error="overloaded"),
    "an error alone": lambda s: s.page('{"error": {"message": "boom"}}', "application/json"),
    "a text alone": lambda s: s.page('{"error": "model is loading"}', "application/json"),
    "a list": lambda s: s.page('[{"error": {"message": "boom"}}]', "application/json"),
    "a number as text": lambda s: body(s, choices=None, error={"code": "503", "message": "busy"}),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_in_a_200_is_asked_for_again(model_server: Server, kind: str) -> None:
    """The first reply of a run was taken for a wrong answer, or ended the run as a wrong address."""
    model_server.plays(FAILURES[kind](model_server), "ok")
    reply = model(model_server).complete(QUESTION)
    assert (reply.text, reply.retries) == ("ok", 1)


@pytest.mark.parametrize(
    ("agent", "kind"),
    [
        *(("single-shot", kind) for kind in FAILURES),
        *(("tools", kind) for kind in ("abort", "choices null", "message null")),
    ],
)
def test_a_failure_that_stays_is_infrastructure(
    play: Play, model_server: Server, agent: str, kind: str
) -> None:
    """Half an answer was graded; what was empty was the model's fault."""
    model_server.plays(FAILURES[kind](model_server))
    episode, _ = play(agent, server=model_server, settings={"max_retries": 1, "max_wait_s": 0.01})
    assert (episode.status, episode.end_reason) == ("infra_error", "model_error")
    assert len(model_server.requests) == 2
    assert episode.code.strip() != "return x"


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_is_not_kept_for_later(model_server: Server, tmp_path: Path, kind: str) -> None:
    """It came from the cache ever after, also in a run that was resumed to try again."""
    model_server.plays(FAILURES[kind](model_server))
    settings = {"cache": str(tmp_path), "name": f"m-{id(tmp_path)}", "max_retries": 0}
    with pytest.raises(ModelError):
        model(model_server, **settings).complete(QUESTION)
    assert not list(tmp_path.rglob("*.json"))
    model_server.plays("ok")
    assert model(model_server, **settings).complete(QUESTION).text == "ok"


def test_a_failure_that_an_earlier_version_kept_is_asked_again(
    model_server: Server, tmp_path: Path
) -> None:
    settings = {"cache": str(tmp_path), "name": f"m-{id(tmp_path)}"}
    model_server.plays(HALF, "ok")
    model(model_server, **settings).complete(QUESTION)
    (file,) = tmp_path.rglob("*.json")
    kept = json.loads(file.read_text())
    kept["response"]["choices"][0]["finish_reason"] = "error"
    file.write_text(json.dumps(kept))
    assert model(model_server, **settings).complete(QUESTION).text == "ok"


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "failed", "error": {"message": "overloaded"}},
        {"status": "cancelled"},
        {"status": "in_progress"},
        {"status": "completed", "error": {"message": "late"}},
        {"status": "failed", "output": None},
        {"output": None, "error": {"message": "no instance"}},
    ],
)
def test_the_responses_api_fails_in_a_200_as_well(
    model_server: Server, fields: dict[str, Any]
) -> None:
    said = {"type": "message", "content": [{"type": "output_text", "text": "half"}]}
    whole = model_server.response({"type": "message", "content": [{"text": "ok"}]})
    model_server.plays(model_server.response(said, **fields), whole)
    assert model(model_server, api="responses").complete(QUESTION).text == "ok"


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        ({"code": 401, "message": "bad key"}, ModelRefusedRequest),
        ({"code": "429", "message": "slow down"}, ModelError),
        ({"code": 400, "message": "prompt is too long: 9 tokens > 8 maximum"}, NoAnswer),
        ({"message": "This model's maximum context length is 8 tokens."}, NoAnswer),
        ({"code": "content_filter", "message": "no"}, NoAnswer),
    ],
)
def test_a_refusal_in_a_200_means_what_it_means_elsewhere(
    model_server: Server, error: dict[str, Any], raised: type[Exception]
) -> None:
    model_server.plays(body(model_server, choices=None, error=error))
    with pytest.raises(raised) as caught:
        model(model_server, max_retries=0).complete(QUESTION)
    assert type(caught.value) is raised


def test_ends_that_are_the_models_stay_answers(model_server: Server) -> None:
    """What is none of a server's failures is the model's, by whatever name."""
    names = {
        "stop": "stop",
        "eos_token": "eos_token",
        "MAX_TOKENS": "length",
        "SAFETY": "content_filter",
    }
    for name, known in names.items():
        model_server.plays(body(model_server, "text", name, error=None))
        reply = model(model_server).complete(QUESTION)
        assert (reply.text, reply.finish_reason) == ("text", known)


# --- the words of an error --------------------------------------------------------------------

OVERFLOWS = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "Input tokens exceed the configured limit of 272000 tokens.",
    "prompt is too long: 214345 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "The input token count exceeds the maximum number of tokens allowed 1048576",
    "The decoder prompt (length 40000) is longer than the maximum model length of 32768.",
    "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
    "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
    "Requested token count exceeds the model's maximum context length of 32768 tokens.",
    "request (66202 tokens) exceeds the available context size (65536 tokens), try increasing it",
    "the request exceeds the available context size",
    "Context size has been exceeded.",
    "the input length exceeds the context length",
    "prompt too long; exceeded max context length by 12 tokens",
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
    "`inputs` must have less than 1024 tokens. Given: 1500",
    "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded"
    " with context length of only 4096 tokens, which is not enough.",
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum"
    " context length",
    "Please reduce the length of the messages or completion.",
    "This endpoint's maximum context length is 131072 tokens. However, you requested about 200000",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Invalid request: Your request exceeded model token limit: 8192",
    "Range of input length should be [1, 30720]",
    "Request body too large for gpt-4o model. Max size: 8000 tokens.",
    "invalid params, context window exceeds limit (2013)",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081",
    "Input is too long for requested model.",
    "Prompt exceeds max length",
]
OTHERS = [
    "Too many tokens, please wait before trying again.",
    "Rate limit reached: tokens per minute (TPM): Limit 30000, Used 29000.",
    "max_tokens is too large: 50000. This model supports at most 16384 completion tokens.",
    "messages.1.content: Field required",
    "The model is overloaded. Please try again later.",
]


@pytest.mark.parametrize("message", OVERFLOWS)
def test_every_servers_words_for_too_long_are_known(message: str) -> None:
    for status in (400, 413, 422, 500):
        assert is_overflow(status, Said(message))
    assert not is_overflow(429, Said(message))


@pytest.mark.parametrize("message", OTHERS)
def test_other_words_about_tokens_are_not_taken_for_it(message: str) -> None:
    assert not is_overflow(400, Said(message))


SHAPES: dict[str, Callable[[str], Any]] = {
    "as OpenAI": lambda m: {"error": {"message": m, "type": "invalid_request_error", "code": None}},
    "in a list": lambda m: [{"error": {"code": 400, "message": m, "status": "INVALID_ARGUMENT"}}],
    "a text": lambda m: m,
    "error as text": lambda m: {"error": m},
    "error as text beside a code": lambda m: {"code": "invalid-argument", "error": m},
    "detail as text": lambda m: {"detail": m},
    "detail with places": lambda m: {
        "detail": [{"loc": ["body", "messages"], "msg": m, "type": "value_error", "input": "x"}]
    },
    "beside object": lambda m: {"object": "error", "message": m, "code": 400},
    "from the provider behind": lambda m: {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": json.dumps({"error": {"message": m}})},
        }
    },
    "JSON in a message": lambda m: {"error": {"message": json.dumps({"error": {"message": m}})}},
    "errors": lambda m: {"errors": [{"message": m}]},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("status", [400, 422])
def test_a_servers_words_are_read_in_every_shape(
    model_server: Server, shape: str, status: int
) -> None:
    """A list of errors, or a text, was shown as "Error code: 400" and not understood."""
    made = SHAPES[shape]
    model_server.plays(model_server.status(status, made("the frobnicator is broken")))
    with pytest.raises(ModelRefusedRequest, match="the frobnicator is broken"):
        model(model_server).complete(QUESTION)
    long = "The input token count (9000) exceeds the maximum number of tokens allowed (8000)."
    model_server.plays(model_server.status(status, made(long)))
    with pytest.raises(NoAnswer, match="input token count") as caught:
        model(model_server).complete(QUESTION)
    assert caught.value.reason == "context_exceeded"
    no = "Unsupported parameter: temperature"
    model_server.plays(model_server.status(status, made(no)), "ok")
    assert model(model_server).complete(QUESTION).refused == ("temperature",)


def test_words_of_any_shape_are_no_crash() -> None:
    odd: list[Any] = [None, True, 3, 1.5, [], {}, [[[]]], {"error": []}, {"code": 10**400}]
    for value in (*odd, {"detail": odd}, {"errors": odd}, {"metadata": {"raw": odd}}):
        assert said_in(value).message == ""
    assert said_in({"error": {"message": ["a"], "error": "b"}}).message == "b"


def test_an_overflow_after_two_rounds_leaves_the_older_ones_out(
    play: Play, model_server: Server
) -> None:
    """Gemini's words were not known, so that the episode ended, and at first the whole run."""
    long = "The input token count (9000) exceeds the maximum number of tokens allowed (8000)."
    look = ("read_file", {"path": "src/small.py"})
    model_server.plays(
        model_server.calls(look),
        model_server.calls(("list_files", {})),
        model_server.status(400, [{"error": {"code": 400, "message": long}}]),
        model_server.calls(
            ("write_region", {"code": "    return x * factor + 1\n"}), ("submit", {})
        ),
    )
    episode, records = play("tools", server=model_server)
    assert episode.status == "passed"
    sizes = [len(request["body"]["messages"]) for request in model_server.requests]
    assert sizes[3] < sizes[2]
    assert records.of("model_call")[-1]["left_out"]


def test_an_overflow_at_first_is_no_answer(play: Play, model_server: Server) -> None:
    long = "The input token count (9000) exceeds the maximum number of tokens allowed (8000)."
    model_server.plays(model_server.status(400, [{"error": {"code": 400, "message": long}}]))
    episode, _ = play("tools", server=model_server)
    assert (episode.status, episode.end_reason) == ("invalid", "context_exceeded")


def test_a_request_beyond_the_accounts_limit_is_not_sent_again(model_server: Server) -> None:
    """Its size is too much for a minute, at any minute; and it is no fault of the model's."""
    no = "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 44000."
    model_server.plays(model_server.error(429, no, code="rate_limit_exceeded"))
    with pytest.raises(ModelError, match="from this account"):
        model(model_server).complete(QUESTION)
    assert len(model_server.requests) == 1


def test_an_error_that_a_terminal_would_obey_is_shown_as_text(model_server: Server) -> None:
    model_server.plays(model_server.error(500, "\x1b]0;owned\x07\x1b[2Jgone"))
    with pytest.raises(ModelError) as caught:
        model(model_server, max_retries=0).complete(QUESTION)
    assert str(caught.value).isprintable()


# --- hostile bodies ---------------------------------------------------------------------------


def raw(data: bytes, **headers: str) -> Any:
    def play(exchange: Any) -> None:
        exchange.send_response(200)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            exchange.send_header(name.replace("_", "-"), value)
        exchange.send_header("Content-Length", str(len(data)))
        exchange.end_headers()
        exchange.wfile.write(data)

    return play


def drip(exchange: Any) -> None:
    """A reply of 2000 bytes, one every 50 ms."""
    exchange.send_response(200)
    exchange.send_header("Content-Type", "application/json")
    exchange.send_header("Content-Length", "2000")
    exchange.end_headers()
    for _ in range(2000):
        exchange.wfile.write(b" ")
        exchange.wfile.flush()
        time.sleep(0.05)


def whole(server: Server) -> bytes:
    return json.dumps(server.completion("x")).encode()


def zeros(megabytes: int) -> bytes:
    return b'{"choices": "' + b"0" * (megabytes * 1_000_000)


HOSTILE: dict[str, Callable[[Server], Any]] = {
    "nested": lambda _: raw(b'{"choices":' + b"[" * 100_000),
    "nested and closed": lambda _: raw(b'{"choices":' + b"[" * 500 + b"]" * 500 + b"}"),
    "gzip of 300 MB": lambda _: raw(gzip.compress(zeros(300), 1), Content_Encoding="gzip"),
    "100 MB": lambda _: raw(zeros(100)),
    "no gzip": lambda s: raw(whole(s), Content_Encoding="gzip"),
    "an encoding nobody asked for": lambda s: raw(whole(s), Content_Encoding="br"),
    "a number of 5000 digits": lambda s: raw(whole(s).replace(b"100", b"1" + b"0" * 5000)),
    "drip": lambda _: drip,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_reply_is_the_servers_fault(play: Play, model_server: Server, kind: str) -> None:
    """Each was the agent's own error, or filled the memory, or was waited for without an end."""
    model_server.plays(HOSTILE[kind](model_server))
    settings = {"max_retries": 0, "timeout_s": 1.0 if kind == "drip" else 60.0}
    episode, _ = play("single-shot", server=model_server, settings=settings)
    assert (episode.status, episode.end_reason) == ("infra_error", "model_error"), episode.error


@pytest.mark.parametrize("kind", ["100 MB", "gzip of 300 MB"])
def test_no_more_of_a_reply_is_read_than_an_answer_may_have(
    model_server: Server, kind: str
) -> None:
    """Whatever the status: the body of an error is bounded as well."""
    model_server.plays(HOSTILE[kind](model_server))
    tracemalloc.start()
    with pytest.raises(ModelError, match="longer than 8 MB"):
        model(model_server, max_retries=0).complete(QUESTION)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    sent = 100_000_000 if kind == "100 MB" else 2_000_000  # what the server itself holds of it
    assert most < sent + 5 * intake.MOST_BYTES


def test_a_compressed_reply_is_read(model_server: Server) -> None:
    packed = gzip.compress(json.dumps(model_server.completion("hello")).encode())
    model_server.plays(raw(packed, Content_Encoding="gzip"))
    assert model(model_server).complete(QUESTION).text == "hello"
    assert model_server.requests[0]["headers"]["accept-encoding"] == intake.ACCEPTED


@pytest.mark.parametrize(
    "count", [10**400, -1, 1e300, float("inf"), float("nan"), "7", True, [1], 10**13]
)
def test_a_count_that_is_none_is_estimated(play: Play, model_server: Server, count: Any) -> None:
    """A number of 400 digits became a float, and an error of the agent."""
    usage = {
        "prompt_tokens": count,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": count},
        "cost": count if count != 10**13 else -1,
    }
    model_server.plays(model_server.answer(RIGHT, usage=usage))
    prices = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 1.0}
    episode, _ = play("single-shot", server=model_server, settings=prices)
    assert (episode.status, episode.usage.estimated) == ("passed", True)
    assert episode.usage.cached_tokens == 0
    assert 0 < (episode.usage.cost_usd or 0) < 0.01


def test_arguments_that_are_a_trap_are_a_wrong_call(play: Play, model_server: Server) -> None:
    deep = '{"code": ' + "[" * 500 + "]" * 500 + "}"
    model_server.plays(
        model_server.calls(("write_region", deep), ("write_region", '{"code": 1e999}')),
        model_server.calls(("submit", {})),
    )
    episode, records = play("tools", server=model_server)
    assert episode.end_reason == "submitted"
    assert [step["error"] for step in records.of("step")] == [True, True, False]
    sent = model_server.requests[1]["body"]["messages"][1]["tool_calls"]
    assert sent[0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("api", sorted(APIS))
def test_any_json_is_read_without_an_exception(api: str) -> None:
    odd: list[Any] = [None, 1, 10**400, "x", [], {}, [None], [[]], [{}], {"a": None}, True]
    names = [
        *("choices", "output", "error", "usage", "message", "tool_calls", "content", "status"),
        *("candidates", "parts", "functionCall", "promptFeedback", "usageMetadata"),
    ]
    for value in odd:
        for name in names:
            for inner in names:
                shape = {name: [{inner: value, "message": {inner: value}, "type": "message"}]}
                for data in (
                    shape,
                    {name: value, inner: value},
                    {"choices": [shape], "output": [shape], "candidates": [shape]},
                    {"candidates": [{"content": {"parts": [{name: value}]}}], inner: value},
                ):
                    read = APIS[api].read(intake.parsed(json.dumps(data)))
                    assert read is None or isinstance(read, Answer | Failed)


# --- a key that comes back --------------------------------------------------------------------


@pytest.mark.parametrize("escaped", [False, True])
def test_a_key_in_a_reply_reaches_no_record(
    play: Play,
    model_server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    escaped: bool,
) -> None:
    """A server repeated the key in a good reply, and it was stored in the trajectory and the cache."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    whole = model_server.completion(f"{RIGHT}\nYour key is {KEY}.", reasoning_content=KEY)
    whole |= {"id": KEY, KEY: KEY}
    text = json.dumps(whole)
    if escaped:
        text = text.replace(KEY, "".join(f"\\u{ord(char):04x}" for char in KEY))
    model_server.plays(raw(text.encode(), X_Request_Id=KEY))
    episode, records = play("single-shot", server=model_server, settings={"cache": str(tmp_path)})
    assert model_server.requests[0]["headers"]["authorization"] == f"Bearer {KEY}"
    assert episode.status == "passed"
    assert KEY not in json.dumps([episode.to_dict(), records.kept])
    (file,) = tmp_path.rglob("*.json")
    assert KEY not in str(json.loads(file.read_text()))
