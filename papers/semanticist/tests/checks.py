"""Facts about the outputs that follow from the paper's equations, whatever the reference says."""

from __future__ import annotations

import math

import numpy as np

from rcb_env.cases import check


@check("masks_of_many_sizes")
def concepts_are_causal_and_patches_do_not_see_them(out, ref):
    for (patches, concepts), mask in zip(out["sizes"], out["masks"]):
        for row in range(patches + concepts):
            for column in range(patches + concepts):
                want = column < patches or patches <= column <= row
                assert mask[row, column] == want


@check("tokens_of_random_images")
def tokens_are_normalized_and_causal(out, ref):
    tokens = out["tokens"]
    assert tokens.shape == (3, 5, 3)
    assert np.allclose(tokens.mean(axis=-1), 0, atol=1e-7)
    assert np.allclose(tokens.var(axis=-1), 1, atol=1e-2)
    assert np.allclose(out["one"][0], tokens[1], atol=1e-8), "images must not see each other"
    assert np.all(out["second"][2:] == 0), "a token depends on a later query"
    assert np.all(np.abs(out["second"][:2]).sum(axis=-1) > 0)


@check("encoders_of_other_sizes")
def images_of_another_size_are_refused(out, ref):
    assert out["refused"] == ["ValueError"] * 6 + [None]
    assert out["dtype"] == "torch.float32"
    assert np.all(out["faint"].var(axis=-1) < 1), "the variance needs an epsilon"


@check("counts_of_random_numbers")
def counts_follow_the_uniform_numbers(out, ref):
    many, lucky = out["uniforms"].T
    for (concepts, drop), counts in zip(((4, 0.1), (7, 0.5), (1, 0.0), (6, 1.0)), out["counts"]):
        assert counts.dtype == np.int64
        kept = lucky >= drop
        assert np.all(counts[~kept] == 0)
        assert np.all((counts[kept] >= 1) & (counts[kept] <= concepts))
        assert np.all(counts[kept] == np.floor(many[kept] * concepts) + 1)
    assert out["edges"].tolist() == [1, 2, 1, 4, 0]
    assert out["exact"].tolist() == [5, 0, 0]


@check("tails_of_random_tokens")
def tails_are_null(out, ref):
    for b, count in enumerate(out["counts"]):
        assert np.array_equal(out["told"][b, :count], out["tokens"][b, :count])
        assert np.all(out["told"][b, count:] == out["null"])
        assert np.all(out["grads"][0][b, count:] == 0)
    lost = sum(out["weights"][b, count:].sum(axis=0) for b, count in enumerate(out["counts"]))
    assert np.allclose(out["grads"][1], lost)
    assert out["refused"] == ["ValueError"] * 4 + [None] * 2


@check("noise_of_a_decoder_without_blocks")
def patches_are_put_together_in_order(out, ref):
    for row in range(4):
        for column in range(4):
            for channel in range(3):
                want = (row % 2) * 6 + (column % 2) * 3 + channel
                assert out["image"][0, channel, row, column] == want
    assert out["dtype"] == "torch.float32"


@check("loss_of_random_images")
def the_loss_compares_noises(out, ref):
    left = out["alpha_bar"][out["times"]][:, None, None, None]
    noised = np.sqrt(left) * out["images"] + np.sqrt(1 - left) * out["noise"]
    for drop, run in zip((0.1, 0.0, 0.6, 1.0), out["found"]):
        assert len(run["calls"]) == 1
        told = out["tokens"].copy()
        for b, (many, lucky) in enumerate(out["uniforms"]):
            count = 0 if lucky < drop else 1 + math.floor(many * 4)
            told[b, count:] = out["null"]
        assert np.allclose(run["calls"][0][2], told)
        pull = np.einsum("bkd,dc->bc", told, out["matrix"])[:, :, None, None]
        slope = 1 + 0.001 * out["times"][:, None, None, None]
        errors = ((np.tanh(noised * slope + pull) - out["noise"]) ** 2).mean(axis=(1, 2, 3))
        assert np.allclose(run["errors"], errors)
        assert np.isclose(run["loss"], errors.mean())
        kept = np.array(
            [0 if lucky < drop else 1 + math.floor(many * 4) for many, lucky in out["uniforms"]]
        )
        want = [errors[kept == k].mean() if (kept == k).any() else np.nan for k in range(5)]
        assert np.allclose(run["by_count"], want, equal_nan=True)
        assert run["detached"]
    assert out["refused"] == ["ValueError"] * 4 + [None] * 2
    assert out["shapes"] == ["ValueError"] * 3 + [None]


