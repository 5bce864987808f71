#!/usr/bin/env python3
"""Token files from text to training: what does not fit together is an error that names it, and nothing half-written is left."""
import json
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import unittest

import project

BRAID = pathlib.Path(os.environ.get("BRAID_BUILD_DIR", project.ROOT / "build")).resolve() / "braid"
TEXT = "A pipeline keeps every rank busy; a bubble is time in which one waits. "
TINY = ["--model_name_or_path", "braid/llama-tiny", "--hidden_size", "32", "--intermediate_size", "64", "--num_hidden_layers", "1",
        "--num_attention_heads", "2", "--num_key_value_heads", "2", "--max_seq_length", "32", "--per_device_train_batch_size", "1",
        "--split", "80,20,0", "--skip_export", "1"]


def braid(*words, **keywords):
    return subprocess.run([str(BRAID), *map(str, words)], capture_output=True, text=True, check=False, timeout=300, **keywords)


class Data(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="braid_data_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "text").mkdir()
        for i in range(40):
            (self.folder / "text" / f"{i}.txt").write_text(f"Document {i}. {TEXT}")

    def prepare(self, name, *more, tokenizer="byte", **keywords):
        return braid("data", "prepare", "--input", self.folder / "text", "--output_prefix", self.folder / name, "--tokenizer", tokenizer,
                     *more, **keywords)

    def prepared(self, name, *more, **keywords):
        done = self.prepare(name, *more, **keywords)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def pretrain(self, prefix, *more, eval_batch=4):
        return braid("pretrain", *TINY, "--per_device_eval_batch_size", eval_batch, "--input_dir", self.folder / prefix, "--output_dir", self.folder / "run",
                     "--overwrite_output_dir", "1", *more)

    def evaluations(self):
        lines = (self.folder / "run" / "metrics.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["type"] == "eval"]

    def test_a_small_validation_part_is_evaluated_whole_with_bits_per_byte(self):
        self.prepared("data/text")
        done = self.pretrain("data/text", "--max_steps", "2", "--do_train", "--do_eval")
        self.assertEqual(done.returncode, 0, done.stderr)
        [whole] = self.evaluations()
        self.assertEqual(whole["tokens"], whole["part_tokens"] - 1)
        record = json.loads((self.folder / "data/text.meta.json").read_text())
        self.assertEqual(record["text_bytes"], sum(len(f.read_text()) for f in (self.folder / "text").iterdir()))
        # Of 8 documents, one byte a token: all but their ends and the first.
        self.assertEqual(whole["text_bytes"], whole["part_tokens"] - 8 - 1)
        self.assertAlmostEqual(whole["bits_per_byte"], whole["eval_loss"] / 0.6931471805599453 * whole["tokens"] / whole["text_bytes"])
        self.assertIn(f"eval_tokens: {whole['tokens']} of {whole['part_tokens']}, eval_bits_per_byte: ", done.stdout)

        done = self.pretrain("data/text", "--max_steps", "2", "--do_train", "--do_eval", "--eval_iters", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        [part] = self.evaluations()
        self.assertEqual((part["tokens"], part["part_tokens"]), (4 * 32, whole["part_tokens"]))

        # Other microbatches, the last of them padded: the same tokens, and so the same loss.
        done = self.pretrain("data/text", "--max_steps", "2", "--do_train", "--do_eval", eval_batch=5)
        self.assertEqual(done.returncode, 0, done.stderr)
        [again] = self.evaluations()
        self.assertEqual(again["tokens"], whole["tokens"])
        self.assertAlmostEqual(again["eval_loss"], whole["eval_loss"], places=5)

    def test_another_tokenizer_than_the_data_s_is_an_error_that_names_both(self):
        self.prepared("data/text")
        model = self.folder / "tokenizer.model"
        done = braid("data", "tokenizer", "--input", self.folder / "text", "--output", model, "--vocab_size", "320")
        if "BRAID_WITH_SENTENCEPIECE" in done.stderr:
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        for done in (self.pretrain("data/text", "--max_steps", "1", "--do_train", "--tokenizer_name_or_path", model),
                     braid("data", "inspect", self.folder / "data/text", "--tokenizer", model)):
            self.assertEqual(done.returncode, 2)
            self.assertIn("text was made with the tokenizer byte, but sentencepiece:", done.stderr)
            self.assertIn("(320 ids): pass the tokenizer that made the data", done.stderr)
        self.prepared("mixed/model", tokenizer=model)
        done = self.pretrain("mixed", "--max_steps", "1", "--do_train", "--tokenizer_name_or_path", model)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.prepared("mixed/byte")
        done = self.pretrain("mixed", "--max_steps", "1", "--do_train")
        self.assertEqual(done.returncode, 2)
        self.assertIn("a model has one vocabulary", done.stderr)

        self.prepared("bos/without", tokenizer=model)
        self.prepared("bos/with", "--prepend_bos", "1", tokenizer=model)
        done = self.pretrain("bos", "--max_steps", "1", "--do_train")
        self.assertEqual(done.returncode, 2)
        self.assertIn("prepare both with the same --prepend_bos", done.stderr)

    def test_files_without_a_record_train_with_one_line(self):
        self.prepared("data/text")
        (self.folder / "data/text.meta.json").unlink()
        done = self.pretrain("data/text", "--max_steps", "1", "--do_train", "--do_eval")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("text: no .meta.json, as braid data prepare writes it"), 1)
        [evaluation] = self.evaluations()
        self.assertNotIn("bits_per_byte", evaluation)

    def test_a_replaced_bin_is_an_error(self):
        self.prepared("data/text")
        path = self.folder / "data/text.bin"
        content = bytearray(path.read_bytes())
        content[0] ^= 1
        path.write_bytes(content)
        for done in (self.pretrain("data/text", "--max_steps", "1", "--do_train"), braid("data", "inspect", self.folder / "data/text")):
            self.assertEqual(done.returncode, 2)
            self.assertIn("text.bin: is not the file of which", done.stderr)

    def test_shuffling_spreads_the_files_and_keeps_every_document(self):
        self.prepared("ordered", "--shuffle", "0")
        self.prepared("shuffled")
        documents = {name: sorted((self.folder / f"{name}.bin").read_bytes().decode("utf-16-le").split(chr(256)))
                     for name in ("ordered", "shuffled")}
        self.assertEqual(documents["ordered"], documents["shuffled"])
        self.assertNotEqual((self.folder / "ordered.bin").read_bytes(), (self.folder / "shuffled.bin").read_bytes())

    def test_a_disk_that_is_too_small_leaves_nothing(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing fails instead
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

        self.prepared("whole")
        bin_bytes = (self.folder / "whole.bin").stat().st_size
        for limit_bytes in (bin_bytes // 2, 100, 0):
            done = self.prepare("out/text", preexec_fn=limit)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("write failed", done.stderr)
            self.assertEqual(list((self.folder / "out").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
