"""What the code of this paper is asked to do; the outputs are compared with the reference's."""

from __future__ import annotations

import torch
from torch import nn

from rcb_env.cases import case, raises


def trained_layer(tree, rng, channels, channels_last=True):
    """A DyT layer whose parameters are all different from their initial values."""
    layer = tree.load("dynamic_tanh").DynamicTanh(channels, channels_last=channels_last)
    with torch.no_grad():
        layer.alpha.copy_(rng.torch.uniform(1, low=0.6, high=1.4))
        layer.weight.copy_(rng.torch.uniform(channels, low=0.5, high=2.0))
        layer.bias.copy_(rng.torch.normal(channels))
    return layer


def run_with_gradients(layer, x, direction):
    """The output for x, and the gradients of (output * direction).sum()."""
    layer.zero_grad()
    x = x.clone().requires_grad_()
    y = layer(x)
    (y * direction).sum().backward()
    gradients = {name: p.grad.clone() for name, p in layer.named_parameters()}
    return {"x": x, "y": y, "grad_x": x.grad, **gradients}


@case(seeds=1, covers=["src/dynamic_tanh.py"])
def a_new_layer_has_its_initial_values(tree, rng):
    make = tree.load("dynamic_tanh").DynamicTanh
    layers = {
        "default": make(6),
        "one": make(1, 0.25),
        "whole": make(3, 2),
        "first": make(4, 0.8, channels_last=False),
    }
    usual = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        layers["another default"] = make(2, 0.3)
    finally:
        torch.set_default_dtype(usual)
    return {
        name: {
            "values": dict(layer.named_parameters()),
            "learnable": {n: p.requires_grad for n, p in layer.named_parameters()},
            "state": sorted(layer.state_dict()),
            "text": repr(layer),
        }
        for name, layer in layers.items()
    }


@case(seeds=3, covers=["src/dynamic_tanh.py"])
def forward_with_channels_last(tree, rng):
    layer = trained_layer(tree, rng, 5)
    shapes = [(5,), (1, 5), (3, 5), (2, 4, 5), (2, 5, 5), (2, 1, 3, 5)]
    return {
        "alpha": layer.alpha,
        "weight": layer.weight,
        "bias": layer.bias,
        "runs": [
            run_with_gradients(layer, rng.torch.normal(*s, std=1.5), rng.torch.normal(*s))
            for s in shapes
        ],
    }


@case(seeds=3, covers=["src/dynamic_tanh.py"])
def forward_with_channels_first(tree, rng):
    layer = trained_layer(tree, rng, 4, channels_last=False)
    shapes = [(3, 4), (4, 4), (2, 4, 4), (2, 4, 3), (2, 4, 3, 4), (1, 4, 4, 4), (2, 4, 1, 2, 3)]
    return {
        "alpha": layer.alpha,
        "weight": layer.weight,
        "bias": layer.bias,
        "runs": [
            run_with_gradients(layer, rng.torch.normal(*s, std=1.5), rng.torch.normal(*s))
            for s in shapes
        ],
    }


@case(seeds=1, covers=["src/dynamic_tanh.py"])
def forward_of_extreme_values(tree, rng):
    layer = trained_layer(tree, rng, 6)
    x = torch.tensor([0.0, -0.0, 1e30, -1e30, float("inf"), float("nan")])
    return {
        "weight": layer.weight,
        "bias": layer.bias,
        "y": layer(x),
        "double": layer(torch.linspace(-3, 3, 6, dtype=torch.float64)),
        "empty": layer(torch.zeros(0, 6)),
    }


