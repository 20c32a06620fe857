"""The demo's figure: draws over exact contours, coloured by the step."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from sundman import plot
from sundman.cli.demo_toys import TITLES, Toy
from sundman.report.figures import png

NAMES = ("SGLD", "SA-SGLD", "SA-LM")
_VIEW = {"star": ((-2.1, 2.1), (-2.1, 2.1)), "muller-brown": ((-2.7, 2.0), (-1.6, 2.7))}


def draw(toys: Sequence[Toy]) -> bytes:
    """A row per target, a column per sampler, as PNG."""
    with plot.style():
        figure = Figure(figsize=(9.6, 6.7))
        grid = figure.subplots(len(toys), len(NAMES), sharex="row", sharey="row")
        for row, toy in zip(grid, toys, strict=True):
            _row(figure, row, toy)
        return png(figure, dpi=int(mpl.rcParams["savefig.dpi"]))


def _row(figure: Figure, row: Sequence[Axes], toy: Toy) -> None:
    name_of, shade = toy.target.name, None
    low, high = np.percentile(toy.runs["SA-LM"].stats["dt"], [2, 98])
    for ax, name in zip(row, NAMES, strict=True):
        norm = LogNorm(low, high)
        shade = plot.points(ax, toy.runs[name], count=4000, norm=norm)
        plot.contours(ax, toy.target, zorder=2)
        ax.set(xlim=_VIEW[name_of][0], ylim=_VIEW[name_of][1], box_aspect=1)
        ax.set_title(name, fontweight="bold", pad=15)
        ax.text(0, 1.02, _caption(toy, name), transform=ax.transAxes, size=8)
        ax.set_ylabel(f"{TITLES[name_of]}\n\ny" if ax is row[0] else "")
    assert shade is not None  # there are samplers
    bar = figure.colorbar(shade, ax=list(row), extend="both", shrink=0.8, aspect=25)
    bar.set_label("step dt / 10⁻⁴")
    bar.locator, bar.minorlocator = MaxNLocator(5), NullLocator()
    bar.formatter = FuncFormatter(lambda dt, _: f"{1e4 * dt:g}")
    bar.update_ticks()


def _caption(toy: Toy, name: str) -> str:
    found, truth = toy.found[name], toy.target.truth
    if toy.target.name == "star":
        exact = 100 * truth["outer"]
        return f"{100 * found['outer'].value:.1f}% in the tips of the arms; exact {exact:.1f}%"
    return f"temperature {100 * (found['virial'].value / truth['virial'] - 1):+.1f}%"
