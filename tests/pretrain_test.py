"""The main job with real processes: the script of PaddleNLP users, every way in which a run can end, and what it leaves behind."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRAID = str(pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid")
TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind. " * 40

# A model small enough for a test, as overrides of a preset.
SMALL = ("--num_hidden_layers 4 --hidden_size 32 --intermediate_size 64 --num_attention_heads 2 --num_key_value_heads 2 "
         "--head_dim 16 --vocab_size 384").split()


def environment():
    env = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")}
    env["OMP_NUM_THREADS"] = "1"
    return env


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children(pid):
    try:
        return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds} s")


class Pretrain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory()
        corpus = pathlib.Path(cls.shared.name) / "corpus"
        corpus.mkdir()
        for i in range(30):
            (corpus / f"{i}.txt").write_text(f"Document {i}. " + TEXT)
        cls.data = pathlib.Path(cls.shared.name) / "data"
        subprocess.run([BRAID, "data", "prepare", "--input", str(corpus), "--output_prefix", str(cls.data / "text"),
                        "--tokenizer", "byte"], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.shared.cleanup()

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.scratch.name)

    def tearDown(self):
        self.scratch.cleanup()

    def command(self, ranks, *extra, steps=20, data=None):
        return [BRAID, "launch", "--nproc_per_node", str(ranks), "--log_dir", str(self.out / "log"), "pretrain",
                "--model_name_or_path", "braid/llama-tiny", *SMALL, "--input_dir", str(data or self.data),
                "--output_dir", str(self.out / "run"), "--max_seq_length", "32", "--per_device_train_batch_size", "1",
                "--gradient_accumulation_steps", "2", "--pipeline_parallel_degree", str(ranks), "--max_steps", str(steps),
                "--logging_steps", "1", "--split", "90,10,0", "--do_train", *extra]

    def run_command(self, command, **options):
        # The output of a byte-level model need not be UTF-8.
        return subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment(), timeout=240,
                              **options)

    def start(self, command):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.communicate()))
        return process

    def wait_for_step(self, step):
        metrics = self.out / "run" / "metrics.jsonl"
        wait_for(lambda: metrics.exists() and len(metrics.read_text().splitlines()) >= step, 90, f"step {step}")

    # The documented script, unchanged except for sizes small enough for a test (they come last).
    def test_the_script_of_paddlenlp_users(self):
        out, log = self.out / "O", self.out / "log"
        script = f"""launch --gpus 0,1,2,3 --log_dir {log} pretrain --model_type llama --model_name_or_path facebook/llama-7b
            --tokenizer_name_or_path byte --input_dir {self.data} --output_dir {out} --split 949,50,1 --max_seq_length 64
            --per_device_train_batch_size 1 --per_device_eval_batch_size 1 --gradient_accumulation_steps 16
            --use_flash_attention 0 --use_fused_rms_norm 0 --fp16 0 --fp16_opt_level O2 --scale_loss 1024
            --pipeline_parallel_degree 4 --tensor_parallel_degree 1 --pipeline_schedule_mode 1F1B --learning_rate 0.0001
            --min_learning_rate 0.00001 --max_steps 20 --save_steps 5000 --weight_decay 0.01 --warmup_ratio 0.01
            --max_grad_norm 1.0 --logging_steps 1 --dataloader_num_workers 1 --eval_steps 1000 --report_to none
            --disable_tqdm true --continue_training 0 --recompute 0 --recompute_granularity full --do_train --do_eval
            --device cpu --data_impl mmap --enable_auto_parallel 1 --sharding_parallel_degree 1 --sharding stage1"""
        done = self.run_command([BRAID, *script.split(), *SMALL])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in range(4):
            text = (log / f"workerlog.{rank}").read_text()
            losses = re.findall(r"loss: (\d+\.\d{8}), learning_rate: \S+, global_step: (\d+),", text)
            self.assertEqual([int(step) for _, step in losses], list(range(1, 21)), f"rank {rank}")
            for key in ("interval_runtime", "interval_samples_per_second", "interval_tokens_per_second_per_device",
                        "interval_steps_per_second", "max_memory_allocated", "max_memory_reserved", "grad_norm", "eta"):
                self.assertIn(f"{key}: ", text)
            self.assertIn("eval_loss: ", text)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["type"] for line in lines], ["train"] * 20 + ["eval"])
        self.assertAlmostEqual(lines[0]["loss"], 5.95, delta=0.3)  # log(384) for untrained weights
        self.assertIn("has no effect", (log / "workerlog.0").read_text(), "settings without effect are named")
        generated = self.run_command([BRAID, "generate", "--model", str(out / "hf"), "--tokenizer", "byte", "--prompt",
                                      "The quick", "--max_new_tokens", "8"])
        self.assertEqual(generated.returncode, 0, generated.stderr)
        self.assertTrue(generated.stdout.startswith("The quick"))

    def test_the_same_losses_with_torchruns_and_mpiruns_variables(self):
        expected = None
        for kind in ("torchrun", "mpirun"):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = str(probe.getsockname()[1])
            ranks = []
            for rank in range(2):
                env = environment() | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                if kind == "torchrun":
                    env |= {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"}
                else:
                    env |= {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2",
                            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
                command = self.command(2, "--overwrite_output_dir", "1", steps=3)
                ranks.append(subprocess.Popen([BRAID, *command[command.index("pretrain"):]], env=env, text=True,
                                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            texts = [process.communicate(timeout=120)[0] for process in ranks]
            self.assertEqual([process.returncode for process in ranks], [0, 0], "\n".join(texts))
            losses = [json.loads(line)["loss"] for line in (self.out / "run" / "metrics.jsonl").read_text().splitlines()]
            expected = expected or losses
            self.assertEqual(losses, expected)

    def test_a_killed_rank_ends_all_ranks_within_five_seconds_and_is_named(self):
        process = self.start(self.command(4, steps=100000))
        self.wait_for_step(3)
        ranks = children(process.pid)
        self.assertEqual(len(ranks), 4)
        begin = time.monotonic()
        os.kill(ranks[2], signal.SIGKILL)
        output = process.communicate(timeout=60)[0]
        self.assertLess(time.monotonic() - begin, 5.0)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL, output)
        self.assertRegex(output, r"rank 2 .*SIGKILL")
        wait_for(lambda: not any(alive(rank) for rank in ranks), 5, "the end of all ranks")

    def test_no_orphans_after_kill_9_of_the_launcher(self):
        process = self.start(self.command(2, steps=100000))
        self.wait_for_step(2)
        ranks = children(process.pid)
        self.assertEqual(len(ranks), 2)
        process.kill()
        wait_for(lambda: not any(alive(rank) for rank in ranks), 5, "the end of all ranks")

    def test_ranks_wait_for_a_stopped_rank_no_longer_than_the_timeout_and_name_the_wait(self):
        process = self.start(self.command(2, "--dist_timeout", "3", steps=100000))
        self.wait_for_step(2)
        ranks = children(process.pid)
        os.kill(ranks[1], signal.SIGSTOP)
        output = process.communicate(timeout=60)[0]
        self.assertNotEqual(process.returncode, 0, output)
        # Depending on when the rank was paused: in a message of the schedule, or in the exchange at the end of the step.
        self.assertRegex(output, r"rank 0 \(pp 0\)(: all_gather over ranks 0, 1 failed after| waited) [34]\.\d s")
        wait_for(lambda: not any(alive(rank) for rank in ranks), 10, "the end of all ranks")

    def test_damaged_data_is_found_before_step_1(self):
        damaged = self.out / "damaged"
        cases = {"the file is truncated": lambda: (damaged / "text.bin").write_bytes((damaged / "text.bin").read_bytes()[:-10]),
                 "MMIDIDX": lambda: (damaged / "text.idx").write_bytes(b"X" + (damaged / "text.idx").read_bytes()[1:])}
        for expected, damage in cases.items():
            with self.subTest(expected):
                shutil.copytree(self.data, damaged)
                damage()
                done = self.run_command(self.command(2, data=damaged))
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(expected, done.stdout + done.stderr)
                self.assertFalse((self.out / "run" / "metrics.jsonl").exists())
                shutil.rmtree(damaged)
        done = self.run_command(["200" if word == "384" else word for word in self.command(2)])
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stdout + done.stderr, r"text\.bin.*256.*200")

    def test_a_dry_run_prints_the_plan_that_the_run_then_logs(self):
        sizes = ["pretrain", "--model_name_or_path", "braid/llama-tiny", *SMALL, "--max_seq_length", "32", "--per_device_train_batch_size", "1",
                 "--gradient_accumulation_steps", "2", "--pipeline_parallel_degree", "2"]
        dry = self.run_command([BRAID, *sizes, "--dry_run", "1"], cwd=self.out)
        self.assertEqual((dry.returncode, dry.stderr), (0, ""))
        plan = dry.stdout.splitlines()
        self.assertTrue(plan[0].startswith("model: ") and any(line.startswith("messages a step: ") for line in plan), dry.stdout)
        done = self.run_command(self.command(2, steps=2))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in range(2):
            logged = [line.split("] - ", 1)[-1] for line in (self.out / "log" / f"workerlog.{rank}").read_text().splitlines()]
            begin = logged.index(plan[0])
            self.assertEqual(logged[begin:begin + len(plan)], plan)

        # It plans without ranks, weights or data: what does not exist is not missed, and nothing is written.
        absent = [*sizes, "--continue_training", "0", "--input_dir", str(self.out / "absent"), "--output_dir", str(self.out / "unwritten")]
        report = self.run_command([BRAID, *absent, "--dry_run", "json", "--do_train", "--max_steps", "5"])
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertFalse((self.out / "unwritten").exists())
        ranks = json.loads(report.stdout)["ranks"]
        self.assertEqual(len(ranks), 2)
        for rank in ranks:
            memory = rank["memory_bytes"]
            self.assertEqual(sum(value for key, value in memory.items() if key != "sum"), memory["sum"])
            padding = memory["weights"] - 4 * rank["parameters"]  # each parameter begins a unit of 256 elements
            self.assertTrue(0 <= padding < 4 * 256 * 20, padding)

    def test_an_earlier_run_is_not_overwritten_by_default(self):
        command = self.command(1, "--skip_export", "1", steps=1)
        self.assertEqual(self.run_command(command).returncode, 0)
        before = (self.out / "run" / "metrics.jsonl").read_text()
        again = self.run_command(command)
        self.assertEqual(again.returncode, 2)
        self.assertIn("--overwrite_output_dir 1", again.stdout + again.stderr)
        self.assertEqual((self.out / "run" / "metrics.jsonl").read_text(), before)

    def test_a_run_leaves_a_record_of_itself(self):
        command = self.command(2, "--tokenizer_name_or_path", "byte", "--do_eval", "--eval_steps", "2", "--skip_export", "1", steps=3)
        self.assertEqual(self.run_command(command).returncode, 0)
        run = json.loads((self.out / "run" / "run.json").read_text())
        self.assertEqual((run["state"], run["steps"], run["machine"]["ranks"]), ("finished", 3, 2))
        records = [json.loads(line) for line in (self.out / "run" / "metrics.jsonl").read_text().splitlines()]
        losses = [record["loss"] for record in records if record["type"] == "train"]
        self.assertEqual(run["losses"]["train"]["final"], {"global_step": 3, "loss": losses[-1]})
        self.assertEqual(run["losses"]["train"]["best"]["loss"], min(losses))
        evaluations = [record["eval_loss"] for record in records if record["type"] == "eval"]
        self.assertEqual(run["losses"]["eval"]["final"]["loss"], evaluations[-1])
        self.assertEqual(run["options"]["max_steps"], 3)
        of = {suffix: "sha256:" + hashlib.sha256((self.data / f"text.{suffix}").read_bytes()).hexdigest()[:32] for suffix in ("bin", "idx")}
        self.assertEqual(run["fingerprints"], {str(self.data / f"text.{suffix}"): text for suffix, text in of.items()})

    def test_an_options_file_gives_the_same_run_and_flags_take_precedence(self):
        command = self.command(1, "--skip_export", "1", "--disable_tqdm", "1", steps=3)
        flags = command[command.index("pretrain") + 1:]
        self.assertEqual(self.run_command([BRAID, "pretrain", *flags]).returncode, 0)
        expected = (self.out / "run" / "metrics.jsonl").read_text().splitlines()
        values, i = {}, 0
        while i < len(flags):
            has_value = i + 1 < len(flags) and not flags[i + 1].startswith("--")
            values[flags[i][2:]] = flags[i + 1] if has_value else "1"
            i += 2 if has_value else 1
        values["max_steps"] = "1"
        yaml = self.out / "run.yaml"
        yaml.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items()))
        done = self.run_command([BRAID, "pretrain", str(yaml), "--max_steps", "3", "--overwrite_output_dir", "1"])
        self.assertEqual(done.returncode, 0, done.stderr)
        got = (self.out / "run" / "metrics.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(x)["loss"] for x in got], [json.loads(x)["loss"] for x in expected])


if __name__ == "__main__":
    unittest.main()