@case(seeds=1, covers=["src/dynamic_tanh.py"])
def forward_refuses_a_wrong_number_of_channels(tree, rng):
    make = tree.load("dynamic_tanh").DynamicTanh
    last, first, single = make(4), make(4, channels_last=False), make(1)
    return {
        "last": [
            raises(lambda s=s: last(torch.zeros(s)))
            for s in [(2, 4), (4, 2), (2, 1), (1,), (4, 5), (2, 4, 3), (2, 3, 4)]
        ],
        "first": [
            raises(lambda s=s: first(torch.zeros(s)))
            for s in [(2, 4), (2, 1), (4, 2), (2, 1, 4), (2, 4, 1), (2, 5, 4), (4, 3, 4), (2, 4, 3)]
        ],
        "single": [raises(lambda s=s: single(torch.zeros(s))) for s in [(2, 1), (2, 3)]],
    }


@case(seeds=3, covers=["src/gradients.py"])
def gradients_of_random_layers(tree, rng):
    gradients = tree.load("gradients").dynamic_tanh_gradients
    alpha = rng.torch.uniform(1, low=0.5, high=1.5)
    weight = rng.torch.normal(4, std=2.0)
    runs = []
    for shape in [(4,), (3, 4), (2, 3, 4), (2, 1, 2, 4)]:
        upstream, x = rng.torch.normal(*shape), rng.torch.normal(*shape, std=1.5)
        found = gradients(upstream, x, alpha, weight)
        runs.append({"upstream": upstream, "x": x, "found": found._asdict()})
    return {"alpha": alpha, "weight": weight, "runs": runs}


@case(seeds=1, covers=["src/gradients.py"])
def gradients_of_special_inputs(tree, rng):
    gradients = tree.load("gradients").dynamic_tanh_gradients
    alpha, weight = torch.tensor([0.5]), torch.tensor([1.0, -2.0, 0.0])
    upstream = rng.torch.normal(2, 3)
    transposed = rng.torch.normal(3, 2).T
    return {
        "upstream": upstream,
        "at_zero": gradients(upstream, torch.zeros(2, 3), alpha, weight),
        "saturated": gradients(upstream, torch.full((2, 3), 1e4), alpha, weight),
        "strided": gradients(transposed, 2 * transposed, alpha, weight),
        "double": gradients(upstream.double(), upstream.double(), alpha.double(), weight.double()),
        "errors": [
            raises(lambda a=a, b=b: gradients(torch.ones(a), torch.ones(b), alpha, weight))
            for a, b in [
                ((2, 3), (2, 3)),
                ((1, 3), (2, 3)),
                ((2, 3), (1, 3)),
                ((3,), (2, 3)),
                ((2, 1), (2, 3)),
                ((2, 2, 3), (4, 3)),
            ]
        ],
    }


KINDS = ["identity", "tanh", "hardtanh", "sigmoid"]


@case(seeds=2, covers=["src/ablations.py"])
def every_squashing_function(tree, rng):
    squash = tree.load("ablations").squash
    x = torch.cat([torch.linspace(-4, 4, 32), rng.torch.normal(7, std=3.0)])
    runs = {}
    for kind in KINDS:
        leaf = x.clone().requires_grad_()
        y = squash(leaf, kind)
        y.sum().backward()
        runs[kind] = {"y": y, "slope": leaf.grad, "double": squash(x.double(), kind)}
    unknown = ["", "Tanh", "relu", "hard", "identity ", " tanh", "tanh ", "sigmoid\n", "hard tanh", None]
    return {
        "x": x,
        "runs": runs,
        "errors": [raises(lambda k=k: squash(x, k)) for k in KINDS + unknown],
    }


@case(seeds=2, covers=["src/ablations.py"])
def layers_with_exchanged_parts(tree, rng):
    layer_class = tree.load("ablations").ElementwiseLayer
    x = rng.torch.normal(2, 3, 5, std=2.0)
    outputs = {}
    for kind in KINDS:
        for learn_alpha in (True, False):
            layer = layer_class(5, kind, 0.7, learn_alpha)
            nn.init.constant_(layer.gamma, 1.5)
            nn.init.constant_(layer.beta, -0.25)
            outputs[f"{kind} {learn_alpha}"] = layer(x)
    return {"x": x, "outputs": outputs}


