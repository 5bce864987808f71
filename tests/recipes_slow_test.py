"""Each recipe as its own first lines say it, with its 16 or 32 real ranks, against the same training on one rank; and its plan for large models."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import project

BRAID = pathlib.Path(os.environ.get("BRAID_BUILD_DIR", project.ROOT / "build")) / "braid"
RECIPES = sorted(path for path in (project.ROOT / "recipes").glob("*.yaml") if "sharding_configs:" in path.read_text())
STEPS = 20

# float32's half an ulp. mp adds up products in parts, and data ranks add up gradients in another order. The loss is a mean over hundreds of
# tokens of both signs of rounding, and a norm one of a hundred thousand elements: a few ulps in each layer leave less than one in either.
# Adam's division by a gradient's own magnitude could enlarge the difference, but not where gradients are far above their rounding.
ULP = 2.0 ** -24
LOSS_BOUND = 4 * ULP
NORM_BOUND = 16 * ULP


def command_of(recipe):
    """The words of the command in the recipe's comment."""
    comment = []
    for line in recipe.read_text().splitlines():
        if not line.startswith("#"):
            break
        comment.append(line[1:].strip())
    text = "\n".join(comment)
    return shlex.split(text[text.index("braid launch"):].replace("\\\n", " "))


def value_of(words, flag):
    return words[words.index(flag) + 1]


def run(words):
    return subprocess.run([str(word) for word in words], cwd=project.ROOT, capture_output=True, text=True, timeout=900, check=False)


class Recipes(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="braid_recipes_")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def steps_of(self, folder):
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        steps = [line for line in lines if line["type"] == "train"]
        self.assertEqual([step["global_step"] for step in steps], list(range(1, STEPS + 1)))
        return steps

    def run_recipe(self, recipe):
        words = command_of(recipe)
        words[0] = BRAID
        words[words.index("--log_dir") + 1] = self.scratch / recipe.stem / "log"
        words[words.index("--output_dir") + 1] = self.scratch / recipe.stem / "out"
        done = run(words)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
        return self.steps_of(self.scratch / recipe.stem / "out")

    def run_one_rank(self, recipe, microbatches):
        words = command_of(recipe)
        options = [word for flag in ("--model_name_or_path", "--num_attention_heads", "--max_seq_length") for word in (flag, value_of(words, flag))]
        out = self.scratch / f"one_{microbatches}"
        if not out.exists():
            done = run([BRAID, "pretrain", *options, "--output_dir", out, "--synthetic_data", "1", "--max_steps", STEPS, "--logging_steps", "1",
                        "--skip_export", "1", "--do_train", "--per_device_train_batch_size", "1", "--gradient_accumulation_steps", microbatches])
            self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
        return self.steps_of(out)

    def test_all_train_as_one_rank_does(self):
        self.assertEqual(len(RECIPES), 6)
        for recipe in RECIPES:
            with self.subTest(recipe.stem):
                text = recipe.read_text()
                degree = lambda name: int(re.search(rf"^  {name}: (\d+)", text, re.MULTILINE).group(1))
                ranks = int(value_of(command_of(recipe), "--nproc_per_node"))
                self.assertEqual(ranks, degree("mp_degree") * degree("sharding_degree") * degree("pp_degree") * degree("dp_degree"))
                got = self.run_recipe(recipe)
                samples = got[0]["tokens"] // int(value_of(command_of(recipe), "--max_seq_length"))
                self.assertEqual(samples % (degree("sharding_degree") * degree("dp_degree")), 0)
                expected = self.run_one_rank(recipe, samples)
                for mine, other in zip(got, expected):
                    step = mine["global_step"]
                    self.assertEqual(mine["tokens"], other["tokens"])
                    self.assertAlmostEqual(mine["loss"], other["loss"], delta=LOSS_BOUND * other["loss"], msg=f"step {step}")
                    self.assertAlmostEqual(mine["grad_norm"], other["grad_norm"], delta=NORM_BOUND * other["grad_norm"], msg=f"step {step}")
                self.assertEqual(len({step["loss"] for step in got}), STEPS)
                # Every rank of the run has reported its memory.
                self.assertEqual(len(got[-1]["memory"]), ranks)

    def test_plans_of_large_models(self):
        """The files plan a 7B and a 70B model; ranks together hold at least every parameter once."""
        for model, parameters in (("meta-llama/Llama-2-7b", 6_738_415_616), ("meta-llama/Meta-Llama-3-70B", 70_553_706_496)):
            for recipe in RECIPES:
                with self.subTest(recipe.stem, model=model):
                    words = command_of(recipe)
                    chunks = ["--virtual_pp_degree", value_of(words, "--virtual_pp_degree")] if "--virtual_pp_degree" in words else []
                    done = run([BRAID, "pretrain", "--strategy", recipe, *chunks, "--model_name_or_path", model, "--dry_run", "json", "--bf16", "1",
                                "--synthetic_data", "1", "--max_seq_length", "4096", "--output_dir", self.scratch / "out"])
                    self.assertEqual(done.returncode, 0, done.stderr)
                    plan = json.loads(done.stdout)
                    self.assertEqual(plan["parameters"], parameters)
                    mesh = plan["mesh"]
                    self.assertEqual(len(plan["ranks"]), mesh["mp"] * mesh["pp"])
                    self.assertGreaterEqual(sum(rank["parameters"] for rank in plan["ranks"]), parameters)
                    offloads = "optimize_offload: true" in recipe.read_text()
                    for rank in plan["ranks"]:
                        memory = rank["memory_bytes"]
                        states = memory["offloaded_states"] if offloads else memory["optimizer_states"]
                        # A float32 master weight and two moments of each of this rank's elements, and padding to units of 256 elements a part.
                        least = 12 * rank["parameters"] / mesh["sharding"]
                        self.assertGreaterEqual(states, least)
                        self.assertLess(states, 1.001 * least)
                        self.assertEqual(memory["optimizer_states"] > 0, not offloads)

    def test_the_document_has_the_plans_figures_and_they_are_the_published_ones(self):
        done = subprocess.run([project.ROOT / "tools/recipe_tables"], env={**os.environ, "BRAID": str(BRAID)}, capture_output=True, text=True,
                              timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = (project.ROOT / "docs/strategy.md").read_text()
        for table in done.stdout.strip().split("\n\n"):
            self.assertIn(table, document)
        rows = {row.split(" | ")[0].strip("| "): [cell.strip() for cell in row.split("|")[2:-1]] for row in done.stdout.splitlines()}
        all_reduces, layers, microbatches, mp, hidden, tokens = 4, 8, 4, 8, 4096, 4096
        count = all_reduces * layers * microbatches
        sent = count * tokens * hidden * 2 * 2 * (mp - 1) / mp
        self.assertEqual(rows["mp-pp"][1], f"{count} all-reduce, {sent / 1e9:.2f}")
        parameters, sharding = int(rows["mp-sharding-pp"][0].replace(",", "")), 4
        gradients, values = (bytes * parameters * (sharding - 1) / sharding / 1e9 for bytes in (4, 2))
        self.assertRegex(rows["mp-sharding-pp"][2], rf"^\d+ reduce-scatter, {gradients:.2f}; \d+ all-gather, {values:.2f}$")


if __name__ == "__main__":
    unittest.main()
