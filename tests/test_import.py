"""Importing sundman brings in nothing that only plots, examples or comparisons need."""

import subprocess
import sys

HEAVY = {"arviz", "blackjax", "equinox", "flax", "matplotlib", "rich", "sklearn", "torch"}


def test_importing_sundman_is_light():
    code = "import sys, sundman; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "sundman" in loaded
    assert not loaded & HEAVY


def test_what_a_run_may_need_is_imported_when_it_does():
    code = "import sys, sundman; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"scipy.special", "orbax", "zarr"}
