"""Tests run several at a time, so each process keeps to one thread of its own.

Compiled programs are shared by the processes and the tests of one session: many tests compile the
same one.
"""

import atexit
import os
import shutil
import tempfile

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import hypothesis
import jax
import pytest

SHARED = "SUNDMAN_TEST_COMPILED"
if SHARED not in os.environ:  # the first process; the others inherit it
    os.environ[SHARED] = tempfile.mkdtemp(prefix="sundman-tests-")
    atexit.register(shutil.rmtree, os.environ[SHARED], ignore_errors=True)
jax.config.update("jax_compilation_cache_dir", os.environ[SHARED])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

hypothesis.settings.register_profile("sundman", deadline=None, max_examples=50, derandomize=True)
hypothesis.settings.load_profile("sundman")


@pytest.fixture
def key():
    return jax.random.key(20)


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield
