"""How commands end: exit codes, what is written when they are asked to stop or cannot go on, and that nothing half-written is left. Uses only
Python's standard library."""
import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRAID = str(pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid")
DROPPED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "BRAID_PROGRESS", "COLUMNS")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in DROPPED} | {"OMP_NUM_THREADS": "1"}
MODEL = ("--model_name_or_path braid/llama-tiny --num_hidden_layers 2 --hidden_size 32 --intermediate_size 64 --num_attention_heads 2 "
         "--num_key_value_heads 2 --head_dim 16 --vocab_size 384 --synthetic_data 1 --max_seq_length 16 --per_device_train_batch_size 1 "
         "--logging_steps 1 --do_train").split()
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
ENDLESS = 10**6


def braid(*words, **options):
    options.setdefault("capture_output", True)
    return subprocess.run([BRAID, *map(str, words)], stdin=subprocess.DEVNULL, text=True, errors="replace", env=ENVIRONMENT, timeout=120,
                          check=False, **options)


def limited(kind, size):
    """For preexec_fn: a limit of the system, such as RLIMIT_AS."""
    return lambda: resource.setrlimit(kind, (size, size))


class Endings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_folder = self.folder / "run"

    def pretrain(self, ranks=1, steps=ENDLESS, microbatches=2):
        launch = ("launch", "--nproc_per_node", ranks, "--log_dir", self.folder / "log") if ranks > 1 else ()
        return [str(word) for word in (BRAID, *launch, "pretrain", *MODEL, "--pipeline_parallel_degree", ranks, "--max_steps", steps,
                                       "--output_dir", self.run_folder, "--overwrite_output_dir", 1,
                                       "--gradient_accumulation_steps", microbatches)]

    @contextlib.contextmanager
    def started(self, command, **options):
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.STDOUT)
        with subprocess.Popen(command, text=True, errors="replace", env=ENVIRONMENT, **options) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def records(self):
        metrics = self.run_folder / "metrics.jsonl"
        return [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []

    def wait_for_steps(self, count, process):
        metrics = self.run_folder / "metrics.jsonl"
        while not metrics.exists() or metrics.read_bytes().count(b"\n") < count:
            self.assertIsNone(process.poll(), "the run has ended")
            time.sleep(0.02)

    def check_export(self):
        self.assertTrue((self.run_folder / "hf" / "config.json").exists())
        self.assertTrue(list((self.run_folder / "hf").glob("*.safetensors")))
        self.check_nothing_partial()

    def check_nothing_partial(self):
        self.assertEqual([path for path in self.folder.rglob("*") if path.name.endswith(".partial")], [])


class Signals(Endings):
    def test_a_signal_ends_a_run_after_its_step_with_the_model_and_its_own_code(self):
        for ranks, numbers in ((1, STOPS), (2, (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1))):
            for number in numbers:
                with self.subTest(number.name, ranks=ranks), self.started(self.pretrain(ranks)) as process:
                    self.wait_for_steps(2, process)
                    process.send_signal(number)
                    said = process.communicate(timeout=60)[0]
                    self.assertEqual(process.returncode, 128 + number, said)
                    self.assertRegex(said, rf"stopped by {number.name} after step \d+ of {ENDLESS}")
                    self.assertRegex(said, rf"step: {self.records()[-1]['global_step']},")
                    self.check_export()
                shutil.rmtree(self.folder / "run")

    def test_a_warning_that_reaches_all_processes_is_one_request(self):
        for number in (signal.SIGUSR1, signal.SIGTERM):
            with self.subTest(number.name), self.started(self.pretrain(2), start_new_session=True) as process:
                self.wait_for_steps(2, process)
                children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                self.assertEqual(len(children), 2)
                for pid in (*map(int, children), process.pid):
                    os.kill(pid, number)
                said = process.communicate(timeout=60)[0]
                self.assertEqual(process.returncode, 128 + number, said)
                self.check_export()
            shutil.rmtree(self.folder / "run")

    def test_a_second_signal_ends_at_once(self):
        # A step that takes long: only the second signal can end it in time.
        with self.started(self.pretrain(steps=2, microbatches=10**5)) as process:
            while not (self.run_folder / "metrics.jsonl").exists():
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            self.assertIsNone(process.poll(), "the first lets the step finish")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, -signal.SIGTERM)

    def test_a_complete_run_is_a_success_and_nohup_is_respected(self):
        ignoring = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with self.started(self.pretrain(steps=40), preexec_fn=ignoring) as process:
            self.wait_for_steps(1, process)
            process.send_signal(signal.SIGHUP)
            said = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, 0, said)
        self.assertEqual(len(self.records()), 40)

    def test_stopped_data_commands_leave_nothing(self):
        text = self.folder / "text.txt"
        text.write_bytes(b"x y z " * 200000)
        for number in STOPS:
            with self.subTest(number.name):
                out = self.folder / "out"
                with self.started([BRAID, "data", "prepare", "--tokenizer", "byte", "--output_prefix", str(out / "text"), "--input",
                                   *[str(text)] * 2000]) as process:
                    while not list(self.folder.glob("out/*.partial")):
                        self.assertIsNone(process.poll())
                    process.send_signal(number)
                    said = process.communicate(timeout=60)[0]
                self.assertEqual(process.returncode, 128 + number, said)
                self.assertEqual(said, f"braid data prepare: stopped by {number.name}; nothing was written\n")
                self.assertEqual(list(out.iterdir()), [])


