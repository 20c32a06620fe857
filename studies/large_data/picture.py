"""The picture of processor seconds to 10,000 effective draws against the number of rows.

python -m studies.large_data.picture
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

import sundman
from studies.large_data.against_peers import GOALS, ROWS, merged

mpl.use("Agg")
import matplotlib.pyplot as plt

STYLE = Path(sundman.__file__).with_name("sundman.mplstyle")
FIGURE = Path(__file__).parents[2] / "docs" / "assets" / "seconds-against-rows.svg"
LINES = {
    "nuts": ("NUTS, NumPyro", "0.55"),
    "hmcecs": ("HMCECS, NumPyro, mode given", "0.35"),
    "sgld": ("SGLD, our control variate, best step", "tab:orange"),
    "sundman": ("sundman, no settings", "tab:blue"),
}


def draw() -> None:
    """Write the figure; extrapolated points are hollow."""
    goal = str(GOALS[-1])
    with plt.style.context(STYLE), plt.rc_context({"svg.hashsalt": "sundman"}):
        figure, axes = plt.subplots(figsize=(5.2, 3.2))
        for method, (label, color) in LINES.items():
            found = [(float(rows), merged(method, rows)) for rows in ROWS]
            there = [(rows, row) for rows, row in found if row is not None]
            if not there:
                continue
            at = np.array([rows for rows, _ in there])
            seconds = np.array([row["seconds_to"][goal][1] for _, row in there])
            axes.plot(at, seconds, color=color)
            for x, y, (_, row) in zip(at, seconds, there, strict=True):
                face = "white" if row.get("extrapolated") else color
                axes.plot(x, y, "o", ms=4.5, color=color, markerfacecolor=face)
            axes.annotate(
                label,
                (at[-1], seconds[-1]),
                (6, 0),
                textcoords="offset points",
                color=color,
                va="center",
                fontsize=8,
                annotation_clip=False,
            )
        axes.set(xscale="log", yscale="log", xlabel="rows of data")
        axes.set_title("Processor seconds to 10,000 effective draws, from a cold process")
        FIGURE.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(FIGURE, metadata={"Date": None, "Creator": None})
        plt.close(figure)


if __name__ == "__main__":
    draw()
