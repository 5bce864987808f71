"""What `cmake --install` puts in a prefix works from there: the program runs, and examples/custom_model builds against it and trains on 1 and 2 ranks."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import project

BUILD = pathlib.Path(os.environ.get("BRAID_BUILD_DIR", project.ROOT / "build")).resolve()
EXAMPLE = project.ROOT / "examples" / "custom_model"
TEST_HEADER = re.compile(r"^(test_\w+|\w+_test_support|testing|reference|scratch_directory|published_numbers)\.h$")
INCLUDE = re.compile(r'^#include "(braid/[^"]+)"', re.MULTILINE)
TIMEOUT_S = 600


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=TIMEOUT_S, **options)


def fill(text):
    """`text` on one line: CMake wraps messages at its own width."""
    return " ".join(text.split())


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="braid_install_")
        cls.addClassCleanup(cls.scratch.cleanup)
        first = pathlib.Path(cls.scratch.name, "first")
        done = run("cmake", "--install", BUILD, "--prefix", first)
        if done.returncode != 0:
            raise AssertionError(f"cmake --install failed:\n{done.stdout}")
        # The tests use another place than the one it was installed to: nothing may depend on the original one.
        cls.prefix = first.rename(pathlib.Path(cls.scratch.name, "prefix"))

    def configure(self, name, *options):
        """CMake on the example, in a build folder of its own."""
        folder = pathlib.Path(self.scratch.name, name)
        environment = {name: value for name, value in os.environ.items() if name != "BRAID_TORCH_DIR"}
        return folder, run("cmake", "-S", EXAMPLE, "-B", folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}", *options, env=environment)

    def test_program_runs(self):
        done = run(self.prefix / "bin" / "braid", "--help", cwd=self.scratch.name)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("Usage: braid COMMAND", done.stdout)

    def test_headers_are_complete_and_exclude_those_of_tests(self):
        include = self.prefix / "include"
        headers = sorted(include.rglob("*.h"))
        self.assertGreater(len(headers), 100)
        self.assertEqual([path.name for path in headers if TEST_HEADER.match(path.name)], [])
        absent = [f"{path.relative_to(include)} includes {included}, which is not installed"
                  for path in headers for included in INCLUDE.findall(path.read_text()) if not (include / included).is_file()]
        self.assertEqual(absent, [])

    def test_targets_are_the_folders_and_contain_no_build_path(self):
        targets = "".join(path.read_text() for path in (self.prefix / "lib/cmake/braid").glob("braidTargets*.cmake"))
        folders = re.findall(r"^[a-z]\S*", (project.ROOT / "braid/folders.txt").read_text(), re.MULTILINE)
        for folder in folders:
            self.assertRegex(targets, rf"add_library\(braid::{folder.replace('/', '_')} (STATIC|INTERFACE) IMPORTED\)")
        for path in (BUILD, project.ROOT, self.scratch.name):
            self.assertNotIn(str(path), targets)

    def test_custom_model_builds_and_trains(self):
        folder, done = self.configure("consumer", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        self.assertEqual(done.returncode, 0, done.stdout)
        done = run("cmake", "--build", folder)
        self.assertEqual(done.returncode, 0, done.stdout)
        losses = {}
        for ranks in (1, 2):
            done = run(self.prefix / "bin" / "braid", "launch", "--nproc_per_node", ranks, folder / "custom_model", cwd=self.scratch.name,
                       env={**os.environ, "OMP_NUM_THREADS": "1"})
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn(f"model: 17024 parameters in 9 layers (8 block, 1 loss), float32\nranks: mp 1 x sharding 1 x pp {ranks} x dp 1\n",
                          done.stdout)
            losses[ranks] = re.findall(r"^step (\d+): loss (\S+)$", done.stdout, re.MULTILINE)
        self.assertIn("bubble 4.0%", done.stdout)  # ZBH1's is (ranks - 1)(F + I - W) = 1 of 8 * 3 + 1
        self.assertEqual([step for step, _ in losses[1]], ["20", "40", "60"])
        self.assertEqual(losses[1], losses[2])
        self.assertLess(float(losses[1][-1][1]), 0.5)  # of 2 where nothing is learnt

        [entry] = json.loads((folder / "compile_commands.json").read_text())
        folders = re.findall(r"(?:-I|-isystem )(\S+)", entry["command"])
        self.assertIn(str(self.prefix / "include"), folders)
        self.assertNotIn(str(project.ROOT), folders)
        self.assertEqual([flag for flag in entry["command"].split() if flag.startswith("-W") or "pch" in flag or "GLOO" in flag], [])

    def test_missing_libtorch_is_named(self):
        _, done = self.configure("absent", "-DBRAID_TORCH_DIR=/nowhere/torch")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("libtorch was not found in BRAID_TORCH_DIR=/nowhere/torch: pass -DBRAID_TORCH_DIR=FOLDER with the folder `torch` of a "
                      "torch wheel", fill(done.stdout))

    def test_other_libtorch_is_rejected(self):
        torch = pathlib.Path(self.scratch.name, "torch")
        files = {"include/ATen/ATen.h": "", "lib/libtorch_cpu.so": "",
                 "include/torch/headeronly/version.h": "".join(f"#define TORCH_VERSION_{part} {number}\n" for part, number
                                                               in (("MAJOR", 1), ("MINOR", 13), ("PATCH", 0)))}
        for name, text in files.items():
            (torch / name).parent.mkdir(parents=True, exist_ok=True)
            (torch / name).write_text(text)
        _, done = self.configure("other", f"-DBRAID_TORCH_DIR={torch}")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(fill(done.stdout), r"braid was built with libtorch 2\.\d+\.\d+, but BRAID_TORCH_DIR=\S+ holds 1\.13\.0: pass -DBRAID")


if __name__ == "__main__":
    unittest.main()
