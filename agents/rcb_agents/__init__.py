"""The agents that come with rcb-env, as examples of what an agent is.

Each of these is one agent and can be read on its own:

    single_shot.py, best_of_n.py, repair.py   ask for the missing code, once or several times
    tools.py, plan.py                         a model that calls the tools itself
    command.py                                any program; workplace.py, confinement.py, program.py, usage_reports.py
    human.py                                  you
    oracles.py, simulated.py                  for tests and demonstrations: no model is asked

What they share:

    prompts.py    all words that models are told; joint_prompts.py: those for several parts at once
    official_prompt.py   the public benchmark's form
    fitting.py    what of a prompt fits the model's window; tokens.py: how many tokens a text has
    model.py      `open_model` and `Conversation`
    replies.py    what a model says; simulated_model.py: one that looks the answer up

A model behind an API:

    client.py     asks, tries again, keeps to budgets; cache.py: replies that came before; batches.py: many questions at once
    server.py     one request, and what its answer means; faults.py: what refusals mean; throttle.py: how many at once
    apis/         bodies of requests and replies, a file for each API
    providers.py  addresses and keys; registry.py: prices and windows; reaching.py: proxies; intake.py: hostile bodies

Importing this package loads none of them: rcb-env finds agents by their entry points.
"""
