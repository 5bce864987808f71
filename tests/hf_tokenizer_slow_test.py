"""The tokenizer of an export gives transformers' AutoTokenizer the very ids that training saw, and generate the same prompt."""
import json
import os
import pathlib
import random
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hf_environment

hf_environment.enter()
os.environ["HF_HUB_OFFLINE"] = "1"

import safetensors.torch
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

import hf_braid
import hf_gpt_index

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
         "head_dim": 16, "max_position_embeddings": 256}
# Without the names of special ids, which transformers takes for these.
TEXTS = ["Hello world", "  two  spaces\n\n\nnew\ttabs\t\tx", " lead", "trail ", "Grüße, 世界 🙂 naïve", "\n", "    ", "==== ===== ===", "1234567 3.14",
         "a\r\nb", "\x01\x7f", "<0x41>", "The kernel provides " * 50, "aaaaaaaaaaa bbbbbbbbb"]


def texts():
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(1, 9))) for _ in range(300)]
    documents = [" ".join(draw.choices(words, k=draw.randint(20, 200))) for _ in range(60)]
    odd = ["".join(draw.choices("ab =\n\t_-.üé世1<>", k=draw.randint(1, 60))) for _ in range(200)]
    return TEXTS + odd + documents


class ExportedTokenizer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "text").mkdir()
        self.texts = texts()
        # A JSON line is a document whatever is in it.
        with open(self.folder / "text" / "text.jsonl", "w") as file:
            for text in self.texts:
                file.write(json.dumps({"text": text}) + "\n")

    def train(self, tokenizer, pieces):
        """A model's export, and the ids of each document that it was trained on."""
        prefix = self.folder / "tokens"
        hf_braid.braid("data", "prepare", "--input", self.folder / "text", "--output_prefix", prefix, "--tokenizer", tokenizer)
        hf_braid.pretrain(self.folder / "run", 1, model_name_or_path="braid/llama-tiny", vocab_size=pieces, input_dir=prefix, split="100",
                          tokenizer_name_or_path=tokenizer, max_seq_length=32, per_device_train_batch_size=1, max_steps=1,
                          learning_rate=1e-3, **SIZES)
        return self.folder / "run" / "hf", [list(map(int, ids)) for ids in hf_gpt_index.IndexedTokens(prefix).documents]

    def compare(self, directory, documents):
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
        end = tokenizer.eos_token_id
        model = AutoModelForCausalLM.from_pretrained(directory, local_files_only=True)
        self.assertEqual((model.config.eos_token_id, model.generation_config.eos_token_id), (end, end))
        self.assertEqual(model.config.bos_token_id, tokenizer.bos_token_id)
        self.assertTrue(all(ids[-1] == end for ids in documents))
        # Documents may be in another order than the texts.
        theirs = sorted(tokenizer(text)["input_ids"] + [end] for text in self.texts)
        for ours, ids in zip(sorted(documents), theirs, strict=True):
            self.assertEqual(ours, ids)
        for text in self.texts:
            self.assertEqual(tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True), text)
        # generate begins with the same ids, and the logits agree.
        prompt = "The kernel provides"
        hf_braid.braid("generate", "--model", directory, "--prompt", prompt, "--max_new_tokens", 1, "--logits", self.folder / "logits")
        ours = safetensors.torch.load_file(self.folder / "logits")
        self.assertEqual(ours["tokens"].tolist(), tokenizer(prompt)["input_ids"])
        with torch.no_grad():
            logits = model(ours["tokens"].unsqueeze(0)).logits[0]
        self.assertLessEqual((ours["logits"] - logits).abs().max().item(), 1e-4)

    def test_bytes(self):
        self.compare(*self.train("byte", 257))

    def test_sentencepiece(self):
        tokenizer = self.folder / "t.model"
        hf_braid.braid("data", "tokenizer", "--input", self.folder / "text", "--output", tokenizer, "--vocab_size", 700)
        directory, documents = self.train(tokenizer, 700)
        self.assertTrue((directory / "tokenizer.model").exists())
        self.compare(directory, documents)


if __name__ == "__main__":
    unittest.main()
