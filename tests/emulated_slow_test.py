"""Emulated ranks in real time: published bubble rates of 1F1B, ZB-H1 and ZB-H2, within 0.01, and W's in hand with tensor parallelism."""
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

    def test_weights_in_hand_hide_tensor_parallel_exchanges(self):
        done = subprocess.run([project.ROOT / "bench/emulated", "--tensor_parallel", "--shortest"], capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = {cells[2]: cells for cells in (re.split(r"\s*\|\s*", line) for line in done.stdout.splitlines() if line.startswith("| 40%"))}
        self.assertEqual(set(rows), {"1F1B", "ZBH1"}, done.stdout)
        _, _, _, without, with_them, simulated_without, simulated, _, _, count, _, _ = rows["ZBH1"]
        self.assertEqual((simulated_without, simulated, count), ("1.531", "1.397", "46"))
        self.assertLess(float(with_them), float(without), done.stdout)
        self.assertEqual(rows["1F1B"][9], "0", "a fused backward has its own W")


if __name__ == "__main__":
    unittest.main()
