"""MPICH's mpiexec itself as the launcher."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRAID = str(pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid")


class Mpich(unittest.TestCase):
    def test_the_same_losses_as_from_braid_launch(self):
        with tempfile.TemporaryDirectory() as scratch:
            losses = {}
            for name, launcher in {"launch": [BRAID, "launch", "--nproc_per_node", "2"], "mpiexec": ["mpiexec.hydra", "-n", "2", BRAID]}.items():
                out = pathlib.Path(scratch, name)
                words = ["pretrain", "--model_name_or_path", "braid/llama-tiny", "--synthetic_data", "1", "--max_seq_length", "32",
                         "--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "2", "--pipeline_parallel_degree", "2",
                         "--max_steps", "3", "--do_train", "--skip_export", "1", "--output_dir", str(out)]
                done = subprocess.run([*launcher, *words], env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                losses[name] = [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]
                if name == "mpiexec":
                    self.assertIn("as the variables of mpiexec (PMI) say", done.stdout)
            self.assertEqual(losses["mpiexec"], losses["launch"])

    # In this mode mpiexec states a rank, but no size.
    def test_a_rank_without_a_size_is_an_error(self):
        with tempfile.TemporaryDirectory() as scratch:
            words = ["pretrain", "--model_name_or_path", "braid/llama-tiny", "--synthetic_data", "1", "--max_steps", "1", "--do_train",
                     "--output_dir", str(pathlib.Path(scratch, "run"))]
            done = subprocess.run(["mpiexec.hydra", "-pmi-port", "-n", "2", BRAID, *words], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn("in the environment states a rank, but nothing states how many ranks there are", done.stdout + done.stderr)
            self.assertFalse(pathlib.Path(scratch, "run").exists())


if __name__ == "__main__":
    unittest.main()