def describe(model):
    """Every module by every path: its type, and for DyT layers all their settings and values."""
    found = {}
    for path, module in model.named_modules(remove_duplicate=False):
        entry = {"type": type(module).__name__, "training": module.training}
        if entry["type"] == "DynamicTanh":
            entry["settings"] = [module.channels, module.alpha_init, module.channels_last]
            entry["values"] = {n: p.detach() for n, p in module.named_parameters()}
            entry["learnable"] = [p.requires_grad for p in module.parameters()]
        found[path] = entry
    return found


class OwnLayerNorm(nn.LayerNorm):
    """A kind of LayerNorm that only this model has."""


class OwnRMSNorm(nn.RMSNorm):
    """A kind of RMSNorm that only this model has."""


def own_image_norm(blocks):
    return type("Own", (blocks.LayerNorm2d,), {})


def many_norms(tree, rng):
    """A model with every kind of normalization layer, all scales and shifts away from 1 and 0."""
    blocks = tree.load("blocks")
    model = nn.Sequential(
        nn.Linear(4, 4),
        nn.LayerNorm(4),
        nn.Sequential(nn.RMSNorm(4), nn.ModuleDict({"inner": nn.LayerNorm(4, bias=False)})),
        nn.BatchNorm1d(4),
        nn.ModuleList([blocks.LayerNorm2d(3), nn.GroupNorm(1, 4)]),
        nn.LayerNorm(5, elementwise_affine=False),
        nn.RMSNorm(6, elementwise_affine=False),
        blocks.Block(4, 2, nn.LayerNorm),
    )
    model.append(OwnLayerNorm(4)).append(OwnRMSNorm(3)).append(own_image_norm(blocks)(3))
    model.register_module("nothing", None)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(rng.torch.normal(*p.shape))
    return model


@case(seeds=2, covers=["src/conversion.py"])
def conversion_of_a_mixed_model(tree, rng):
    convert = tree.load("conversion").convert_norms
    fresh, kept = many_norms(tree, rng), many_norms(tree, rng)
    trained = {n: p.clone() for n, p in kept.named_parameters()}
    returned = convert(fresh), convert(kept, alpha_init=0.9, keep_affine=True)
    return {
        "in_place": [returned[0] is fresh, returned[1] is kept],
        "fresh": describe(fresh),
        "kept": describe(kept),
        "trained": trained,
        "y": kept[7](rng.torch.normal(2, 3, 4)),
    }


@case(seeds=1, covers=["src/conversion.py"])
def conversion_keeps_mode_and_precision(tree, rng):
    convert = tree.load("conversion").convert_norms
    model = nn.Sequential(
        nn.LayerNorm(3, dtype=torch.float64), nn.RMSNorm(3), nn.LayerNorm(3).half()
    )
    nn.init.constant_(model[0].weight, 1 + 1e-9)
    nn.init.constant_(model[0].bias, 1e-12)
    model[1].eval()
    convert(model, keep_affine=True)
    frozen = convert(nn.Sequential(nn.LayerNorm(2).requires_grad_(False)).eval(), keep_affine=True)
    double = convert(nn.Sequential(nn.LayerNorm(2, dtype=torch.float64), nn.RMSNorm(2).half()))
    old = nn.LayerNorm(3)
    new = convert(nn.Sequential(old), keep_affine=True)[0]
    with torch.no_grad():
        old.weight.fill_(5.0)
        old.bias.fill_(5.0)
    return {
        "mixed": describe(model),
        "frozen": describe(frozen),
        "precision without the affine map": describe(double),
        "separate": [dict(new.named_parameters()), new.weight is old.weight],
        "lowest_bits": model[0].weight - 1,
    }


