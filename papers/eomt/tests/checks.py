"""What must hold of the outputs, whatever the code looks like."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check


def softmax(x):
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def sigmoid(x):
    return 0.5 * (1 + np.tanh(x / 2))


@check("attention_with_and_without_forbidden_pairs")
def attention_follows_its_equation(out, ref):
    for run in out:
        x, heads = run["x"], run["heads"]
        width = x.shape[-1]
        size = width // heads
        qkv = x @ run["qkv_weight"].T + run["qkv_bias"]
        parts = [qkv[..., i * width : (i + 1) * width] for i in range(3)]
        for name, allowed in [("free", np.ones_like(run["allowed"])), ("masked", run["allowed"])]:
            mixed = []
            for head in range(heads):
                q, k, v = (part[..., head * size : (head + 1) * size] for part in parts)
                scores = np.einsum("bid,bjd->bij", q, k) / math.sqrt(size)
                mixed.append(softmax(np.where(allowed, scores, -np.inf)) @ v)
            want = np.concatenate(mixed, axis=-1) @ run["out_weight"].T + run["out_bias"]
            assert np.allclose(run[name], want, atol=1e-8), f"{name} attention is wrong"
        assert np.allclose(run["everything"], run["free"]), "allowing everything restricts something"


@check("an_upscaling_block")
def upscaling_doubles_and_norms(out, ref):
    assert out["y"].shape == (2, 6, 6, 10)
    assert out["square"].shape == (2, 6, 6, 6)
    plain = (out["y"] - out["shift"][:, None, None]) / out["scale"][:, None, None]
    assert np.allclose(plain.mean(axis=1), 0, atol=1e-6), "channels are not centred"


@check("predictions_from_tokens")
def predictions_have_shapes_and_ignore_the_prefix(out, ref):
    for run, size in zip(out, [(6, 10), (8, 4), (2, 3)]):
        assert run["classes"].shape == (2, 4, 4)
        assert run["masks"].shape == (2, 4, *size)
        assert np.allclose(run["without prefix"]["masks"], run["masks"])
        assert run["untouched"], "tokens were changed in place"
        assert run["kind"] == "Prediction"


@check("pairs_allowed_by_masks")
def only_queries_are_restricted_and_only_towards_patches(out, ref):
    for run in out:
        patches = run["grid"][0] * run["grid"][1]
        first = 4 + run["prefix"]
        for name in ("enabled", "disabled", "mixed", "finer"):
            allowed = run[name]
            assert allowed.dtype == np.bool_
            assert allowed.shape == (3, first + patches, first + patches)
            assert allowed[:, 4:].all(), "prefix tokens or patches are restricted"
            assert allowed[:, :, :first].all(), "the way to queries or prefix tokens is restricted"
            assert allowed[:, :4, first:].any(axis=-1).all(), "a query sees nothing of the image"
        assert run["disabled"].all()
        block = run["enabled"][:, :4, first:]
        assert block[1, 2].all() and block[2, 0].all(), "an empty mask must not restrict"
        assert block[0, 3].all()
        zeros = block[1, 0].reshape(run["grid"])
        assert zeros[0].all() and not zeros[1:].any(), "a logit of zero is not inside"
        assert block[0, 1].sum() == 1 and block[0, 1, -1], "a mask of one patch is this patch"
        some = run["some"]
        mixed = run["mixed"][:, :4, first:]
        assert np.array_equal(mixed[some], block[some])
        assert mixed[~some].all()


@check("forward_passes_in_training_and_inference")
def training_makes_one_prediction_more_per_joint_block(out, ref):
    for name, run in out.items():
        assert len(run["inference"]) == 1
        assert len(run["mixed"]) == run["joint"] + 1
        final, off = run["inference"][0], run["off"][-1]
        assert np.allclose(final["masks"], off["masks"], atol=1e-6), "no masking is inference"
        for key in ("mixed", "on", "off"):
            first = run[key][0]
            assert np.allclose(first["masks"], run["off"][0]["masks"], atol=1e-6), name


@check("zero_queries_are_still_different_from_nothing")
def images_of_a_batch_do_not_mix(out, ref):
    assert np.allclose(out["one"]["masks"][0], out["many"]["masks"][1], atol=1e-6)
    assert np.allclose(out["one"]["classes"][0], out["many"]["classes"][1], atol=1e-6)
    assert out["untouched"] and out["length"] == 1


@check("annealing_schedules")
def annealing_begins_at_one_and_ends_at_zero_block_by_block(out, ref):
    table = np.stack(out["default"])
    assert np.all(table[0] == 1)
    assert np.all(table[20:] == 0)
    assert np.all(np.diff(table, axis=0) <= 0), "probabilities must not rise"
    assert np.all(np.diff(table, axis=1) >= 0), "earlier blocks are annealed earlier"
    lines = np.stack(out["linear"])
    for i in range(4):
        want = np.clip(1 - (5 * np.arange(21) - 20 * i) / 40, 0, 1)
        assert np.allclose(lines[:, i], want)
    assert np.allclose(table[:21], lines**0.9)
    assert out["refused"] == ["ValueError"] * 7
    assert out["accepted"] == [None] * 3


def is_optimal(cost, rows, columns):
    """Whether no cycle of row changes would lower the cost (no negative cycle between columns)."""
    n, m = cost.shape
    if n > m:
        order = np.argsort(columns)
        return is_optimal(cost.T, columns[order], rows[order])
    # Dummy rows of cost zero fill up the matrix; then optimal means: no negative cycle.
    full = np.zeros((m, m))
    full[:n] = cost
    free = sorted(set(range(m)) - set(columns.tolist()))
    column_of = np.concatenate([columns, np.array(free, dtype=int)])
    change = full[:, column_of] - full[np.arange(m), column_of][:, None]
    for via in range(m):
        change = np.minimum(change, change[:, via : via + 1] + change[via : via + 1])
    return bool(np.diag(change).min() > -1e-8)


@check("assignments_of_random_costs")
def assignments_are_optimal(out, ref):
    for run in out:
        cost, rows, columns = run["cost"], run["rows"], run["columns"]
        k = min(cost.shape)
        assert rows.shape == columns.shape == (k,)
        assert np.all(np.diff(rows) > 0), "rows must rise"
        assert len(set(columns.tolist())) == k, "a column is used twice"
        assert is_optimal(cost, rows, columns), "there is a better assignment"
        assert np.array_equal(run["shifted"][1], columns), "a constant must not matter"
        assert is_optimal(-cost, *run["negative"])
        assert run["untouched"], "the cost was changed in place"


@check("assignments_with_ties")
def ties_do_not_disturb(out, ref):
    for run, want in zip(out, ref):
        assert run["total"] == want["total"]
        assert run["distinct"] == min(run["cost"].shape)


@check("assignments_at_the_edges")
def what_is_no_matrix_of_numbers_is_refused(out, ref):
    assert out["bad values"] == ["ValueError"] * 3
    assert out["bad shapes"] == ["ValueError"] * 4
    assert out["all bad"] == "ValueError" and out["good"] is None
    for rows, columns in out["empty"]:
        assert rows.shape == columns.shape == (0,)
    assert [part.tolist() for part in out["single"]] == [[0], [0]]


@check("costs_of_pairs_of_masks")
def costs_follow_their_equations(out, ref):
    for run in out:
        z, t = run["logits"][..., :, None, :], run["masks"][..., None, :, :]
        entropy = (t * np.logaddexp(0, -z) + (1 - t) * np.logaddexp(0, z)).mean(axis=-1)
        assert np.allclose(run["cross_entropy"], entropy)
        p = sigmoid(z)
        sizes = p.sum(axis=-1) + t.sum(axis=-1)
        assert np.allclose(run["dice"], 1 - (2 * (p * t).sum(axis=-1) + 1) / (sizes + 1))
        for part in run["extreme"]:
            assert np.isfinite(part).all(), "large logits overflow"
        assert run["single"]


@check("matches_that_are_plain_to_see")
def plain_matches_are_found(out, ref):
    order = out["order"].tolist()
    queries, targets = (part.tolist() for part in out["by mask"])
    assert queries == sorted(order)
    assert [order[t] for t in targets] == queries
    queries, targets = (part.tolist() for part in out["by class"])
    assert [order[t] for t in targets] == queries == sorted(order[:3])
    for part in out["none"]:
        assert part.shape == (0,) and part.dtype == np.int64


@check("maps_read_at_points")
def pixel_centres_give_pixels(out, ref):
    for run in out:
        maps = run["maps"]
        assert np.allclose(run["centres"], maps.reshape(*maps.shape[:2], run["centres"].shape[2]), atol=1e-6)
        corner = run["corners"][..., 0]
        assert np.allclose(corner, maps[..., 0, 0] / 4), "outside of the map everything is 0"
        assert np.allclose(run["corners"][..., 1], maps[..., -1, -1] / 4)
        assert run["single"]


def bilinear(image, points):
    h, w = image.shape
    padded = np.pad(image, 1)
    x, y = points[:, 0] * w + 0.5, points[:, 1] * h + 0.5
    i, j = np.floor(y).astype(int), np.floor(x).astype(int)
    a, b = y - i, x - j
    low = padded[i, j] * (1 - b) + padded[i, j + 1] * b
    return low * (1 - a) + padded[i + 1, j] * a * (1 - b) + padded[i + 1, j + 1] * a * b


@check("points_where_masks_are_uncertain")
def chosen_points_are_sorted_by_uncertainty(out, ref):
    for run in out:
        count, num = run["points"].shape[:2]
        hard = {"points": int(0.75 * num), "all": num, "half": num // 2, "plain": num}
        for name, kept in hard.items():
            points = run[name]
            assert points.shape == (count, num, 2)
            assert np.all((points >= 0) & (points < 1))
            for logits, chosen in zip(run["logits"][:, 0], points):
                certainty = np.abs(bilinear(logits, chosen[:kept]))
                assert np.all(np.diff(certainty) >= -1e-9), "the most uncertain do not come first"
        assert run["single"].dtype == np.float32


@check("losses_of_masks")
def mask_losses_follow_their_equations(out, ref):
    for run in out:
        z, t = run["logits"], run["masks"]
        entropy = (t * np.logaddexp(0, -z) + (1 - t) * np.logaddexp(0, z)).mean(axis=-1).sum()
        p = sigmoid(z)
        dice = 1 - (2 * (p * t).sum(axis=-1) + 1) / ((p + t).sum(axis=-1) + 1)
        assert np.allclose(run["cross_entropy"], entropy / 4)
        assert np.allclose(run["dice"], dice.sum() / 4)
        assert np.isfinite(run["extreme"][0])


@check("losses_of_classes")
def the_class_loss_is_a_weighted_mean(out, ref):
    for run in out:
        logits, labels = run["logits"], run["labels"]
        weights = np.where(labels == logits.shape[-1] - 1, 0.1, 1.0)
        chosen = np.take_along_axis(np.log(softmax(logits)), labels[..., None], axis=-1)[..., 0]
        assert np.allclose(run["loss"], -(weights * chosen).sum() / weights.sum())


@check("objectives_of_batches")
def the_total_is_the_weighted_sum(out, ref):
    for name, run in out.items():
        for losses in (run["losses"], run["few points"]):
            total = 5 * losses["cross_entropy"] + 5 * losses["dice"] + 2 * losses["class"]
            assert np.allclose(losses["total"], total), name
            assert all(value.shape == () and np.isfinite(value) for value in losses.values())
        assert run["dtype"]
    assert out["no targets"]["losses"]["dice"] == 0
    assert out["no targets"]["losses"]["cross_entropy"] == 0


@check("predictions_are_supervised_alike")
def objectives_add_up_over_predictions(out, ref):
    for key, value in out["together"].items():
        assert np.allclose(value, sum(one[key] for one in out["apart"])), key
    assert out["untouched"]


@check("semantic_scores_of_random_predictions")
def semantic_scores_mix_masks_by_class(out, ref):
    for run in out:
        probs = softmax(run["classes"])[..., :-1]
        want = np.einsum("bkc,bkhw->bchw", probs, sigmoid(run["masks"]))
        assert np.allclose(run["same size"], want)
        assert run["scores"].shape[-2:] == (8, 12) and run["odd"].shape[-2:] == (7, 5)


@check("scores_of_long_images")
def windows_cover_the_image_and_are_averaged(out, ref):
    for run in out["runs"]:
        image, scores, window = run["image"], run["scores"], run["window"]
        assert scores.shape == (3, *image.shape[1:])
        assert np.allclose(scores[2], image[0]), "the mean of equal scores is another one"
        assert len(run["calls"]) == 1, "the windows are one batch"
        count = math.ceil(max(image.shape[1:]) / window)
        assert run["calls"][0].shape == (count, image.shape[0], window, window)
    assert out["refused"] == ["ValueError"] * 5
    assert np.allclose(out["accepted"], out["untouched"])


@check("instances_of_random_predictions")
def instances_are_sorted_and_have_pixels(out, ref):
    for run in out:
        for name, most in [("few", 3), ("all", 100), ("one", 1)]:
            assert len(run[name]) == len(run["classes"])
            for found in run[name]:
                assert len(found["scores"]) <= most
                assert np.all(np.diff(found["scores"]) <= 0), "scores must fall"
                assert found["masks"].dtype == np.bool_
                assert found["masks"].any(axis=(1, 2)).all(), "an empty mask is left"
                assert len(found["labels"]) == len(found["masks"]) == len(found["scores"])
        for probs, masks, found in zip(softmax(run["classes"])[..., :-1], run["masks"], run["one"]):
            query, label = np.unravel_index(probs.argmax(), probs.shape)
            inside = masks[query] > 0
            if inside.any():
                assert found["labels"].tolist() == [label]
                assert np.array_equal(found["masks"][0], inside)
                score = probs.max() * sigmoid(masks[query])[inside].mean()
                assert np.allclose(found["scores"], score)


@check("panoptic_maps_of_random_predictions")
def segments_are_numbered_one_after_the_other(out, ref):
    for run in out:
        for images in run["made"]:
            assert len(images) == len(run["classes"])
            for found in images:
                numbers = sorted(set(found["map"].ravel().tolist()) - {-1})
                assert numbers == list(range(len(found["labels"])))
                assert found["map"].dtype == np.int64
                assert all(label < run["classes"].shape[2] - 1 for label in found["labels"])


@check("panoptic_maps_that_are_plain_to_see")
def plain_panoptic_maps(out, ref):
    order = out["order"]
    assert out["columns"]["map"].tolist() == [[0, 0, 1, 2]] * 2
    assert out["columns"]["labels"] == order
    assert out["stuff"]["map"].tolist() == [[0, 0, 0, 0]] * 2
    assert out["stuff"]["labels"] == order[:1]
    assert out["things"]["labels"] == order[:1] * 3
    assert out["other stuff"]["labels"] == order[:1] * 3
    shown = [len(found["labels"]) for found in out["half"]]
    assert shown == [2, 2, 1, 1, 1], "a mask that is half visible passes a threshold of one half"
    assert [len(found["labels"]) for found in out["quarter"]] == [2, 2, 1, 1]
    assert out["quarter"][-1]["map"].tolist() == [[0, -1, -1, -1]] * 2
    assert out["tie"]["map"].tolist() == [[0] * 4] * 2
    assert out["zero"]["map"].tolist() == [[0] * 4] * 2
    assert out["below"]["labels"] == []
    assert [len(found["labels"]) for found in out["one half"]] == [3, 0, 0]
    assert all(found["labels"] == [] for found in out["no object"])
    assert np.all(out["no object"][0]["map"] == -1)
    assert [len(found["labels"]) for found in out["default score"]] == [0, 3]
