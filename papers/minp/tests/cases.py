"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import torch

from rcb_env.cases import case, raises

INF = math.inf
SHAPES = [(7,), (1, 6), (3, 9), (2, 3, 8), (4, 4)]
TIES = torch.tensor([1.0, 3.0, 3.0, -1.0, 3.0, 1.0])
UNDERFLOW = torch.tensor([[0.0, -200.0, -INF, -300.0], [-200.0, 0.0, 0.0, -INF]])
PEAKED = torch.tensor([12.0, 0.0, 1.0, -1.0, 0.5])
# Strictly falling, in several rows that differ only by order and shift.
LADDER = torch.tensor([[2.0, 1.5, 1.0, 0.5, 0.0], [5.0, 7.0, 6.0, 6.5, 5.5]])


def random_runs(rng, function, values, std=2.0):
    """Truncate random logits of several shapes at several values."""
    runs = []
    for shape in SHAPES:
        logits = rng.torch.normal(*shape, std=std)
        before = logits.clone()
        runs.append(
            {
                "logits": before,
                "values": values,
                "filtered": [function(logits, value) for value in values],
                "spared": [
                    function(logits, value, 3, -50.0) for value in (values[0], values[-1])
                ],
                "untouched": torch.equal(logits, before),
                "double": function(logits.double(), values[1]),
            }
        )
    return runs


def spared_counts(function, value):
    """Truncate strongly, with ever more tokens to spare."""
    return {
        "ladder": [function(LADDER, value, n) for n in (1, 2, 3, 4, 5, 6, 50)],
        "ties": [function(TIES, value, n) for n in (1, 2, 3, 4, 5, 6)],
        "block": [function(LADDER.expand(3, 2, 5), value, n, 0.25) for n in (2, 4, 9)],
        "first": function(LADDER, value),
        "refused": [raises(lambda n=n: function(LADDER, value, n)) for n in (0, -1, -5)],
    }


def refusals(function, values):
    """Which values a truncation refuses."""
    return [raises(lambda v=v: function(LADDER, v)) for v in values]


@case(seeds=3, covers=["src/truncation.py"])
def min_p_of_random_logits(tree, rng):
    min_p = tree.load("truncation").min_p_filter
    return random_runs(rng, min_p, [1.0, 0.5, 0.3, 0.1, 0.05, 0.01, 0.0])


@case(seeds=2, covers=["src/truncation.py"])
def min_p_of_wide_logits(tree, rng):
    min_p = tree.load("truncation").min_p_filter
    logits = rng.torch.normal(4, 40, std=12.0)
    return [min_p(logits, v) for v in (1e-3, 1e-6, 1e-9, 1e-12, 1e-15)]


@case(seeds=1, covers=["src/truncation.py"])
def min_p_of_special_logits(tree, rng):
    min_p = tree.load("truncation").min_p_filter
    return {
        "ties": [min_p(TIES, v) for v in (1.0, 0.2, 0.1, 0.0)],
        "underflow": [min_p(UNDERFLOW, v) for v in (1.0, 0.5, 0.0)],
        "underflow_spared": [min_p(UNDERFLOW, v, 2, -7.0) for v in (1.0, 0.5, 0.0)],
        "peaked": [min_p(PEAKED, v) for v in (1.0, 0.1, 0.0)],
        "flat": [min_p(torch.full((2, 6), 4.0), v) for v in (1.0, 0.5, 0.0)],
        "single": [min_p(torch.tensor([[-3.0], [8.0]]), v) for v in (1.0, 0.3, 0.0)],
        "large": min_p(1e4 + LADDER, 0.5),
        "small": min_p(LADDER - 1e4, 0.5),
        "integer_base": [min_p(LADDER, v) for v in (0, 1)],
        "empty": min_p(torch.zeros(0, 4), 0.5),
        "refused": refusals(min_p, (-1.0, -0.5, -0.01, 1.01, 1.5, 2.0, INF, math.nan)),
        "accepted": refusals(min_p, (0.0, 1e-9, 0.5, 1.0)),
    }


