"""IDX: what is written is read back, and a damaged file is named with what is wrong."""

import contextlib
import gzip
import hashlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sundman.data import files

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def pack(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)  # else the names of the tests change by the second


def encode(values: np.ndarray) -> bytes:
    header = struct.pack(">HBB", 0, CODES[values.dtype.str[1:]], values.ndim)
    sizes = struct.pack(f">{values.ndim}I", *values.shape)
    return header + sizes + values.astype(values.dtype.newbyteorder(">")).tobytes()


IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("form", [bytes, pack], ids=["plain", "gzip"])
def test_reads_what_was_written(tmp_path, kind, form):
    values = (np.arange(24) - 7).astype(kind).reshape(2, 3, 4)
    path = tmp_path / "values"
    path.write_bytes(form(encode(values)))
    found = files.read_idx(path)
    np.testing.assert_array_equal(found, values)
    assert found.dtype == values.dtype
    assert found.dtype.isnative
    assert found.flags.writeable


@pytest.mark.long
@given(arrays.arrays(np.int32, arrays.array_shapes(max_dims=4, min_side=0)))
def test_any_shape(values):
    np.testing.assert_array_equal(files.decode_idx(encode(values), "here"), values)


@given(st.binary(max_size=40))
def test_noise_raises_nothing_but_a_value_error(content):
    with contextlib.suppress(ValueError):
        assert isinstance(files.decode_idx(files.unpack(content, "here"), "here"), np.ndarray)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "expected an IDX header of 4 bytes, found 0"),
        (b"\0\0\x08", "of 4 bytes, found 3"),
        (b"\x01\0\x08\x01" + bytes(8), "not an IDX file: .* found 01 00 08 01"),
        (b"\0\0\x07\x01" + bytes(8), "a type out of 08, .* found 00 00 07 01"),
        (b"<html>404</html>", "not an IDX file"),
        (encode(IMAGES)[:10], "expected a header of 16 bytes for 3 axes, found 10"),
        (encode(IMAGES)[:-1], r"truncated: expected 24 bytes .*\(2, 3, 4\).*found 23"),
        (encode(IMAGES) + b"x", "too long: expected 24 bytes .* found 25"),
        (b"\0\0\x08\x02" + b"\xff" * 8, f"truncated: expected {(2**32 - 1) ** 2} bytes"),
        (pack(encode(IMAGES))[:-12], "gzip data is truncated or corrupt"),
        (pack(encode(IMAGES))[:-5] + bytes(5), "gzip data is truncated or corrupt"),
        (b"\x1f\x8b" + b"nonsense" * 4, "gzip data is truncated or corrupt"),
        (pack(encode(IMAGES)[:-1]), "expected 24 bytes .* found 23"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, content, words):
    path = tmp_path / "damaged.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"damaged\.gz: .*{words}"):
        files.read_idx(path)


@pytest.mark.parametrize("form", [bytes, pack], ids=["plain", "gzip"])
def test_checksum_is_of_the_unpacked_content(tmp_path, form):
    path = tmp_path / "images"
    path.write_bytes(form(encode(IMAGES)))
    right = hashlib.md5(encode(IMAGES)).hexdigest()
    np.testing.assert_array_equal(files.read_idx(path, md5=right), IMAGES)
    wrong = "0" * 32
    with pytest.raises(ValueError, match=rf"images: wrong checksum: .*{wrong}.*found {right}"):
        files.read_idx(path, md5=wrong)