@check("reconstructions_from_random_tokens")
def reconstructions_use_the_first_tokens_only(out, ref):
    for run in out["found"]:
        keep, steps, guidance = run["settings"]
        assert np.all(np.abs(run["image"]) <= 1 + 1e-9)
        assert len(run["calls"]) == steps * (1 if guidance == 1 else 2)
        told = out["tokens"].copy()
        told[:, keep:] = out["null"]
        seen = [call[2] for call in run["calls"]]
        nothing = np.broadcast_to(out["null"], told.shape)
        assert all(np.allclose(s, told) or np.allclose(s, nothing) for s in seen)
        times = [int(call[1][0]) for call in run["calls"]]
        assert times[0] == 59
        assert times == sorted(times, reverse=True)
        assert run["recorded"] is False
    assert np.allclose(out["default"], out["found"][1]["image"])
    assert np.allclose(out["found"][2]["image"].shape, (3, 2, 2, 2))
    assert out["refused"] == ["ValueError"] * 2 + [None] * 2


@check("reconstructions_by_a_decoder_that_knows")
def a_perfect_decoder_finds_the_image(out, ref):
    assert np.allclose(out["image"], out["truth"], atol=1e-8)


@check("sequences_of_random_labels")
def tokens_follow_their_prefix_one_by_one(out, ref):
    for run in out["found"]:
        guidance, given = run["settings"]
        assert run["tokens"].shape == (2, 5, 3)
        assert np.array_equal(run["tokens"][:, :given], out["prefix"][:, :given])
        size = 2 if guidance == 1 else 4
        models = [call for call in run["calls"] if call[0] == "model"]
        assert [call[1] for call in models] == [[size, t, 3] for t in range(given, 5)]
        for call in models:
            assert np.array_equal(call[2][:2], out["labels"])
            assert np.all(call[2][2:] == 5)
        assert run["recorded"] is False


@check("sequences_of_a_model_that_knows_its_label")
def guidance_rises_to_its_full_strength(out, ref):
    strength = 1 + 2 * np.arange(1, 5) / 4
    want = out["labels"][:, None, None] * strength[None, :, None] * np.ones((1, 1, 2))
    assert np.allclose(out["tokens"], want)
    assert np.allclose(out["plain"], np.broadcast_to(out["labels"][:, None, None], (3, 4, 2)))


@check("explained_variance_of_components")
def components_explain_their_share(out, ref):
    cumulative, gains, ordered = out["made"]["components"]
    share = out["spectrum"] ** 2 / np.sum(out["spectrum"] ** 2)
    assert np.allclose(gains, share[:6])
    assert np.allclose(cumulative, np.cumsum(share)[:6])
    assert ordered is True
    assert out["made"]["one"][2] is True
    assert out["equal gains"] is True
    assert out["rising gains"] is False
    missed = ((out["images"] - out["noisy"]) ** 2).sum(axis=(1, 2, 3, 4))
    total = ((out["images"] - out["images"].mean(axis=0)) ** 2).sum()
    assert np.allclose(out["made"]["noisy"][0], 1 - missed / total)
    assert np.allclose(out["steps"][0], [0, 0.75, 1])
    assert out["refused"] == ["ValueError"] * 5 + [None]


@check("spectra_of_random_images")
def spectra_are_means_over_rings(out, ref):
    for images, spectrum in zip(out["images"], out["spectra"]):
        n = images.shape[-1]
        power = (np.abs(np.fft.fft2(images)) ** 2).mean(axis=(0, 1)) / n**2
        rows = np.rint(np.fft.fftfreq(n) * n)
        radius = np.rint(np.hypot(rows[:, None], rows[None, :]))
        want = [power[radius == r].mean() for r in range(n // 2 + 1)]
        assert np.allclose(spectrum, want)
    peaks = [int(np.argmax(spectrum)) for spectrum in out["waves"][:5]]
    assert peaks == [0, 1, 3, 3, 4]
    assert np.allclose(out["waves"][5], 0, atol=1e-9), "corners are left out"
