"""Figures of the drawn values themselves: traces and pairs of some components."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

from sundman import plot
from sundman.draws import Draws
from sundman.report.figures import WIDTH, draw
from sundman.report.model import Figure

_CHAINS, _POINTS = 4, 2000
_LINE = 600  # points of a line


def traces(draws: Draws, values: np.ndarray, labels: list[str], total: int) -> Figure:
    """Each of these components, (chain, draw, k), along the run; a panel each."""
    every = -(-len(draws) // _LINE)
    chains = min(draws.chains, _CHAINS)
    alive = np.where(draws.weight > 0, 1.0, np.nan)[:chains, ::every]
    number = np.arange(0, len(draws), every)
    colors = plot.colors()(np.linspace(0.05, 0.95, max(chains, 2)))

    def draw_on(canvas: Canvas) -> None:
        panels = canvas.subplots(len(labels), 1, sharex=True, squeeze=False)[:, 0]
        for i, (ax, label) in enumerate(zip(panels, labels, strict=True)):
            for chain in range(chains):
                line = values[chain, ::every, i] * alive[chain]
                ax.plot(number, line, color=colors[chain], linewidth=0.6, alpha=0.85)
            ax.set_ylabel(_short(label))
        panels[-1].set_xlabel("draw")

    caption = f"{chains} of {draws.chains} chains. " if chains < draws.chains else ""
    if total > len(labels):
        caption += f"{len(labels)} of {total:,} components, evenly spaced."
    alt = f"Traces of {', '.join(labels)} against the number of the draw, {chains} lines each."
    size = (WIDTH, 1.1 + 1.15 * len(labels))
    return draw(draw_on, title="Traces.", alt=alt, caption=caption.strip(), size=size)


def pairs(draws: Draws, values: np.ndarray, labels: list[str]) -> Figure:
    """Weighted histograms of the components, and each against each, picked by weight.

    Draws that are not finite are left out; there must be one that is, and counts.
    """
    flat = values.reshape(draws.weight.size, -1).astype(np.float64)
    finite = np.isfinite(flat).all(axis=1)
    weight = np.where(finite, draws.weight.astype(np.float64).ravel(), 0.0)
    picked = _picked(weight, _POINTS)
    size = len(labels)
    mean = np.average(flat[weight > 0], axis=0, weights=weight[weight > 0])

    def draw_on(canvas: Canvas) -> None:
        panels = canvas.subplots(size, size, squeeze=False, sharex="col")
        for (i, j), ax in np.ndenumerate(panels):
            if j > i:
                ax.set_visible(False)
            elif i == j:
                _histogram(ax, flat[weight > 0, i], weight[weight > 0])
            else:
                ax.scatter(flat[picked, j], flat[picked, i], s=2.0, linewidths=0, alpha=0.5,
                           color="#2b7a78", rasterized=True)  # fmt: skip
            if j == 0 and i > 0:
                ax.set_ylabel(_short(labels[i]))
            if i == size - 1:
                ax.set_xlabel(_short(labels[j]))

    means = ", ".join(f"{label} {m:.3g}" for label, m in zip(labels, mean, strict=True))
    alt = f"Histograms of {', '.join(labels)} and scatter plots of their pairs. Means: {means}."
    caption = f"Histograms are weighted; {len(picked):,} points, picked in proportion to weight."
    if size == 1:
        caption = "Weighted."
    inches = (WIDTH, WIDTH - 0.4) if size > 1 else (WIDTH, 3.0)
    return draw(draw_on, title="One by one and in pairs." if size > 1 else "Histogram.", alt=alt,
                caption=caption, size=inches)  # fmt: skip


def _histogram(ax: Any, values: np.ndarray, weight: np.ndarray) -> None:
    bins = int(np.clip(np.sqrt(values.size), 8, 50))
    ax.hist(values, bins=bins, weights=weight / weight.sum(), color="#2b7a78")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _picked(weight: np.ndarray, most: int) -> np.ndarray:
    count = min(most, int(np.count_nonzero(weight)))
    rng = np.random.default_rng(0)
    return rng.choice(weight.size, count, replace=False, p=weight / weight.sum())


def _short(label: str) -> str:
    return label if len(label) <= 22 else f"…{label[-21:]}"
