"""Model directories that are not what they seem: whatever would change the function and is not carried out is an error that names it, in
pretrain and in generate, and what an export leaves is of one run."""
import array
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRAID = str(pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid")
SIZES = ("--vocab_size 384 --num_hidden_layers 2 --hidden_size 32 --intermediate_size 64 --num_attention_heads 2 --num_key_value_heads 2 "
         "--head_dim 16 --max_position_embeddings 64").split()
DROPPED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
SIDE_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")


def braid(*words):
    environment = {name: value for name, value in os.environ.items() if name not in DROPPED}
    environment["OMP_NUM_THREADS"] = "1"
    return subprocess.run([BRAID, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          env=environment, timeout=240, check=False)


def read_safetensors(path):
    """{name: [dtype, shape, bytes]} and the metadata."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    begin = 8 + length
    return {name: [entry["dtype"], entry["shape"], data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]]]
            for name, entry in header.items()}, metadata


def write_safetensors(path, tensors, metadata=None):
    header, place = {"__metadata__": metadata or {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [place, place + len(data)]}
        place += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def zeros(*shape):
    count = 1
    for size in shape:
        count *= size
    return ["F32", list(shape), bytes(4 * count)]


class ModelDirectory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.shared.cleanup)
        cls.folder = pathlib.Path(cls.shared.name)
        text = cls.folder / "text.txt"
        text.write_text("The dog does not mind. " * 200)
        done = braid("data", "prepare", "--input", text, "--output_prefix", cls.folder / "data", "--tokenizer", "byte")
        assert done.returncode == 0, done.stderr
        for name, more in (("untied", ()), ("tied", ("--tie_word_embeddings", 1))):
            done = cls.pretrain("braid/llama-tiny", cls.folder / name, *SIZES, *more, "--tokenizer_name_or_path", "byte")
            assert done.returncode == 0, done.stdout + done.stderr

    @classmethod
    def pretrain(cls, model, output, *more):
        return braid("pretrain", "--model_name_or_path", model, "--input_dir", cls.folder / "data", "--split", "100", "--output_dir", output,
                     "--max_seq_length", 16, "--per_device_train_batch_size", 1, "--gradient_accumulation_steps", 1, "--max_steps", 1,
                     "--learning_rate", 0.001, "--logging_steps", 1, "--do_train", *more)

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.count = 0

    def copy(self, name="untied"):
        """A copy of the model to be changed, and its tensors."""
        self.count += 1
        directory = self.scratch / f"m{self.count}"
        shutil.copytree(self.folder / name / "hf", directory)
        return directory, read_safetensors(directory / "model.safetensors")[0]

    def change_config(self, directory, **changes):
        path = directory / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    def generate(self, directory, *more):
        return braid("generate", "--model", directory, "--prompt", "The dog", "--max_new_tokens", 2, *more)

    def continue_from(self, directory, *more):
        output = self.scratch / f"{directory.name}-run"
        done = self.pretrain(directory, output, "--continue_training", 1, *more)
        return done, output

    def assert_rejected(self, directory, *parts):
        done, output = self.continue_from(directory)
        for what, command in (("generate", self.generate(directory)), ("pretrain", done)):
            said = command.stdout + command.stderr
            self.assertEqual(command.returncode, 2, f"{what}: {said}")
            for part in (*parts, directory.name):
                self.assertIn(part, said, what)
            self.assertNotIn("bug in braid", said)
        self.assertFalse((output / "hf").exists())

    def test_the_model_itself_is_accepted(self):
        for name in ("untied", "tied"):
            directory, _ = self.copy(name)
            done, output = self.continue_from(directory)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f"weights: loaded from {directory}", done.stdout)
            self.assertTrue((output / "hf" / "model.safetensors").exists())
            generated = self.generate(directory)
            self.assertEqual((generated.returncode, generated.stderr), (0, ""))
            self.assertTrue(generated.stdout.startswith("The dog"))

    def test_tensors_without_a_place(self):
        attention = "model.layers.0.self_attn."
        for name, shape, reason in ((attention + "q_proj.bias", (32,), "no biases"), ("lm_head.bias", (384,), "no biases"),
                                    ("model.layers.1.mlp.down_proj.bias", (32,), "no biases"),
                                    (attention + "q_norm.weight", (16,), "no norms of queries and keys"),
                                    (attention + "k_norm.weight", (16,), "no norms of queries and keys"),
                                    ("model.layers.2.input_layernorm.weight", (32,), "num_hidden_layers 2"),
                                    ("model.layers.0.block_sparse_moe.gate.weight", (4, 32), "no experts"),
                                    ("model.layers.0.post_feedforward_layernorm.weight", (32,), "another kind of model")):
            with self.subTest(name):
                directory, tensors = self.copy()
                tensors[name] = zeros(*shape)
                write_safetensors(directory / "model.safetensors", tensors)
                self.assert_rejected(directory, name, reason)

    def test_tensors_that_are_missing_or_of_another_shape(self):
        directory, tensors = self.copy()
        del tensors["model.layers.1.mlp.up_proj.weight"]
        write_safetensors(directory / "model.safetensors", tensors)
        self.assert_rejected(directory, "model.layers.1.mlp.up_proj.weight", "one is not there")

        directory, tensors = self.copy()
        name = "model.layers.0.mlp.up_proj.weight"
        tensors[name][1] = tensors[name][1][::-1]
        write_safetensors(directory / "model.safetensors", tensors)
        self.assert_rejected(directory, name, "[32, 64]", "[64, 32]", "transposed")

        # Square matrices cannot tell, but the file may.
        directory, tensors = self.copy()
        write_safetensors(directory / "model.safetensors", tensors, {"format": "pd"})
        self.assert_rejected(directory, '"pd"')

        for key, value, name in (("head_dim", 32, "head_dim 32"), ("num_key_value_heads", 1, "k_proj"), ("vocab_size", 512, "vocab_size 512"),
                                 ("intermediate_size", 65, "intermediate_size 65")):
            with self.subTest(key):
                directory, _ = self.copy()
                self.change_config(directory, **{key: value})
                self.assert_rejected(directory, name, "use the config.json that belongs to the weights")

    def test_a_tied_model_with_another_head(self):
        directory, tensors = self.copy("tied")
        tensors["lm_head.weight"] = list(tensors["model.embed_tokens.weight"])
        write_safetensors(directory / "model.safetensors", tensors)
        self.assertEqual(self.generate(directory).returncode, 0)
        self.assertEqual(self.continue_from(directory)[0].returncode, 0)

        directory, tensors = self.copy("tied")
        values = array.array("f", tensors["model.embed_tokens.weight"][2])
        values[-1] += 1
        tensors["lm_head.weight"] = ["F32", [384, 32], values.tobytes()]
        write_safetensors(directory / "model.safetensors", tensors)
        self.assert_rejected(directory, "lm_head.weight differs from model.embed_tokens.weight", "tie_word_embeddings to false")

    def test_values_that_are_no_weights(self):
        for value, text in ((float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")):
            for name, index, place in (("model.layers.1.self_attn.o_proj.weight", 33, "[1, 1]"), ("model.norm.weight", 31, "[31]")):
                with self.subTest(name, value=value):
                    directory, tensors = self.copy()
                    values = array.array("f", tensors[name][2])
                    values[index] = value
                    tensors[name][2] = values.tobytes()
                    write_safetensors(directory / "model.safetensors", tensors)
                    self.assert_rejected(directory, "model.safetensors", name, f"has {text} at {place}")

    def test_configurations_with_an_effect_that_braid_lacks(self):
        for changes, text in (({"attention_bias": True}, "attention_bias is true"), ({"logits_scaling": 8}, "logits_scaling is 8"),
                              ({"model_type": "qwen2"}, "model_type is qwen2"), ({"unheard_of": 1}, "unheard_of 1"),
                              ({"eos_token_id": 384}, "eos_token_id 384 is outside the vocabulary of 384"),
                              ({"dtype": "float16"}, "disagree"), ({"sliding_window": 4}, "sliding_window is 4")):
            with self.subTest(changes):
                directory, _ = self.copy()
                self.change_config(directory, **changes)
                # The command line's own errors need not name the directory.
                done, _ = self.continue_from(directory)
                for command in (self.generate(directory), done):
                    self.assertEqual(command.returncode, 2, command.stdout + command.stderr)
                    self.assertIn(text, command.stderr)
        directory, _ = self.copy()
        (directory / "generation_config.json").write_text('{"eos_token_id": [1, 384]}')
        self.assert_rejected(directory, "generation_config.json: eos_token_id 384 is outside the model's vocabulary of 384")

    def test_files_that_are_not_what_they_seem(self):
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 400000\n"
        for name, content, text in (("model.safetensors", pointer, "git lfs pull"), ("config.json", pointer, "git lfs pull"),
                                    ("model.safetensors", "", "empty"), ("config.json", "<!DOCTYPE html><html></html>", "HTML")):
            with self.subTest(name, text=text):
                directory, _ = self.copy()
                (directory / name).write_text(content)
                self.assert_rejected(directory, name, text)
        directory, _ = self.copy()
        (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
        self.assert_rejected(directory, "pytorch_model.bin", "save_pretrained")

    def test_harmless_keys_survive_and_are_said(self):
        directory, _ = self.copy()
        self.change_config(directory, pretraining_tp=1, _mine={"a": 1})
        done, output = self.continue_from(directory)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("without effect on what the model computes"), 1, done.stdout)
        exported = json.loads((output / "hf" / "config.json").read_text())
        self.assertEqual((exported["pretraining_tp"], exported["_mine"]), (1, {"a": 1}))

    def test_no_control_characters_of_files_reach_the_terminal(self):
        directory, tensors = self.copy()
        self.change_config(directory, **{"evil\x1b[2J\x07": "\x1b[31m"})
        for command in (self.generate(directory), self.continue_from(directory)[0]):
            self.assertEqual(command.returncode, 2)
            self.assertIn("evil\\x1b[2J\\x07", command.stderr)
            self.assertNotIn("\x1b", command.stderr + command.stdout)
        directory, tensors = self.copy()
        tensors["evil\x1b[2J\x07.bias"] = zeros(1)
        write_safetensors(directory / "model.safetensors", tensors)
        self.assert_rejected(directory, "evil\\x1b[2J\\x07.bias")
        missing = self.scratch / "no\x1bsuch\nmodel"
        said = self.generate(missing).stderr + self.pretrain(missing, self.scratch / "x").stderr
        self.assertNotIn("\x1b", said)
        done = braid("generate", "--model", self.folder / "untied" / "hf", "--max_new_tokens", 1, "--prompt", "a\x1b[1m\tb\n\xff")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("a\\x1b[1m\tb\n"), done.stdout)

    def test_exports_have_the_ids_and_the_tokenizer_of_the_run(self):
        exported = self.folder / "untied" / "hf"
        config = json.loads((exported / "config.json").read_text())
        self.assertEqual((config["bos_token_id"], config["eos_token_id"]), (None, 256))
        self.assertEqual(json.loads((exported / "generation_config.json").read_text())["eos_token_id"], 256)
        self.assertEqual(json.loads((exported / "tokenizer_config.json").read_text())["add_bos_token"], False)

    def test_what_came_in_and_holds_goes_out(self):
        directory, _ = self.copy()
        (directory / "generation_config.json").write_text('{"eos_token_id": [7, 256], "temperature": 0.6}')
        for name in SIDE_FILES[2:]:
            (directory / name).write_text("{}")
        for more, holds in (((), True), (("--tokenizer_name_or_path", "byte"), True), (("--eos_token_id", 9), False)):
            with self.subTest(more):
                shutil.rmtree(self.scratch / f"{directory.name}-run", ignore_errors=True)
                done, output = self.continue_from(directory, *more)
                self.assertEqual(done.returncode, 0, done.stderr)
                generation = json.loads((output / "hf" / "generation_config.json").read_text())
                self.assertEqual(generation.get("temperature"), 0.6 if holds else None)
                self.assertEqual(generation["eos_token_id"], [7, 256] if holds else 9)
                came = [name for name in SIDE_FILES if (output / "hf" / name).exists()]
                self.assertEqual(came, list(SIDE_FILES[:2] if "byte" in more else SIDE_FILES))

    def test_overwriting_leaves_nothing_of_the_earlier_run(self):
        output = self.scratch / "run"
        shutil.copytree(self.folder / "untied", output)
        (output / "hf" / "tokenizer.model").write_text("old")
        (output / "hf" / "chat_template.jinja").write_text("old")
        (output / "profile").mkdir()
        (output / "profile" / "step-9.svg").write_text("old")
        new = (*SIZES, "--tokenizer_name_or_path", "byte")
        # Not without being asked, and not for a run that cannot start.
        self.assertEqual(self.pretrain("braid/llama-tiny", output, *new).returncode, 2)
        (output / "metrics.jsonl").unlink()
        done = self.pretrain("braid/llama-tiny", output, *new)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("holds an earlier run (hf/config.json)", done.stderr)
        self.assertEqual(self.pretrain("braid/llama-tiny", output, "--overwrite_output_dir", 1, "--head_dim", 15).returncode, 2)
        directory, tensors = self.copy()
        tensors["model.norm.weight"][2] = array.array("f", [float("nan")] * 32).tobytes()
        write_safetensors(directory / "model.safetensors", tensors)
        self.assertEqual(self.pretrain(directory, output, "--overwrite_output_dir", 1, "--continue_training", 1).returncode, 2)
        self.assertEqual((output / "hf" / "tokenizer.model").read_text(), "old")
        # The model that is replaced cannot be the one to start from.
        done = self.pretrain(output / "hf", output, "--overwrite_output_dir", 1, "--continue_training", 1)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("is part of the earlier run", done.stderr)
        self.assertTrue((output / "hf" / "model.safetensors").exists())

        done = self.pretrain("braid/llama-tiny", output, "--overwrite_output_dir", 1, *new)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(path.name for path in (output / "hf").iterdir()),
                         ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
        self.assertFalse((output / "profile" / "step-9.svg").exists())
        done = self.pretrain("braid/llama-tiny", output, "--overwrite_output_dir", 1, "--skip_export", 1, *new)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertFalse((output / "hf").exists())

    def test_random_weights_are_said(self):
        directory, _ = self.copy()
        done = self.pretrain(directory, self.scratch / "run", "--seed", 5)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("weights: random, from --seed 5", done.stdout)
        self.assertIn("--continue_training 1 loads them", done.stdout)

    def test_generate_checks_its_prompt(self):
        directory, _ = self.copy()
        for words, text in ((("--prompt", "x" * 65), "the prompt has 65 tokens, the model 64 positions"), (("--prompt", ""), "--prompt"),
                            (("--add_bos", 1), "has none"), (("--logits", directory / "config.json"), "exists")):
            with self.subTest(words[0]):
                done = self.generate(directory, *words) if words[0] != "--prompt" else braid("generate", "--model", directory, *words)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(text, done.stderr)
        done = braid("generate", "--model", directory, "--prompt", "x" * 60, "--max_new_tokens", 64)
        self.assertEqual(done.returncode, 0)
        self.assertIn("stopped after 64 tokens, the model's max_position_embeddings", done.stderr)


if __name__ == "__main__":
    unittest.main()
