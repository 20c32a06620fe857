"""A target of one or two coordinates from its potential and its gradient, by quadrature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from sundman.targets.base import (
    Field,
    Floats,
    Gradient,
    Observable,
    Suggested,
    Target,
    Window,
    squared_gradient,
    virial,
)
from sundman.targets.quadrature import (
    Rule,
    Sampler,
    line_cells,
    line_sampler,
    plane_cells,
    plane_sampler,
    rule,
)

Box = Sequence[tuple[float, float]]


def by_quadrature(
    name: str,
    potential: Field,
    gradient: Gradient,
    observables: Mapping[str, Field],
    *,
    temperature: float,
    start: Sequence[float],
    box: Box,
    longest: float,
    cuts: Sequence[Sequence[float]] = ((), ()),
    least_window: Window | None = None,
    exact: Sampler | None = None,
    suggested: Suggested | None = None,
    published: Mapping[str, float] | None = None,
) -> Target:
    """Compute truth, window, cell masses and draws; add the observables U, grad2 and virial.

    Args:
      name: the target's name.
      potential: U, of positions of shape (dim, ...), in numpy and in jax.
      gradient: the components of grad U, in numpy.
      observables: functions of a position, in numpy and in jax.
      temperature: T.
      start: the first position.
      box: where exp(-U/T) is not negligible.
      longest: longest quadrature panel; cells of the sampling table are a quarter of it.
      cuts: where indicators among the observables jump, for each coordinate.
      least_window: what the plotting window must contain.
      exact: draws, when there is a better way than a table.
      suggested: steps for a first run.
      published: settings of SA-SGLD's clock, where its authors gave some.

    Returns:
      The target; its quadrature is done, its table of draws is made at the first draw.
    """
    dim = len(box)
    pieces = [
        [low, *(cut for cut in sorted(inner) if low < cut < high), high]
        for (low, high), inner in zip(box, cuts, strict=False)
    ]
    law = rule(potential, temperature, pieces, longest)
    truth = {key: law.mean(f) for key, f in observables.items()}
    truth |= {
        "U": law.mean(potential),
        "grad2": law.mean(lambda x: np.asarray(sum(np.square(part) for part in gradient(x)))),
        "virial": dim * temperature,
    }
    functions: dict[str, Observable] = dict(observables)
    functions |= {
        "U": potential,
        "grad2": squared_gradient(potential),
        "virial": virial(potential),
    }

    def density(x: Floats) -> Floats:
        return np.exp(-potential(x) / temperature - law.log_normalizer)

    def cells(*edges: Floats) -> Floats:
        clipped = [np.clip(e, *side) for e, side in zip(edges, box, strict=True)]
        return (line_cells if dim == 1 else plane_cells)(density, *clipped, longest=longest)

    if exact is None and dim == 1:
        exact = line_sampler(density, *box[0])
    elif exact is None:
        exact = plane_sampler(density, box, longest / 4)
    return Target(
        name=name,
        potential=potential,
        dim=dim,
        temperature=temperature,
        start=jnp.asarray(start, jnp.float32),
        observables=functions,
        truth=truth,
        window=_window(law, density, least_window),
        exact=exact,
        log_normalizer=law.log_normalizer,
        cells=cells,
        suggested=suggested,
        published=published or {},
    )


def _window(law: Rule, density: Callable[[Floats], Floats], least: Window | None) -> Window:
    """The central range of each coordinate and a margin; for a line, x and its density."""
    sides: list[tuple[float, float]] = []
    for axis in range(len(law.points)):
        low, high = law.central(axis)
        margin = 0.05 * (high - low)
        sides.append((low - margin, high + margin))
    if len(sides) == 1:
        sides.append((0.0, 1.1 * float(density(law.points).max())))
    if least is not None:
        sides = [
            (min(low, floor), max(high, ceiling))
            for (low, high), (floor, ceiling) in zip(sides, least, strict=True)
        ]
    return sides[0], sides[1]
