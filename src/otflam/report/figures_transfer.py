"""Motion vocabularies applied to another body and to other digits: Table 1 of the paper as bars."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from otflam.evaluate import BODY_TRANSFER, DIGIT_TRANSFER, Records, chosen, complete, estimate, group, values
from otflam.report.canvas import Sketch, counted, draw_interval, draw_paper, draw_seeds, legend_below
from otflam.report.published import SCALE, TRANSFER
from otflam.report.style import INK, colour_of, hexed, place_of, tint

TITLES = {BODY_TRANSFER: "Another body: walker-run → cheetah-run", DIGIT_TRANSFER: "Other digits: 0 to 4 → 5 to 9"}
ORDERS = {1: "first\ndifferences", 2: "second\ndifferences"}
PALE = 0.35
"""How much colour the bars of the source have."""


def sketch_transfer(folder: Path, preset: str) -> Sketch | None:
    """Errors on source and target, and how much they rise, of every tokenizer and order."""
    records = complete(chosen(folder, "transfer", preset), "source_nmse", "target_nmse", "drop")
    tasks = [task for task in TITLES if any(record["task"] == task for record in records)]
    if not tasks:
        return None
    groups = group(records, "task", "order", "method")
    figure = Figure(figsize=(5.2 * len(tasks), 3.3), layout="constrained")
    parts = figure.subfigures(1, len(tasks), squeeze=False)[0]
    for part, task in zip(parts, tasks, strict=True):
        part.suptitle(TITLES[task], x=0.02, ha="left", fontsize=9.5, fontweight="bold")
        errors, rises = part.subplots(1, 2, width_ratios=(1.25, 1))
        _draw_errors(errors, {key[1:]: found for key, found in groups.items() if key[0] == task})
        _draw_rises(rises, {key[1:]: found for key, found in groups.items() if key[0] == task}, task == BODY_TRANSFER)
    legend_below(figure, [axis for part in parts for axis in part.axes], 6)
    caption = (
        f"Motion vocabularies on what they have not seen ({preset} preset). Left: error of the redrawn motion as a "
        "share of its energy (nMSE), pale on the source, full on the target; right: rise from source to target of the "
        "plain squared error (the paper's drop), which also depends on how much the target moves. Bars: mean over "
        f"{counted(groups.values(), 'seeds')}; dots: seeds; whiskers: 95 % interval (Student's t). Diamonds: the "
        f"paper. {SCALE}"
    )
    return Sketch(figure, caption)


def _draw_errors(axis: Axes, groups: dict[tuple, Records]) -> None:
    """Pairs of bars, source and target."""
    for x, _, method, found in _places(groups):
        for shift, metric, share in ((-0.105, "source_nmse", PALE), (0.105, "target_nmse", 1.0)):
            called = f"{method}, {'target' if share == 1 else 'source'}"
            _draw_bar(axis, x + shift, values(found, metric), 0.19, tint(colour_of(method), share), called)
    _name_orders(axis, groups)
    axis.set(ylabel="error (nMSE)", ylim=(0, None))


def _draw_rises(axis: Axes, groups: dict[tuple, Records], published: bool) -> None:
    for x, order, method, found in _places(groups):
        rises = [100 * value for value in values(found, "drop")]
        _draw_bar(axis, x, rises, 0.38, colour_of(method))
        if published:
            draw_paper(axis, x + 0.13, TRANSFER[method, order][2], "the paper")
    axis.axhline(0, color=hexed(INK), linewidth=0.8)
    _name_orders(axis, groups)
    axis.set(ylabel="rise of MSE, %")


def _places(groups: dict[tuple, Records]) -> list[tuple[float, int, str, Records]]:
    """Where each bar stands: methods beside each other at each order."""
    methods = sorted({method for _, method in groups}, key=place_of, reverse=True)
    middle = (len(methods) - 1) / 2
    return [
        (order + 0.44 * (methods.index(method) - middle), order, method, found)
        for (order, method), found in sorted(groups.items(), key=lambda item: (item[0][0], methods.index(item[0][1])))
    ]


def _draw_bar(axis: Axes, x: float, heights: list[float], width: float, colour: str, label: str | None = None) -> None:
    over = estimate(heights)
    axis.bar(x, over.mean, width, color=colour, label=label, zorder=2)
    draw_interval(axis, x, over.mean, over.half)
    draw_seeds(axis, x, heights, width)


def _name_orders(axis: Axes, groups: dict[tuple, Records]) -> None:
    orders = sorted({order for order, _ in groups})
    axis.set_xticks(orders, [ORDERS[order] for order in orders])
    axis.tick_params(axis="x", length=0)
