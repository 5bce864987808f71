"""The Python environment with PyPI's torch and transformers, which the tests that compare braid with them go on in."""
import importlib.util
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEEDED = ("torch", "transformers", "safetensors", "numpy")


def enter():
    """Returns in a Python that has NEEDED: this one, or else BRAID_PYTHON (.deps/venv unless set), which starts the same script anew.
    Ends with exit code 1 and the cure where neither has them: a comparison that did not take place must not look like one that passed."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if not absent:
        return
    python = os.environ.get("BRAID_PYTHON") or str(ROOT / ".deps/venv/bin/python")
    if os.path.exists(python) and os.path.abspath(python) != os.path.abspath(sys.executable):
        os.execv(python, [python, *sys.argv])
    sys.exit(f"{sys.argv[0]}: {python} has no {', '.join(absent)}: `make test-slow` installs them into .deps/venv, or let BRAID_PYTHON name "
             "a Python that has them")
