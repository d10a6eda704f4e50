"""What must hold for the outputs of the cases, apart from being equal to the reference's."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check

BAD, GOOD = "ValueError", None


def softmax(logits):
    """Along the last dimension."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@check("rotations")
def rotations_keep_lengths_and_depend_on_distances_only(out, ref):
    for run in out["runs"]:
        assert np.allclose((run["x"] ** 2).sum(axis=3), (run["rotated"] ** 2).sum(axis=3))
        assert np.allclose(run["rotated"][:, 0], run["x"][:, 0]), "position 0 is rotated"
        near = np.einsum("bthd,bshd->bhts", run["rotated"], run["other"])
        far = np.einsum("bthd,bshd->bhts", run["shifted"], run["other_shifted"])
        assert np.allclose(near, far), "scores depend on more than the distance"
    assert out["refused"] == [BAD, GOOD, BAD, GOOD]


@check("rotations_in_single_precision")
def rotations_keep_the_dtype(out, ref):
    assert out.dtype == np.float32


@check("small_parts")
def lambda_starts_at_a_fifth_and_nears_four_fifths(out, ref):
    want = [0.8 - 0.6 * math.exp(-0.3 * n) for n in (0, 1, 4, 27)]
    assert np.allclose(out["lambdas"], want)
    assert out["refused"] == [GOOD, BAD, BAD]


@check("small_parts")
def heads_are_normalized_one_by_one(out, ref):
    mean = (out["heads"] ** 2).mean(axis=3, keepdims=True)
    assert np.allclose(out["normed"], out["heads"] / np.sqrt(mean + 1e-5) * out["gain"])
    assert np.all(out["zero"] == 0)


@check("small_parts")
def the_gate_is_a_swish(out, ref):
    gate, up, down = out["weights"]
    z = out["x"] @ gate.T
    assert np.allclose(out["y"], (z / (1 + np.exp(-z)) * (out["x"] @ up.T)) @ down.T)


@check("maps_of_attention")
def maps_are_differences_of_causal_softmaxes(out, ref):
    for run in out:
        q1, k1, q2, k2 = run["vectors"]
        start = 0.8 - 0.6 * math.exp(-0.3 * (run["layer"] - 1))
        factor = math.exp(q1 @ k1) - math.exp(q2 @ k2) + start
        assert np.isclose(run["lambda"], factor)
        assert np.allclose(run["maps"].sum(axis=3), 1 - factor), "rows do not sum to 1 - lambda"
        scores = np.einsum("bthd,bshd->bhts", run["queries"], run["keys"]) / 2
        steps, seen = scores.shape[2:]
        for t in range(steps):
            last = seen - steps + t + 1
            weights = softmax(scores[:, :, t, :last])
            want = weights[:, ::2] - factor * weights[:, 1::2]
            assert np.allclose(run["maps"][:, :, t, :last], want)
            assert np.all(run["maps"][:, :, t, last:] == 0), "the future is seen"


@check("outputs_of_attention")
def a_text_in_pieces_is_the_same_text(out, ref):
    for run in out:
        assert run["untouched"], "the cache was changed in place"
        assert np.allclose(run["head"], run["y"][:, :3])
        assert np.allclose(run["tail"], run["y"][:, 3:])
        assert np.allclose(run["single"], run["y"][:, 4:])
        assert np.allclose(run["full"][0], run["keys"])
        assert np.allclose(run["full"][1], run["values"])


@check("outputs_of_attention")
def caches_hold_what_is_not_yet_spread(out, ref):
    shapes = [run["keys"].shape for run in out]
    assert shapes == [(2, 5, 4, 2), (2, 5, 4, 2), (2, 5, 4, 2), (2, 5, 2, 2)]
    assert [run["values"].shape[2] for run in out] == [2, 2, 2, 1]


@check("decoders")
def decoders_agree_with_their_caches(out, ref):
    for run in out:
        assert np.allclose(run["pieces"], run["logits"])
        assert np.array_equal(run["greedy"][:, 6], run["logits"][:, -1].argmax(axis=1))


