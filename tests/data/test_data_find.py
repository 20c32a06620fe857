"""The search order, what is said when nothing is found, and downloads (from a local address)."""

import gzip
import hashlib
from pathlib import Path

import pytest

from sundman.data import files, sets
from sundman.data.files import Source, locate

NAMES = ("images", "labels")


def pack(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)  # else the names of the tests change by the second


def put(folder: Path, *names: str, content: bytes = b"here") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def source(tmp_path, nowhere, monkeypatch) -> Source:
    """A set whose mirrors are an address without anything, then a folder of this machine."""
    mirror = put(tmp_path / "mirror", "images.gz", "labels.gz", content=pack(b"here"))
    md5 = hashlib.md5(b"here").hexdigest()
    monkeypatch.setattr(files, "_checksums", lambda: {f"toys/{name}": md5 for name in NAMES})
    dead = (tmp_path / "dead").as_uri()
    return Source("toys", (dead, mirror.as_uri()), packed=True)


def test_order(source, nowhere, tmp_path, monkeypatch):
    cache = put(nowhere / "toys", *NAMES)
    variable = put(tmp_path / "variable" / "toys", *NAMES)
    given = put(tmp_path / "given" / "toys", *NAMES)
    assert locate(source, NAMES) == {name: cache / name for name in NAMES}
    monkeypatch.setenv("SUNDMAN_DATA_DIR", str(variable.parent))
    assert locate(source, NAMES) == {name: variable / name for name in NAMES}
    assert locate(source, NAMES, given.parent) == {name: given / name for name in NAMES}
    assert locate(source, NAMES, str(given)) == {name: given / name for name in NAMES}


def test_a_place_must_have_every_file(source, nowhere, tmp_path):
    put(tmp_path / "given" / "toys", "images")
    cache = put(nowhere / "toys", *NAMES)
    assert locate(source, NAMES, tmp_path / "given")["images"] == cache / "images"


def test_files_of_another_folder_are_not_taken(source, tmp_path):
    other = put(tmp_path / "others", *NAMES)
    with pytest.raises(FileNotFoundError):
        locate(source, NAMES, other, download=False)


def test_plain_or_gzipped(source, nowhere):
    folder = put(nowhere / "toys", "images", "labels.gz")
    assert locate(source, NAMES) == {"images": folder / "images", "labels": folder / "labels.gz"}


def test_the_message_says_where_and_how(source, nowhere, tmp_path, monkeypatch):
    given = put(tmp_path / "given")
    with pytest.raises(FileNotFoundError) as raised:
        locate(source, NAMES, given, download=False)
    text = str(raised.value)
    assert f"directory: {given / 'toys'} has no images, labels" in text
    assert "SUNDMAN_DATA_DIR: not set" in text
    assert f"the cache: {nowhere / 'toys'} has no images, labels" in text
    assert "download=False" in text
    assert "directory= or SUNDMAN_DATA_DIR" in text
    assert source.mirrors[0] in text
    monkeypatch.setenv("SUNDMAN_DATA_DIR", str(given))
    with pytest.raises(FileNotFoundError, match=f"SUNDMAN_DATA_DIR: {given}/toys has no"):
        locate(source, NAMES, download=False)


def test_a_directory_that_is_none(source, tmp_path):
    with pytest.raises(FileNotFoundError, match="typo' is not a directory"):
        locate(source, NAMES, tmp_path / "typo")


def test_download_goes_to_the_cache_and_is_announced(source, nowhere, capsys):
    put(nowhere / "toys", "labels")
    paths = locate(source, NAMES)
    assert gzip.decompress(paths["images"].read_bytes()) == b"here"
    assert sorted(p.name for p in (nowhere / "toys").iterdir()) == ["images.gz", "labels"]
    told = capsys.readouterr().err
    assert f"downloading {source.mirrors[1]}/images.gz to {nowhere / 'toys'}" in told
    assert "labels" not in told
    assert locate(source, NAMES) == paths
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (pack(b"there"), "wrong checksum"),
        (pack(b"here")[:-4], "truncated or corrupt"),
    ],
)
def test_a_bad_download_is_not_kept(source, nowhere, tmp_path, content, words):
    put(tmp_path / "mirror", "images.gz", content=content)
    with pytest.raises(FileNotFoundError, match=words):
        locate(source, NAMES)
    assert not nowhere.exists()


def test_a_download_is_bounded(source, nowhere, monkeypatch):
    """As it comes, and unpacked."""
    monkeypatch.setattr(files, "_MOST_BYTES", 3)
    with pytest.raises(FileNotFoundError, match="it has more than 3 bytes"):
        locate(source, NAMES)
    monkeypatch.setattr(files, "_MOST_BYTES", len(pack(b"here")))
    with pytest.raises(ValueError, match="it unpacks to more than 24 bytes"):
        files.unpack(pack(b"here" * 100), "here")
    assert not nowhere.exists()


def test_every_address_is_https_and_every_file_has_a_checksum():
    images = {sets.MNIST: (*sets._TRAIN, *sets._TEST), sets.FASHION_MNIST: sets._TEST}
    tables = dict.fromkeys(map(sets.table_source, sets.TABLES), ("data.txt", "index_train_19.txt"))
    for source, names in {**images, **tables}.items():
        assert all(mirror.startswith("https://") for mirror in source.mirrors)
        assert all(len(source.md5(name)) == 32 for name in names)


def test_no_network_is_a_short_message(source, nowhere):
    unreachable = Source("toys", ("http://localhost:9/toys",))
    with pytest.raises(FileNotFoundError, match=r"localhost:9/toys/images: .*refused") as raised:
        locate(unreachable, NAMES)
    assert len(str(raised.value).splitlines()) < 10
    assert raised.value.__cause__ is None


def test_a_failed_write_leaves_nothing(source, nowhere, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(FileNotFoundError, match="no space left"):
        locate(source, NAMES)
    assert list((nowhere / "toys").iterdir()) == []


@pytest.mark.parametrize("value", ["", "relative/path"])
def test_cache_in_the_home_directory(monkeypatch, value):
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert files.cache_directory() == Path.home() / ".cache" / "sundman"
