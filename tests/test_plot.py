import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

import sundman
import sundman.plot
from sundman import targets


@pytest.fixture
def ax():
    with sundman.plot.style():
        figure, axes = plt.subplots()
        yield axes
        plt.close(figure)


def test_contours_take_the_window_of_the_target(ax):
    star = targets.star()
    sundman.plot.contours(ax, star)
    assert ax.get_xlim() == star.window[0]
    assert len(ax.collections) == 1
    with pytest.raises(ValueError, match="no plane"):
        sundman.plot.contours(ax, targets.quartic())


def test_points_are_picked_by_weight_and_never_without(ax, key):
    star = targets.star()
    draws = sundman.sample(star, sundman.sgld(1e-4), key=key, chains=2, steps=50)
    only_first = np.where(np.arange(2)[:, None] == 0, draws.weight, 0.0)
    chosen = sundman.plot.points(
        ax, sundman.Draws(**{**vars(draws), "weight": only_first}), count=500
    )
    drawn = {tuple(point) for point in np.asarray(chosen.get_offsets(), np.float32)}
    assert drawn == {tuple(point) for point in draws.position[0]}
    with pytest.raises(ValueError, match="color='temperature'"):
        sundman.plot.points(ax, draws, color="temperature")


def test_trace_and_histogram_show_the_draws_that_count(ax, key):
    sampler = sundman.sa_sgld(1e-3, alpha=10.0, m=0.1, M=10.0, r=0.5)
    draws = sundman.sample(
        targets.star(), sampler, key=key, chains=2, steps=600, burn_in=40, thin=3
    )
    weight = draws.weight.copy()
    weight[1, 150:] = 0.0
    draws = sundman.Draws(**{**vars(draws), "weight": weight})
    sundman.plot.trace(ax, draws, "zeta", most=100)
    first, second = ax.lines
    np.testing.assert_array_equal(first.get_xdata()[:3], [40, 46, 52])
    np.testing.assert_allclose(first.get_ydata(), draws.stats["zeta"][0, ::2], rtol=1e-6)
    np.testing.assert_array_equal(np.isnan(second.get_ydata()), np.arange(100) >= 75)
    sundman.plot.stepsizes(ax, draws, bins=10)
    assert sum(bar.get_height() for bar in ax.patches) == np.count_nonzero(weight)
    with pytest.raises(ValueError, match="name='speed'"):
        sundman.plot.trace(ax, draws, "speed")


@pytest.mark.long
@pytest.mark.parametrize("noise", [pytest.param(0.0, marks=pytest.mark.slow), 1.0])
def test_the_warm_up_window_by_window(key, noise):
    star = targets.star()
    target = sundman.gradients.noisy(star.potential, noise) if noise else star
    draws = sundman.sample(target, init=star.start, key=key, chains=2, steps=50)
    windows = draws.tuning.windows
    figure = sundman.plot.tuning(draws)
    labels = [panel.get_ylabel() for panel in figure.axes]
    assert labels == ["step h", "energy error v", *["gradient noise"] * bool(noise), "U"]
    steps, U = figure.axes[-1].lines[0].get_data()
    np.testing.assert_array_equal(steps, np.cumsum([window.steps for window in windows]))
    np.testing.assert_array_equal(U, [window.potential for window in windows])
    h = figure.axes[0].lines[0].get_ydata()
    np.testing.assert_array_equal(h, [window.h for window in windows])
    plt.close(figure)
    untuned = sundman.sample(star, sundman.sgld(1e-4), key=key, steps=5)
    with pytest.raises(ValueError, match="have no tuning"):
        sundman.plot.tuning(untuned)


def test_reliability_diagram_shows_the_bins(ax):
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1.0, 2000)
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    labels = (rng.uniform(size=2000) > confidence).astype(int)
    sundman.plot.reliability(ax, probabilities, labels, bins=10, label="calibrated")
    shown = np.asarray(ax.collections[-1].get_offsets())
    found = sundman.metrics.reliability(probabilities, labels, bins=10)
    held = found.fraction > 0
    np.testing.assert_allclose(shown[:, 0], found.confidence[held])
    np.testing.assert_allclose(shown[:, 1], found.accuracy[held])
    assert np.abs(shown[:, 0] - shown[:, 1]).max() < 0.1


def test_colors_rise_in_lightness():
    rgb = sundman.plot.colors()(np.linspace(0, 1, 20))[:, :3]
    assert (np.diff(rgb @ [0.299, 0.587, 0.114]) > 0).all()
