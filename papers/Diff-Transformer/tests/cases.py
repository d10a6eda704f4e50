"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import math

import torch

from rcb_env.cases import case, raises

INF, NAN = math.inf, math.nan


def filled(rng, module, std=0.5):
    """A module with random weights, in float64."""
    module = module.double()
    for weight in module.parameters():
        weight.data.copy_(rng.torch.normal(*weight.shape, std=std))
    return module


@case(seeds=2, rtol=1e-6, atol=1e-8, covers=["src/parts.py"])
def rotations(tree, rng):
    rotate = tree.load("parts").rotate
    runs = []
    for shape in [(2, 3, 2, 4), (1, 5, 3, 6), (2, 2, 1, 2)]:
        x = rng.torch.normal(*shape).double()
        y = rng.torch.normal(*shape).double()
        steps = torch.arange(shape[1])
        far = rng.torch.integers(0, 50, shape[1])
        runs.append(
            {
                "x": x,
                "y": y,
                "far": far,
                "rotated": rotate(x, steps),
                "other": rotate(y, steps),
                "shifted": rotate(x, steps + 7),
                "other_shifted": rotate(y, steps + 7),
                "anywhere": rotate(x, far),
                "fast": rotate(x, steps, 3.0),
            }
        )
    return {
        "runs": runs,
        "refused": [
            raises(lambda n=n: rotate(torch.zeros(1, 2, 1, n), torch.arange(2)))
            for n in (1, 2, 3, 4)
        ],
    }


@case(seeds=2, covers=["src/parts.py"])
def rotations_in_single_precision(tree, rng):
    return tree.load("parts").rotate(rng.torch.normal(1, 2, 1, 4), torch.arange(2))


@case(seeds=2, rtol=1e-9, atol=1e-12, covers=["src/parts.py"])
def small_parts(tree, rng):
    parts = tree.load("parts")
    heads = rng.torch.normal(2, 3, 2, 4).double()
    gain = rng.torch.normal(4).double()
    network = filled(rng, parts.SwiGLU(5, 7))
    x = rng.torch.normal(2, 3, 5).double().requires_grad_()
    y = network(x)
    y.square().sum().backward()
    return {
        "lambdas": [parts.initial_lambda(n) for n in (1, 2, 5, 28)],
        "refused": [raises(lambda n=n: parts.initial_lambda(n)) for n in (1, 0, -3)],
        "heads": heads,
        "gain": gain,
        "normed": parts.head_norm(heads, gain),
        "wide": parts.head_norm(heads, gain, 0.5),
        "small": parts.head_norm(1e-3 * heads, gain),
        "zero": parts.head_norm(0 * heads, gain),
        "x": x.clone(),
        "weights": [network.gate.weight, network.up.weight, network.down.weight],
        "y": y,
        "gradient": x.grad,
    }


@case(seeds=2, rtol=1e-6, atol=1e-9, covers=["src/attention.py"])
def maps_of_attention(tree, rng):
    make = tree.load("attention").DifferentialAttention
    runs = []
    for layer, steps, seen, std, size in [
        (1, 4, 4, 0.7, 1.0),
        (3, 2, 5, 0.7, 1.0),
        (2, 1, 3, 0.7, 1.0),
        (1, 1, 1, 0.7, 1.0),
        (2, 3, 3, 2.0, 1.0),
        (1, 4, 4, 0.7, 1e12),
    ]:
        attention = filled(rng, make(16, 2, layer), std)
        if std > 1:  # a large product, whatever is drawn
            attention.lambda_q1.data.abs_()
            attention.lambda_k1.data.abs_().add_(0.5)
        queries = (size * rng.torch.normal(3, steps, 4, 4)).double().requires_grad_()
        keys = rng.torch.normal(3, seen, 4, 4).double()
        found = attention.maps(queries, keys)
        (found * rng.torch.normal(*found.shape)).sum().backward()
        names = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")
        runs.append(
            {
                "layer": layer,
                "queries": queries.clone(),
                "keys": keys,
                "maps": found,
                "lambda": attention.lambda_now(),
                "vectors": [getattr(attention, name).clone() for name in names],
                "vector_gradients": [getattr(attention, name).grad for name in names],
                "gradient": queries.grad,
            }
        )
    return runs


