"""A short tools/parity: the same losses, bit for bit, under three schedules on 4 ranks; and its comparison, which must be able to fail."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import project

BRAID = pathlib.Path(os.environ.get("BRAID_BUILD_DIR", project.ROOT / "build")) / "braid"
COMPARE = project.ROOT / "tools/compare_losses.py"


def run(command, **environment):
    return subprocess.run([str(word) for word in command], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300,
                          check=False)


class Parity(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="braid_parity_")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def test_three_schedules_learn_the_same(self):
        data = self.scratch / "data"
        data.mkdir()
        text = ("--input", project.ROOT / "docs", "--extensions", "md")
        for command in (["tokenizer", *text, "--output", data / "tokenizer.model", "--vocab_size", "512"],
                        ["prepare", *text, "--output_prefix", data / "text", "--tokenizer", data / "tokenizer.model"]):
            done = run([BRAID, "data", *command])
            self.assertEqual(done.returncode, 0, done.stderr)
        out = self.scratch / "out"
        done = run([project.ROOT / "tools/parity"], BRAID=str(BRAID), DATA=str(data), OUT=str(out), STEPS="12")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("| step | 1F1B | ZBH1 | ZBVPP |", done.stdout)
        for mode in ("ZBH1", "ZBVPP"):
            self.assertIn(f"{mode}: 0 of 12 steps differ from 1F1B", done.stdout)
        self.assertTrue((out / "parity.svg").read_text().startswith("<svg"))
        losses = [json.loads(line)["loss"] for line in (out / "1F1B/model/metrics.jsonl").read_text().splitlines()]
        self.assertLess(losses[-1], losses[0])

    def write(self, name, losses):
        path = self.scratch / name
        path.write_text("".join(json.dumps({"type": "train", "global_step": step, "loss": loss, "grad_norm": 1.0}) + "\n"
                                for step, loss in enumerate(losses, 1)))
        return path

    def test_the_comparison_sees_the_last_bit(self):
        one, same = self.write("one", [2.0, 1.1]), self.write("same", [2.0, 1.1])
        other, short = self.write("other", [2.0, 1.1000000000000003]), self.write("short", [2.0])
        self.assertEqual(run([COMPARE, f"a={one}", f"b={same}"]).returncode, 0)
        done = run([COMPARE, f"a={one}", f"b={other}"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("b: 1 of 2 steps differ from a", done.stdout)
        self.assertEqual(run([COMPARE, f"a={one}", f"b={short}"]).returncode, 1)

    def test_misuse_is_reported(self):
        for words, said in (([], "name at least two runs"), (["a=/no/such", "b=/no/such"], "/no/such")):
            done = run([COMPARE, *words])
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
