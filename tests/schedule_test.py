"""`braid schedule` and `braid pretrain` with schedules from files, with real processes."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRAID = str(pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid")
# Variables that an outer launch may have set.
DROPPED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "BRAID_PROGRESS", "COLUMNS")

PRETRAIN = ("--model_name_or_path braid/llama-tiny --num_hidden_layers 2 --hidden_size 32 --intermediate_size 64 --num_attention_heads 2 "
            "--num_key_value_heads 2 --head_dim 16 --vocab_size 384 --synthetic_data 1 --max_seq_length 16 --per_device_train_batch_size 1 "
            "--gradient_accumulation_steps 4 --pipeline_parallel_degree 2 --max_steps 2 --logging_steps 1 --disable_tqdm 1 --skip_export 1 "
            "--do_train 1").split()


def braid(*words):
    env = {name: value for name, value in os.environ.items() if name not in DROPPED} | {"OMP_NUM_THREADS": "1"}
    return subprocess.run([BRAID, *map(str, words)], capture_output=True, text=True, env=env, timeout=120, check=False)


class Schedule(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "mine.csv"

    def succeed(self, *words):
        done = braid(*words)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def test_a_written_schedule_is_simulated_like_the_mode(self):
        which = ("--mode", "ZBVPP", "--pp", 3, "--micro", 6)
        self.succeed("schedule", "export", *which, "--out", self.file)
        times = ("--times", "1,1.1,0.8,0.05")
        said = self.succeed("schedule", "simulate", *which).splitlines()
        self.assertEqual(self.succeed("schedule", "simulate", "--mode", f"csv:{self.file}").splitlines()[1:], said[1:])
        self.assertNotEqual(self.succeed("schedule", "simulate", "--mode", f"csv:{self.file}", *times).splitlines()[1:], said[1:])

    def test_run_with_real_processes(self):
        # 10 ms actions that may be late by a second: the measurement then equals the plan, however busy the machine.
        said = self.succeed("schedule", "run", "--mode", "1F1B,ZBH1,ZBVPP", "--pp", 3, "--micro", 6, "--emulate", "0.01,0.01,0.01,0",
                            "--grace", 100, "--steps", 2, "--json")
        results = json.loads(said)
        self.assertEqual([result["schedule"] for result in results], ["1F1B", "ZBH1", "ZBVPP"])
        for result in results:
            self.assertAlmostEqual(result["step_time"], result["planned_step_time"], delta=1e-3)
            self.assertAlmostEqual(result["bubble_rate"], result["planned_bubble_rate"], delta=1e-2)
            self.assertGreaterEqual(result["interval_runtime"], 0.9 * result["planned_step_time"])
            self.assertEqual(len(result["max_memory_allocated"]), 3)
        # The time of (6 + 2) microbatches for 1F1B; ZBH1 saves the weight halves of 2 backwards.
        self.assertAlmostEqual(results[0]["planned_step_time"], 0.24, delta=1e-9)
        self.assertAlmostEqual(results[1]["planned_step_time"], 0.20, delta=1e-9)
        self.assertLess(results[2]["planned_step_time"], results[1]["planned_step_time"])

    def test_run_takes_all_modes_and_files(self):
        said = braid("schedule", "run", "--mode", "all", "--pp", 2, "--micro", 2, "--emulate", "0.001,0.001,0.001", "--steps", 1)
        self.assertEqual(said.returncode, 0, said.stderr)
        names = [line.split(":")[0] for line in said.stdout.splitlines()]
        self.assertEqual(names[:2] + names[-1:], ["FThenB", "1F1B", names[-1]])
        self.assertTrue(names[-1].startswith("auto ("), names)
        self.assertEqual(said.stderr.count("skipped: DualPipeV on 2 ranks needs at least 4 microbatches, got 2"), 1, said.stderr)
        self.file.write_text("0F0,0B0\n1F0,1B0\n")
        said = self.succeed("schedule", "run", "--mode", f"csv:{self.file}", "--emulate", "0.001,0.001,0.001")
        self.assertRegex(said, r"mine\.csv: interval_runtime: \d+\.\d{4}, .*step_time: .* \(planned 0\.0060\), bubble_rate: ")

    def test_a_damaged_file_is_rejected_before_anything_runs(self):
        self.file.write_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1X1\n")
        reason = r'mine\.csv, row 2, cell 4 \("1X1"\): write stage, type and microbatch'
        done = braid("schedule", "run", "--mode", f"csv:{self.file}", "--emulate", "1,1,1")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stderr, reason)
        self.assertNotIn("braid launch", done.stderr)
        done = self.pretrain(self.folder / "run", f"csv:{self.file}")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stdout + done.stderr, reason)
        self.assertFalse((self.folder / "run" / "metrics.jsonl").exists())

    def pretrain(self, output, mode, *extra):
        return braid("launch", "--nproc_per_node", 2, "--log_dir", output / "log", "pretrain", *PRETRAIN, "--output_dir", output,
                     "--pipeline_schedule_mode", mode, *extra)

    def losses(self, mode, *extra):
        output = self.folder / re.sub(r"\W", "", mode)
        done = self.pretrain(output, mode, *extra)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        records = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
        return output, [record["loss"] for record in records if record["type"] == "train"]

    def test_pretrain_takes_a_file_and_profiles_it(self):
        # An order that no mode has: some backwards whole, some split.
        self.file.write_text("0F0,0F1,0F2,0B0,0I1,0F3,0W1,0B2,0I3,0W3\n1F0,1B0,1F1,1I1,1F2,1W1,1B2,1F3,1B3\n")
        _, expected = self.losses("1F1B")
        self.assertEqual(len(expected), 2)
        output, losses = self.losses(f"csv:{self.file}", "--profile_steps", "1,2")
        self.assertEqual(losses, expected, "to the last bit")
        profile = output / "profile"
        for step in (1, 2):
            trace = json.loads((profile / f"step-{step}.trace.json").read_text())
            names = {event.get("name") for event in trace["traceEvents"]}
            computed = {name for name in names if re.fullmatch(r"[FBIW]\d", str(name))}
            self.assertEqual(computed, {"F0", "F1", "F2", "F3", "B0", "B2", "B3", "I1", "I3", "W1", "W3"})
            self.assertIn("<svg", (profile / f"step-{step}.svg").read_text()[:200])
            # The other commands accept the measured times.
            said = self.succeed("schedule", "simulate", "--mode", f"csv:{self.file}", "--times", f"file:{profile / f'step-{step}.times.json'}")
            self.assertRegex(said, r"step_time: \d")


if __name__ == "__main__":
    unittest.main()
