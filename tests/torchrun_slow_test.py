"""torchrun and Open MPI's mpirun themselves as the launchers. Under torchrun, ranks find rank 0 through the store that its agent hosts.
BRAID_PYTHON is a Python with torch."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRAID = str(pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid")
PYTHON = os.environ.get("BRAID_PYTHON", str(ROOT / ".deps" / "venv" / "bin" / "python"))


class OtherLaunchers(unittest.TestCase):
    def losses(self, launcher, out):
        words = ["pretrain", "--model_name_or_path", "braid/llama-tiny", "--synthetic_data", "1", "--max_seq_length", "32",
                 "--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "2", "--pipeline_parallel_degree", "2",
                 "--max_steps", "3", "--do_train", "--skip_export", "1", "--output_dir", str(out)]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run([*launcher, *words], env=env, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]

    def test_the_same_losses_as_from_braid_launch(self):
        with tempfile.TemporaryDirectory() as scratch:
            expected = self.losses([BRAID, "launch", "--nproc_per_node", "2"], pathlib.Path(scratch, "launch"))
            torchrun = [PYTHON, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", "2",
                        "--rdzv-backend", "static", "--master-addr", "127.0.0.1", "--master-port", "29731", BRAID]
            self.assertEqual(self.losses(torchrun, pathlib.Path(scratch, "torchrun")), expected)
            # The documented command: the agent names this machine as the master, by whatever name it has.
            standalone = [PYTHON, "-m", "torch.distributed.run", "--no-python", "--standalone", "--nproc-per-node", "2", BRAID]
            self.assertEqual(self.losses(standalone, pathlib.Path(scratch, "standalone")), expected)
            # Two slots, however few cores this machine has; root is not rejected.
            mpirun = ["mpirun", "--allow-run-as-root", "--host", "localhost:2", "--bind-to", "none", "-np", "2", BRAID]
            self.assertEqual(self.losses(mpirun, pathlib.Path(scratch, "mpirun")), expected)


if __name__ == "__main__":
    unittest.main()
