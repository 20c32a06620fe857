"""Figures of a run and of its draws, as PNG with their content in words. Needs matplotlib.

Each is about as wide as half a page, so that two stand side by side on a screen and one fills a
phone with its text still readable.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np

from sundman import plot
from sundman._optional import needs_extra
from sundman.draws import Draws
from sundman.report.model import Figure
from sundman.targets import Target

with needs_extra("report", "a report"):
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter
    from PIL import Image

DPI = 200
WIDTH, HEIGHT = 5.2, 3.4  # inches
_COLOR, _COLOR_LOST = "#2b7a78", "#9b2226"
_CHAINS = 4
_LINE = 600  # points of a line
_POINTS, _PAIR_POINTS = 4000, 2000


def png(figure: Canvas, *, dpi: int = DPI) -> bytes:
    """A matplotlib figure as PNG, on white; the figure is closed.

    In 256 colours: a third of the size, and no difference to the eye.
    """
    drawn, packed = io.BytesIO(), io.BytesIO()
    quick = {"compress_level": 1}
    figure.savefig(drawn, format="png", dpi=dpi, facecolor="white", pil_kwargs=quick)
    plt.close(figure)
    picture = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(packed, format="png")
    return packed.getvalue()


def draw(
    draw_on: Callable[[Canvas], None],
    *,
    title: str,
    alt: str,
    caption: str = "",
    size: tuple[float, float] = (WIDTH, HEIGHT),
) -> Figure:
    """A figure of a report, in the project's style.

    Args:
      draw_on: draws on the matplotlib figure that it is given.
      title: what the figure shows.
      alt: its content in words, for those who cannot see it.
      caption: what to know to read it.
      size: width and height in inches.
    """
    with plot.style():
        canvas = Canvas(figsize=size, layout="constrained")
        draw_on(canvas)
        return Figure(title, alt, png(canvas), caption)


def along(draws: Draws, name: str, *, title: str, label: str, log: bool = False) -> Figure:
    """A statistic along the run, a line for each of the first chains."""
    some = _first_chains(draws, name)
    column = _per_draw(some, name)
    counted = column[some.weight > 0]

    def draw_on(canvas: Canvas) -> None:
        ax = canvas.subplots()
        _cycle(ax, some.chains)
        plot.trace(ax, some, name, most=_LINE)
        ax.xaxis.set_major_locator(MaxNLocator(6))
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        ax.set(ylabel=label, yscale="log" if log and (counted > 0).all() else "linear")
        _end_of_lost(ax, some)

    shown = f"{some.chains} of {draws.chains} chains, a line each" if draws.chains > 1 else ""
    if some.chains == draws.chains > 1:
        shown = f"{draws.chains} chains, a line each"
    lost = int(np.sum(some.diverged))
    notes = [shown, f"a cross marks the end of each of {lost} lost chains" if lost else ""]
    caption = "; ".join(note for note in notes if note)
    alt = f"{title}, {_many(some.chains, 'line')} against the step. {_range(counted)}."
    return draw(draw_on, title=f"{title}.", alt=alt, caption=_sentence(caption))


def tuning(draws: Draws) -> Figure:
    """The warm-up of a sampler that tuned itself; ``draws.tuning`` must be there."""
    assert draws.tuning is not None
    first, last = draws.tuning.windows[0], draws.tuning.windows[-1]
    steps = sum(window.steps for window in draws.tuning.windows)

    def draw_on(canvas: Canvas) -> None:
        plot.tuning(draws, figure=canvas)

    alt = (
        f"The step, its energy error or the gradient noise, and U in {len(draws.tuning.windows)} "
        f"windows of the warm-up, {steps:,} steps: the step went from {first.h:.3g} to "
        f"{last.h:.3g}, U from {first.potential:.5g} to {last.potential:.5g}."
    )
    caption = "A point for each window; those of the descent are shaded."
    return draw(draw_on, title="The warm-up.", alt=alt, caption=caption, size=(WIDTH, 4.6))


def stepsizes(draws: Draws) -> Figure:
    """The histogram of the step over all draws that count."""
    dt = _per_draw(draws, "dt")[draws.weight > 0]
    bins = int(np.clip(np.sqrt(dt.size), 10, 60))
    alt = f"Histogram of the step dt over {dt.size:,} draws, on a logarithmic axis. {_range(dt)}."

    def draw_on(canvas: Canvas) -> None:
        plot.stepsizes(canvas.subplots(), draws, bins=bins, color=_COLOR)

    return draw(draw_on, title="Histogram of the step.", alt=alt, caption="Every draw counts once.")


def weights(draws: Draws) -> Figure:
    """How the weight is shared out: draws in order of their weight, against what they hold."""
    weight = np.sort(draws.weight[draws.weight > 0].astype(np.float64))[::-1]
    held = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()
    share = np.linspace(0.0, 1.0, len(held))
    half = float(np.interp(0.5, held, share))
    tenth = float(np.interp(0.1, share, held))
    evenness = weight.sum() ** 2 / (weight**2).sum() / len(weight)

    def draw_on(canvas: Canvas) -> None:
        ax = canvas.subplots()
        every = max(1, len(held) // 2000)
        ax.plot([0, 100], [0, 100], color="0.6", linestyle="--", linewidth=0.8)
        ax.plot(100 * share[::every], 100 * held[::every], color=_COLOR)
        ax.set(xlim=(0, 100), ylim=(0, 101), xlabel="draws, heaviest first (%)")
        ax.set(ylabel="share of the weight (%)")

    caption = (
        f"The heaviest tenth of the draws holds {100 * tenth:.0f}% of the weight, and "
        f"{100 * half:.0f}% of them hold half of it. The dashed line is equal weights; evenness "
        f"is {evenness:.2f}."
    )
    return draw(draw_on, title="Who holds the weight.", alt=caption, caption=caption)


def over_contours(draws: Draws, target: Target) -> Figure:
    """Draws in the plane, picked by weight, over the target's exact contours."""
    count = min(_POINTS, int(np.count_nonzero(draws.weight)))
    dt = _per_draw(draws, "dt")[draws.weight > 0]
    varies = dt.max() > dt.min() * (1 + 1e-6)

    def draw_on(canvas: Canvas) -> None:
        ax = canvas.subplots()
        plot.contours(ax, target)
        norm = LogNorm(dt.min(), dt.max()) if varies else None
        points = plot.points(ax, draws, count=count, norm=norm, s=4.0)
        if varies:
            canvas.colorbar(points, ax=ax, label="step dt", shrink=0.85)

    alt = (
        f"{count:,} draws in the plane of the first two coordinates over contours of the exact "
        f"density of {target.name}" + (", coloured by the step." if varies else ".")
    )
    caption = (
        f"{count:,} draws, picked in proportion to their weight, over the exact regions of 50, 90 "
        "and 99% of the mass." + (" Colour is the step taken there." if varies else "")
    )
    return draw(draw_on, title="Draws and the exact density.", alt=alt, caption=caption,
                size=(WIDTH + 0.6, WIDTH - 0.4))  # fmt: skip


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
    picked = _picked(weight, _PAIR_POINTS)
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
                           color=_COLOR, rasterized=True)  # fmt: skip
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