@case(seeds=1, covers=["src/truncation.py"])
def min_p_spares_the_best_tokens(tree, rng):
    return spared_counts(tree.load("truncation").min_p_filter, 0.9)


@case(seeds=1, covers=["src/truncation.py"])
def other_filters_spare_the_best_tokens(tree, rng):
    module = tree.load("truncation")
    return {
        "top_p": spared_counts(module.top_p_filter, 0.05),
        "typical": spared_counts(module.typical_filter, 0.05),
        "top_k": spared_counts(module.top_k_filter, 1),
        "epsilon": spared_counts(module.epsilon_filter, 0.9),
        "eta": spared_counts(module.eta_filter, 100.0),
    }


@case(seeds=3, covers=["src/truncation.py"])
def top_p_of_random_logits(tree, rng):
    top_p = tree.load("truncation").top_p_filter
    return random_runs(rng, top_p, [0.05, 0.3, 0.5, 0.7, 0.9, 0.97])


@case(seeds=1, covers=["src/truncation.py"])
def top_p_of_special_logits(tree, rng):
    top_p = tree.load("truncation").top_p_filter
    return {
        "ties": [top_p(TIES, v) for v in (0.1, 0.5, 0.7, 0.93, 0.997)],
        "underflow": [top_p(UNDERFLOW, v) for v in (0.3, 0.9, 1.0)],
        "underflow_spared": [top_p(UNDERFLOW, v, 3, -7.0) for v in (0.3, 1.0)],
        "peaked": [top_p(PEAKED, v) for v in (0.2, 0.99)],
        "flat": [top_p(torch.full((2, 6), 4.0), v) for v in (0.01, 0.5, 1.0)],
        "single": [top_p(torch.tensor([[-3.0], [8.0]]), v) for v in (0.3, 1.0)],
        "shifted": [top_p(LADDER + 1e4, 0.6), top_p(LADDER - 1e4, 0.6)],
        "refused": refusals(top_p, (-1.0, -0.5, 0.0, 1.01, 1.5, 2.0, INF, math.nan)),
        "accepted": refusals(top_p, (1e-9, 0.5, 1.0)),
    }


@case(seeds=3, covers=["src/truncation.py"])
def typical_of_random_logits(tree, rng):
    typical = tree.load("truncation").typical_filter
    return random_runs(rng, typical, [0.05, 0.2, 0.5, 0.8, 0.95])


@case(seeds=1, covers=["src/truncation.py"])
def typical_of_special_logits(tree, rng):
    typical = tree.load("truncation").typical_filter
    # A token with a third of the mass in front of 300 equal ones: the mode is not typical.
    tail = torch.zeros(301)
    tail[7] = math.log(150.0)
    return {
        "ties": [typical(TIES, v) for v in (0.1, 0.5, 0.93, 0.99)],
        "underflow": [typical(UNDERFLOW, v) for v in (0.3, 0.9, 1.0)],
        "underflow_spared": [typical(UNDERFLOW, v, 3, -7.0) for v in (0.3, 1.0)],
        "unlikely_mode": [typical(tail, v) for v in (0.2, 0.6, 0.9)],
        "flat": [typical(torch.full((2, 8), 4.0), v) for v in (0.01, 0.5, 1.0)],
        "single": [typical(torch.tensor([[-3.0], [8.0]]), v) for v in (0.3, 1.0)],
        "refused": refusals(typical, (-1.0, -0.5, 0.0, 1.01, 1.5, 2.0, INF, math.nan)),
        "accepted": refusals(typical, (1e-9, 0.5, 1.0)),
    }