@case(seeds=1, covers=["src/conversion.py"])
def conversion_of_shared_skipped_and_lone_layers(tree, rng):
    convert = tree.load("conversion").convert_norms
    blocks = tree.load("blocks")
    shared = nn.LayerNorm(3)
    model = nn.Sequential(shared, nn.Linear(3, 3), shared, nn.ModuleDict({"deep": shared}))
    convert(model)
    skipping = nn.Sequential(nn.LayerNorm(3), nn.Sequential(nn.RMSNorm(3), nn.LayerNorm(3)))
    convert(skipping, skip=["0", "1.1", "2"])
    inside = nn.Sequential(nn.LayerNorm(3), nn.Sequential(nn.RMSNorm(3), nn.LayerNorm(3)))
    convert(inside, skip=["1", ""])
    partly = nn.Sequential(*[nn.LayerNorm(3)] * 2, nn.ModuleDict({"0": nn.LayerNorm(3)}))
    convert(partly, skip={"0"})
    lone = nn.LayerNorm(2)
    nn.init.constant_(lone.bias, 3.0)
    plain = nn.Linear(2, 2)
    return {
        "shared": describe(model),
        "still_shared": [model[0] is model[2], model[0] is model[3]["deep"]],
        "skipping": describe(skipping),
        "inside a container that is skipped": describe(inside),
        "partly": describe(partly),
        "lone": describe(convert(lone, 0.3, keep_affine=True)),
        "lone_type": type(convert(lone)).__name__,
        "old_lone_layer": describe(lone),
        "lone_2d": describe(convert(blocks.LayerNorm2d(2))),
        "lone_rms": describe(convert(nn.RMSNorm(2))),
        "lone_skipped": convert(lone, skip=[""]) is lone,
        "plain": convert(plain) is plain,
        "again": convert(model) is model,
    }


@case(seeds=1, covers=["src/conversion.py"])
def conversion_refuses_norms_over_several_dimensions(tree, rng):
    convert = tree.load("conversion").convert_norms

    def tried(skip=(), norm=None):
        model = nn.Sequential(nn.LayerNorm(3), norm or nn.LayerNorm((2, 3)), nn.RMSNorm(3))
        return {"error": raises(lambda: convert(model, skip=skip)), "model": describe(model)}

    return {
        "layer_norm": tried(),
        "rms_norm": tried(norm=nn.RMSNorm((1, 4, 3))),
        "skipped": tried(skip=["1"]),
        "other_skipped": tried(skip=["0"]),
        "lone": raises(lambda: convert(nn.LayerNorm((3, 1)))),
        "no_dimension": raises(lambda: convert(nn.LayerNorm(()))),
        "group": tried(norm=nn.GroupNorm(3, 3)),
    }


@case(seeds=1, covers=["src/conversion.py"], rtol=1e-4)
def a_converted_image_model_runs(tree, rng):
    model = nn.Sequential(nn.Conv2d(2, 3, 1), tree.load("blocks").LayerNorm2d(3), nn.Flatten())
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(rng.torch.normal(*p.shape))
    x = rng.torch.normal(2, 2, 3, 3)
    return {"before": model(x), "after": tree.load("conversion").convert_norms(model)(x)}


@case(seeds=2, covers=["src/alpha_init.py"])
def alphas_of_many_widths(tree, rng):
    llm_alpha = tree.load("alpha_init").llm_alpha
    widths = [1, 2, 512, 1024, 1500, 2048, 3000, 4096, 5120, 6144, 8000, 8192, 12288, 10**6]
    # one width between any two of the table, and some anywhere
    between = [int(rng.numpy.integers(2**n + 1, 2 ** (n + 1))) for n in (10, 11, 12)]
    drawn = [*between, *(int(w) for w in 2.0 ** rng.numpy.uniform(0, 16, 5))]
    return {
        "drawn": [[llm_alpha(w, role) for w in drawn] for role in ("attention", "other")],
        "attention": [llm_alpha(w, "attention") for w in widths],
        "other": [llm_alpha(w, "other") for w in widths],
        "errors": [
            raises(lambda w=w, r=r: llm_alpha(w, r))
            for w, r in [
                (1, "other"),
                (0, "other"),
                (0, "attention"),
                (-5, "attention"),
                (4096, "ffn"),
                (4096, ""),
                (0, "ffn"),
            ]
        ],
    }


