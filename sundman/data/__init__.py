"""Data: sets with named splits, and minibatches from memory or from a stream.

    data = sundman.data.digits()
    data.train.x, data.train.y, data.test.x, ...

``digits`` needs no file; the others are looked for in ``directory``, ``SUNDMAN_DATA_DIR`` and
the user's cache, and then downloaded.
"""

from functools import partial

from sundman.data.array_batches import ArrayBatches
from sundman.data.base import Dataset, Registered, Split, named, names, register, registered
from sundman.data.sets import TABLES as _TABLES
from sundman.data.sets import digits, fashion_mnist, fashion_pictures, mnist, uci
from sundman.data.streaming import HostBatches

__all__ = [
    "ArrayBatches",
    "Dataset",
    "HostBatches",
    "Registered",
    "Split",
    "digits",
    "fashion_mnist",
    "fashion_pictures",
    "mnist",
    "named",
    "names",
    "register",
    "registered",
    "uci",
]

register("digits", digits, note="Handwritten digits of 8 x 8 pixels.")
register("mnist", mnist, note="The usual test images.", folder="mnist")
register(
    "fashion-mnist",
    fashion_pictures,
    note="The 10,000 test pictures alone, split at random.",
    folder="fashion_mnist",
)
for _name in _TABLES:
    register(
        f"uci/{_name}",
        partial(uci, _name),
        note="Standard split {split} of 20; features and target standardised.",
        folder=f"uci/{_name}",
    )
