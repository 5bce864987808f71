"""The Python environment with PyPI's torch and transformers, in which the tests that compare braid with them run."""
import importlib.util
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEEDED = ("torch", "transformers", "safetensors", "numpy")


def enter(needed=NEEDED):
    """Returns in a Python that has `needed`: this one, or else BRAID_PYTHON (.deps/venv unless set), which restarts the same script.
    Exits with code 1 and the remedy if neither has them: a comparison that did not take place must not look like one that passed."""
    absent = [name for name in needed if importlib.util.find_spec(name) is None]
    if not absent:
        return
    python = os.environ.get("BRAID_PYTHON") or str(ROOT / ".deps/venv/bin/python")
    if os.path.exists(python) and os.path.abspath(python) != os.path.abspath(sys.executable):
        os.execv(python, [python, *sys.argv])
    sys.exit(f"{sys.argv[0]}: {python} has no {', '.join(absent)}: `make test-slow` installs them in .deps/venv, or set BRAID_PYTHON to a "
             "Python that has them")
