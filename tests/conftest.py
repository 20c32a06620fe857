"""Tests run several at a time, so each process keeps to one thread of its own."""

import os

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import hypothesis
import jax
import pytest

hypothesis.settings.register_profile("sundman", deadline=None, max_examples=50, derandomize=True)
hypothesis.settings.load_profile("sundman")


@pytest.fixture
def key():
    return jax.random.key(20)


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield
