"""The agents that come with rcb-env, as examples of what an agent is.

Each module is one agent and can be read on its own; they share the model client (`model`), the
prompts (`prompts`), and nothing else. Importing this package loads none of them: rcb-env finds
agents by their entry points.
"""
