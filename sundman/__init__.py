"""sundman: adaptive-stepsize Langevin samplers for JAX.

A sampler is an integrator times a clock, and an optax gradient transformation. The public names
are those of ``__init__.pyi``; each is imported when it is first used.
"""

import lazy_loader

__version__ = "0.3.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