@case(seeds=2, covers=["src/alpha_init.py"])
def alphas_set_in_whole_models(tree, rng):
    init = tree.load("alpha_init")
    dyt, blocks = tree.load("dynamic_tanh").DynamicTanh, tree.load("blocks")

    def model():
        made = nn.Module()
        made.attention_norm = dyt(2)
        made.blocks = nn.ModuleList([blocks.Block(2, 1, dyt), blocks.Block(2, 1, nn.LayerNorm)])
        made.mixed = nn.ModuleDict({"attention_norm": nn.Sequential(dyt(2)), "q": dyt(2)})
        made.norm = dyt(2, 0.125)
        with torch.no_grad():
            for p in made.parameters():
                p.fill_(0.375)
        return made

    def state(made):
        layers = {p: m for p, m in made.named_modules() if isinstance(m, dyt)}
        return {
            "alpha_init": {p: m.alpha_init for p, m in layers.items()},
            "parameters": {p: dict(m.named_parameters()) for p, m in layers.items()},
            "untouched": {
                p: q.mean() for p, q in made.named_parameters() if not p.endswith(".alpha")
            },
        }

    default, named, drawn = model(), model(), model()
    parameters = [(p, p.data_ptr()) for p in default.parameters()]
    twice = dyt(2)
    shared = nn.ModuleDict({"norm": twice, "attention_norm": twice})
    width = int(rng.numpy.integers(2049, 8192))
    names = [name for name in ("attention_norm", "norm", "q", "0") if rng.numpy.random() < 0.5]
    return {
        "drawn_assigned": init.set_llm_alphas(drawn, width, names),
        "drawn": state(drawn),
        "default_assigned": init.set_llm_alphas(default, 5120),
        "default": state(default),
        "in place": all(
            p is q and p.data_ptr() == memory
            for (p, memory), q in zip(parameters, default.parameters())
        ),
        "shared": init.set_llm_alphas(shared, 4096),
        "shared alpha": twice.alpha,
        "named_assigned": init.set_llm_alphas(named, 4096, ["q", "0"]),
        "named": state(named),
        "lone": init.set_llm_alphas(dyt(3), 8192),
        "lone_named": init.set_llm_alphas(dyt(3), 8192, [""]),
        "errors": [
            raises(lambda: init.set_llm_alphas(nn.Linear(2, 2), 4096)),
            raises(lambda: init.set_llm_alphas(blocks.Block(2, 1, nn.LayerNorm), 4096)),
            raises(lambda: init.set_llm_alphas(dyt(3), 0)),
        ],
    }


@case(seeds=2, covers=["src/language_model.py"])
def a_language_model(tree, rng):
    make = tree.load("language_model").LanguageModel
    model = make(vocabulary=7, width=6, depth=2, heads=2)
    tokens = rng.torch.integers(0, 7, 2, 5)
    logits = model(tokens)
    nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
    return {
        "logits": logits,
        "scale": model.embedding_scale,
        "scale_learnable": isinstance(model.embedding_scale, nn.Parameter),
        "scale_gradient": model.embedding_scale.grad,
        "names": sorted(model.state_dict()),
        "parameters": sum(p.numel() for p in model.parameters()),
        "scales": [make(3, w, 1, 1).embedding_scale for w in (1, 2, 16)],
        "another default": wide_scale(make),
    }


def wide_scale(make):
    """The embedding scale where double precision is the default."""
    usual = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        return make(3, 2, 1, 1).embedding_scale
    finally:
        torch.set_default_dtype(usual)


class Probe(nn.Module):
    """Feeds its DyT layers unequally: one twice, one never, one a single number."""

    def __init__(self, dyt):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(3, 3, bias=False), dyt(3, 0.7))
        self.twice = dyt(3, 1.3)
        self.never = dyt(3, 0.2)
        self.single = dyt(1, 0.4)
        self.norm = nn.LayerNorm(3)
        self.fail = False

    def forward(self, x):
        y = self.stem(x)
        self.twice(y)
        self.twice(100 + self.norm(y))
        if self.fail:
            raise RuntimeError("stopped")
        return y


