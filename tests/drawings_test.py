"""The committed pictures are what tools/draw_schedules draws."""
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRAID = str(pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid")
# Variables that an outer launch may have set.
DROPPED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "BRAID_PROGRESS", "COLUMNS")


class Drawings(unittest.TestCase):
    def test_committed_pictures_are_up_to_date(self):
        with tempfile.TemporaryDirectory() as folder:
            env = {name: value for name, value in os.environ.items() if name not in DROPPED} | {"BRAID": BRAID, "OUT": folder}
            done = subprocess.run([ROOT / "tools/draw_schedules"], env=env, capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            drawn = {path.relative_to(folder): path.read_text() for path in sorted(pathlib.Path(folder).rglob("*.*"))}
        self.assertGreaterEqual(len(drawn), 16)
        for name, text in drawn.items():
            with self.subTest(name=str(name)):
                self.assertEqual((ROOT / "docs/images" / name).read_text(), text, "run tools/draw_schedules")


if __name__ == "__main__":
    unittest.main()
