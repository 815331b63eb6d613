r"""Rotary positions: the score of a query and a key that are t tokens apart.

The query at position m and the key at position n are rotated by angles $m \theta_i$ and $n \theta_i$, one per pair of
coordinates. With the rotation R(t) by $t \theta_i$ and t = m - n, the score is $q^T R(t)^T k$, times a gain for the
rotated coordinates in some variants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, log, pi
from typing import Any

import numpy as np
from jaxtyping import Float

from factrank.checkpoints.configuration import Settings
from factrank.checkpoints.heads.head_layout import CheckpointSizes, HeadLayout, Pairs
from factrank.checkpoints.readers import Tensors
from factrank.errors import InputError

FREQUENCY_DIVISORS, LENGTH_DEPENDENT = "rope_freqs.weight", "rope_factors_short.weight"
"""Tensors of GGUF files with factors by which the frequencies are divided, always or by the length of the text."""
LOCAL_BASE = 10_000.0
"""Base of the rotation in the sliding layers of Gemma 3."""


@dataclass(frozen=True, eq=False)
class Rotation:
    """Rotation of some coordinates of queries and keys.

    Arguments:
        start: First rotated coordinate.
        frequencies: Angle per token of each pair.
        pairs: Which coordinates are rotated together.
        gain: Factor of the rotated coordinates of queries and of keys.
    """

    start: int
    frequencies: Float[np.ndarray, " pairs"]
    pairs: Pairs
    gain: float = 1.0

    def turned(self, rows: Float[np.ndarray, "*rows d"], distance: int) -> Float[np.ndarray, "*rows d"]:
        """Return $q^T M$ for each row q, with score $q^T M k$ for a query `distance` tokens after its key."""
        n = len(self.frequencies)
        first = self.start + (np.arange(n) if self.pairs == "halves" else 2 * np.arange(n))
        second = first + (n if self.pairs == "halves" else 1)
        cos, sin = (self.gain**2 * turn(distance * self.frequencies) for turn in (np.cos, np.sin))
        turned, one, other = rows.copy(), rows[..., first], rows[..., second]
        turned[..., first], turned[..., second] = one * cos - other * sin, one * sin + other * cos
        return turned

    def matrix(self, distance: int, d_qk: int) -> Float[np.ndarray, "d d"]:
        """Return M."""
        return self.turned(np.eye(d_qk), distance)

    @property
    def stretch(self) -> float:
        """Bound on the spectral norm of M."""
        return max(1.0, self.gain**2)


@dataclass(frozen=True)
class RotarySettings:
    """Settings of the rotation in one layer: base, kind of scaling and its numbers."""

    place: str
    base: float
    kind: str
    numbers: Mapping[str, Any]

    def number(self, name: str, default: float | int | None = None) -> float:
        """Return a positive number of the scaling."""
        value = self.numbers.get(name)
        value = default if value is None else value
        if type(value) not in (int, float) or not 0 < value < 1e18:  # type: ignore[operator]
            raise InputError(
                f"{self.place}: expected {name} of the rotation to be a positive number; got {value!r}"[:300]
            )
        return float(value)  # type: ignore[arg-type]


def rotary_settings(settings: Settings, layer: int) -> RotarySettings:
    """Read the settings of the rotation, in the form of `transformers` 5 or before it."""
    entries = settings.entries
    sliding = _is_sliding(entries, layer)
    given = entries.get("rope_parameters")
    if isinstance(given, dict):
        if sliding is not None and isinstance(given.get("full_attention"), dict):
            given = given.get("sliding_attention" if sliding else "full_attention")
        numbers = given if isinstance(given, dict) else {}
    else:
        scaling = entries.get("rope_scaling")
        bases = (entries.get("rope_theta"), entries.get("rotary_emb_base"))
        theta = next((base for base in bases if base is not None), None)
        local = entries.get("rope_local_base_freq")
        if local is None and "gemma3" in str(entries.get("model_type")):
            local = LOCAL_BASE
        if sliding and local is not None:
            scaling, theta = None, local
        numbers = {"rope_theta": theta} | (scaling if isinstance(scaling, dict) else {})
    kind = numbers.get("rope_type") or numbers.get("type") or "default"
    base = RotarySettings(settings.place, 0.0, str(kind), numbers).number("rope_theta", LOCAL_BASE)
    longest = entries.get("max_position_embeddings")
    return RotarySettings(settings.place, base, str(kind), {"max_position_embeddings": longest} | dict(numbers))


def rotation_of(
    settings: Settings, layout: HeadLayout, sizes: CheckpointSizes, layer: int, tensors: Tensors
) -> tuple[Rotation | None, tuple[str, ...]]:
    """Return the rotation of a layer and notes; None if there is none, or if it is of an unknown kind."""
    if layout.rotary is None:
        return None, ()
    rope = rotary_settings(settings, layer)
    start, n_rotated = _rotated(settings, layout, sizes, rope)
    frequencies = rope.base ** (-np.arange(0, n_rotated, 2) / n_rotated)
    divisors = tensors.get(FREQUENCY_DIVISORS)
    if divisors is not None:
        divisors.require_shape((n_rotated // 2,), "the rotation")
        return Rotation(start, frequencies / divisors.rows(), layout.rotary), ()
    kind = "longrope" if LENGTH_DEPENDENT in tensors else rope.kind
    if kind not in SCALED:
        return None, (f"rotary positions of type {kind[:40]!r} are not supported: QK is given without rotation",)
    frequencies, gain = SCALED[rope.kind](frequencies, rope)
    return Rotation(start, frequencies, layout.rotary, gain), ()


def _rotated(settings: Settings, layout: HeadLayout, sizes: CheckpointSizes, rope: RotarySettings) -> tuple[int, int]:
    """Return the first rotated coordinate and their number."""
    if layout.latent:
        return settings.size("qk_nope_head_dim"), settings.size("qk_rope_head_dim")
    fraction = rope.numbers.get("partial_rotary_factor") or settings.entries.get("partial_rotary_factor")
    default = settings.number("rotary_pct", 0.25) if settings.entries.get("model_type") == "gpt_neox" else 1.0
    fraction = default if fraction is None else fraction
    if type(fraction) not in (int, float) or not 0 < fraction <= 1:
        raise InputError(f"{rope.place}: expected partial_rotary_factor to be a fraction; got {str(fraction)[:40]!r}")
    return 0, int(sizes.d_qk * fraction) // 2 * 2


def _is_sliding(entries: Mapping[str, Any], layer: int) -> bool | None:
    """Whether attention in a layer is local; None if all layers are alike."""
    kinds, pattern = entries.get("layer_types"), entries.get("sliding_window_pattern")
    if isinstance(kinds, list) and layer < len(kinds):
        return bool(kinds[layer] == "sliding_attention")
    if "gemma3" in str(entries.get("model_type")):
        pattern = 6 if pattern is None else pattern
    return (layer + 1) % pattern > 0 if type(pattern) is int and pattern > 0 else None


Frequencies = Float[np.ndarray, " pairs"]


def _plain(frequencies: Frequencies, _rope: RotarySettings) -> tuple[Frequencies, float]:
    return frequencies, 1.0


def _linear(frequencies: Frequencies, rope: RotarySettings) -> tuple[Frequencies, float]:
    return frequencies / rope.number("factor"), 1.0


def _llama3(frequencies: Frequencies, rope: RotarySettings) -> tuple[Frequencies, float]:
    """Divide low frequencies by the factor, keep high ones, and interpolate between them; equal bounds are a step."""
    low, high = rope.number("low_freq_factor"), rope.number("high_freq_factor")
    if high < low:
        raise InputError(
            f"{rope.place}: expected high_freq_factor to be at least low_freq_factor, {low:g}; got {high:g}"
        )
    turns = rope.number("original_max_position_embeddings") * frequencies / (2 * pi)
    kept = np.clip((turns - low) / (high - low), 0, 1) if high > low else np.where(turns >= low, 1.0, 0.0)
    return frequencies * (kept + (1 - kept) / rope.number("factor")), 1.0


def _yarn(frequencies: Frequencies, rope: RotarySettings) -> tuple[Frequencies, float]:
    """Divide the frequencies that turn rarely by the factor (Peng et al. 2023), and multiply cos and sin by a gain."""
    n = 2 * len(frequencies)
    if rope.base <= 1:
        raise InputError(f"{rope.place}: expected rope_theta above 1 for yarn; got {rope.base:g}")
    longest = rope.number("original_max_position_embeddings", rope.numbers.get("max_position_embeddings"))

    def coordinate(turns: float) -> float:
        return n * log(longest / (turns * 2 * pi)) / (2 * log(rope.base))

    first, last = coordinate(rope.number("beta_fast", 32)), coordinate(rope.number("beta_slow", 1))
    if rope.numbers.get("truncate", True):
        first, last = floor(first), ceil(last)
    first, last = max(first, 0), min(last, n - 1)
    slow = np.clip((np.arange(n // 2) - first) / max(last - first, 1e-3), 0, 1)
    return frequencies * (1 - slow + slow / rope.number("factor")), _attention_gain(rope)


def _attention_gain(rope: RotarySettings) -> float:
    if rope.numbers.get("attention_factor") is not None:
        return rope.number("attention_factor")
    if rope.numbers.get("mscale") and rope.numbers.get("mscale_all_dim"):
        return yarn_gain(rope, "mscale") / yarn_gain(rope, "mscale_all_dim")
    return 0.1 * log(max(rope.number("factor"), 1.0)) + 1


def yarn_gain(rope: RotarySettings, name: str) -> float:
    """Return 0.1 m log(factor) + 1, with the setting m; 1 if it is not given."""
    factor, scale = rope.number("factor"), rope.numbers.get(name)
    return 0.1 * rope.number(name) * log(factor) + 1 if factor > 1 and scale else 1.0


SCALED = {"default": _plain, "linear": _linear, "llama3": _llama3, "yarn": _yarn}
"""Kinds of scaling."""