SETTINGS = {
    "plain": {},
    "hot": {"temperature": 3.0},
    "cold": {"temperature": 0.3},
    "min_p": {"min_p": 0.1},
    "hot_min_p": {"temperature": 2.0, "min_p": 0.3},
    "cold_min_p": {"temperature": 0.5, "min_p": 0.02},
    "hot_min_p_last": {"temperature": 2.0, "min_p": 0.3, "temperature_last": True},
    "cold_min_p_last": {"temperature": 0.5, "min_p": 0.02, "temperature_last": True},
    "min_p_off": {"min_p": 0.0},
    "spared": {"min_p": 1.0, "min_tokens_to_keep": 3},
    "top_p": {"temperature": 1.5, "top_p": 0.6},
    "top_p_last": {"temperature": 1.5, "top_p": 0.6, "temperature_last": True},
    "top_k": {"top_k": 2},
    "typical": {"typical_p": 0.4},
    "epsilon": {"epsilon": 0.08},
    "eta": {"eta": 0.3},
    "eta_spared": {"eta": 0.9, "min_tokens_to_keep": 2},
    "top_k_then_typical": {"top_k": 4, "typical_p": 0.3},
    "typical_then_top_p": {"typical_p": 0.8, "top_p": 0.5},
    "top_p_then_min_p": {"top_p": 0.8, "min_p": 0.2},
    "nearly_greedy": {"temperature": 1e-4},
    **{
        f"{name} at {temperature}{' last' * last}": {
            name: value,
            "temperature": temperature,
            "temperature_last": last,
            "min_tokens_to_keep": 1 + last,
        }
        for name, value in [
            ("top_k", 3), ("typical_p", 0.5), ("top_p", 0.5), ("min_p", 0.2), ("epsilon", 0.1), ("eta", 0.2)
        ]
        for temperature in (0.4, 2.5)
        for last in (False, True)
    },
    "min_p_then_epsilon": {"min_p": 0.2, "epsilon": 0.2},
    "epsilon_then_eta": {"epsilon": 0.06, "eta": 0.5},
    "all": {
        "temperature": 1.7,
        "top_k": 6,
        "typical_p": 0.9,
        "top_p": 0.9,
        "min_p": 0.05,
        "epsilon": 0.01,
        "eta": 0.02,
    },
}


@case(seeds=3, covers=["src/distribution.py"])
def distributions_of_random_logits(tree, rng):
    module = tree.load("distribution")
    found = {}
    for shape in [(6,), (3, 8), (2, 3, 7)]:
        logits = rng.torch.normal(*shape, std=1.5)
        before = logits.clone()
        made = {
            name: module.next_token_distribution(logits, module.SamplerSettings(**settings))
            for name, settings in SETTINGS.items()
        }
        untouched = torch.equal(logits, before)
        found[str(len(shape))] = {"logits": logits, "probs": made, "untouched": untouched}
    return found


@case(seeds=1, covers=["src/distribution.py"])
def truncations_run_one_after_the_other(tree, rng):
    module = tree.load("distribution")
    # Where the order of two truncations changes which tokens survive.
    logits = torch.tensor([0.40, 0.22, 0.15, 0.10, 0.07, 0.04, 0.02]).log()
    pairs = [
        {"top_k": 3, "typical_p": 0.5},
        {"top_k": 2, "top_p": 0.6},
        {"typical_p": 0.5, "top_p": 0.5},
        {"typical_p": 0.35, "min_p": 0.5},
        {"top_p": 0.75, "epsilon": 0.12},
        {"top_p": 0.55, "min_p": 0.3},
        {"min_p": 0.3, "epsilon": 0.12},
        {"min_p": 0.3, "eta": 0.3},
        {"epsilon": 0.12, "eta": 0.4},
    ]
    return [
        module.next_token_distribution(
            logits, module.SamplerSettings(temperature=t, temperature_last=last, **pair)
        )
        for pair in pairs
        for t in (0.8, 1.3)
        for last in (False, True)
    ]


