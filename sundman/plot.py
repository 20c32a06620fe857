"""Figures: draws over exact contours, stepsizes, warm-ups, reliability diagrams. Needs matplotlib.

    with sundman.plot.style():
        figure, ax = plt.subplots()
        sundman.plot.contours(ax, target)
        sundman.plot.points(ax, draws)

Points are picked with probability in proportion to their weight, so that their density on the
page is that of the law sampled, whatever the clock.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from sundman import _chunks, check, metrics
from sundman._optional import needs_extra
from sundman.draws import Draws
from sundman.targets import Target

with needs_extra("report", "sundman.plot"):
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.colors import Colormap, ListedColormap, Normalize
    from matplotlib.figure import Figure

_STYLE = Path(__file__).with_name("sundman.mplstyle")
_PIXELS = 600


def style() -> AbstractContextManager[None]:
    """The project's matplotlib style, for the length of a ``with`` block."""
    return plt.style.context(_STYLE)


def colors() -> Colormap:
    """Viridis without its palest tenth: rises in lightness, and shows on white."""
    return ListedColormap(plt.get_cmap("viridis")(np.linspace(0.0, 0.9, 256)), "sundman")


def contours(
    ax: Axes, target: Target, *, masses: tuple[float, ...] = (0.5, 0.9, 0.99), **drawing: Any
) -> None:
    """The smallest regions that hold the given ``masses`` of the exact density.

    Args:
      ax: the axes to draw on; they take the target's window.
      target: one of :mod:`sundman.targets` with two coordinates or more.
      masses: the probability inside each contour.
      **drawing: further arguments of matplotlib's ``contour``.
    """
    if target.window is None or target.dim < 2:
        raise ValueError(f"target {target.name!r} has no plane to draw on")
    (left, right), (bottom, top) = target.window
    x, y = np.linspace(left, right, _PIXELS), np.linspace(bottom, top, _PIXELS)
    density = _density(target, x, y)
    falling = np.sort(density, axis=None)[::-1]
    inside = np.cumsum(falling) * (x[1] - x[0]) * (y[1] - y[0])
    last = len(falling) - 1
    levels = [falling[min(int(np.searchsorted(inside, mass)), last)] for mass in sorted(masses)]
    settings = {"colors": "0.55", "linewidths": 0.6, "zorder": 0, **drawing}
    ax.contour(x, y, density.T, levels=sorted(set(levels)), **settings)
    ax.set(xlim=target.window[0], ylim=target.window[1], xlabel="x", ylabel="y")


