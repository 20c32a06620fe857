"""The pictures of the experiments, as small PNG files."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure as Canvas
from numpy.typing import ArrayLike
from PIL import Image

import sundman
from studies.sa_sgld.statistics import Measurement
from studies.sa_sgld.toys import edges_of
from sundman import estimate, targets
from sundman import plot as drawing
from sundman.report.model import Figure

mpl.use("Agg")
_DPI = 110
_COLORS = 128
Points = Sequence[tuple[float, Measurement]]


def as_png(canvas: Canvas, title: str, alt: str, caption: str = "") -> Figure:
    """The canvas as a PNG of few colours, which is small."""
    whole, small = io.BytesIO(), io.BytesIO()
    canvas.savefig(whole, dpi=_DPI)
    plt.close(canvas)
    image = Image.open(whole).convert("RGB").quantize(_COLORS)
    image.save(small, "PNG", optimize=True)
    return Figure(title, alt, small.getvalue(), caption)


def samples(
    target: targets.Target,
    runs: Mapping[str, sundman.Draws],
    view: tuple[tuple[float, float], tuple[float, float]],
    title: str,
    alt: str,
) -> Figure:
    """Draws over the exact contours, coloured by dt; a column for each sampler."""
    with drawing.style():
        canvas, row = plt.subplots(1, len(runs), figsize=(3.4 * len(runs), 3.2), sharey=True)
        dt = np.concatenate([np.asarray(d.stats["dt"]).ravel() for d in runs.values()])
        low, high = np.percentile(dt[dt > 0], [1, 99])
        norm = LogNorm(low, max(high, 1.001 * low))
        for ax, (name, draws) in zip(np.atleast_1d(row), runs.items(), strict=True):
            drawing.points(ax, draws, count=3000, norm=norm)
            drawing.contours(ax, target, zorder=2)
            ax.set(xlim=view[0], ylim=view[1], title=name, box_aspect=1)
        shade = ScalarMappable(norm, drawing.colors())
        canvas.colorbar(shade, ax=row, extend="both", label="step dt", shrink=0.8)
        return as_png(canvas, title, alt, "Contours hold 50, 90 and 99% of the exact law.")


def density_error(
    target: targets.Target, runs: Mapping[str, sundman.Draws], title: str, alt: str
) -> Figure:
    """Histogram minus exact mass of each cell, in units of the largest exact mass."""
    edges = edges_of(target)
    exact = target.grid_mass(*edges)
    maps = {name: (estimate.histogram(d, edges) - exact) / exact.max() for name, d in runs.items()}
    top = max(1e-9, max(float(np.percentile(np.abs(m), 99.7)) for m in maps.values()))
    with drawing.style():
        canvas, row = plt.subplots(1, len(runs), figsize=(3.4 * len(runs), 3.2), sharey=True)
        shade = ScalarMappable(Normalize(-top, top), "RdBu_r")
        for ax, (name, error) in zip(np.atleast_1d(row), maps.items(), strict=True):
            ax.pcolormesh(*edges, error.T, cmap="RdBu_r", vmin=-top, vmax=top)
            ax.set(title=name, xlabel="x", box_aspect=1)
        label = "found - exact, by largest exact"
        canvas.colorbar(shade, ax=row, label=label, extend="both", shrink=0.8)
        return as_png(canvas, title, alt, "Red: too much mass; blue: too little.")


def stepsizes(draws: sundman.Draws, title: str, alt: str) -> Figure:
    """The steps of one chain along the run, and the histogram of all."""
    with drawing.style():
        canvas, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.6))
        steps = draws.facts.burn_in + (draws.facts.thin or 1) * np.arange(len(draws))
        some = slice(0, min(len(draws), 1500))
        left.plot(steps[some], np.asarray(draws.stats["dt"])[0, some], linewidth=0.6)
        left.set(xlabel="step", ylabel="dt", title="One chain")
        drawing.stepsizes(right, draws)
        right.set(title="All chains")
        return as_png(canvas, title, alt)


def against_step(
    curves: Mapping[str, Points],
    title: str,
    alt: str,
    *,
    xlabel: str = "mean step dt",
    ylabel: str = "|relative bias|",
    slopes: Mapping[str, Measurement] | None = None,
) -> Figure:
    """|bias| against the step on logarithmic axes, bars of two standard errors."""
    with drawing.style():
        canvas, ax = plt.subplots(figsize=(7.8, 3.4))
        for marker, (name, points) in zip("osD^vPX*<>", curves.items(), strict=False):
            x = np.array([h for h, _ in points])
            y = np.abs([b.value for _, b in points])
            bars = np.minimum(2 * np.array([b.error for _, b in points]), 0.95 * y)
            label = name
            if slopes is not None and name in slopes:
                label += f": slope {slopes[name].value:.2f} ± {slopes[name].error:.2f}"
            ax.errorbar(x, y, bars, marker=marker, markersize=4, capsize=2, label=label)
        ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
        ax.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1.0))
        return as_png(canvas, title, alt, "Bars: two standard errors.")


def against_gradients(
    curves: Mapping[str, Points], floor: float, title: str, alt: str, *, ylabel: str
) -> Figure:
    """A distance against gradients on logarithmic axes, and the floor below which none is seen.

    Args:
      curves: (gradients, distance) of each sampler; any number of samplers.
      floor: a horizontal line.
      title: of the figure.
      alt: its content in words.
      ylabel: what the distance is.

    Returns:
      The figure; bars of two standard errors where these are known.
    """
    marks, styles = "osD^vPX*<>", ("-", "--", ":")
    with drawing.style():
        canvas, ax = plt.subplots(figsize=(8.2, 4.4))
        for number, (name, points) in enumerate(curves.items()):
            y = np.array([each.value for _, each in points])
            errors = np.array([each.error for _, each in points])
            bars = np.where(np.isfinite(errors), np.minimum(2 * errors, 0.95 * y), 0.0)
            ax.errorbar(
                np.array([x for x, _ in points]), y, bars, label=name, capsize=2, markersize=4,
                marker=marks[number % len(marks)], linestyle=styles[number // len(marks)],
            )  # fmt: skip
        ax.axhline(floor, color="black", linewidth=0.8, label="floor of the reference")
        ax.set(xscale="log", yscale="log", xlabel="gradients on 32 rows", ylabel=ylabel)
        ax.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1.0))
        return as_png(canvas, title, alt, "Bars: two standard errors, where there are several.")


def lines(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    title: str,
    alt: str,
    *,
    xlabel: str,
    ylabel: str,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    xscale: str = "linear",
    yscale: str = "linear",
) -> Figure:
    """Curves, one for each name."""
    with drawing.style():
        canvas, ax = plt.subplots(figsize=(5.6, 3.6))
        for name, (x, y) in curves.items():
            ax.plot(x, y, label=name, **((styles or {}).get(name, {})))
        ax.set(xlabel=xlabel, ylabel=ylabel, xscale=xscale, yscale=yscale)
        ax.legend(fontsize=7)
        return as_png(canvas, title, alt)