@case(seeds=3, rtol=1e-7, atol=0.0, covers=["src/analysis.py"])
def alpha_and_spread_of_a_model(tree, rng):
    measure = tree.load("analysis").alpha_and_inverse_std
    dyt = tree.load("dynamic_tanh").DynamicTanh
    model = Probe(dyt)
    with torch.no_grad():
        model.stem[0].weight.copy_(rng.torch.normal(3, 3))
    batches = [rng.torch.normal(n, 2, 3, mean=m, std=s) for n, m, s in [(2, 5, 3), (4, -2, 1)]]
    seen = torch.cat([batch.flatten(0, 1) for batch in batches])
    layers = [m for m in model.modules() if isinstance(m, dyt)]

    def hooks():
        return [len(layer._forward_pre_hooks) + len(layer._forward_hooks) for layer in layers]

    many = measure(model, iter(batches))
    first = measure(model, batches[:1])
    model.fail = True
    error = raises(lambda: measure(model, batches))
    return {
        "fed_to_stem": model.stem[0](seen),
        "many": many,
        "first": first,
        "none": measure(model, []),
        "error": error,
        "hooks": hooks(),
        "lone": measure(dyt(2, 0.6), [torch.tensor([[1.0, 3.0], [1.0, 3.0]])]),
        "single": measure(dyt(1, 0.6), [torch.tensor([1.5])]),
        "big": measure(dyt(4, 0.6), [rng.torch.normal(50, 4, mean=300.0)]),
        "without": measure(nn.Linear(3, 3), batches),
        "shared": measure(nn.Sequential(*[dyt(3, 0.3)] * 2), [rng.torch.normal(4, 3)]),
        "gradients": [p.grad is None for p in model.parameters()],
    }


@case(seeds=3, rtol=1e-8, atol=1e-10, covers=["src/analysis.py"])
def fits_of_noisy_maps(tree, rng):
    fit = tree.load("analysis").fit_scaled_tanh
    x = rng.torch.normal(4, 15, std=2.0)
    noise = rng.torch.normal(4, 15, std=0.1)
    y = 1.7 * torch.tanh(0.6 * x) + 0.3 + noise
    return {
        "default": fit(x, y),
        "coarse": fit(x, y, points=6, rounds=1),
        "finer": fit(x, y, points=5, rounds=3),
        "range": fit(x, y, low=0.2, high=3.0, points=9, rounds=2),
        "low_edge": fit(x, y, low=2.0, high=9.0, points=7, rounds=2),
        "high_edge": fit(x, y, low=0.05, high=0.3, points=7, rounds=1),
        "falling": fit(x, -y),
        "small": [fit(x, 1e-8 * y), fit(1e-6 * x, y), fit(1e-6 * x, 1e-8 * y)],
        "layer_norm": fit(x, nn.functional.layer_norm(x, (15,))),
    }


@case(seeds=2, rtol=1e-8, atol=1e-10, covers=["src/analysis.py"])
def fits_of_exact_maps(tree, rng):
    fit = tree.load("analysis").fit_scaled_tanh
    x = rng.torch.normal(40, std=1.5).double()
    maps = {f"{a} {s}": fit(x, s * torch.tanh(a * x)) for a in (0.5, 2.0) for s in (-3.0, 0.25)}
    return {
        "maps": maps,
        "integers": fit(torch.arange(-3, 5), torch.tensor([-2, -2, -1, 0, 1, 2, 1, 2])),
        "errors": [
            raises(lambda: fit(torch.zeros(3), torch.ones(3))),
            raises(lambda: fit(torch.ones(3), torch.ones(1))),
            raises(lambda: fit(torch.ones(1), torch.ones(3))),
            raises(lambda: fit(torch.ones(6), torch.ones(2, 3))),
            raises(lambda: fit(torch.arange(3.0), torch.arange(3.0) ** 2)),
        ],
    }
