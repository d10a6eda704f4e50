"""The model APIs as bodies of requests and replies; one file each.

forms.py       what an API is, and what it makes of a reply: an `Answer`, or `Failed`
chat.py        chat completions
responses.py   responses

Agents speak in chat messages, tool calls and answers included; each API gets the same conversation in its own form.
A further API is one file with an `Api`, and a name in `APIS`. Pure: no connection is made here.
"""

from __future__ import annotations

from collections.abc import Mapping

from rcb_agents.apis.chat import CHAT
from rcb_agents.apis.forms import Answer, Api, Failed
from rcb_agents.apis.responses import RESPONSES

APIS: Mapping[str, Api] = {"chat": CHAT, "responses": RESPONSES}

__all__ = ["APIS", "Answer", "Api", "Failed"]
