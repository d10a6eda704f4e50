"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import torch

from rcb_env.cases import case, raises

NAN, INF = math.nan, math.inf


def flags(rng, *shape, share=0.3):
    """Random ends of episodes."""
    return rng.torch.uniform(*shape) < share


@case(seeds=3, covers=["src/returns.py"])
def advantages_from_a_critic(tree, rng):
    gae = tree.load("returns").generalized_advantages
    runs = []
    for shape in [(7,), (3, 6), (2, 2, 5), (4, 1)]:
        rewards = rng.torch.normal(*shape).double()
        values = rng.torch.normal(*shape[:-1], shape[-1] + 1).double().requires_grad_()
        dones = flags(rng, *shape)
        for gamma, lam in [(0.9, 0.8), (1.0, 1.0), (0.5, 0.0), (0.0, 0.7), (0.7, 1.0)]:
            found = gae(rewards, values, dones, gamma, lam)
            runs.append(
                {
                    "rewards": rewards.clone(),
                    "values": values.clone(),
                    "dones": dones.clone(),
                    "gamma": gamma,
                    "lam": lam,
                    "found": found,
                    "constant": not found.requires_grad,
                }
            )
    single = gae(rng.torch.normal(3, 4), rng.torch.normal(3, 5), flags(rng, 3, 4), 0.9, 0.9)
    empty = gae(torch.zeros(3, 0), torch.ones(3, 1), torch.zeros(3, 0) > 0, 0.9, 0.9)
    return {"runs": runs, "single": single, "empty": empty}


@case(seeds=1, covers=["src/returns.py"])
def advantages_that_are_refused(tree, rng):
    gae = tree.load("returns").generalized_advantages
    r, v, d = torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(2, 3) > 0

    def tried(rewards, values, dones, gamma=0.9, lam=0.9):
        return raises(lambda: gae(rewards, values, dones, gamma, lam))

    return {
        "numbers": [
            tried(r, v, d, gamma, lam)
            for gamma, lam in [
                *[(x, 0.5) for x in (0.0, 1.0, -0.01, 1.01, NAN, INF)],
                *[(0.5, x) for x in (0.0, 1.0, -0.01, 1.01, NAN, INF)],
            ]
        ],
        "shapes": [
            tried(r, v, d),
            tried(r, torch.zeros(2, 3), d),
            tried(r, torch.zeros(2, 5), d),
            tried(r, torch.zeros(1, 4), d),
            tried(r, torch.zeros(4), d),
            tried(r, v, d[:1]),
            tried(r, v, d[0]),
            tried(r, v, torch.zeros(2, 1) > 0),
            tried(r, v, torch.zeros(2, 4) > 0),
        ],
    }


@case(seeds=3, covers=["src/alignment.py"])
def pasts(tree, rng):
    past = tree.load("alignment").discounted_past
    runs = []
    for shape, ends in [((8,), (8,)), ((3, 7), (3, 7)), ((2, 3, 6), (2, 1, 6)), ((4, 9), (9,))]:
        advantages = rng.torch.normal(*shape).double()
        dones = flags(rng, *ends)
        before = advantages.clone()
        run = {
            "advantages": before,
            "dones": dones.clone(),
            "sum": past(advantages, dones, 0.9),
            "undiscounted": past(advantages, dones, 1.0),
            "average": past(advantages, dones, 0.9, True),
            "plain_average": past(advantages, dones, 1.0, average=True),
            "endless": past(advantages, torch.zeros_like(dones), 0.8),
            "endless_average": past(advantages, torch.zeros_like(dones), 0.8, True),
        }
        run["untouched"] = torch.equal(advantages, before)
        runs.append(run)
    short = rng.torch.normal(3, 1)
    return {
        "runs": runs,
        "one": [past(short, short > 9, 0.9), past(short, short > 9, 0.9, True)],
        "two": past(rng.torch.normal(4, 2), flags(rng, 4, 2, share=0.5), 0.5),
    }


