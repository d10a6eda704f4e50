"""Variables for proxies and certificates that cannot work: one line that names the variable, before anything is paid."""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rcb_agents import reaching
from rcb_agents.client import OpenAIModel

from rcb_env.dataset.papers import Dataset
from rcb_env.errors import ModelRefusedRequest, UsageError
from rcb_env.play.agent import ModelSettings
from rcb_env.runs import RunConfig, open_run, run_experiment

Server = Any  # its class lives in conftest.py, which cannot be imported from here
QUESTION = [{"role": "user", "content": "Write it."}]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clients are kept by address, and each test wants its own."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
            monkeypatch.delenv(name)
    reaching._client.cache_clear()
    yield
    reaching._client.cache_clear()


def nobody() -> str:
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def no_package_for_socks() -> bool:
    return importlib.util.find_spec("socksio") is None


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        pytest.param(
            *(
                "ALL_PROXY",
                "socks5://me:pass-word@127.0.0.1:9",
                r"socks5://127\.0\.0\.1:9.*socksio",
            ),
            marks=pytest.mark.skipif(not no_package_for_socks(), reason="SOCKS proxies work here"),
        ),
        ("HTTPS_PROXY", "htp://proxy:1", "which is not the address of a proxy"),
        ("http_proxy", "http://proxy:port", "which is not the address of a proxy"),
        ("SSL_CERT_FILE", "/nowhere/ca.pem", "No such file"),
    ],
)
def test_a_variable_that_cannot_work_is_named_before_the_run(
    model_server: Server,
    small_papers: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    says: str,
) -> None:
    """Each episode failed as an error of the agent's own, with the library's words."""
    monkeypatch.setenv(name, value)
    config = RunConfig(
        agent="single-shot",
        model=ModelSettings(f"m-{id(model_server)}", base_url=model_server.url),
        dataset=str(small_papers.papers[0].root),
        samples=3,
    )
    with (
        pytest.raises(UsageError, match=rf"{name}.*{says}|{says}.*{name}") as caught,
        open_run(config, tmp_path / "run") as store,
    ):
        run_experiment(config, store)
    assert "\n" not in str(caught.value)
    assert "pass-word" not in str(caught.value)
    assert f"unset {name}" in str(caught.value)
    assert model_server.requests == []


def test_a_file_without_certificates_is_named(
    model_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text("nothing\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with pytest.raises(UsageError, match=r"SSL_CERT_FILE names .*ca\.pem"):
        OpenAIModel(ModelSettings("m", base_url=model_server.url))


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_dead_proxy_is_named_and_not_the_server(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The server was said to be down, which it was not."""
    dead = nobody()
    monkeypatch.setenv(name, f"http://me:pass-word@{dead}")
    asked = OpenAIModel(ModelSettings("m", base_url="http://models.invalid/v1", max_retries=0))
    with pytest.raises(ModelRefusedRequest) as caught:
        asked.complete(QUESTION)
    words = str(caught.value)
    assert f"through the proxy http://{dead}, which {name} names" in words
    assert "add models.invalid to NO_PROXY" in words
    assert "pass-word" not in words


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_refuses_is_named(
    model_server: Server, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    model_server.elsewhere = model_server.page("who are you?", "text/plain", 407)
    name = f"{scheme.upper()}_PROXY"
    monkeypatch.setenv(name, model_server.origin)
    asked = OpenAIModel(ModelSettings("m", base_url=f"{scheme}://models.invalid/v1", max_retries=0))
    with pytest.raises(ModelRefusedRequest, match=name):
        asked.complete(QUESTION)


def test_a_server_beside_the_proxy_is_the_one_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    url = f"http://{nobody()}/v1"
    asked = OpenAIModel(ModelSettings("m", base_url=url, max_retries=0))
    with pytest.raises(ModelRefusedRequest, match=r"cannot be reached.*Start the server"):
        asked.complete(QUESTION)
