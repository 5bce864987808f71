"""Published bubble rates of 1F1B, ZB-H1 and ZB-H2 on 8 and 16 emulated ranks, in real time, within 0.01."""
import re
import subprocess
import sys
import pathlib
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import project


class Emulated(unittest.TestCase):
    def test_published_rates_in_real_time(self):
        done = subprocess.run([project.ROOT / "bench/emulated", "--shortest", "--ranks", "8", "16"], capture_output=True, text=True, timeout=1800, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [line for line in done.stdout.splitlines() if re.match(r"\| [\d.]+B ", line)]
        self.assertEqual(len(rows), 6, done.stdout)


if __name__ == "__main__":
    unittest.main()