@case(seeds=3, covers=["src/alignment.py"])
def alignments(tree, rng):
    align = tree.load("alignment").aligned_advantages
    runs = []
    for batch, players, steps in [(3, 2, 6), (2, 3, 5), (1, 5, 4)]:
        advantages = rng.torch.normal(batch, players, steps).double()
        dones = flags(rng, batch, steps)
        before = advantages.clone()
        run = {
            "advantages": before,
            "dones": dones,
            "none": align(advantages, dones, 0.9, 0.0),
            "one": align(advantages, dones, 0.9, 1.0),
            "strong": align(advantages, dones, 0.6, 3.5),
            "average": align(advantages, dones, 0.9, 2.0, True),
            "named": align(advantages, dones, 0.9, beta=2.0, average=False),
        }
        run["untouched"] = torch.equal(advantages, before)
        runs.append(run)
    x, d = torch.zeros(2, 2, 3), torch.zeros(2, 3) > 0
    return {
        "runs": runs,
        "single": align(rng.torch.normal(2, 2, 4), flags(rng, 2, 4), 0.9, 1.0),
        "betas": [
            raises(lambda beta=beta: align(x, d, 0.9, beta))
            for beta in (0.0, 7.0, -0.1, NAN, INF, -INF)
        ],
        "players": [
            raises(lambda n=n: align(torch.zeros(2, n, 3), d, 0.9, 1.0)) for n in (1, 2, 3)
        ],
    }


@case(seeds=3, covers=["src/alignment.py"])
def quadrants(tree, rng):
    shares = tree.load("alignment").quadrant_shares
    own, other = rng.torch.normal(6, 12).double(), rng.torch.normal(6, 12).double()
    dones = flags(rng, 6, 12, share=0.2)
    coarse = rng.torch.integers(-1, 2, 5, 9).float()
    rough = rng.torch.integers(-1, 2, 5, 9).float()
    one = torch.tensor([[2.0, 0.0]])
    none = torch.zeros(1, 2) > 0
    return {
        "own": own,
        "other": other,
        "dones": dones,
        "shares": shares(own, other, dones, 0.9),
        "faint": shares(1e-12 * own, 1e-12 * other, dones, 0.9),
        "coarse": shares(coarse, rough, flags(rng, 5, 9), 0.5),
        "positive": shares(own.abs(), other.abs(), dones, 0.9),
        "negative": shares(-own.abs(), other.abs(), dones, 0.9),
        "one": shares(one, torch.tensor([[5.0, -1.0]]), none, 0.9),
        "nothing": shares(one, torch.zeros(1, 2), none, 0.9),
        "cut": shares(one, torch.ones(1, 2), ~none, 0.9),
    }


@case(seeds=3, covers=["src/losses.py"])
def surrogates(tree, rng):
    surrogate = tree.load("losses").clipped_surrogate
    runs = []
    for shape in [(9,), (4, 5), (2, 3, 4)]:
        new = rng.torch.normal(*shape, std=0.3).double().requires_grad_()
        old = rng.torch.normal(*shape, std=0.3).double().requires_grad_()
        gain = rng.torch.normal(*shape).double().requires_grad_()
        for share, epsilon in [(0.6, 0.2), (1.1, 0.05), (0.5, 0.9)]:
            mask = flags(rng, *shape, share=share)
            loss = surrogate(new, old, gain, mask, epsilon)
            (gradient,) = torch.autograd.grad(loss, new)
            runs.append(
                {
                    "new": new.clone(),
                    "old": old.clone(),
                    "gain": gain.clone(),
                    "mask": mask,
                    "epsilon": epsilon,
                    "loss": loss,
                    "gradient": gradient,
                }
            )
    loss = surrogate(new, old, gain, mask, 0.2)
    loss.backward()
    return {"runs": runs, "constants": [old.grad is None, gain.grad is None]}


