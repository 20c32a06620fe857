"""The figure of ``scaling.py``: a log-log panel for each line, with the fitted power."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

import sundman

mpl.use("Agg")
import matplotlib.pyplot as plt

STYLE = Path(sundman.__file__).with_name("sundman.mplstyle")


def panel(axes: Axes, row: Mapping[str, Any], label: str, time: str) -> None:
    """Medians with quartiles, the fitted line where it was fitted, and its slope."""
    sizes = np.array(row["sizes"], float)
    middle, low, high = (
        np.array([found[name] for found in row["seconds"]])
        for name in ("median", "quarter", "three_quarters")
    )
    spread = [middle - low, high - middle]
    axes.errorbar(sizes, middle, spread, fmt="o", ms=3.5, color="0.1", capsize=2, lw=0.8)
    linear = sizes >= row["linear_from"]
    at = np.exp(np.log(middle[linear]).mean() - row["slope"] * np.log(sizes[linear]).mean())
    fitted = at * sizes[linear] ** row["slope"]
    text = f"slope {row['slope']:.2f} ± {row['slope_error']:.2f}"
    axes.plot(sizes[linear], fitted, color="0.5", zorder=0, label=text)
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel=f"{time} / s")
    bottom, top = axes.get_ylim()
    centre = np.sqrt(bottom * top)
    axes.set_ylim(min(bottom, centre / 5), max(top, centre * 5))
    axes.legend(loc="upper left")


def draw(found: Mapping[str, Any], labels: Mapping[str, tuple[str, str]], path: Path) -> None:
    """Write the figure."""
    with plt.style.context(STYLE):
        columns = min(3, len(found))
        rows = -(-len(found) // columns)
        figure, grid = plt.subplots(
            rows, columns, figsize=(2.7 * columns, 2.3 * rows), squeeze=False
        )
        panels = iter(grid.flat)
        for (name, row), axes in zip(found.items(), panels, strict=False):
            panel(axes, row, *labels[name])
            axes.set_title(name)
        for axes in panels:
            axes.set_axis_off()
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
        plt.close(figure)
