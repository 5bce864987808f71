"""The locations of the project's files, for the tests that read them."""
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
_NOT_OURS = {".git", ".deps", "out", "__pycache__"}


def files(*suffixes, root=ROOT):
    """The project's own files with these suffixes (all of them if none is given), sorted, without built or downloaded files."""
    found = []
    for folder, folders, names in os.walk(root):
        top = pathlib.Path(folder) == pathlib.Path(root)
        folders[:] = [name for name in folders if name not in _NOT_OURS and not (top and name.startswith("build"))]
        found += [pathlib.Path(folder, name) for name in names if not suffixes or pathlib.Path(name).suffix in suffixes]
    return sorted(found)