@case(seeds=2, covers=["src/losses.py"])
def surrogates_at_the_edges(tree, rng):
    surrogate = tree.load("losses").clipped_surrogate
    mask = torch.tensor([True, False, False, True, False, False])
    found = {}
    for name, bad in {"nan": NAN, "infinite": INF, "small": -INF}.items():
        new, old, gain = (rng.torch.normal(6, std=0.2) for _ in range(3))
        for values in (new, old, gain):
            values[~mask] = bad
        new.requires_grad_()
        loss = surrogate(new, old, gain, mask, 0.2)
        loss.backward()
        found[name] = {"loss": loss, "gradient": new.grad}
    new = rng.torch.normal(4).requires_grad_()
    loss = surrogate(new, torch.zeros(4), torch.ones(4), torch.zeros(4) > 0, 0.2)
    loss.backward()
    found["nothing"] = {"loss": loss + 0.0, "gradient": new.grad + 0.0}
    lone = torch.tensor([False, True, False])
    steep = (12 * rng.torch.uniform(4, low=0.9)).requires_grad_()
    loss = surrogate(steep, torch.zeros(4), -torch.ones(4), torch.ones(4) > 0, 0.2)
    found["steep"] = [loss, torch.autograd.grad(loss, steep)[0]]
    found["lone"] = surrogate(torch.zeros(3), rng.torch.normal(3), rng.torch.normal(3), lone, 0.3)
    return found


@case(seeds=1, covers=["src/losses.py"])
def surrogates_that_are_refused(tree, rng):
    surrogate = tree.load("losses").clipped_surrogate
    x = torch.zeros(3)
    epsilons = (-0.1, 0.0, 1.0, 1.5, NAN, INF, 1e-6, 0.5, 0.999)
    return [raises(lambda e=e: surrogate(x, x, x, x == 0, e)) for e in epsilons]


def tables(rng, actions, std=1.0):
    """Logits of two players and payoffs of a random game, in float64."""
    views = 1 + actions * actions
    first = rng.torch.normal(views, actions, std=std).double()
    second = rng.torch.normal(views, actions, std=std).double()
    return first, second, rng.torch.normal(2, actions, actions).double()


@case(seeds=3, rtol=1e-6, atol=1e-8, covers=["src/exact.py"])
def exact_values(tree, rng):
    exact = tree.load("exact")
    runs = []
    for actions, gamma in [(2, 0.9), (3, 0.5), (4, 0.0), (1, 0.8), (2, 0.96)]:
        first, second, payoffs = tables(rng, actions)
        found = exact.exact_advantages(first, second, payoffs, gamma)
        runs.append(
            {
                "first": first,
                "second": second,
                "payoffs": payoffs,
                "gamma": gamma,
                "found": found,
            }
        )
    rare, wary, prizes = tables(rng, 3)
    rare[:, 1] -= 25.0
    wary[:, 2] -= 25.0
    prizes[:, 1] *= 1e10
    prizes[:, :, 2] *= 1e10
    first, second, payoffs = tables(rng, 2)
    return {
        "rare": exact.exact_advantages(rare, wary, prizes, 0.9)[:, :, 0, 0],
        "runs": runs,
        "refused": [
            raises(lambda g=g: exact.exact_advantages(first, second, payoffs, g))
            for g in (0.0, 0.99, 1.0, 1.1, -0.1, NAN)
        ],
    }


@case(seeds=3, rtol=1e-6, atol=1e-8, covers=["src/exact.py"])
def expected_directions(tree, rng):
    exact = tree.load("exact")
    runs = []
    for actions, gamma, beta, horizon in [
        (2, 0.9, 1.5, 1),
        (2, 0.9, 1.5, 2),
        (2, 0.9, 0.0, 3),
        (2, 0.7, 2.0, 4),
        (3, 0.8, 1.2, 3),
        (3, 1.0, 0.5, 7),
        (2, 0.0, 3.0, 3),
    ]:
        first, second, _ = tables(rng, actions)
        views = 1 + actions * actions
        advantages = rng.torch.normal(2, views, actions, actions).double()
        runs.append(
            {
                "first": first,
                "second": second,
                "advantages": advantages,
                "gamma": gamma,
                "beta": beta,
                "horizon": horizon,
                "found": exact.expected_direction(
                    first, second, advantages, gamma, beta, horizon
                ),
            }
        )
    first, second, payoffs = tables(rng, 2, std=0.2)
    for _ in range(5):
        known = exact.exact_advantages(first, second, payoffs, 0.9)
        first = first + exact.expected_direction(first, second, known, 0.9, 1.0, 10)
    rare, other, _ = tables(rng, 3)
    rare[:, 1] -= 30.0
    strong = rng.torch.normal(2, 10, 3, 3).double()
    direction = exact.expected_direction(rare, other, strong, 0.9, 1.0, 3)
    return {
        "runs": runs,
        "rare": direction / rare.softmax(dim=1),
        "climbed": first,
        "refused": [
            raises(lambda t=t: exact.expected_direction(first, second, known, 0.9, 1.0, t))
            for t in (-1, 0, 1)
        ],
    }


