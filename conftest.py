"""Tests run several at a time, so each process keeps to one thread of its own.

Most of their time goes into compiling, and two things make that cheaper.

- Compiled programs are shared by the processes and the tests of a session, and by later sessions:
  they are kept in ``.pytest_cache``. JAX finds a program there by the program itself, the version
  of the compiler and its flags, so one that has changed is compiled anew.
- The tests of CI compile with little optimisation, those of the laws with some: their programs run
  longer. The slow tests, and `make test-all`, which runs all of them, compile as users do.

Programs stay in memory, too, and a process would grow to gigabytes: they are dropped between files.
"""

import gc
import os
import shutil
import tempfile
from pathlib import Path

import hypothesis
import jax
import pytest

FLAGS = "--xla_cpu_multi_thread_eigen=false"
# Half of the time to compile, and about the same to run, at the sizes of these tests.
CHEAPER = " --xla_cpu_parallel_codegen_split_count=1"
if jax.__version_info__ < (0, 11):  # newer compilers stop at this flag
    CHEAPER += " --xla_cpu_use_fusion_emitters=false"
SHARED = "SUNDMAN_TEST_COMPILED"
MOST_BYTES = 2 * 1024**3
MOST_MEMORY = 3 * 1024**3  # of a test process


def _is_quick(config: pytest.Config) -> bool:
    return config.option.markexpr.startswith("not slow")


def _kept_programs(config: pytest.Config) -> Path:
    """The directory of compiled programs, emptied when it has grown too large."""
    if not hasattr(config, "cache"):  # -p no:cacheprovider
        directory = Path(tempfile.mkdtemp(prefix="sundman-tests-"))
        config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))
        return directory
    directory = config.cache.mkdir("compiled")
    if sum(file.stat().st_size for file in directory.iterdir()) > MOST_BYTES:
        shutil.rmtree(directory)
        directory.mkdir()
    return directory


def pytest_configure(config: pytest.Config) -> None:
    """Choose the compiler's settings, before anything is compiled."""
    quick = _is_quick(config)
    os.environ.setdefault("XLA_FLAGS", FLAGS + CHEAPER if quick else FLAGS)
    jax.config.update("jax_disable_most_optimizations", quick)
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = str(quick).lower()  # for other processes
    if SHARED not in os.environ:  # the first process; the others inherit it
        os.environ[SHARED] = str(_kept_programs(config))
    jax.config.update("jax_compilation_cache_dir", os.environ[SHARED])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


# Tracing makes millions of small objects that live on in caches: look through them less often.
gc.set_threshold(100_000, 50, 100)

hypothesis.settings.register_profile("sundman", deadline=None, max_examples=50, derandomize=True)
hypothesis.settings.load_profile("sundman")


@pytest.fixture
def key():
    return jax.random.key(20)


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def optimised(request):
    """Compile with the usual optimisations: for programs that run for long."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", _is_quick(request.config))


def _resident_memory() -> int:
    """What this process has in memory, in bytes; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module", autouse=True)
def _bounded_memory():
    yield
    if _resident_memory() > MOST_MEMORY:
        jax.clear_caches()
        gc.collect()
