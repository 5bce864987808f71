"""braid against Hugging Face's transformers: what it exports is the same model there, and training from a model of theirs gives the
losses of a plain PyTorch loop. BRAID_BUILD_DIR holds the program (build/ unless set), BRAID_PYTHON is a Python with PyPI's torch and
transformers (.deps/venv unless set)."""
import math
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
from transformers import LlamaConfig, LlamaForCausalLM

import hf_braid
import hf_gpt_index

transformers.utils.logging.disable_progress_bar()

VOCABULARY = 257  # bytes and an end of document
END_OF_TEXT = 256
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
         "max_position_embeddings": 128, "eos_token_id": END_OF_TEXT}
# Wave lengths of 6 to 11,000 tokens, on both sides of and between the bounds that these numbers draw.
LLAMA3_ROPE = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32}


def load(directory, **changes):
    """transformers' model of `directory` in float32, and what it found missing or left over."""
    return LlamaForCausalLM.from_pretrained(directory, dtype=torch.float32, output_loading_info=True, local_files_only=True, **changes)


class Export(unittest.TestCase):
    """A model that braid trained is the same model to transformers."""

    VARIANTS = {
        "grouped queries": {"num_key_value_heads": 2},
        "tied": {"tie_word_embeddings": True},
        "llama3 rope": {"rope_scaling": LLAMA3_ROPE, "rope_theta": 50000.0},
        "wide heads": {"head_dim": 32, "num_key_value_heads": 1},
    }

    def train(self, ranks, sizes):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        output = pathlib.Path(folder.name)
        given = {name: str(value).replace("'", '"') if isinstance(value, dict) else value for name, value in {**SIZES, **sizes}.items()}
        # Large weights make attention sharp, so that a wrong position or head shows in the logits.
        hf_braid.pretrain(output, ranks, model_name_or_path="braid/llama-tiny", num_key_value_heads=given.pop("num_key_value_heads", 4),
                          initializer_range=0.15, synthetic_data=1, max_seq_length=64, per_device_train_batch_size=2,
                          gradient_accumulation_steps=2, max_steps=3, learning_rate=0.01, **given)
        return output / "hf"

    def compare(self, directory, sizes):
        model, found = load(directory)
        self.assertEqual({name: sorted(found[name]) for name in ("missing_keys", "unexpected_keys", "mismatched_keys")},
                         {"missing_keys": [], "unexpected_keys": [], "mismatched_keys": []})
        for name, value in sizes.items():
            if name == "rope_scaling":
                value = {**value, "rope_theta": sizes["rope_theta"]}
                self.assertEqual(model.config.rope_parameters, value)
            elif name != "rope_theta":
                self.assertEqual(getattr(model.config, name), value, name)
        self.assertEqual(model.lm_head.weight is model.model.embed_tokens.weight, bool(sizes.get("tie_word_embeddings")))
        # Any byte but 0, which no program argument can contain.
        prompt = bytes(random.Random(1).choices(range(1, 256), k=100))
        hf_braid.braid("generate", "--model", directory, "--tokenizer", "byte", "--prompt", prompt, "--max_new_tokens", 1,
                       "--temperature", 0, "--logits", directory / "logits.safetensors")
        ours = safetensors.torch.load_file(directory / "logits.safetensors")
        self.assertEqual(ours["tokens"].tolist(), list(prompt))
        self.assertEqual(ours["logits"].dtype, torch.float32)
        with torch.no_grad():
            theirs = model(ours["tokens"].unsqueeze(0)).logits[0]
        self.assertEqual(ours["logits"].shape, theirs.shape)
        self.assertLessEqual((ours["logits"] - theirs).abs().max().item(), 1e-4)
        return ours, theirs

    def test_logits(self):
        for name, sizes in self.VARIANTS.items():
            for ranks in (1, 2):
                with self.subTest(name, ranks=ranks):
                    directory = self.train(ranks, sizes)
                    self.assertEqual((directory / "model.safetensors.index.json").exists(), ranks > 1)
                    self.compare(directory, sizes)

    def test_comparison_sees_the_rope(self):
        sizes = self.VARIANTS["llama3 rope"]
        directory = self.train(1, sizes)
        ours, theirs = self.compare(directory, sizes)
        plain, _ = load(directory, rope_parameters={"rope_type": "default", "rope_theta": sizes["rope_theta"]})
        with torch.no_grad():
            unscaled = plain(ours["tokens"].unsqueeze(0)).logits[0]
        self.assertGreater((unscaled - theirs).abs().max().item(), 1e-2)

    def test_greedy_text(self):
        directory = self.train(2, {})
        prompt = b"The kernel provides"
        text = hf_braid.braid("generate", "--model", directory, "--tokenizer", "byte", "--prompt", prompt, "--max_new_tokens", 40,
                              "--temperature", 0)
        model, _ = load(directory)
        tokens = model.generate(torch.tensor([list(prompt)]), do_sample=False, max_new_tokens=40, pad_token_id=0)[0].tolist()
        self.assertEqual(text, hf_braid.displayed(bytes(token for token in tokens if token < END_OF_TEXT)) + b"\n")