@case(seeds=1, covers=["src/distribution.py"])
def temperature_zero_is_greedy(tree, rng):
    module = tree.load("distribution")
    distribution, settings = module.next_token_distribution, module.SamplerSettings
    logits = rng.torch.normal(2, 3, 5)
    return {
        "random": distribution(logits, settings(temperature=0.0)),
        "last": distribution(logits, settings(temperature=0.0, temperature_last=True)),
        "integer": distribution(logits, settings(temperature=0)),
        "ties": distribution(TIES, settings(temperature=0.0)),
        "flat": distribution(torch.zeros(2, 4), settings(temperature=0.0)),
        "double": distribution(LADDER.double(), settings(temperature=0.0)),
        "blocked": distribution(UNDERFLOW, settings(temperature=0.0)),
        "truncated": distribution(
            LADDER, settings(temperature=0.0, min_p=0.1, top_k=3, min_tokens_to_keep=2)
        ),
        "tiny": distribution(LADDER, settings(temperature=0.01)),
        "tiny and near": [
            distribution(t * LADDER.double(), settings(temperature=t)) for t in (1e-3, 1e-5, 1e-9)
        ],
    }


@case(seeds=1, covers=["src/distribution.py"])
def settings_that_are_refused(tree, rng):
    module = tree.load("distribution")

    def outcome(**settings):
        made = module.SamplerSettings(**settings)
        return raises(lambda: module.next_token_distribution(LADDER, made))

    return {
        "temperature": [
            outcome(temperature=t) for t in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 9.0, INF, math.nan)
        ],
        "min_p": [outcome(min_p=v) for v in (-0.1, 0.0, 1.0, 1.1)],
        "top_p": [outcome(top_p=v) for v in (0.0, 1.0, 1.1)],
        "typical_p": [outcome(typical_p=v) for v in (0.0, 1.0, 1.1)],
        "top_k": [outcome(top_k=v) for v in (0, 1, 100)],
        "last": [outcome(temperature_last=True, min_p=v) for v in (-0.1, 1.1)],
        "spared": [outcome(min_p=0.1, min_tokens_to_keep=n) for n in (0, 1)],
        "double": module.next_token_distribution(
            LADDER.double(), module.SamplerSettings(temperature=1.2, min_p=0.2)
        ),
        "hidden_end": module.next_token_distribution(
            torch.tensor([[-INF, 1.0, 2.0, 0.0]]), module.SamplerSettings(temperature=2, min_p=0.3)
        ),
    }


@case(seeds=3, covers=["src/distribution.py"])
def draws_from_random_weights(tree, rng):
    draw = tree.load("distribution").draw
    runs = []
    for shape in [(6,), (5, 4), (2, 3, 7), (3, 3, 3), (200, 5)]:
        weights = rng.torch.uniform(*shape, high=2.0) * (rng.torch.uniform(*shape) < 0.7)
        weights[..., 1] += 0.1
        uniforms = rng.torch.uniform(*shape[:-1])
        tokens = draw(weights, uniforms)
        runs.append({"weights": weights, "uniforms": uniforms, "tokens": tokens})
    return runs


@case(seeds=1, covers=["src/distribution.py"])
def draws_at_the_edges(tree, rng):
    draw = tree.load("distribution").draw
    largest = 1 - 2.0**-24
    sure = torch.tensor([0.0, 0.0, 1.0, 0.0])
    quarters = torch.tensor([0.0, 0.25, 0.25, 0.0, 0.5, 0.0])

    def many(weights, numbers):
        return draw(weights.expand(len(numbers), -1), torch.tensor(numbers))

    return {
        "sure": many(sure, [0.0, 0.3, 0.5, largest]),
        "quarters": many(quarters, [0.0, 0.1, 0.25, 0.3, 0.5, 0.75, largest]),
        "scaled": many(6 * quarters, [0.0, 0.1, 0.25, 0.3, 0.5, 0.75, largest]),
        "halves": many(torch.tensor([1.0, 1.0]), [0.0, 0.4999, 0.5, largest]),
        "fine": many(torch.tensor([1.0, 1e-9, 1.0]), [0.25, 0.5, 0.75]),
        "finer": many(torch.tensor([1.0, 1e-9, 3e-9, 1.0]), [0.25, 0.5, 0.75]),
        "double": draw(quarters.double(), torch.tensor(0.6, dtype=torch.float64)),
        "number": draw(quarters, torch.tensor(0.6)),
        "single": many(torch.tensor([3.0]), [0.0, 0.9]),
    }