@check("losses")
def the_loss_is_a_mean_over_targets(out, ref):
    for run in out["runs"]:
        probs = softmax(run["logits"])
        wanted = [
            -math.log(probs[b, t, run["tokens"][b, t + 1]])
            for b in range(len(probs))
            for t in range(probs.shape[1] - 1)
            if run["tokens"][b, t + 1] != 0
        ]
        assert np.isclose(run["loss"], np.mean(wanted))
        assert np.all(run["gradient"][:, -1] == 0)
    assert out["nothing"] == 0


@check("greedy_texts")
def chains_end_where_they_should(out, ref):
    assert out["chain"]["made"].tolist() == [
        [0, 0, 3, 2, 1, 0],
        [4, 0, 1, 0, 0, 0],
        [0, 2, 2, 1, 0, 0],
    ]
    assert out["cut"]["made"].shape == (3, 5)
    assert out["none"]["calls"] == []
    assert out["end in the prompt"]["made"].tolist() == [[1, 2, 0, 4, 3, 2, 1]]
    assert out["refused"] == [BAD] * 4 + [GOOD] * 2
    for run in (run for name, run in out.items() if name != "refused"):
        assert run["untouched"]
        assert all(call["tokens"].shape[1] == 1 for call in run["calls"][1:])
        for number, call in enumerate(run["calls"]):
            assert call["caches"] == ([number] if number else None)


@check("needles")
def needles_stand_at_their_depths(out, ref):
    for run in out["runs"]:
        tokens, asked = run["found"]["tokens"], run["asked"]
        number, length = len(run["keys"]), len(run["haystack"])
        assert len(tokens) == length + 3 * number + 1 + len(asked)
        assert tokens[length + 3 * number :] == [1, *asked]
        for key, value, place in zip(asked, run["found"]["answers"], run["found"]["places"]):
            assert tokens[place : place + 3] == [0, key, value]
            before = sum(token >= 50 for token in tokens[:place])
            assert before == math.floor(run["depths"][run["keys"].index(key)] * length)
        assert [t for t in tokens if t >= 50] == run["haystack"]
    assert out["ties"]["places"] == [7, 4, 1]
    assert out["near"]["places"] == [1, 4, 7]
    assert out["refused"] == [GOOD] * 3 + [BAD] * 8


@check("allocations")
def signal_and_noise_share_the_attention(out, ref):
    for run in out["runs"]:
        assert np.isclose(run["signal"] + run["noise"], 1)
        shares = []
        for maps, (start, end) in zip(run["maps"], run["spans"]):
            row = np.abs(maps[:, -1])
            shares.extend(row[:, start:end].sum(axis=1) / row.sum(axis=1))
        assert np.isclose(run["signal"], np.mean(shares))
    assert np.allclose(out["all"], [0.75, 0])
    assert np.allclose(out["none"], [0, 0.75])


@check("magnitudes")
def outliers_are_sorted_and_the_median_is_in_the_middle(out, ref):
    for run in out["runs"]:
        sizes = np.sort(np.abs(run["x"]).ravel())[::-1]
        assert np.allclose(run["largest"], sizes[: run["count"]])
        assert np.isclose(run["median"], np.median(sizes))
    assert out["refused"] == [BAD, BAD, GOOD, GOOD, BAD]


@check("coarse_logits")
def quantized_logits_are_near_and_few(out, ref):
    for run in out["runs"]:
        assert run["untouched"]
        assert np.all(run["found"][..., -1] == -np.inf)
        x, found = run["x"][..., :-1], run["found"][..., :-1]
        step = np.abs(x).max(axis=-1, keepdims=True) / (2 ** (run["bits"] - 1) - 1)
        assert np.all(np.abs(x - found) <= step / 2 + 1e-9)
        assert np.allclose(np.round(found / step), found / step)
    assert out["blank"].tolist() == [[0, 0, -np.inf], [-np.inf] * 3]
    assert out["refused"] == [BAD, BAD, BAD, GOOD, GOOD]
