"""Data: sets with named splits, and minibatches from memory or from a stream.

    data = sundman.data.digits()
    data.train.x, data.train.y, data.test.x, ...

``digits`` needs no file; the others are looked for in ``directory``, ``SUNDMAN_DATA_DIR`` and
the user's cache, and then downloaded.
"""

from sundman.data.base import Dataset, Split
from sundman.data.host import HostBatches
from sundman.data.images import digits, fashion_mnist, mnist
from sundman.data.tables import uci

__all__ = ["Dataset", "HostBatches", "Split", "digits", "fashion_mnist", "mnist", "uci"]
