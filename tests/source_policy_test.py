"""What no file of the project may contain, how long a file may be, and which header a source belongs to."""
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import project

MAX_LINES = 500
# Spelled so that this file does not match itself.
FORBIDDEN = {
    re.compile(r"GTEST" r"_SKIP"): "a skipped test is a test that cannot fail",
    re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b"): "finish it, or file it",
    re.compile(r"-march" r"=native"): "the program must run on machines other than the one that built it",
    re.compile(r"(?<![\w.])/(work|root|home)" r"/\w"): "a machine-specific path",
}
TEXT = {".cpp", ".h", ".py", ".sh", ".cmake", ".md", ".txt", ".json", ".yaml", ".yml", ".toml", ""}
NO_HEADER = {"braid/main.cpp"}


def length_fault(lines):
    return f"{len(lines)} lines; at most {MAX_LINES} are allowed" if len(lines) > MAX_LINES else None


def header_fault(root, path):
    """A source begins with its own header; one of several parts, such as x_with_y.cpp, includes one of its folder's."""
    name = path.relative_to(root).as_posix()
    parts = name.split("/")
    if parts[0] != "braid" or path.suffix != ".cpp" or name in NO_HEADER or re.search("_(test|bench)$", path.stem):
        return None
    included = re.findall(r'^#include ["<]([^">]+)[">]', path.read_text(), re.MULTILINE)
    own = path.with_suffix(".h")
    if own.is_file():
        return None if own.relative_to(root).as_posix() in included[:1] else f"does not begin with its header {own.name}"
    if any(header.startswith(f"{parts[0]}/{parts[1]}/") for header in included):
        return None
    return f"has no header {own.name}, and includes no header of its folder"


def faults(root):
    found = []
    for path in project.files(root=root):
        if path.suffix not in TEXT and path.name != "Makefile":
            continue
        name = path.relative_to(root).as_posix()
        lines = path.read_text().splitlines()
        long = length_fault(lines) if path.name != "LICENSE" else None
        if long:
            found.append(f"{name}: {long}")
        for number, line in enumerate(lines, 1):
            found += [f"{name}:{number}: {pattern.search(line)[0]}: {why}" for pattern, why in FORBIDDEN.items() if pattern.search(line)]
        wrong_header = header_fault(root, path)
        if wrong_header:
            found.append(f"{name}: {wrong_header}")
    return found


class SourcePolicy(unittest.TestCase):
    def test_project(self):
        self.assertGreater(len(project.files(".cpp")), 50)
        self.assertEqual(faults(project.ROOT), [])

    def test_every_fault_is_found(self):
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            (root / "braid/x").mkdir(parents=True)
            (root / "build").mkdir()
            (root / "build/generated.cpp").write_text("// TO" "DO: not ours\n")
            (root / "braid/x/long.h").write_text("\n" * 501)
            (root / "braid/x/marks.md").write_text("a TO" "DO\nGTEST" "_SKIP()\nuse -march" "=native\n/home" "/me/file\nmkstemp " + "X" * 6 + "\n")
            (root / "braid/x/own.h").write_text("")
            (root / "braid/x/own.cpp").write_text("#include <vector>\n")
            (root / "braid/x/part.cpp").write_text('// A part.\n#include "braid/x/own.h"\n')
            (root / "braid/x/stray.cpp").write_text('#include "braid/y/own.h"\n')
            (root / "braid/x/own_test.cpp").write_text("#include <vector>\n")
            self.assertEqual([fault.split(": ", 1)[0] for fault in faults(root)], [
                "braid/x/long.h", "braid/x/marks.md:1", "braid/x/marks.md:2", "braid/x/marks.md:3", "braid/x/marks.md:4", "braid/x/own.cpp",
                "braid/x/stray.cpp",
            ])


if __name__ == "__main__":
    unittest.main()
