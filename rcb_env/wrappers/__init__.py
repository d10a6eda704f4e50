"""The environment in other forms; each is a `gymnasium.Wrapper` and all of them can be stacked.

text.py       ToolText        texts in, texts out: a tool call stands in the reply, in a small grammar
chat.py       ChatMessages    OpenAI's chat format: messages with tool calls in, the conversation out
limits.py     TokenBudget     ends an episode when its tokens are spent
              HistoryWindow   shows the last turns, for policies without a memory
choice.py     DiscreteChoice  an action is the number of one of K completions
layer.py      Layer           what they have in common: snapshots, forks, a specification

From the inside out: ToolText or ChatMessages, then HistoryWindow, then TokenBudget.
"""

from __future__ import annotations

from rcb_env.wrappers.chat import ChatMessages
from rcb_env.wrappers.choice import DiscreteChoice
from rcb_env.wrappers.layer import Layer, LayerSnapshot
from rcb_env.wrappers.limits import HistoryWindow, TokenBudget
from rcb_env.wrappers.text import ToolText

__all__ = [
    "ChatMessages",
    "DiscreteChoice",
    "HistoryWindow",
    "Layer",
    "LayerSnapshot",
    "TokenBudget",
    "ToolText",
]
