"""The model APIs: bodies of requests and replies, and how they are sent; one file each.

forms.py       what an API is: a `Request` becomes a body, a reply's body an `Answer` or `Failed`
fields.py      single fields of a body, which may hold anything
sending.py     a body goes, and a reply comes or is `Lost`, whatever library it goes through
openai.py      OpenAI's library
chat.py        chat completions
responses.py   responses
anthropic.py   Anthropic's messages, through its own library
google.py      Google's Gemini API, through its own library

Agents speak in chat messages, tool calls and answers included; each API gets the same conversation in its own form.
A further API is one file with an `Api`, and a name in `APIS`. But for `connect` and `send` all is pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from rcb_agents.apis.anthropic import ANTHROPIC
from rcb_agents.apis.chat import CHAT
from rcb_agents.apis.forms import Answer, Api, Failed, Request
from rcb_agents.apis.google import GOOGLE
from rcb_agents.apis.responses import RESPONSES
from rcb_agents.apis.sending import Lost

APIS: Mapping[str, Api] = {
    "chat": CHAT,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "google": GOOGLE,
}

__all__ = ["APIS", "Answer", "Api", "Failed", "Lost", "Request"]
