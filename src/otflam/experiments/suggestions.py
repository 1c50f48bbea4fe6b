"""A suggestion in words, with the numbers it stands on and what they cannot tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from otflam.data import Store
from otflam.experiments.settings import FOLLOWED, SIZES, WORTH, Gap, Point, Suggestion


def told(found: Suggestion) -> Iterator[str]:
    """The numbers, the recommendation and the command."""
    name = "episodes" if len(found.store) > 1 else "frames"
    rates = sorted({float(episode["fps"]) for episode in found.store.episodes if episode.get("fps")})
    yield from facts(found.store, rates)
    yield ""
    yield "gap (frames)   seconds   energy   still patches"
    for gap in found.gaps:
        mark = "  <-" if gap.frames == found.gap else ""
        yield f"{gap.frames:>12} {seconds(gap.frames, rates):>9} {gap.energy:>8.2f} {100 * gap.still:>13.0f} %{mark}"
    yield "energy: of the motion, over that between unrelated times of the same episodes"
    yield ""
    yield from rows(found.sizes, "codes", found.codes)
    yield f"lost: share of the motion's energy that patches lose as one of so many k-means centres, {where(found)}"
    yield ""
    yield from rows(found.amounts, name, None)
    yield f"lost: the same with {found.codes} codes learned from so much, from equally many patches"
    yield ""
    yield f"gap:    {gap_words(found.gaps, found.gap, rates)}"
    yield f"codes:  {code_words(found.sizes, found.codes)}"
    yield f"amount: {amount_words(found.amounts, name)}"
    yield "not measured: what a trained tokenizer redraws (its decoder also sees the frame and the neighbours), and"
    yield "which gap and how much data latent actions need; try the gap's neighbours, too"
    yield f"next: otflam tokenizer train {found.store.path} --codes {found.codes} --stride {found.gap} --out runs/own"


def facts(store: Store, rates: Sequence[float]) -> Iterator[str]:
    frames = int(store.lengths.sum())
    length = f", {frames / np.mean(rates) / 60:.1f} minutes" if rates else ""
    listed = ", ".join(f"{rate:g}" for rate in rates) or "unknown"
    yield f"{len(store)} episodes, {frames} frames{length}; frames a second: {listed}"
    if len(rates) > 1 and rates[-1] > 1.01 * rates[0]:
        yield f"one gap is {rates[-1] / rates[0]:.2f} times as long in some episodes as in others: import with --fps"


def seconds(gap: int, rates: Sequence[float]) -> str:
    return f"{gap / np.mean(rates):.3f}" if rates else "-"


def where(found: Suggestion) -> str:
    return "of other episodes" if found.apart else "of the end of the same video: only one is there"


def rows(points: Sequence[Point], name: str, chosen: int | None) -> Iterator[str]:
    yield f"{name:>12}      lost   gain of it"
    for each in points:
        gain = "" if each.gain is None else f"{100 * each.gain:+.1f}"
        gain += "" if each.error is None else f" ± {100 * each.error:.1f}"
        mark = "  <-" if each.amount == chosen else ""
        yield f"{each.amount:>12} {100 * each.lost:>7.1f} %   {gain}{mark}"


def gap_words(gaps: Sequence[Gap], chosen: int, rates: Sequence[float]) -> str:
    lasts = f" ({seconds(chosen, rates)} s)" if rates else ""
    energy = next(gap.energy for gap in gaps if gap.frames == chosen)
    rule = f"the largest with less than {FOLLOWED:g} of the energy of unrelated times, so that motion can be followed"
    if energy > FOLLOWED:
        return f"{chosen} frame{lasts}, the smallest there is: already {energy:.2f} of the energy of unrelated times"
    if chosen == gaps[-1].frames:
        return f"{chosen} frames{lasts} or more: things move so slowly that no measured gap is too large"
    return f"{chosen} frames{lasts}: {rule}; a rule of thumb, not a measurement of what models learn"


def code_words(sizes: Sequence[Point], chosen: int) -> str:
    after = next((size for size in sizes if size.amount > chosen), None)
    if after is None or after.gain is None:
        return f"{SIZES[-1]} or more: every doubling up to there still wins over {100 * WORTH:g} % of the energy"
    gained = f"{100 * after.gain:.1f}" + (f" ± {100 * after.error:.1f}" if after.error is not None else "")
    sure = "it cannot be told whether that is enough" if after.unclear else "that is not worth it"
    return (
        f"{chosen}: {after.amount} would win another {gained} % of the energy, and {sure} (worth it: {100 * WORTH:g} %)"
    )


def amount_words(amounts: Sequence[Point], name: str) -> str:
    last = amounts[-1]
    if last.gain is None:
        return f"cannot be told from {last.amount} {name}: add some and ask again"
    gained = f"{100 * last.gain:.1f}" + (f" ± {100 * last.error:.1f}" if last.error is not None else "")
    step = f"the last step, from {amounts[-2].amount} to {last.amount} {name}, won {gained} % of the energy"
    if last.worth:
        return f"more {name} would help the codes: {step}"
    if last.unclear:
        return f"more {name} might help the codes: {step}, which may be more than {100 * WORTH:g} % or not"
    return f"enough for the codes: {step}"