class Training(unittest.TestCase):
    """20 steps from random weights that transformers made: braid's losses are those of a plain PyTorch loop."""

    STEPS = 20
    SPLIT = (90, 10, 0)
    SEED = 1234
    MICROBATCH, MICROBATCHES = 2, 4

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def prepare(self):
        """Token files of 60 documents of different lengths, with repeated words, so that there is something to learn."""
        draw = random.Random(5)
        words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(1, 9))) for _ in range(40)]
        (self.folder / "text").mkdir()
        for number in range(60):
            text = " ".join(draw.choices(words, k=draw.randint(1, 50)))
            (self.folder / "text" / f"{number:02}.txt").write_text(text)
        hf_braid.braid("data", "prepare", "--input", self.folder / "text", "--output_prefix", self.folder / "tokens", "--tokenizer", "byte")
        return self.folder / "tokens"

    def learning_rate(self, step, options):
        """Of update `step`, counted from 1."""
        peak, floor, warmup = options["learning_rate"], options["min_learning_rate"], options["warmup_steps"]
        if step <= warmup:
            return peak * step / warmup
        done = (step - warmup) / (self.STEPS - warmup)
        left = 1 - done if options["lr_scheduler_type"] == "linear" else 0.5 * (1 + math.cos(math.pi * done))
        return floor + left * (peak - floor)

    def plain_loop(self, model, samples, options):
        """Losses, gradient norms and learning rates."""
        matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
        others = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
        adamw = torch.optim.AdamW([{"params": matrices, "weight_decay": options["weight_decay"]}, {"params": others, "weight_decay": 0.0}],
                                  betas=(options["adam_beta1"], options["adam_beta2"]), eps=options["adam_epsilon"])
        records = []
        length = options["max_seq_length"]
        for step in range(1, self.STEPS + 1):
            rate = self.learning_rate(step, options)
            for group in adamw.param_groups:
                group["lr"] = rate
            adamw.zero_grad()
            total = 0.0
            first = (step - 1) * self.MICROBATCH * self.MICROBATCHES
            for index in range(first, first + self.MICROBATCH * self.MICROBATCHES, self.MICROBATCH):
                tokens = torch.stack([torch.from_numpy(samples[index + i].copy()) for i in range(self.MICROBATCH)])
                logits = model(tokens[:, :-1]).logits
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum")
                (loss / (self.MICROBATCH * self.MICROBATCHES * length)).backward()
                total += loss.item()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), options["max_grad_norm"])
            adamw.step()
            records.append({"loss": total / (self.MICROBATCH * self.MICROBATCHES * length), "grad_norm": norm.item(), "learning_rate": rate})
        return records

    def compare(self, sizes, epochs, last_apart, **options):
        options = {"learning_rate": 3e-3, "min_learning_rate": 3e-4, "warmup_steps": 5, "weight_decay": 0.1, "adam_beta1": 0.9,
                   "adam_beta2": 0.95, "adam_epsilon": 1e-8, **options}
        torch.manual_seed(7)
        start = self.folder / "start"
        LlamaForCausalLM(LlamaConfig(**{**SIZES, "initializer_range": 0.05, **sizes})).save_pretrained(start)
        prefix = self.prepare()

        documents = hf_gpt_index.training_documents(hf_gpt_index.IndexedTokens(prefix).documents, self.SPLIT)
        samples = hf_gpt_index.TrainingSamples(documents, options["max_seq_length"], self.STEPS * self.MICROBATCH * self.MICROBATCHES, self.SEED)
        self.assertEqual((samples.epochs, samples.last_apart), (epochs, last_apart))
        model, _ = load(start)
        expected = self.plain_loop(model, samples, options)
        # The run must clip gradients and must learn.
        self.assertTrue(any(record["grad_norm"] > options["max_grad_norm"] for record in expected))
        self.assertLess(expected[-1]["loss"], expected[0]["loss"] - 0.5)

        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                records = hf_braid.pretrain(self.folder / f"pp{ranks}", ranks, model_name_or_path=start, continue_training=1, input_dir=prefix,
                                            split=",".join(map(str, self.SPLIT)), data_seed=self.SEED, max_steps=self.STEPS,
                                            per_device_train_batch_size=self.MICROBATCH, gradient_accumulation_steps=self.MICROBATCHES,
                                            **options)
                self.assertEqual(len(records), self.STEPS)
                for step, (ours, theirs) in enumerate(zip(records, expected), 1):
                    for name in ("loss", "grad_norm"):
                        error = abs(ours[name] - theirs[name]) / theirs[name]
                        self.assertLessEqual(error, 1e-5, f"{name} of step {step}: {ours[name]} and {theirs[name]}")
                    self.assertTrue(math.isclose(ours["learning_rate"], theirs["learning_rate"], rel_tol=1e-12), step)

    def test_grouped_queries_linear_decay(self):
        self.compare({"num_key_value_heads": 2}, max_seq_length=32, max_grad_norm=1.0, lr_scheduler_type="linear", epochs=1, last_apart=False)

    def test_tied_llama3_rope_cosine_decay(self):
        self.compare({"tie_word_embeddings": True, "rope_parameters": {**LLAMA3_ROPE, "rope_theta": 10000.0}}, max_seq_length=64,
                     max_grad_norm=0.5, lr_scheduler_type="cosine", epochs=2, last_apart=True)


if __name__ == "__main__":
    unittest.main()
