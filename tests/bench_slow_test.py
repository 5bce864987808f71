"""The benchmark against PyTorch: every peer trains the same model with the same losses, and bench/run measures every strand and says so."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import project

sys.path.insert(0, str(project.ROOT / "bench"))
from measure import SMALL, Steps, check_losses, measure_peer
from strands import STRANDS


class Peers(unittest.TestCase):
    def test_all_variants_train_alike(self):
        """All start from the same weights, so PyTorch's own plans are checked against one another: a lost or doubled gradient changes losses.
        Sums are taken in other orders: some ulps (2^-24) of a loss near 6, in each of two steps."""
        expected, seen = None, set()
        for strand in STRANDS.values():
            for variant in strand.peer_variants:
                if (strand.peer, variant.name) in seen:
                    continue
                seen.add((strand.peer, variant.name))
                with self.subTest(strand.name, variant=variant.name):
                    losses = measure_peer(SMALL, "fp32", Steps(warmup=0, timed=3), strand, variant, timeout_s=300).losses
                    expected = expected or losses
                    self.assertEqual(len(losses), 3)
                    self.assertLess(losses[2], losses[0] - 0.01)
                    for mine, theirs in zip(losses, expected):
                        self.assertAlmostEqual(mine, theirs, delta=16 * 2.0 ** -24 * theirs)
        self.assertEqual(len(seen), 10 + 4 + 5)

    def test_losses_of_no_training_are_found(self):
        for losses in ([], [float("nan")], [0.1, 0.1]):
            with self.assertRaisesRegex(RuntimeError, "did not train"):
                check_losses(SMALL, losses, "peer")


class Run(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="braid_bench_test_")
        self.addCleanup(scratch.cleanup)
        self.report = pathlib.Path(scratch.name) / "report.json"

    def bench(self, *words):
        return subprocess.run([sys.executable, project.ROOT / "bench/run", *words], capture_output=True, text=True, timeout=1200, check=False)

    def test_every_strand_in_both_dtypes(self):
        done = self.bench("--quick", "--steps", "2", "--json", self.report)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        results = json.loads(self.report.read_text())["results"]
        self.assertEqual([(result["summary"]["strand"], result["summary"]["dtype"]) for result in results],
                         [(strand, dtype) for strand in STRANDS for dtype in ("fp32", "bf16")])
        for result in results:
            summary, (turn,) = result["summary"], result["rounds"]
            self.assertGreater(summary["ratio_median"], 0)
            self.assertEqual([len(turn[who]["step_seconds"]) for who in ("braid", "peer")], [2, 2])
        tables = subprocess.run([project.ROOT / "bench/result_tables", self.report], capture_output=True, text=True, check=True).stdout
        for strand in STRANDS.values():
            self.assertEqual(tables.count(f"| {strand.title} | "), 2, tables)

    def test_the_fastest_of_several_variants_competes(self):
        done = self.bench("--quick", "--steps", "1", "--strand", "sharding3", "--dtype", "fp32", "--peers", "fsdp/step", "fsdp/microbatch",
                          "--braid", "step", "microbatch", "--json", self.report)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        (result,) = json.loads(self.report.read_text())["results"]
        for who in ("braid", "peer"):
            tried = result["screening"][who]
            self.assertEqual(len(tried), 2)
            self.assertEqual(result["summary"][who], min(tried, key=lambda entry: entry["step_s"])["variant"])

    def test_misuse(self):
        for words, message in ((["--strand", "zero"], "invalid choice: 'zero'"), (["--rounds", "0"], "--rounds and --steps must be >= 1"),
                               (["--strand", "mp", "--peers", "1f1b/even"], "mp has no variant of PyTorch named 1f1b/even")):
            with self.subTest(words):
                done = self.bench(*words)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
