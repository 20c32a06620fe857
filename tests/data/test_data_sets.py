"""Digits, MNIST, Fashion-MNIST and the UCI tables: shapes, splits, checksums, damaged files."""

import hashlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from sundman import data
from sundman.data import files, sets
from sundman.data.base import shuffled
from sundman.data.files import locate
from sundman.data.sets import MNIST

needs_mnist = pytest.mark.parametrize("data_directory", ["mnist"], indirect=True)
needs_fashion = pytest.mark.parametrize("data_directory", ["fashion_mnist"], indirect=True)


def rows(*splits: data.Split) -> list[bytes]:
    """Each point as bytes, sorted, to compare sets of points."""
    return sorted(
        image.tobytes() + label.tobytes()
        for split in splits
        for image, label in zip(split.x, split.y, strict=True)
    )


def test_shuffle_is_fixed_for_good():
    order = shuffled(60_000, 0)
    assert order[:5].tolist() == [53924, 25556, 57691, 20554, 16026]
    np.testing.assert_array_equal(np.sort(order), np.arange(60_000))


def test_digits():
    digits = data.digits()
    assert digits.train.x.shape == (1438, 64)
    assert digits.test.x.shape == (359, 64)
    assert digits.validation is None
    assert digits.classes == 10
    assert digits.train.x.dtype == np.float32
    assert digits.train.y.dtype == np.int32
    assert (digits.train.x.min(), digits.train.x.max()) == (0, 1)
    assert set(digits.test.y) == set(range(10))
    assert repr(digits) == "Dataset(digits: 1438 train, 359 test; 64 features, 10 classes)"


def test_digits_splits_are_a_partition():
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    everything = data.Split((x / 16).astype(np.float32), y.astype(np.int32))
    parts = data.digits(validation=0.1, test=0.3, seed=4)
    assert parts.validation is not None
    assert (len(parts.validation.y), len(parts.test.y)) == (180, 539)
    assert rows(parts.train, parts.validation, parts.test) == rows(everything)
    other, again = data.digits(seed=5), data.digits(seed=5)
    assert not np.array_equal(parts.test.x[:100], other.test.x[:100])
    np.testing.assert_array_equal(again.test.x, other.test.x)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"validation": 0.5, "test": 0.5}, "something to train on, got validation=0.5 and test"),
        ({"validation": -0.1}, "validation=-0.1"),
        ({"test": 0.0}, "test=0.0"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_digits_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        data.digits(**arguments)


@pytest.mark.long
def test_importing_the_package_does_not_import_scikit_learn():
    code = "import sys, sundman.data, sundman.metrics; sys.exit('sklearn' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_digits_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'sundman\[data\]'"):
        data.digits()


@needs_mnist
def test_mnist(data_directory):
    mnist = data.mnist(data_directory)
    assert mnist.validation is not None
    sizes = [len(split.y) for split in (mnist.train, mnist.validation, mnist.test)]
    assert sizes == [50_000, 10_000, 10_000]
    for split in (mnist.train, mnist.validation, mnist.test):
        assert split.x.shape == (len(split.y), 784)
        assert split.x.dtype == np.float32
        assert (split.x.min(), split.x.max()) == (0, 1)
        assert set(split.y) == set(range(10))
    assert mnist.test.y[:5].tolist() == [7, 2, 1, 0, 4]


@needs_mnist
def test_mnist_split_is_a_partition_and_the_same_again(data_directory):
    mnist = data.mnist(data_directory)
    assert mnist.validation is not None
    name = "train-images-idx3-ubyte"
    pixels = files.read_idx(locate(MNIST, [name], data_directory, download=False)[name])
    seen = np.rint(np.concatenate([mnist.train.x, mnist.validation.x]) * 255).astype(np.uint8)
    assert sorted(map(bytes, seen)) == sorted(map(bytes, pixels.reshape(60_000, 784)))
    labels = np.concatenate([mnist.validation.y, mnist.train.y]).tobytes()
    assert hashlib.md5(labels).hexdigest() == "22850aec93723d4e769a4a00bd06d332"


@needs_mnist
def test_mnist_checksum(data_directory, tmp_path, nowhere):
    copy = shutil.copytree(data_directory / "mnist", tmp_path / "mnist")
    labels = copy / "t10k-labels-idx1-ubyte.gz"
    labels.chmod(0o644)
    labels.write_bytes((copy / "train-labels-idx1-ubyte.gz").read_bytes())
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte\.gz: wrong checksum"):
        data.mnist(tmp_path)


def test_mnist_missing(nowhere):
    with pytest.raises(FileNotFoundError, match="the data set mnist was not found"):
        data.mnist(download=False)


@needs_fashion
def test_fashion_mnist(data_directory):
    fashion = data.fashion_mnist(data_directory)
    assert fashion.test.x.shape == (10_000, 784)
    assert fashion.train.x.shape == (0, 784)
    assert (fashion.test.x.min(), fashion.test.x.max()) == (0, 1)
    assert np.bincount(fashion.test.y).tolist() == [1000] * 10


def test_fashion_mnist_of_another_shape(tmp_path, nowhere):
    folder = tmp_path / "fashion_mnist"
    folder.mkdir()
    images, labels = b"\0\0\x08\x03" + b"\0\0\0\x01" * 3, b"\0\0\x08\x01" + b"\0\0\0\x01"
    (folder / "t10k-images-idx3-ubyte").write_bytes(images + b"\1")
    (folder / "t10k-labels-idx1-ubyte").write_bytes(labels + b"\1")
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte: .* found .*\(1, 1, 1\)"):
        data.fashion_mnist(tmp_path)