@case(seeds=3, covers=["src/rollout.py"])
def rollouts(tree, rng):
    play = tree.load("rollout").play
    runs = []
    for actions, batch, rounds in [(2, 5, 6), (3, 4, 7), (4, 1, 5), (2, 3, 1), (1, 2, 3)]:
        first, second, payoffs = tables(rng, actions)
        uniforms = torch.from_numpy(rng.numpy.random((batch, rounds, 2)))
        first.requires_grad_()
        second.requires_grad_()
        made = play(first, second, payoffs, uniforms)
        made.log_probs.square().sum().backward()
        runs.append(
            {
                "first": first.detach(),
                "second": second.detach(),
                "payoffs": payoffs,
                "uniforms": uniforms,
                "views": made.views,
                "actions": made.actions,
                "rewards": made.rewards,
                "log_probs": made.log_probs,
                "first_gradient": first.grad,
                "second_gradient": second.grad,
            }
        )
    return runs


@case(seeds=2, covers=["src/rollout.py"])
def rollouts_at_the_edges(tree, rng):
    play = tree.load("rollout").play
    games = tree.load("games")
    # A policy whose probabilities are powers of two, so that sums of them are exact.
    halves = torch.tensor([0.5, 0.25, 0.25]).log().expand(10, 3).double()
    halves = halves - halves.logsumexp(dim=1, keepdim=True)
    nearly = math.nextafter(1.0, 0.0)
    rough = torch.tensor([0.0, 0.3, 0.6, 0.9, nearly]).double().repeat(2, 1)
    rough = rough[:, :, None].repeat(1, 1, 2)
    wide = rng.torch.normal(1 + 49, 7)
    late = torch.full((20, 4, 2), nearly).double()
    dilemma = games.PRISONERS_DILEMMA
    numbers = torch.from_numpy(rng.numpy.random((3, 5, 2)))
    blocked = torch.tensor([[-INF, 0.0]]).expand(5, 2)
    made = {
        "thirds": play(halves, halves, rng.torch.normal(2, 3, 3), rough),
        "late": play(wide, -wide, rng.torch.normal(2, 7, 7), late.expand(20, 4, 2)),
        "pardon": play(games.tit_for_tat(), games.tit_for_tat(), dilemma, numbers),
        "defied": play(games.tit_for_tat(), games.always(1), dilemma, numbers),
        "blocked": play(blocked, games.always(0), dilemma, torch.zeros(2, 3, 2)),
    }
    return {name: x._asdict() for name, x in made.items()}


@case(seeds=3, covers=["src/negotiation.py"])
def negotiations(tree, rng):
    settle = tree.load("negotiation").settle
    runs = []
    for batch, players, items in [(4, 2, 3), (3, 3, 2), (2, 1, 1), (5, 4, 2)]:
        proposals = rng.torch.uniform(batch, players, items, high=5.0).double()
        proposals[0] = 5.0
        proposals[-1] *= 0.3
        values = rng.torch.integers(1, 9, batch, players, items).double()
        quantities = rng.torch.integers(1, 6, batch, items).double()
        rewards, efficiency = settle(proposals, values, quantities)
        runs.append(
            {
                "proposals": proposals,
                "values": values,
                "quantities": quantities,
                "rewards": rewards,
                "efficiency": efficiency,
            }
        )
    quantities = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    values = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[0.0, 2.0], [0.0, 4.0]]])
    rewards, efficiency = settle(rng.torch.uniform(2, 2, 2), values, quantities)
    grid = torch.full((1, 2, 2), 2.5)

    def tried(number):
        asked = grid.clone()
        asked[0, 1, 0] = number
        return raises(lambda: settle(asked, values[:1], quantities[:1]))

    numbers = (0.0, 5.0, -1e-6, 5.001, 9.0, -3.0, NAN, INF)
    return {
        "runs": runs,
        "worthless": [rewards, efficiency],
        "refused": [tried(number) for number in numbers],
    }


