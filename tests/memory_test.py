"""Out of memory, wherever it comes up: exit code 71 and a sentence that says how much there is and what to lower. Uses only Python's standard
library."""
import os
import pathlib
import resource
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRAID = str(pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid")
DROPPED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "BRAID_PROGRESS", "COLUMNS")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in DROPPED} | {"OMP_NUM_THREADS": "1"}
MIB = 2**20
MODEL = ("--model_name_or_path braid/llama-tiny --num_hidden_layers 2 --hidden_size 256 --intermediate_size 512 --num_attention_heads 4 "
         "--num_key_value_heads 4 --head_dim 64 --vocab_size 16000 --synthetic_data 1 --max_seq_length 1024 --per_device_train_batch_size 4 "
         "--max_steps 1 --do_train").split()


def braid(*words, mib=None, kind=resource.RLIMIT_AS, threads=1):
    """braid with so much memory beyond what it takes to start."""
    limit = lambda: resource.setrlimit(kind, (mib * MIB, mib * MIB)) if mib else None
    return subprocess.run([BRAID, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          env=ENVIRONMENT | {"OMP_NUM_THREADS": str(threads)}, timeout=120, check=False, preexec_fn=limit)


def least_mib(kind):
    """What the program's libraries take: with less it cannot even print its version."""
    mib = 16
    while braid("--version", mib=mib, kind=kind).returncode != 0:
        mib += 8
    return mib


class OutOfMemory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.least = least_mib(resource.RLIMIT_AS)
        cls.least_data = least_mib(resource.RLIMIT_DATA)
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)

    def check(self, done, *remedies):
        said = done.stdout[-2000:] + done.stderr
        self.assertEqual(done.returncode, 71, said)
        line = next((line for line in said.splitlines() if "out of memory (" in line), "")
        self.assertRegex(line, r"^braid .*: out of memory \(.*(ulimit -[vd] allows|left).*\)", said)
        for remedy in remedies:
            self.assertIn(remedy, line)
        for unwanted in ("bug", "terminate", "frame #", "enforce"):
            self.assertNotIn(unwanted, said)

    def test_a_run_at_several_points(self):
        words = ("pretrain", *MODEL, "--output_dir", self.folder / "run", "--overwrite_output_dir", 1)
        for kind, sizes in ((resource.RLIMIT_AS, (self.least + 32, self.least + 64, self.least + 128, self.least + 256)),
                            (resource.RLIMIT_DATA, (self.least_data + 40, self.least_data + 150))):
            for mib in sizes:
                with self.subTest(kind=kind, mib=mib):
                    done = braid(*words, mib=mib, kind=kind)
                    self.check(done, "a tensor of ", "lower --per_device_train_batch_size or --max_seq_length")
        self.assertEqual(list(self.folder.rglob("*.partial")), [])

    def test_before_the_program_begins(self):
        for kind, least in ((resource.RLIMIT_AS, self.least), (resource.RLIMIT_DATA, self.least_data)):
            for mib in range(least - 16, least, 2):
                done = braid("--version", mib=mib, kind=kind)
                # The loader has no room for the libraries, their initialisers have none, or all is well.
                self.assertIn(done.returncode, (127, 71, 0), done.stderr)

    def test_of_one_rank_ends_the_run_with_its_code(self):
        done = braid("launch", "--nproc_per_node", 2, "pretrain", *MODEL, "--pipeline_parallel_degree", 2, "--gradient_accumulation_steps", 2,
                     "--output_dir", self.folder / "ranks", "--overwrite_output_dir", 1, mib=self.least_data + 100, kind=resource.RLIMIT_DATA)
        self.assertEqual(done.returncode, 71, done.stderr)
        self.assertRegex(done.stderr, r"braid pretrain, rank \d of 2: out of memory \(.*lower --per_device_train_batch_size")

    def test_no_room_for_threads(self):
        done = braid("pretrain", *MODEL, "--num_threads", 400, "--output_dir", self.folder / "threads", mib=self.least + 400)
        self.assertEqual(done.returncode, 71, done.stderr)
        self.assertRegex(done.stderr, "^braid pretrain: .*(ulimit -u)")

    def test_data_commands(self):
        text = self.folder / "text.txt"
        with open(text, "wb") as file:
            file.write(b"some words here\n" * (4 * MIB))
        for more in (8, 80):
            with self.subTest(more=more):
                done = braid("data", "prepare", "--tokenizer", "byte", "--input", text, "--output_prefix", self.folder / "out" / "text",
                             "--workers", 1, mib=self.least_data + more, kind=resource.RLIMIT_DATA)
                self.check(done, "lower --workers, or split the largest files")
                self.assertEqual(list((self.folder / "out").glob("*")) if (self.folder / "out").exists() else [], [])
        done = braid("data", "prepare", "--tokenizer", "byte", "--input", text, "--output_prefix", self.folder / "out" / "text", "--workers", 1000,
                     mib=self.least + 100)
        self.assertEqual(done.returncode, 71, done.stderr)

    def test_schedules(self):
        for command in ("simulate", "export", "compare", "draw"):
            with self.subTest(command):
                done = braid("schedule", command, "--pp", 64, "--micro", 1000 if command == "draw" else 30000, mib=self.least_data + 10, kind=resource.RLIMIT_DATA)
                self.check(done, "lower --micro, --pp or --chunks")

    def test_generation(self):
        small = [word if word != "16000" else "384" for word in MODEL]
        done = braid("pretrain", *small, "--output_dir", self.folder / "model")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        checked = 0
        for more in range(4, 200, 6):
            done = braid("generate", "--model", self.folder / "model" / "hf", "--tokenizer", "byte", "--prompt", "x" * 1000, "--max_new_tokens", 1,
                         mib=self.least_data + more, kind=resource.RLIMIT_DATA)
            if done.returncode == 0:
                break
            self.assertEqual(done.returncode, 71, done.stderr)
            if "ulimit -u" not in done.stderr:  # where there is not even room for a thread's stack
                self.check(done, "choose a smaller model")
                checked += 1
        self.assertGreater(checked, 0)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