@case(seeds=2, rtol=1e-6, atol=1e-9, covers=["src/attention.py"])
def outputs_of_attention(tree, rng):
    make = tree.load("attention").DifferentialAttention
    runs = []
    for width, heads, layer, shared in [(8, 2, 1, None), (16, 4, 2, 2), (24, 6, 3, 2), (12, 3, 4, 1)]:
        attention = filled(rng, make(width, heads, layer, shared))
        x = rng.torch.normal(2, 5, width).double().requires_grad_()
        y, (keys, values) = attention(x)
        (y * torch.arange(width)).sum().backward()
        with torch.no_grad():
            head, cache = attention(x[:, :3])
            before = [part.clone() for part in cache]
            tail, full = attention(x[:, 3:], cache)
            single, _ = attention(x[:, 4:], attention(x[:, :4])[1])
        leaf = x.detach().clone().requires_grad_()
        pieces, _ = attention(leaf[:, 3:], attention(leaf[:, :3])[1])
        pieces.square().sum().backward()
        runs.append(
            {
                "y": y,
                "keys": keys,
                "values": values,
                "gradient": x.grad.clone(),
                "gradient through the cache": leaf.grad,
                "lambda_gradient": attention.lambda_q2.grad.clone(),
                "head": head,
                "tail": tail,
                "single": single,
                "full": list(full),
                "untouched": all(torch.equal(a, b) for a, b in zip(before, cache)),
            }
        )
    return runs


@case(seeds=2, rtol=1e-5, atol=1e-8, covers=["src/decoder.py"])
def decoders(tree, rng):
    decoder = tree.load("decoder")
    runs = []
    for width, heads, depth, shared in [(8, 2, 2, None), (16, 2, 3, 1)]:
        model = filled(rng, decoder.Decoder(11, width, heads, depth, shared))
        tokens = rng.torch.integers(0, 11, 3, 6)
        logits, caches = model(tokens)
        first, kept = model(tokens[:, :4])
        second, kept = model(tokens[:, 4:], kept)
        runs.append(
            {
                "logits": logits,
                "pieces": torch.cat([first, second], dim=1),
                "caches": [list(cache) for cache in caches],
                "kept": [list(cache) for cache in kept],
                "greedy": decoder.continue_greedily(model, tokens, 5, 0),
            }
        )
    return runs


@case(seeds=3, covers=["src/decoder.py"])
def losses(tree, rng):
    loss_of = tree.load("decoder").language_loss
    runs = []
    for batch, steps, vocabulary in [(3, 5, 4), (1, 2, 6), (4, 3, 3)]:
        logits = rng.torch.normal(batch, steps, vocabulary).double().requires_grad_()
        tokens = rng.torch.integers(0, vocabulary, batch, steps)
        tokens[0, 1] = 1
        loss = loss_of(logits, tokens, 0)
        (gradient,) = torch.autograd.grad(loss, logits)
        runs.append(
            {"logits": logits.clone(), "tokens": tokens, "loss": loss, "gradient": gradient}
        )
    logits = rng.torch.normal(2, 3, 4)
    return {
        "runs": runs,
        "nothing": loss_of(logits, torch.full((2, 3), 3), 3) + 0.0,
        "one": loss_of(logits, torch.tensor([[3, 3, 1], [0, 3, 3]]), 3),
        "never": loss_of(logits, torch.tensor([[3, 2, 1], [0, 3, 3]]), -1),
    }


@case(seeds=3, covers=["src/decoder.py"])
def greedy_texts(tree, rng):
    greedy = tree.load("decoder").continue_greedily
    table = rng.torch.normal(7, 7)

    def told(rows, prompts, count, end):
        """Run with a table of what follows what; note what the model was given."""
        calls = []

        def model(tokens, caches):
            calls.append({"tokens": tokens.clone(), "caches": caches})
            return rows[tokens], [len(calls)]

        before = prompts.clone()
        made = greedy(model, prompts, count, end)
        return {"made": made, "calls": calls, "untouched": torch.equal(prompts, before)}

    # In a chain every token is followed by the one below; 0 by 4.
    chain = torch.eye(5)[[4, 0, 1, 2, 3]]
    prompts = torch.tensor([[0, 0, 3], [4, 0, 1], [0, 2, 2]])
    return {
        "random": told(table, rng.torch.integers(0, 7, 4, 3), 6, 0),
        "endless": told(table, rng.torch.integers(0, 7, 2, 1), 4, 99),
        "chain": told(chain, prompts, 8, 0),
        "cut": told(chain, prompts, 2, 0),
        "none": told(chain, prompts, 0, 0),
        "end in the prompt": told(chain, torch.tensor([[1, 2, 0]]), 9, 1),
        "refused": [
            raises(lambda n=n, t=t: told(chain, prompts[:, :t], n, 0))
            for n, t in [(-1, 3), (-2, 1), (0, 0), (4, 0), (0, 1), (1, 1)]
        ],
    }


