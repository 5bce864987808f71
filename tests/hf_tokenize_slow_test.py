#!/usr/bin/env python3
"""tools/hf_tokenize.py and `braid data prepare` write the same files where their tokenizers have the same ids: here, bytes."""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hf_environment

hf_environment.enter()

import tokenizers

import hf_braid

TOOL = hf_environment.ROOT / "tools/hf_tokenize.py"
END = "<|endoftext|>"


def byte_letters():
    """The character by which a byte-level tokenizer.json writes each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


class HfTokenize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="braid_hf_tokenize_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={letter: byte for byte, letter in enumerate(byte_letters())}, merges=[]))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        tokenizer.add_special_tokens([END])
        tokenizer.save(str(self.folder / "tokenizer.json"))
        text = self.folder / "text"
        text.mkdir()
        for number in range(30):
            (text / f"{number}.txt").write_text(f"Größe {number}, \u2028 世界 🙂\r\n" * (number % 4))
        (text / "bom.md").write_bytes(b"\xef\xbb\xbfwith a mark")
        (text / "lines.NDJSON").write_text('{"text": "one"}\n\n{"text": "t\\u0000wo"}\n')
        (text / "array.json").write_text('[{"text": "three"},\n {"text": "fo]ur"}]')
        (text / "pretty.json").write_text('{\n "text": "five"\n}\n{\n "text": "six"\n}\n')
        (text / "packed.json.gz").write_bytes(gzip.compress(b'{"text": "seven"}\n'))
        (text / "settings.json").write_text('{"name": 1}')
        (text / "link.md").write_text("[a link](there)\n")
        (text / "picture").write_bytes(b"\0\1\2")

    def tool(self, *words):
        return subprocess.run([sys.executable, str(TOOL), "--input", str(self.folder / "text"), "--tokenizer",
                               str(self.folder / "tokenizer.json"), "--output_prefix", str(self.folder / "hf"), *words],
                              capture_output=True, text=True, check=False)

    def test_equal_ids_give_equal_files(self):
        for seed in (0, 1, 77):
            done = self.tool("--shuffle", str(seed), "--overwrite")
            self.assertEqual(done.returncode, 0, done.stderr)
            hf_braid.braid("data", "prepare", "--input", self.folder / "text", "--output_prefix", self.folder / "own", "--tokenizer", "byte",
                           "--shuffle", seed, "--overwrite")
            for suffix in (".bin", ".idx"):
                self.assertEqual((self.folder / f"hf{suffix}").read_bytes(), (self.folder / f"own{suffix}").read_bytes(), seed)
            records = [json.loads((self.folder / f"{name}.meta.json").read_text()) for name in ("hf", "own")]
            kinds = [record.pop("tokenizer")["kind"] for record in records]
            self.assertEqual(kinds, ["tokenizer.json", "byte"])
            self.assertEqual(*records)
            self.assertIn("1 JSON without text", done.stdout)
        self.assertIn("tokenizer: tokenizer.json sha256:", hf_braid.braid("data", "inspect", self.folder / "hf").decode())

    def test_what_must_be_converted_is_an_error(self):
        for content, said in ((b"PAR1\x15\0", "is a Parquet file"), (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
                              (b"\x28\xb5\x2f\xfd\0", "is compressed by zstd")):
            (self.folder / "text/other").write_bytes(content)
            done = self.tool()
            self.assertEqual(done.returncode, 1)
            self.assertIn(said, done.stderr)
            self.assertEqual(list(self.folder.glob("hf.*")), [])

    def test_a_beginning_of_text_is_recorded(self):
        done = self.tool("--prepend_bos", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--bos", done.stderr)
        done = self.tool("--prepend_bos", "1", "--bos", END)
        self.assertEqual(done.returncode, 0, done.stderr)
        record = json.loads((self.folder / "hf.meta.json").read_text())
        self.assertEqual((record["add_bos"], record["tokenizer"]["bos_id"]), (True, 256))


if __name__ == "__main__":
    unittest.main()
