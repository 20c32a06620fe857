"""The environment in which another process shares the compiled programs of the tests."""

import os

SHARED_PROGRAMS = {
    "JAX_COMPILATION_CACHE_DIR": os.environ["SUNDMAN_TEST_COMPILED"],  # set by conftest.py
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
