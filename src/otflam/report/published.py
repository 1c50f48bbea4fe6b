"""Returns that the paper prints, to stand beside ours: mean and RMS deviation, 32 labelled trajectories if not said.

The paper's experts, data and training are far larger than ours (docs/decisions.md): compare methods, not numbers.
"""

from __future__ import annotations

SCALE = "The paper's data, models and training are far larger than ours: compare the order of methods, not numbers."

TRANSFER = {
    ("otf", 1): (0.037, 0.055, 49.34),
    ("otf", 2): (0.142, 0.171, 20.49),
    ("monolithic", 1): (0.048, 0.080, 64.78),
    ("monolithic", 2): (0.172, 0.271, 58.18),
}
"""Table 1, walker-run to cheetah-run, by method and order: squared error on source and target, and its rise in %."""

BASELINES = {
    "cheetah-run": {
        "lapo-128": (11.48, 7.19),
        "lapo-256": (13.55, 5.40),
        "m-lapo": (9.68, 4.18),
        "f-lapo": (11.56, 3.39),
        "flam-4": (40.52, 27.82),
        "flam-8": (26.29, 16.90),
        "otf-lam-pixel": (20.48, 19.74),
        "otf-lam-dino": (43.80, 26.98),
    },
    "walker-run": {
        "lapo-128": (28.71, 7.59),
        "lapo-256": (23.91, 2.82),
        "m-lapo": (23.93, 4.40),
        "f-lapo": (23.44, 5.79),
        "flam-4": (28.44, 6.25),
        "flam-8": (29.65, 7.28),
        "otf-lam-pixel": (27.45, 7.54),
        "otf-lam-dino": (28.87, 8.23),
    },
}
"""Table full_baseline; both OTF-LAMs there with the vocabulary that earned most."""

VOCABULARY = {
    "cheetah-run": {
        "otf-lam-pixel": {16: (12.24, 9.79), 32: (17.06, 14.66), 64: (16.70, 18.30), 128: (20.48, 19.74)},
        "otf-lam-dino": {16: (40.85, 23.69), 32: (43.80, 26.98), 64: (33.09, 20.46), 128: (42.92, 26.01)},
    },
    "walker-run": {
        "otf-lam-pixel": {16: (26.52, 5.53), 32: (25.62, 4.67), 64: (24.66, 5.02), 128: (27.45, 7.54)},
        "otf-lam-dino": {16: (28.87, 8.23), 32: (27.64, 6.57), 64: (28.70, 7.74), 128: (27.65, 8.09)},
    },
}
"""Table full_ksweep, by vocabulary."""

SUPERVISION = {
    "cheetah-run": {
        16: {16: (34.06, 19.12), 32: (41.61, 22.91), 64: (55.69, 30.49), 128: (60.71, 30.72)},
        32: {16: (35.51, 27.73), 32: (37.75, 22.16), 64: (40.68, 24.50), 128: (50.96, 28.71)},
        64: {16: (32.31, 22.69), 32: (36.10, 21.75), 64: (42.79, 27.81), 128: (46.39, 31.92)},
        128: {16: (37.87, 22.95), 32: (40.02, 24.04), 64: (46.24, 26.94), 128: (46.88, 33.27)},
        0: {16: (4.80, 1.96), 32: (13.55, 5.40), 64: (12.62, 5.41), 128: (14.74, 7.32)},
    },
    "walker-run": {
        16: {16: (27.68, 6.03), 32: (28.74, 7.00), 64: (32.56, 11.47), 128: (33.91, 11.66)},
        32: {16: (24.00, 6.17), 32: (28.08, 6.67), 64: (30.99, 8.53), 128: (38.30, 15.30)},
        64: {16: (26.73, 5.70), 32: (28.36, 7.87), 64: (33.14, 11.32), 128: (38.97, 12.88)},
        128: {16: (24.98, 4.88), 32: (29.04, 8.40), 64: (30.70, 8.70), 128: (38.54, 13.74)},
        0: {16: (26.20, 2.40), 32: (23.91, 2.82), 64: (25.59, 5.31), 128: (25.10, 4.48)},
    },
}
"""Table supervision: OTF-LAM-DINO by vocabulary and labelled trajectories, and under 0 LAPO-256."""
