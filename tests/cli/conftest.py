"""The installed command in processes of their own, and its entry point in this one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pytest

COMMAND = Path(sys.executable).with_name("sundman")
_CACHE = ("jax_compilation_cache_dir", "jax_enable_compilation_cache")
_CACHE += ("jax_persistent_cache_min_compile_time_secs",)
_CACHE += ("jax_persistent_cache_min_entry_size_bytes",)


@pytest.fixture(scope="session")
def shell(tmp_path_factory):
    """Run ``sundman ARGUMENTS`` with a compilation cache that the session shares."""
    cache = tmp_path_factory.mktemp("cache")
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "COLUMNS": "200"}
    for name in ("SUNDMAN_DATA_DIR", "SUNDMAN_DEBUG", "JAX_COMPILATION_CACHE_DIR"):
        environment.pop(name, None)

    def run(*arguments, start=False, **more):
        call = [str(COMMAND), *map(str, arguments)]
        given = {"env": environment, "text": True, **more}
        if start:  # a shell's background jobs begin with Ctrl-C ignored, and hand that on
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                return subprocess.Popen(
                    call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **given
                )
            finally:
                signal.signal(signal.SIGINT, before)
        return subprocess.run(call, capture_output=True, timeout=300, **given)

    return run


@pytest.fixture
def here(monkeypatch, tmp_path, capsys):
    """Run ``sundman ARGUMENTS`` in this process: exit code, standard output, standard error."""
    from sundman.cli.main import run

    before = {name: getattr(jax.config, name) for name in _CACHE}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SUNDMAN_DATA_DIR", raising=False)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)

    def command(*arguments):
        code = run([*map(str, arguments), "--no-cache"])
        told = capsys.readouterr()
        return code, told.out, told.err

    yield command
    for name, value in before.items():
        jax.config.update(name, value)