SHAPES = {
    "yacht": (308, 6),
    "energy": (768, 8),
    "concrete": (1030, 8),
    "wine-quality-red": (1599, 11),
}

needs_uci = pytest.mark.parametrize("data_directory", ["uci"], indirect=True)


@needs_uci
@pytest.mark.parametrize("name", SHAPES)
def test_every_split(data_directory, name):
    points, features = SHAPES[name]
    table = np.loadtxt(data_directory / "uci" / name / "data.txt")
    targets = np.sort(table[:, features])
    for split in range(20):
        found = data.uci(name, split, data_directory)
        assert found.train.x.shape == (len(found.train.y), features)
        assert found.test.x.shape == (len(found.test.y), features)
        assert len(found.train.y) == round(points * 0.9)
        assert found.train.x.dtype == found.train.y.dtype == np.float32
        y = np.concatenate([found.train.y, found.test.y]) * found.y_scale + found.y_mean
        np.testing.assert_allclose(np.sort(y), targets, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(found.train.x.mean(axis=0, dtype=float), 0, atol=1e-6)
        np.testing.assert_allclose(found.train.x.std(axis=0, dtype=float), 1, atol=1e-6)
        assert found.train.y.std(dtype=float) == pytest.approx(1, abs=1e-6)


@needs_uci
def test_inputs_come_back(data_directory):
    found = data.uci("yacht", 7, data_directory)
    folder = data_directory / "uci" / "yacht"
    rows = np.loadtxt(folder / "index_test_7.txt", dtype=int)
    original = np.loadtxt(folder / "data.txt")[rows]
    np.testing.assert_allclose(
        found.test.x * found.x_scale + found.x_mean, original[:, :6], atol=1e-5
    )


@needs_uci
def test_wine_by_its_short_name(data_directory):
    assert data.uci("wine", 0, data_directory).name == "wine-quality-red"


@needs_uci
@pytest.mark.parametrize("name", SHAPES)
def test_checksums_are_those_of_the_files(data_directory, name):
    files = list((data_directory / "uci" / name).glob("*.txt"))
    listed = [file for file in files if file.name.startswith(("data", "index"))]
    assert len(listed) == 43
    for file in listed:
        md5 = hashlib.md5(file.read_bytes()).hexdigest()
        assert sets.table_source(name).md5(file.name) == md5


FILES = {
    "data.txt": "1 5 0.1 7\n2 5 0.1 8\n4 6 0.1 9\n\n",
    "index_features.txt": "0\n1\n2\n",
    "index_target.txt": "3\n",
    "index_train_0.txt": "1\n0\n",
    "index_test_0.txt": "2\n",
}


@pytest.fixture
def toy(tmp_path, nowhere):
    """A table of three rows under the name of yacht; ``toy(name=text)`` changes one file."""

    def write(**changed: str):
        folder = tmp_path / "uci" / "yacht"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            (folder / name).write_text(changed.get(name.removesuffix(".txt"), text))
        return tmp_path

    return write


def test_a_constant_column_is_centred(toy):
    found = data.uci("yacht", 0, toy())
    np.testing.assert_allclose(found.train.x, [[1, 0, 0], [-1, 0, 0]], atol=1e-7)
    np.testing.assert_allclose(found.test.x, [[5, 1, 0]], atol=1e-6)
    np.testing.assert_allclose(found.x_scale, [0.5, 1, 1])
    assert (found.y_mean, found.y_scale) == (7.5, 0.5)
    np.testing.assert_allclose(found.test.y, [3])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"data": ""}, r"data\.txt: .* empty file"),
        ({"data": "1 5 0.1 7\n2 5"}, r"data\.txt: expected rows of as many numbers"),
        ({"data": "1 5 x 7\n"}, r"data\.txt: "),
        ({"data": "1 5 nan 7\n" * 3}, r"data\.txt: expected finite"),
        ({"data": "1 5 0.1 7\n"}, r"index_train_0\.txt: expected numbers of rows from 0 to 0"),
        ({"index_test_0": "1"}, r"index_test_0\.txt: 1 of its rows are in the training set"),
        ({"index_test_0": "-1"}, r"index_test_0\.txt: .* found values from -1"),
        ({"index_test_0": "1.5"}, r"index_test_0\.txt"),
        ({"index_train_0": "0 0"}, r"index_train_0\.txt: expected each of the rows once"),
        ({"index_features": "0 4"}, r"index_features\.txt: expected numbers of columns"),
        ({"index_target": "2 3"}, r"index_target\.txt: expected one column"),
        ({"index_target": "1"}, r"index_target\.txt: .* found \[1\]"),
    ],
)
def test_a_damaged_file_is_named(toy, changed, words):
    with pytest.raises(ValueError, match=words):
        data.uci("yacht", 0, toy(**changed))


def test_bad_arguments(nowhere):
    with pytest.raises(ValueError, match="name='boston'"):
        data.uci("boston", 0)
    with pytest.raises(ValueError, match="0 to 19, got split=20"):
        data.uci("yacht", 20)
    with pytest.raises(TypeError, match=r"split=0\.0"):
        data.uci("yacht", 0.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(FileNotFoundError, match="uci/yacht was not found"):
        data.uci("yacht", 0, download=False)