def _density(target: Target, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """exp(-U/T)/Z on the grid x by y, the other coordinates of a larger target at their start."""

    def at(u: Array, v: Array) -> Array:
        return target.density(target.start.at[:2].set(jnp.stack([u, v])))

    rows = jax.vmap(jax.vmap(at, in_axes=(None, 0)), in_axes=(0, None))
    return np.asarray(jax.jit(rows)(x, y), np.float64)


def points(
    ax: Axes,
    draws: Draws,
    *,
    count: int = 5000,
    color: str = "dt",
    norm: Normalize | None = None,
    seed: int = 0,
    **drawing: Any,
) -> PathCollection:
    """Draws as points, picked by weight and coloured by a statistic.

    Args:
      ax: the axes to draw on.
      draws: whose positions are vectors; their first two coordinates are shown.
      count: how many draws to pick.
      color: the statistic of the draws that colours them.
      norm: the scale of the colours; matplotlib's by default.
      seed: of the choice of draws.
      **drawing: further arguments of matplotlib's ``scatter``.

    Returns:
      What a colorbar needs.
    """
    check.count("count", count, least=1)
    check.choice("color", color, tuple(draws.stats))
    weight = draws.weight.astype(np.float64).ravel()
    picked = np.random.default_rng(seed).choice(
        weight.size,
        min(count, int(np.count_nonzero(weight))),
        replace=False,
        p=weight / weight.sum(),
        shuffle=True,
    )
    position = _chunks.gather(draws.position, picked).reshape(len(picked), -1)
    shade = np.asarray(draws.stats[color]).reshape(weight.size, -1).mean(axis=1)[picked]
    settings = {"s": 2.0, "linewidths": 0, "cmap": colors(), "rasterized": True, **drawing}
    return ax.scatter(position[:, 0], position[:, 1], c=shade, norm=norm, **settings)


def trace(ax: Axes, draws: Draws, name: str = "dt", *, most: int = 2000, **drawing: Any) -> None:
    """A statistic along the run, one line a chain, against the step.

    Args:
      ax: the axes to draw on.
      draws: those of weight 0, of a chain that diverged, are left out.
      name: the statistic.
      most: points of a line at most.
      **drawing: further arguments of matplotlib's ``plot``.
    """
    check.choice("name", name, tuple(draws.stats))
    check.count("most", most, least=2)
    every = -(-len(draws) // most)
    column = np.asarray(draws.stats[name], np.float64).reshape(draws.chains, len(draws), -1)
    shown = np.where(draws.weight > 0, column.mean(axis=2), np.nan)[:, ::every]
    first, thin = draws.facts.burn_in, draws.facts.thin or 1
    steps = first + thin * every * np.arange(shown.shape[1])
    ax.plot(steps, shown.T, **{"linewidth": 0.6, "alpha": 0.8, **drawing})
    ax.set(xlabel="step", ylabel=name)


def stepsizes(ax: Axes, draws: Draws, *, bins: int = 60, **drawing: Any) -> None:
    """Histogram of dt over the draws, on a logarithmic axis.

    Args:
      ax: the axes to draw on.
      draws: those of weight 0 are left out; the others count once each.
      bins: how many, of equal width in log(dt).
      **drawing: further arguments of matplotlib's ``hist``.
    """
    check.count("bins", bins, least=1)
    dt = np.asarray(draws.stats["dt"], np.float64)[draws.weight > 0]
    low, high = dt.min(), max(dt.max(), dt.min() * 1.001)
    ax.hist(dt, bins=np.geomspace(low, high, bins + 1).tolist(), **drawing)
    ax.set(xscale="log", xlabel="dt", ylabel="draws")


def reliability(
    ax: Axes,
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    bins: int = 15,
    label: str | None = None,
) -> None:
    """Accuracy against confidence, bin by bin, with two standard errors; the diagonal is ideal.

    The area of a marker is in proportion to the points in its bin.

    Args:
      ax: the axes to draw on.
      probabilities: of each class, a row for each point.
      labels: the class of each point.
      bins: how many, of equal width in confidence.
      label: the name of this line in a legend.
    """
    diagram = metrics.reliability(probabilities, labels, bins=bins)
    held = diagram.fraction > 0
    confidence, accuracy, fraction = (part[held] for part in diagram)
    number = fraction * len(np.asarray(labels))
    error = 2.0 * np.sqrt(accuracy * (1.0 - accuracy) / number)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    drawn = ax.errorbar(confidence, accuracy, error, linewidth=1.0, capsize=2.0, label=label)
    ax.scatter(confidence, accuracy, s=10.0 + 150.0 * fraction, color=drawn.lines[0].get_color())
    ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", ylabel="accuracy")


def tuning(draws: Draws, *, figure: Figure | None = None) -> Figure:
    """The warm-up of a sampler that tuned itself, window by window: the step, its error, and U.

    Against the steps of a chain: h; the energy error of a step, or where there is none the largest
    variance of the gradient noise; and the mean of U at the end of each window. The blocks of the
    descent are shaded.

        draws = sundman.sample(target, key=key)
        sundman.plot.tuning(draws).savefig("tuning.png")

    Args:
      draws: of a run whose ``draws.tuning`` is there.
      figure: the matplotlib figure to draw on; a new one if not given.

    Returns:
      The figure.
    """
    record = draws.tuning
    if record is None or not record.windows:
        raise ValueError(
            "these draws have no tuning: it is there if sample found the settings by itself, that "
            "is without a sampler or with sundman.auto()"
        )
    figure = plt.figure(figsize=(5.2, 4.6), layout="constrained") if figure is None else figure
    windows = record.windows
    end = np.cumsum([window.steps for window in windows])
    edges = np.concatenate([[0], end])
    middle = 0.5 * (edges[1:] + edges[:-1])
    noisy = any(window.noise > 0 for window in windows)
    lines = {
        "step h": [window.h for window in windows],
        "energy error v": [window.v for window in windows],
        "gradient noise": [window.noise for window in windows],
        "U": [window.potential for window in windows],
    }
    if not noisy:
        del lines["gradient noise"]
    panels = figure.subplots(len(lines), 1, sharex=True, squeeze=False)[:, 0]
    descents = sum(window.stage == "descent" for window in windows)
    for ax, (label, line) in zip(panels, lines.items(), strict=True):
        values = np.array(line, np.float64)
        if label != "U":
            values = np.where(values > 0, values, np.nan)
            ax.set_yscale("log")
        ax.plot(end if label == "U" else middle, values, marker="o", markersize=3, linewidth=1.0)
        ax.axvspan(0, edges[descents], color="0.92", linewidth=0, zorder=0)
        ax.set_ylabel(label)
    if len(windows) > 1 and windows[0].potential > windows[-1].potential:
        # far starts would hide how it ended
        spread = abs(windows[-1].potential - windows[-(len(windows) // 2 + 1)].potential)
        panels[-1].set_yscale("symlog", linthresh=max(spread, abs(windows[-1].potential), 1.0))
    panels[-1].set_xlabel("steps of a chain")
    return figure
