"""Scripts of PaddleNLP users (tests/paddlenlp_scripts) train with nothing changed but the program's name. Uses only
Python's standard library."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRAID = str(pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid")
SCRIPTS = ROOT / "tests" / "paddlenlp_scripts"
SMALL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
         "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 384,
         "max_position_embeddings": 64}
STEPS = 4


class Scripts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.out = pathlib.Path(cls.scratch.name)
        (cls.out / "model").mkdir()
        (cls.out / "model" / "config.json").write_text(json.dumps(SMALL))
        (cls.out / "text").mkdir()
        for number in range(60):
            (cls.out / "text" / f"{number}.txt").write_text(f"Document {number}. " + "The quick brown fox jumps over the lazy dog. " * 30)
        subprocess.run([BRAID, "data", "prepare", "--input", str(cls.out / "text"), "--output_prefix", str(cls.out / "data" / "text"),
                        "--tokenizer", "byte"], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def run_script(self, name, **variables):
        script = (SCRIPTS / name).read_text()
        for theirs, ours in (("python -u -m paddle.distributed.launch", BRAID + " launch"),
                             ("run_pretrain_auto.py", "pretrain"), ("run_pretrain.py", "pretrain")):
            script = script.replace(theirs, ours)
        dropped = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
        env = {name: value for name, value in os.environ.items() if name not in dropped}
        env |= {"OMP_NUM_THREADS": "1", "MODEL": str(self.out / "model"), "TOKENIZER": "byte", "STEPS": str(STEPS),
                "DATA": str(self.out / "data"), "OUTPUT": str(self.out), "SEQUENCE": "32", "DEVICE": "cpu",
                "ARGUMENTS": str(SCRIPTS / "pretrain_argument.json"), "WARMUP": "2"} | variables
        return subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, errors="replace", timeout=240)

    def check(self, script, task, unused, warnings=()):
        done = self.run_script(script)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        lines = [json.loads(line) for line in (self.out / task / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["type"] for line in lines], ["train"] * STEPS + ["eval"])
        summaries = [line for line in said.splitlines() if "without effect here (braid pretrain" in line]
        self.assertEqual(len(summaries), 1, said)
        for flag in unused:
            self.assertIn(flag, summaries[0])
        for warning in warnings:
            self.assertIn(warning, said)
        self.assertTrue((self.out / task / "hf" / "config.json").exists())

    def test_hybrid_parallelism(self):
        self.check("run_pretrain.sh", "llama_hybrid",
                   ["--use_flash_attention 1", "--dataloader_num_workers 1", "--pipeline_parallel_config enable_timer"])

    def test_automatic_parallelism(self):
        self.check("run_pretrain_auto.sh", "llama_auto",
                   ["--enable_auto_parallel 1", "--to_static 1", "--amp_custom_black_list reduce_sum",
                    "--pipeline_parallel_config enable_split_backward"])

    def test_a_file_of_arguments(self):
        self.check("run_pretrain_json.sh", "llama_json", ["unified_checkpoint true", "hidden_dropout_prob 0", "skip_profile_timer"],
                   ["WARNING: the test set is not evaluated"])

    def test_a_run_that_would_save_warns(self):
        done = subprocess.run([BRAID, "pretrain", str(SCRIPTS / "pretrain_argument.json"), "--dry_run", "1", "--model_name_or_path",
                               str(self.out / "model"), "--tokenizer_name_or_path", "byte"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("WARNING: no checkpoints are written, although --save_steps 5000", done.stderr)

    def test_a_build_without_cuda_says_what_to_change(self):
        if "cuda" in subprocess.run([BRAID, "--version"], capture_output=True, text=True).stdout.split("without:")[0]:
            return
        done = self.run_script("run_pretrain_json.sh", DEVICE="gpu", OUTPUT=str(self.out / "gpu"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--device cpu", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
