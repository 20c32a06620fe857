"""The UCI tables: shapes in every split, standardisation, damaged files."""

import hashlib

import numpy as np
import pytest

from sundman import data
from sundman.data import sets

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