def players(tree, rng, actions):
    """Two agents with random tables, in float64."""
    agents = []
    for _ in range(2):
        agent = tree.load("agent").Agent(actions).double()
        for parameter in agent.parameters():
            parameter.data.copy_(rng.torch.normal(*parameter.shape, std=0.7))
        agents.append(agent)
    return agents


def state(agent):
    """All numbers of an agent."""
    return {name: value.clone() for name, value in agent.state_dict().items()}


@case(seeds=2, rtol=1e-5, atol=1e-8, covers=["src/trainer.py"])
def updates(tree, rng):
    trainer = tree.load("trainer")
    play = tree.load("rollout").play
    found = {}
    for name, actions, learner, settings in [
        ("plain", 2, "sgd", {}),
        ("naive", 2, "sgd", {"beta": 0.0}),
        ("strong", 3, "sgd", {"beta": 4.0, "gamma": 0.8, "lam": 0.7, "epochs": 1}),
        ("average", 2, "sgd", {"average": True, "target_rate": 0.3, "epochs": 3}),
        ("adam", 3, "adam", {"epochs": 4, "entropy_weight": 0.2, "value_weight": 1.5}),
        ("tight", 2, "sgd", {"largest_norm": 0.05, "epsilon": 0.01, "epochs": 3}),
        ("free", 2, "sgd", {"largest_norm": 100.0, "epsilon": 0.5, "target_rate": 1.0}),
    ]:
        agent, opponent = players(tree, rng, actions)
        learned = [*agent.actor.parameters(), *agent.critic.parameters()]
        if learner == "adam":
            optimizer = torch.optim.Adam(learned, lr=0.05)
        else:
            optimizer = torch.optim.SGD(learned, lr=0.3)
        payoffs = 2.0 * rng.torch.normal(2, actions, actions).double()
        uniforms = torch.from_numpy(rng.numpy.random((6, 5, 2)))
        games = play(agent.actor.weight, opponent.actor.weight, payoffs, uniforms)
        before, other = state(agent), state(opponent)
        for parameter in learned:  # what an earlier update may have left behind
            parameter.grad = torch.ones_like(parameter)
        rounds = [
            trainer.update(agent, opponent, games, optimizer, trainer.Settings(**settings))
            for _ in range(2)
        ]
        after = state(opponent)
        found[name] = {
            "payoffs": payoffs,
            "views": games.views,
            "actions": games.actions,
            "before": before,
            "rounds": rounds,
            "after": state(agent),
            "gradient": [parameter.grad for parameter in learned],
            "opponent_alone": all(torch.equal(other[key], after[key]) for key in other),
            "opponent_gradients": [p.grad is None for p in opponent.parameters()],
            "rate": trainer.Settings(**settings).target_rate,
        }
    return found


@case(seeds=2, rtol=1e-5, atol=1e-9, covers=["src/trainer.py"])
def updates_with_small_advantages(tree, rng):
    trainer = tree.load("trainer")
    play = tree.load("rollout").play
    found = []
    for size in (0.0, 2e-8, 1e-3):
        agent, opponent = players(tree, rng, 2)
        for player in (agent, opponent):
            player.target.weight.zero_()
            player.critic.weight.data.zero_()
        learned = [*agent.actor.parameters(), *agent.critic.parameters()]
        optimizer = torch.optim.SGD(learned, lr=0.1)
        payoffs = size * (1.0 + rng.torch.uniform(2, 2, 2).double())
        uniforms = torch.from_numpy(rng.numpy.random((4, 3, 2)))
        games = play(agent.actor.weight, opponent.actor.weight, payoffs, uniforms)
        settings = trainer.Settings(beta=2.0, epochs=1)
        parts = trainer.update(agent, opponent, games, optimizer, settings)
        found.append({"parts": parts, "actor": agent.actor.weight.clone()})
    return found
