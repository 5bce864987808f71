"""tools/gpu_check's comparison of strands, on CPU ranks: started as on two GPUs and as on a shared one, the way out if NCCL rejects that, and
faults that it must find."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import project

BRAID = pathlib.Path(os.environ.get("BRAID_BUILD_DIR", project.ROOT / "build")).resolve() / "braid"
AT_TWO = ["mp 2", "mp 2, sequence parallel", "sharding 2, stage 1", "sharding 2, stage 2", "sharding 2, stage 3", "pp 2, 1F1B", "pp 2, ZBH1", "dp 2"]
AT_ONE = ["mp 1", "sharding 1, stage 1", "sharding 1, stage 2", "sharding 1, stage 3", "pp 1, 1F1B", "pp 1, ZBH1"]
ALONE = ["recomputation", "offload", "float16"]


class GpuStrands(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="braid_strands_")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def run_strands(self, gpus, braid=BRAID):
        done = subprocess.run([sys.executable, project.ROOT / "bench/gpu_strands.py", "--braid", braid, "--device", "cpu", "--gpus", str(gpus), "--out",
                               self.scratch / "out"], capture_output=True, text=True, timeout=1200, check=False)
        names = [found[1] for line in done.stdout.splitlines() if (found := re.match(r"(.+?)  .* s$", line))]
        return done, names

    def wrapper(self, lines):
        """A program that runs `lines` of shell and then braid."""
        path = self.scratch / "braid"
        path.write_text(f'#!/bin/bash\n{lines}\nexec {BRAID} "$@"\n')
        path.chmod(0o755)
        return path

    def test_every_strand_over_two_ranks(self):
        for gpus in (2, 1):
            with self.subTest(gpus=gpus):
                done, names = self.run_strands(gpus)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(names, AT_TWO + ALONE, done.stdout)

    def test_degree_1_if_nccl_rejects_two_ranks_on_one_gpu(self):
        rejects = 'if [ "${WORLD_SIZE:-1}" = 2 ]; then echo "NCCL error: Duplicate GPU detected : rank 0 and rank 1" >&2; exit 76; fi'
        done, names = self.run_strands(1, self.wrapper(rejects))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(names, AT_ONE + ALONE, done.stdout)
        self.assertIn("NCCL rejects two ranks on one GPU", done.stdout)

    def test_a_failing_run_is_shown_with_its_log(self):
        fails = 'if [ "${WORLD_SIZE:-1}" = 2 ]; then echo "cannot connect" >&2; exit 76; fi'
        done, names = self.run_strands(1, self.wrapper(fails))
        self.assertEqual((done.returncode, names), (1, []), done.stdout)
        self.assertRegex(done.stderr, r"(?s)mp 2: exit codes \[76, 76\], log .*cannot connect")

    def test_different_losses_are_found(self):
        # Two ranks train another model than one.
        done, _ = self.run_strands(1, self.wrapper('if [ "${WORLD_SIZE:-1}" = 2 ]; then set -- "$@" --seed 7; fi'))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"mp 2: a loss or gradient norm differs by \S+ of one rank's")


if __name__ == "__main__":
    unittest.main()
