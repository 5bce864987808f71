"""Includes follow braid/folders.txt."""
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import project

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')
TORCH = re.compile(r"^(ATen|torch|c10|caffe2)/")


def read_table(path):
    """{folder: (kind, folders that it may include)}, in the file's order."""
    table = {}
    for line in path.read_text().splitlines():
        if re.match("[a-z]", line):
            folder, kind, *allowed = line.split()
            table[folder] = (kind, allowed)
    return table


def table_faults(table):
    """A folder may name only folders of earlier lines, so there can be no cycle."""
    faults, seen = [], set()
    for folder, (kind, allowed) in table.items():
        if kind not in ("plain", "torch"):
            faults.append(f"{folder}: kind {kind} is neither plain nor torch")
        for other in allowed:
            if other not in seen:
                faults.append(f"{folder} may include {other}, which no earlier line declares")
            elif kind == "plain" and table[other][0] == "torch":
                faults.append(f"{folder} is plain and may not include {other}, which includes torch headers")
        seen.add(folder)
    return faults


def folder_of(name, table):
    """The folder of braid/<folder>/<file>: the longest that has a line, else the first part of the path."""
    parts = name.split("/")[1:-1]
    for length in range(len(parts), 0, -1):
        if "/".join(parts[:length]) in table:
            return "/".join(parts[:length])
    return parts[0]


def is_test(name):
    return bool(re.search(r"(_test|_test_support)\.(h|cpp)$", name))


def include_faults(root, table):
    faults = []
    for path in project.files(".h", ".cpp", root=root / "braid"):
        name = path.relative_to(root).as_posix()
        parts = name.split("/")
        if len(parts) < 3:
            continue  # braid/main.cpp may include anything
        folder = folder_of(name, table)
        if folder not in table:
            faults.append(f"{name}: the folder is not in braid/folders.txt")
            continue
        kind, allowed = table[folder]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            included = found[1]
            if kind == "plain" and TORCH.match(included):
                faults.append(f"{name}:{number}: {folder} is plain and includes {included}")
            if included.startswith("braid/"):
                other = folder_of(included, table)
                is_own_room = is_test(name) and other.split("/")[0] == folder.split("/")[0]
                if other != folder and other not in allowed and not is_own_room:
                    faults.append(f"{name}:{number}: {folder} may not include {other}")
                if not (root / included).is_file():
                    faults.append(f"{name}:{number}: there is no {included}")
            elif (path.parent / included).is_file():
                faults.append(f"{name}:{number}: {included} must be included by its path from the root")
    return faults


class IncludeDirections(unittest.TestCase):
    def test_project(self):
        table = read_table(project.ROOT / "braid" / "folders.txt")
        self.assertGreater(len(table), 10)
        self.assertEqual(table_faults(table), [])
        self.assertEqual(include_faults(project.ROOT, table), [])

    def test_every_fault_is_found(self):
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            for folder in ("low", "high", "stray"):
                (root / "braid" / folder).mkdir(parents=True)
            (root / "braid/low/a.h").write_text('#include "braid/high/b.h"\n#include <ATen/ATen.h>\n#include <vector>\n')
            (root / "braid/high/b.h").write_text('#include "braid/low/a.h"\n#  include "braid/low/absent.h"\n')
            (root / "braid/high/b.cpp").write_text('#include "b.h"\n')
            (root / "braid/stray/c.h").write_text("")
            self.assertEqual(include_faults(root, {"low": ("plain", []), "high": ("torch", ["low"])}), [
                "braid/high/b.cpp:1: b.h must be included by its path from the root",
                "braid/high/b.h:2: there is no braid/low/absent.h",
                "braid/low/a.h:1: low may not include high",
                "braid/low/a.h:2: low is plain and includes ATen/ATen.h",
                "braid/stray/c.h: the folder is not in braid/folders.txt",
            ])

    def test_cycle_and_plain_on_torch_are_found(self):
        self.assertEqual(table_faults({"a": ("plain", ["b"]), "b": ("torch", ["a"]), "c": ("plain", ["b"]), "d": ("odd", [])}), [
            "a may include b, which no earlier line declares",
            "c is plain and may not include b, which includes torch headers",
            "d: kind odd is neither plain nor torch",
        ])


if __name__ == "__main__":
    unittest.main()