@case(seeds=1, covers=["src/distribution.py"])
def draws_that_are_refused(tree, rng):
    draw = tree.load("distribution").draw
    flat = torch.ones(3, 4)
    zeros = [0.5, 0.5, 0.5]

    def outcome(weights, numbers):
        return raises(lambda: draw(torch.as_tensor(weights), torch.as_tensor(numbers)))

    return {
        "uniforms": [
            outcome(flat, [0.5, number, 0.1])
            for number in (-1.0, -0.5, -1e-6, 0.0, 0.99, 1.0, 1.5, 2.0, math.nan)
        ],
        "all_uniforms": [outcome(flat, [number] * 3) for number in (-0.5, 0.0, 0.9, 1.0, 7.0)],
        "shapes": [
            outcome(flat, numbers)
            for numbers in (zeros, 0.5, [0.5], [zeros], [[0.5], [0.5], [0.5]], zeros + [0.5])
        ],
        "blocks": [
            outcome(torch.ones(2, 3, 4), torch.full(shape, 0.5))
            for shape in [(2, 3), (2,), (3,), (3, 4), (2, 1), (1, 3), (2, 3, 1), (2, 3, 4), (3, 2)]
        ],
        "weights": [
            outcome([flat[0].tolist(), row, flat[1].tolist()], zeros)
            for row in (
                [0.0, 0.0, 0.0, 0.0],
                [0.0, 1.0, 0.0, 0.0],
                [-0.5, 1.0, 1.0, 1.0],
                [1.0, 1.0, 1.0, -0.5],
                [0.5, 0.2, 0.1, 0.0],
                [1.0, math.nan, 1.0, 1.0],
            )
        ],
        "one_row": [outcome(w, 0.5) for w in ([0.0, 0.0], [-1.0, -1.0], [-1.0, 2.0], [0.2, 0.2])],
    }


def bigram(tree, rng, vocabulary=6, std=1.5):
    """A bigram model with a random table."""
    table = rng.torch.normal(vocabulary, vocabulary, std=std)
    return tree.load("language_model").BigramModel(table)


def fields(made):
    """The three fields of a generation and its coherence."""
    return {**made._asdict(), "coherence": made.coherence()}


@case(seeds=2, covers=["src/generation.py"])
def texts_of_a_bigram_model(tree, rng):
    generation, settings = tree.load("generation"), tree.load("distribution").SamplerSettings
    model = bigram(tree, rng)
    prompts, uniforms = rng.torch.integers(1, 6, 4, 3), rng.torch.uniform(4, 9)
    found = {"prompts": prompts, "table": model.table}
    for name, options in {
        "plain": {},
        "min_p": {"min_p": 0.3, "temperature": 2.0},
        "min_p_last": {"min_p": 0.3, "temperature": 2.0, "temperature_last": True},
        "greedy": {"temperature": 0.0},
        "top_k": {"top_k": 2},
    }.items():
        made = generation.generate(model, prompts, settings(**options), uniforms, 0, 5)
        found[name] = fields(made)
    for least in (1, 3, 9, 20):
        made = generation.generate(model, prompts, settings(), uniforms, 0, 4, least)
        found[f"at least {least}"] = fields(made)
    return found


@case(seeds=2, covers=["src/generation.py"])
def texts_of_a_model_that_looks_back(tree, rng):
    generation, settings = tree.load("generation"), tree.load("distribution").SamplerSettings
    model = tree.load("language_model").WindowModel(7, width=4)
    for parameter in model.parameters():
        parameter.data = rng.torch.normal(*parameter.shape)
    prompts, uniforms = rng.torch.integers(0, 7, 3, 4), rng.torch.uniform(3, 7)
    made = generation.generate(model, prompts, settings(min_p=0.05), uniforms, 2, 2)
    endless = generation.generate(model, prompts, settings(min_p=0.05), uniforms, 2, 1, 7)
    seen = []

    def watched(tokens):
        seen.append(tokens)
        return model(tokens)

    again = generation.generate(watched, prompts, settings(), uniforms, 2, 6, min_new_tokens=1)
    return {
        "made": fields(made),
        "endless": fields(endless),
        "again": fields(again),
        "double numbers": fields(
            generation.generate(model, prompts, settings(), uniforms.double(), 2, 6)
        ),
        "seen": seen,
        "learns": again.log_probs.requires_grad,
    }