def _per_draw(draws: Draws, name: str) -> np.ndarray:
    """A statistic as (chain, draw); the mean over the tensors of a blockwise clock."""
    column = np.asarray(draws.stats[name], np.float64)
    return column.reshape(*draws.weight.shape, -1).mean(axis=2)


def _first_chains(draws: Draws, name: str) -> Draws:
    first = slice(0, _CHAINS)
    stats = {name: np.asarray(draws.stats[name])[first]}
    return Draws({}, draws.weight[first], stats, draws.diverged_at[first], None, draws.settings)


def _cycle(ax: Axes, chains: int) -> None:
    ax.set_prop_cycle(color=plot.colors()(np.linspace(0.05, 0.95, max(chains, 2))))


def _end_of_lost(ax: Axes, draws: Draws) -> None:
    """A cross where the line of each lost chain ends."""
    for line, lost in zip(ax.lines[: draws.chains], draws.diverged, strict=True):
        x, y = (np.asarray(data, np.float64) for data in line.get_data())
        alive = np.flatnonzero(np.isfinite(y))
        if lost and len(alive):
            ax.plot(x[alive[-1]], y[alive[-1]], "x", color=_COLOR_LOST, markersize=6, zorder=5)


def _range(values: np.ndarray) -> str:
    values = values[np.isfinite(values)]
    if not values.size:
        return "Nothing in it is finite"
    low, middle, high = np.percentile(values, [0, 50, 100])
    return f"It runs from {low:.3g} to {high:.3g}, with median {middle:.3g}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _histogram(ax: Axes, values: np.ndarray, weight: np.ndarray) -> None:
    bins = int(np.clip(np.sqrt(values.size), 8, 50))
    ax.hist(values, bins=bins, weights=weight / weight.sum(), color=_COLOR)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _picked(weight: np.ndarray, most: int) -> np.ndarray:
    count = min(most, int(np.count_nonzero(weight)))
    rng = np.random.default_rng(0)
    return rng.choice(weight.size, count, replace=False, p=weight / weight.sum())


def _short(label: str) -> str:
    return label if len(label) <= 22 else f"…{label[-21:]}"