class LostOutputs(Endings):
    def test_a_reader_that_leaves_does_not_end_a_run(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                read_end, write_end = os.pipe()
                os.close(read_end)
                with self.started(self.pretrain(ranks, steps=3), stdout=write_end, stderr=subprocess.PIPE) as process:
                    os.close(write_end)
                    said = process.communicate(timeout=60)[1]
                self.assertEqual(process.returncode, 74, said)
                self.assertIn("the reader of standard output closed it before the end", said)
                self.assertEqual(len(self.records()), 3)
                self.check_export()
                if ranks == 2:
                    self.assertIn("global_step: 3", (self.folder / "log" / "workerlog.0").read_text())
                shutil.rmtree(self.folder / "run")

    def test_closed_standard_descriptors(self):
        closed = lambda: (os.close(0), os.close(1))
        done = braid("schedule", "show", capture_output=False, stderr=subprocess.PIPE, preexec_fn=closed)
        self.assertEqual(done.returncode, 74, done.stderr)
        done = subprocess.run(self.pretrain(steps=2), stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, timeout=60, preexec_fn=closed, check=False)
        self.assertEqual(done.returncode, 74, done.stderr)
        self.assertIn("cannot write to standard output", done.stderr)
        self.assertEqual(len(self.records()), 2)
        self.check_export()

    def test_a_deleted_current_directory(self):
        gone = self.folder / "gone"
        gone.mkdir()
        done = braid("schedule", "show", preexec_fn=lambda: (os.chdir(gone), os.rmdir(gone)))
        self.assertEqual((done.returncode, done.stderr), (2, "braid: the current directory has been deleted; change to one that exists\n"))

    def test_an_output_directory_that_is_deleted_or_replaced_is_an_error(self):
        for ranks, replaced in ((1, False), (1, True), (2, False)):
            with self.subTest(ranks=ranks, replaced=replaced), self.started(self.pretrain(ranks)) as process:
                self.wait_for_steps(2, process)
                shutil.move(self.run_folder, self.folder / "moved")
                shutil.rmtree(self.folder / "moved")
                if replaced:
                    self.run_folder.mkdir()
                    (self.run_folder / "metrics.jsonl").touch()
                said = process.communicate(timeout=60)[0]
                self.assertEqual(process.returncode, 74, said)
                self.assertIn("metrics.jsonl: was deleted or replaced while the run wrote to it", said)
            shutil.rmtree(self.run_folder, ignore_errors=True)

    def test_a_log_directory_that_is_deleted_is_an_error_at_the_end(self):
        with self.started(self.pretrain(2, steps=200)) as process:
            self.wait_for_steps(1, process)
            shutil.rmtree(self.folder / "log")
            said = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 74, said)
        self.assertIn("workerlog.0: it was deleted", said)
        self.assertEqual(len(self.records()), 200)

    def test_outputs_that_cannot_be_created(self):
        plain = self.folder / "plain"
        plain.write_text("a file")
        text = self.folder / "text.txt"
        text.write_text("words and words " * 1000)
        model = ("pretrain", *MODEL, "--max_steps", 1)
        for words in ((*model, "--output_dir", plain / "run"), ("launch", "--log_dir", plain / "log", *model, "--output_dir", self.run_folder),
                      ("data", "prepare", "--input", text, "--tokenizer", "byte", "--output_prefix", plain / "text"),
                      ("data", "tokenizer", "--input", text, "--output", plain / "t.model"),
                      ("schedule", "export", "--out", plain / "x.csv"), ("schedule", "draw", "--out", plain / "x.svg"),
                      ("schedule", "compare", "--out", plain / "x.svg")):
            with self.subTest(" ".join(map(str, words[:2]))):
                done = braid(*words)
                self.assertEqual(done.returncode, 74, done.stdout + done.stderr)
                self.assertIn(str(plain), done.stdout + done.stderr)

    def test_a_full_disk_ends_with_74_and_leaves_nothing_half_written(self):
        text = self.folder / "text.txt"
        text.write_text("".join(f"word{i} and {i * i} more\n" for i in range(20000)))
        out = self.folder / "out"
        out.mkdir()
        # A file size limit is a disk that is full after so many bytes.
        for words, size in ((("pretrain", *MODEL, "--max_steps", 2, "--output_dir", out), 20000),
                            (("pretrain", *MODEL, "--max_steps", 200, "--output_dir", out, "--overwrite_output_dir", 1), 5000),
                            (("pretrain", *MODEL, "--max_steps", 2, "--profile_steps", "2,2", "--output_dir", out, "--overwrite_output_dir", 1), 2000),
                            (("data", "prepare", "--input", text, "--tokenizer", "byte", "--output_prefix", out / "text"), 100000),
                            (("data", "tokenizer", "--input", ROOT / "docs", "--vocab_size", 600, "--output", out / "t.model"), 1000),
                            (("schedule", "export", "--out", out / "x.csv"), 100), (("schedule", "draw", "--out", out / "x.svg"), 100),
                            (("schedule", "compare", "--out", out / "x.svg"), 100)):
            with self.subTest(" ".join(map(str, words[:2])), size=size):
                done = braid(*words, preexec_fn=limited(resource.RLIMIT_FSIZE, size))
                said = done.stdout + done.stderr
                self.assertEqual(done.returncode, 74, said)
                self.assertIn("File too large; free some space", said)
                self.check_nothing_partial()
                self.assertEqual([path.name for path in out.iterdir() if path.suffix in (".bin", ".idx", ".model", ".csv", ".svg")], [])

    def test_a_full_disk_for_the_logs(self):
        (self.folder / "log").mkdir()
        (self.folder / "log" / "workerlog.1").symlink_to("/dev/full")
        done = subprocess.run(self.pretrain(2, steps=2), capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False)
        self.assertEqual(done.returncode, 74, done.stdout + done.stderr)
        self.assertIn("workerlog.1: No space left on device", done.stderr)
        self.assertEqual(len(self.records()), 2)
        self.check_export()


if __name__ == "__main__":
    unittest.main()