@case(seeds=1, covers=["src/generation.py"])
def texts_that_end_at_known_steps(tree, rng):
    generation, settings = tree.load("generation"), tree.load("distribution").SamplerSettings
    # Token i is followed by i - 1 for sure; 0 is followed by 0 or by 3, half and half.
    table = torch.full((4, 4), -INF)
    table[1, 0] = table[2, 1] = table[3, 2] = 0.0
    table[0, 0] = table[0, 3] = 0.0
    model = tree.load("language_model").BigramModel(table)
    prompts = torch.tensor([[3, 3], [0, 2], [0, 1]])

    def run(prompts, steps, end=0, padding=3, least=0, number=0.7):
        uniforms = torch.full((len(prompts), steps), number)
        return fields(
            generation.generate(model, prompts, settings(), uniforms, end, padding, least)
        )

    never_zero = generation.generate(
        tree.load("language_model").BigramModel(torch.zeros(3, 3)),
        torch.tensor([[1], [2]]),
        settings(),
        torch.zeros(2, 4),
        0,
        2,
        2,
    )
    return {
        "cut": run(prompts, 2),
        "just": run(prompts, 3),
        "long": run(prompts, 8),
        "padded with the end": run(prompts, 8, padding=0),
        "padded with a token that restarts": run(prompts, 8, padding=1),
        "none": run(prompts, 0),
        "one": run(prompts, 1),
        "single": run(prompts[:1], 5),
        "other end": run(prompts, 6, end=1),
        "end in the prompt": run(torch.tensor([[0, 0], [0, 3]]), 6),
        "blocked": fields(never_zero),
        "prompts": prompts,
    }


@case(seeds=3, covers=["src/analysis.py"])
def entry_temperatures_of_random_logits(tree, rng):
    module = tree.load("analysis")
    runs = []
    for shape in [(6,), (3, 5), (5, 5), (2, 3, 7)]:
        logits = rng.torch.normal(*shape, std=3.0)
        runs.append(
            {
                "logits": logits,
                "entry": {str(p): module.entry_temperatures(logits, p) for p in (0.05, 0.1, 0.9)},
                "sizes": module.pool_sizes(logits, 0.1, [0.5, 1.0, 2.0, 3.0]),
            }
        )
    return runs


@case(seeds=1, covers=["src/analysis.py"])
def entry_temperatures_at_the_edges(tree, rng):
    entry = tree.load("analysis").entry_temperatures
    return {
        "ties": entry(TIES, 0.5),
        "blocked": entry(torch.tensor([[0.0, -INF, 1.0]]), 0.2),
        "double": entry(LADDER.double(), 0.1),
        "single": entry(torch.tensor([4.0]), 0.3),
        "refused": [
            raises(lambda p=p: entry(LADDER, p)) for p in (-1.0, -0.5, 0.0, 1.0, 1.5, 2.0, math.nan)
        ],
        "accepted": [raises(lambda p=p: entry(LADDER, p)) for p in (1e-6, 0.5, 0.999)],
    }


@case(seeds=3, covers=["src/diversity.py"])
def diversity_of_random_texts(tree, rng):
    diversity = tree.load("diversity").diversity
    texts = [rng.torch.integers(0, 3, n).tolist() for n in (12, 7, 20, 1, 3)]
    pairs = [rng.torch.integers(0, 2, 6).tolist() for _ in range(2)]
    return {
        "texts": texts,
        "default": diversity(texts)._asdict(),
        "unigrams": diversity(texts, (1,))._asdict(),
        "bigrams": diversity(texts, orders=(2,))._asdict(),
        "mixed": diversity(texts, [1, 3])._asdict(),
        "pair": diversity(pairs, (1, 2))._asdict(),
        "tuples": diversity([tuple(text) for text in texts], (2, 3))._asdict(),
    }


