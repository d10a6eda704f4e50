"""OpenAI's library, for both of its APIs and every server that imitates them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rcb_agents.apis.sending import Http, Received, through


def connect(base_url: str, key: str, http: Http) -> Any:
    """A client; it makes no retries of its own."""
    import openai

    return openai.OpenAI(
        base_url=base_url,
        api_key=key or "none",  # servers on one's own machine want no key, the library wants one
        max_retries=0,
        http_client=http(openai.DefaultHttpxClient),
    )


# As an extra body, which takes the place of what is given beside it: the library goes through every field of what it
# is given as arguments, which takes longer than all the rest of a request.
def chat(client: Any, body: Mapping[str, Any], longest_s: float) -> Received:
    """Send a chat completion's body."""
    import openai

    create = client.chat.completions.with_raw_response.create
    return through(
        openai, lambda: create(model=body["model"], messages=[], extra_body=body, timeout=longest_s)
    )


def responses(client: Any, body: Mapping[str, Any], longest_s: float) -> Received:
    """Send a response's body."""
    import openai

    create = client.responses.with_raw_response.create
    return through(openai, lambda: create(model=body["model"], extra_body=body, timeout=longest_s))
