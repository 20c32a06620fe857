"""Units: the learning rates of deep learning in the physical time of the samplers.

A learning rate h on the mean loss U/N, N rows, is the time

    dt = h / N          without momentum
    dt = sqrt(h / N)    with momentum, h being the learning rate of SGD with momentum

and a squared gradient of the mean loss is N^2 times smaller than one of U. Nothing else knows this.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.core import Tracer

from sundman import check
from sundman.value import Number, Value


def time_step(rate: Number, size: int, *, kinetic: bool) -> Number:
    """The physical time of a learning rate on the mean loss of ``size`` rows."""
    share = rate / size
    if not kinetic:
        return share
    return jnp.sqrt(share) if isinstance(share, Tracer) else share**0.5


def learning_rate(dt: Number, size: int, *, kinetic: bool) -> Number:
    """The learning rate on the mean loss of ``size`` rows of a physical time."""
    return (dt * dt if kinetic else dt) * size


def monitor_scale(omega: Number, size: int, s: float = 2.0, *, power: float = 2.0) -> Number:
    """The scale of q^(s/2) of U that is ``omega`` for q of the mean loss.

    Args:
      omega: the scale on the mean loss.
      size: N, the number of rows.
      s: the exponent of the clock.
      power: q grows like N to this power: 2 for a squared gradient, 1 for an energy.

    Returns:
      omega N^(power s/2).
    """
    return omega * float(size) ** (power * s / 2.0)


class LearningRate(Value):
    """A step given as a learning rate on the mean loss, in place of a physical time.

        sundman.sample(posterior, sundman.samadams(sundman.LearningRate(2e-3), ...), ...)

    It becomes a time where the number of rows is known: in ``sample`` on a posterior, or by
    ``sampler.on_mean_loss(N)`` in a loop of your own. The scale ``omega`` of an adaptive clock is
    then that of the squared gradient of the mean loss, too; ``alpha`` stays a rate of physical
    time, so that the memory is easier given in steps, ``a = alpha dtau``.

    Args:
      rate: h, positive.
    """

    rate: Number

    def __post_init__(self) -> None:
        self._settle(rate=check.positive)

    def __repr__(self) -> str:
        """How to make it."""
        return f"sundman.LearningRate({self.rate!r})"

    def time_step(self, size: int, *, kinetic: bool) -> Number:
        """The physical time dt."""
        return time_step(self.rate, size, kinetic=kinetic)