@case(seeds=3, covers=["src/retrieval.py"])
def needles(tree, rng):
    hide = tree.load("retrieval").hide_needles
    runs = []
    for length, number in [(16, 3), (5, 6), (0, 2), (9, 1), (12, 0)]:
        haystack = rng.numpy.integers(50, 90, length).tolist()
        keys = (2 + rng.numpy.permutation(20)[:number]).tolist()
        values = rng.numpy.integers(30, 50, number).tolist()
        depths = (rng.numpy.integers(0, 9, number) / 8).tolist()
        if number > 2:
            depths[0], depths[2] = 1.0, 0.0
        asked = [keys[i] for i in rng.numpy.integers(0, number, 4)] if number else []
        found = hide(haystack, list(zip(keys, values)), depths, asked)
        runs.append(
            {
                "haystack": haystack,
                "keys": keys,
                "values": values,
                "depths": depths,
                "asked": asked,
                "found": found._asdict(),
            }
        )
    pairs = [(9, 31), (4, 30), (7, 30)]

    def tried(depths, asked=(4,), pairs=pairs):
        return raises(lambda: hide([60, 61, 62], pairs, depths, list(asked)))

    half = (0.5, 0.5, 0.5)
    return {
        "runs": runs,
        "ties": hide([60, 61, 62], pairs, half, [7, 4, 9])._asdict(),
        "just before": hide([60, 61, 62, 63], pairs, (1 - 1e-9, 0.5 - 1e-9, 0.25), [7, 4, 9])._asdict(),
        "near": hide([60, 61, 62], pairs, (0.6, 0.5, 0.4), [7, 4, 9])._asdict(),
        "refused": [
            tried(half),
            tried(half, ()),
            tried((0.0, 1.0, 0.5)),
            tried((0.5, 0.5)),
            tried((0.5, 0.5, 0.5, 0.5)),
            tried((0.5, 0.5, 1.01)),
            tried((-0.01, 0.5, 0.5)),
            tried((0.5, NAN, 0.5)),
            tried(half, (5,)),
            tried(half, (4, 30)),
            tried(half, (4,), [(4, 30), (9, 31), (4, 30)]),
        ],
    }


@case(seeds=3, rtol=1e-5, atol=1e-6, covers=["src/analysis.py"])
def allocations(tree, rng):
    allocation = tree.load("analysis").allocation
    runs = []
    for shape in [(3, 2, 4, 6), (1, 3, 1, 5), (2, 1, 3, 2)]:
        maps = rng.torch.normal(*shape).double()
        starts = rng.torch.integers(0, shape[3], shape[0])
        spans = torch.stack([starts, starts + 1 + (torch.arange(shape[0]) % 2)], dim=1)
        signal, noise = allocation(maps, spans)
        runs.append({"maps": maps, "spans": spans, "signal": signal, "noise": noise})
    maps = rng.torch.normal(2, 2, 3, 4)
    maps[0, 1, 2] = 0.0
    everything = torch.tensor([[0, 4], [0, 4]])
    spans = torch.tensor([[1, 3], [0, 2]])
    return {
        "runs": runs,
        "faint": [list(allocation(scale * maps.double(), spans)) for scale in (1e-6, 1e-12, 1e6)],
        "all": list(allocation(maps, everything)),
        "none": list(allocation(maps, 0 * everything)),
    }


@case(seeds=3, rtol=1e-5, atol=1e-6, covers=["src/analysis.py"])
def magnitudes(tree, rng):
    outliers = tree.load("analysis").outliers
    runs = []
    for shape, count in [((3, 5), 4), ((2, 3, 2), 1), ((7,), 7), ((1,), 1), ((2,), 2)]:
        x = rng.torch.normal(*shape).double()
        largest, median = outliers(x, count)
        runs.append({"x": x, "count": count, "largest": largest, "median": median})
    x = rng.torch.normal(2, 2)
    return {
        "runs": runs,
        "refused": [raises(lambda n=n: outliers(x, n)) for n in (-1, 0, 1, 4, 5)],
    }


@case(seeds=3, rtol=1e-5, atol=1e-6, covers=["src/analysis.py"])
def coarse_logits(tree, rng):
    quantize = tree.load("analysis").quantize
    runs = []
    for shape in [(3, 6), (2, 2, 3, 5), (4,)]:
        for bits in (2, 4, 8):
            logits = rng.torch.normal(*shape, std=0.3).double()
            logits[..., -1] = -INF
            before = logits.clone()
            found = quantize(logits, bits)
            untouched = torch.equal(logits, before)
            runs.append({"x": before, "bits": bits, "found": found, "untouched": untouched})
    logits = rng.torch.normal(3, 6).double()
    scaled = [quantize(scale * logits, 5) / scale for scale in (1e-5, 1e-12, 1e8)]
    fine = (quantize(logits, 30) - logits) * 2.0**29
    # Quotients exactly between two integers: the largest magnitude is the highest level, times a power of two.
    halves = torch.tensor([7.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.5, -6.5, -INF])
    rows = [halves[rng.torch.permutation(10)] * 2.0 ** int(rng.numpy.integers(-4, 5)) for _ in range(4)]
    blank = torch.tensor([[0.0, 0.0, -INF], [-INF, -INF, -INF]])
    return {
        "runs": runs,
        "scaled": scaled,
        "fine": fine.abs().amax(dim=-1) < 5,
        "halves": quantize(torch.stack(rows), 4),
        "blank": quantize(blank, 4),
        "single": quantize(rng.torch.normal(2, 7), 3),
        "refused": [raises(lambda n=n: quantize(blank, n)) for n in (-1, 0, 1, 2, 16)],
    }
