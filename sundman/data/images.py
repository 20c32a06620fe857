"""Images to classify: scikit-learn's digits, MNIST, and Fashion-MNIST to be surprised by.

LeCun, Bottou, Bengio, Haffner (1998), Gradient-based learning applied to document recognition.
Xiao, Rasul, Vollgraf (2017), Fashion-MNIST, arXiv:1708.07747.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sundman import check
from sundman._optional import needs_extra
from sundman.data.base import Dataset, Split, shuffled
from sundman.data.files import Source, locate, read_idx

MNIST = Source(
    "mnist",
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    packed=True,
)
FASHION_MNIST = Source(
    "fashion_mnist",
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    ),
    packed=True,
)
_TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
_TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_VALIDATION_POINTS = 10_000
_SPLIT_SEED = 0


def digits(validation: float = 0.0, test: float = 0.2, seed: int = 0) -> Dataset:
    """1,797 handwritten digits of 8 x 8 pixels in [0, 1], which ship with scikit-learn.

    ``validation`` and ``test`` are the fractions set apart, at random by ``seed``.

    Args:
      validation: the fraction set apart to tune by.
      test: the fraction set apart to be judged by.
      seed: of the split.

    Returns:
      The data set; ``validation`` is None if nothing is set apart for it.
    """
    check.not_negative(validation=validation)
    check.positive(test=test)
    check.count("seed", seed, least=0)
    if not validation + test < 1:
        raise ValueError(
            f"validation and test must leave something to train on, got validation={validation!r} "
            f"and test={test!r}"
        )
    with needs_extra("data", "the digits data set"):
        from sklearn.datasets import load_digits
    pixels, labels = (np.asarray(part) for part in load_digits(return_X_y=True))
    images = Split((pixels / 16).astype(np.float32), labels.astype(np.int32))
    order = shuffled(len(labels), seed)
    ends = np.cumsum([round(len(labels) * test), round(len(labels) * validation)])
    tested, validated, trained = np.split(order, ends)
    return Dataset(
        name="digits",
        train=_take(images, trained),
        validation=_take(images, validated) if len(validated) else None,
        test=_take(images, tested),
        classes=10,
    )


def mnist(directory: str | Path | None = None, *, download: bool = True) -> Dataset:
    """70,000 handwritten digits of 28 x 28 pixels in [0, 1], flat; the files' md5 is verified.

    The 60,000 training images are split, at random by the fixed seed 0, into 50,000 to train on
    and 10,000 for validation; the 10,000 test images are the usual ones.
    """
    paths = locate(MNIST, _TRAIN + _TEST, directory, download=download)
    md5 = {name: MNIST.md5(name) for name in paths}
    known = _images(*(read_idx(paths[name], md5=md5[name]) for name in _TRAIN))
    order = shuffled(len(known.y), _SPLIT_SEED)
    return Dataset(
        name="mnist",
        train=_take(known, order[_VALIDATION_POINTS:]),
        validation=_take(known, order[:_VALIDATION_POINTS]),
        test=_images(*(read_idx(paths[name], md5=md5[name]) for name in _TEST)),
        classes=10,
    )


def fashion_mnist(directory: str | Path | None = None, *, download: bool = True) -> Dataset:
    """10,000 pictures of clothes in the format of MNIST, all in ``test``; ``train`` is empty.

    They are there to see what a network trained on digits says about what is none. Any IDX files
    of these names will do; only a download is held to the published checksum.
    """
    paths = locate(FASHION_MNIST, _TEST, directory, download=download)
    images, labels = (read_idx(paths[name]) for name in _TEST)
    if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{paths[_TEST[0]]}: expected images of 28 x 28 pixels and as many labels, found "
            f"images of shape {images.shape} and labels of shape {labels.shape}"
        )
    test = _images(images, labels)
    return Dataset(name="fashion_mnist", train=_take(test, np.arange(0)), test=test, classes=10)


def fashion_pictures(directory: str | Path | None = None, *, download: bool = True) -> Dataset:
    """The pictures of :func:`fashion_mnist`, a fifth of them to test on, at random."""
    known = fashion_mnist(directory, download=download).test
    tested, trained = np.split(shuffled(len(known.y), _SPLIT_SEED), [len(known.y) // 5])
    return Dataset(
        name="fashion-mnist",
        train=_take(known, trained),
        test=_take(known, tested),
        classes=10,
    )


def _images(images: NDArray[np.generic], labels: NDArray[np.generic]) -> Split:
    pixels = images.reshape(len(images), -1).astype(np.float32) / np.float32(255)
    return Split(pixels, labels.astype(np.int32))


def _take(split: Split, points: NDArray[np.intp]) -> Split:
    return Split(split.x[points], split.y[points])
