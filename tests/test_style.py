"""Looks: methods can be told apart, by all eyes, and variants look like what they are variants of."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from otflam.report.style import INK, MUTED, colour_of, hatch_of, hexed, method_colours, rank_of, tint

DEFECTS = {
    "none": np.eye(3),
    "red": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "green": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
}
"""How colours look without one kind of cones (Machado, Oliveira and Fernandes 2009), in linear RGB."""


def lab(colour: str, eyes: np.ndarray) -> np.ndarray:
    """CIE Lab of a colour as some eyes see it."""
    rgb = np.array(to_rgb(colour))
    seen = np.clip(eyes @ np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4), 0, 1)
    xyz = np.array([[0.4339, 0.3762, 0.1899], [0.2127, 0.7152, 0.0722], [0.0178, 0.1095, 0.8728]]) @ seen
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eyes", DEFECTS)
def test_methods_differ_for_all_eyes(eyes: str) -> None:
    names = list(method_colours())
    for some in (names[names.index("lapo-64") : names.index("all-actions")], ["otf", "monolithic"]):
        for one, other in itertools.combinations(some, 2):
            seen = [lab(method_colours()[name], DEFECTS[eyes]) for name in (one, other)]
            assert np.linalg.norm(seen[0] - seen[1]) > 20, f"{one} looks like {other}"


def test_variants_look_like_their_method_but_not_quite() -> None:
    for way in ("relabel", "finetune"):
        assert colour_of(f"lapo-256+{way}") == colour_of("lapo-256") == method_colours()["lapo-256"]
        assert hatch_of(f"lapo-256+{way}")
        assert rank_of("lapo-256") < rank_of(f"lapo-256+{way}") < rank_of("m-lapo")
    assert len(set(method_colours().values())) == len(method_colours())
    assert colour_of("somebody-else") == hexed(MUTED) and rank_of("somebody-else") > rank_of("otf")
    assert [tint("#102030", share) for share in (1.0, 0.0)] == ["#102030", "#fafaf8"]
    assert tint("#ffffff", 0.0, INK) == "#26262a"