@case(seeds=1, covers=["src/diversity.py"])
def diversity_of_special_texts(tree, rng):
    diversity = tree.load("diversity").diversity

    def found(*texts, orders=(1, 2)):
        return diversity(list(texts), orders)._asdict()

    return {
        "constant": found([5, 5, 5, 5]),
        "all different": found([1, 2, 3, 4]),
        "twice the same": found([1, 2, 3], [1, 2, 3]),
        "nothing shared": found([1, 2, 3], [4, 5, 6]),
        "half shared": found([1, 2, 3], [1, 2, 4]),
        "order matters": found([1, 2, 3], [3, 2, 1], orders=(2,)),
        "one token": found([7]),
        "empty": found([]),
        "both empty": found([], []),
        "one empty": found([], [1, 2]),
        "two empty of three": found([], [], [1, 2, 1]),
        "short ones": found([1, 2], [3, 4], [1, 2, 3], orders=(3,)),
        "exactly n": found([1, 2, 3], [1, 2, 3], [3, 2, 1], orders=(3,)),
        "no orders": found([1, 2], [3], orders=()),
        "three": found([1, 2, 1], [1, 2, 2], [4, 1, 2]),
        "weights of texts": found([1, 1, 1, 1, 1, 1, 1, 1], [1, 2]),
        "refused": raises(lambda: diversity([])),
        "accepted": raises(lambda: diversity([[]])),
    }


@case(seeds=3, covers=["src/voting.py"])
def accuracy_of_random_answers(tree, rng):
    accuracy = tree.load("voting").self_consistency_accuracy
    names = ["12", "7", "-3", None]
    answers = [[names[i] for i in rng.torch.integers(0, 4, 5).tolist()] for _ in range(4)]
    truths = [names[i] for i in rng.torch.integers(0, 3, 4).tolist()]
    return {
        "answers": answers,
        "truths": truths,
        "accuracy": [accuracy(answers, truths, votes) for votes in range(1, 6)],
    }


@case(seeds=1, covers=["src/voting.py"])
def accuracy_of_special_votes(tree, rng):
    accuracy = tree.load("voting").self_consistency_accuracy

    def one(answers, votes, truth="a"):
        return accuracy([answers], [truth], votes)

    return {
        "majority": one(["a", "a", "b"], 3),
        "minority": one(["b", "a", "b"], 3),
        "two tie": one(["b", "a", "a", "b"], 4),
        "three tie": one(["c", "b", "a"], 3),
        "tie without the truth": one(["b", "c"], 2),
        "tie for the second place": one(["a", "b", "a", "c"], 4),
        "abstentions": one([None, None, "a"], 3),
        "abstentions do not win": one([None, None, "b", "a", "a"], 5),
        "nobody answers": one([None, None], 2),
        "subsets": [one(["a", "b", "b", "a", "a"], votes) for votes in (1, 2, 3, 4, 5)],
        "uneven": [accuracy([["a", "b"], ["a", "a", "a", "b"]], ["a", "a"], v) for v in (1, 2)],
        "spelling": one(["A", "a ", "a"], 3),
        "an empty answer": [one(["", "", "a"], 3), one(["", "", "a"], 3, "")],
        "refused": [
            raises(lambda: accuracy([], [], 1)),
            raises(lambda: accuracy([["a"]], [], 1)),
            raises(lambda: accuracy([["a"]], ["a", "b"], 1)),
            raises(lambda: accuracy([["a"], ["b"]], ["a"], 1)),
            raises(lambda: accuracy([], ["a"], 1)),
            raises(lambda: one(["a", "b"], 0)),
            raises(lambda: one(["a", "b"], -1)),
            raises(lambda: one(["a", "b"], 3)),
            raises(lambda: accuracy([["a", "b"], ["a"]], ["a", "a"], 2)),
        ],
        "accepted": [raises(lambda n=n: one(["a", "b"], n)) for n in (1, 2)],
    }
