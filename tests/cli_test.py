"""The program `braid` as users call it: help, misuse, exit codes, data and schedules. BRAID_BUILD_DIR is the folder
that contains it (build/ unless set). Uses only Python's standard library."""

import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRAID = pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid"

SHOW_4_8 = """\
1F1B: 4 ranks, 8 microbatches

slot    0         5         10        15        20        25        30
rank 0 |F0F1F2F3············[B0]F4[B1]F5[B2]F6[B3]F7[B4]··[B5]··[B6]··[B7]|
rank 1 |··F0F1F2········[B0]F3[B1]F4[B2]F5[B3]F6[B4]F7[B5]··[B6]··[B7]····|
rank 2 |····F0F1····[B0]F2[B1]F3[B2]F4[B3]F5[B4]F6[B5]F7[B6]··[B7]········|
rank 3 |······F0[B0]F1[B1]F2[B2]F3[B3]F4[B4]F5[B5]F6[B6]F7[B7]············|

F forward, [B] backward, · idle; the number is the microbatch
33 slots in all; bubble 27.3% (9 of 33); peak live activations per rank: 4 3 2 1
"""


def environment(**changes):
    """This process's environment without the variables of an outer launch or terminal."""
    dropped = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "BRAID_PROGRESS", "NO_COLOR", "TERM", "COLUMNS")
    result = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**result, **changes}


def braid(*words, **options):
    options.setdefault("env", environment())
    return subprocess.run([str(BRAID), *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          encoding="utf-8", timeout=120, check=False, **options)


class Help(unittest.TestCase):
    def test_each_command_has_help(self):
        for words in ("pretrain", "launch", "generate", "data tokenizer", "data prepare", "data inspect",
                      "schedule show"):
            with self.subTest(words):
                result = braid(*words.split(), "--help")
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertTrue(result.stdout.startswith(f"Usage: braid {words} "), result.stdout[:200])
                self.assertRegex(result.stdout, r"\n  --\w+ <")
                self.assertLessEqual(max(map(len, result.stdout.splitlines())), 110)

    def test_overview(self):
        result = braid("help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        alone = braid()
        self.assertEqual((alone.returncode, alone.stdout), (2, result.stdout))

    def test_version_is_the_projects(self):
        project = re.search(r"project\(braid VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
        self.assertEqual(braid("--version").stdout, f"braid {project[1]}\n")


class Misuse(unittest.TestCase):
    def test_one_line_and_exit_code_2(self):
        for words, error in (
                ("pretrian", "braid: unknown command 'pretrian'; did you mean pretrain?"),
                ("data prepare --imput x",
                 "braid data prepare: --imput: there is no such option; did you mean input?"),
                ("schedule show --pp 0", "braid schedule show: --pp must be a whole number, >= 1, got '0'"),
                ("launch --nproc_per_node 2 pretrian",
                 "braid launch: unknown command 'pretrian'; did you mean pretrain?")):
            with self.subTest(words):
                result = braid(*words.split())
                self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", error + "\n"))

    def test_misuse_in_a_rank_ends_the_launch_with_its_code(self):
        result = braid("launch", "--nproc_per_node", "2", "pretrain", "--max_step", "3")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--max_step: there is no such option; did you mean max_steps?", result.stderr + result.stdout)


class Data(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "docs").mkdir()
        (self.folder / "docs" / "a.txt").write_text("Hello, world.", encoding="utf-8")
        (self.folder / "docs" / "b.txt").write_text("Größe √2", encoding="utf-8")

    def test_prepare_and_inspect(self):
        prefix = self.folder / "out" / "tokens"
        command = ("data", "prepare", "--input", self.folder / "docs", "--output_prefix", prefix, "--tokenizer", "byte")
        result = braid(*command)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("2 documents, 27 tokens (uint16)", result.stdout)
        self.assertEqual(prefix.with_suffix(".bin").stat().st_size, 54)
        again = braid(*command)
        self.assertEqual((again.returncode, again.stdout), (2, ""))
        self.assertIn("tokens.bin exists", again.stderr)

        result = braid("data", "inspect", prefix, "--tokenizer", "byte")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("  | Größe √2\n", result.stdout)

        with open(prefix.with_suffix(".bin"), "r+b") as file:
            file.truncate(53)
        result = braid("data", "inspect", prefix)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn(str(prefix) + ".bin", result.stderr)

    def test_interrupted_prepare_leaves_nothing(self):
        big = self.folder / "docs" / "big.txt"
        # Listed many times: far more than is read before the signal arrives.
        with open(big, "wb") as file:
            file.write(b"x" * (1 << 20))
        inputs = [str(big)] * 2000
        prefix = self.folder / "out" / "tokens"
        with subprocess.Popen([str(BRAID), "data", "prepare", "--output_prefix", str(prefix), "--tokenizer", "byte",
                               "--input", *inputs], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                              env=environment()) as process:
            while not list(self.folder.glob("out/*.partial")):
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, error)
        self.assertEqual(error, "braid data prepare: stopped by SIGINT; nothing was written\n")
        self.assertEqual(list((self.folder / "out").iterdir()), [])


class Schedule(unittest.TestCase):
    def test_show_golden(self):
        result = braid("schedule", "show", "--mode", "1F1B", "--pp", "4", "--micro", "8")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        drawing, rest = result.stdout[:len(SHOW_4_8)], result.stdout[len(SHOW_4_8):]
        self.assertEqual(drawing, SHOW_4_8)
        self.assertRegex(rest, r"^48 messages per step, at most \d of one rank in flight\n$")


class Output(unittest.TestCase):
    def test_a_reader_that_closes_early_is_no_error(self):
        # Both settings of SIGPIPE that a shell or a parent may have left.
        for restore in (True, False):
            with self.subTest(restore_signals=restore):
                read_end, write_end = os.pipe()
                os.close(read_end)
                with subprocess.Popen([str(BRAID), "schedule", "show"], stdin=subprocess.DEVNULL, stdout=write_end,
                                      stderr=subprocess.PIPE, env=environment(), restore_signals=restore) as process:
                    os.close(write_end)
                    _, error = process.communicate(timeout=60)
                self.assertEqual(error, b"")
                self.assertEqual(process.returncode, -signal.SIGPIPE if restore else 128 + signal.SIGPIPE)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([str(BRAID), "schedule", "show"], stdout=full, stderr=subprocess.PIPE, text=True,
                                    timeout=60, check=False, env=environment())
        self.assertEqual(result.returncode, 74)
        self.assertEqual(result.stderr, "braid: cannot write to standard output: is it closed, or the disk full?\n")

    def test_colours_on_a_terminal(self):
        for changes, coloured in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False)):
            with self.subTest(**changes):
                ours, theirs = pty.openpty()
                with subprocess.Popen([str(BRAID), "schedule", "show"], stdin=subprocess.DEVNULL, stdout=theirs,
                                      env=environment(**changes)) as process:
                    os.close(theirs)
                    shown = b""
                    try:
                        while select.select([ours], [], [], 60)[0]:
                            shown += os.read(ours, 65536)
                    except OSError:  # the other end was closed
                        pass
                    finally:
                        os.close(ours)
                self.assertEqual(process.returncode, 0)
                self.assertEqual(b"\033[" in shown, coloured)


if __name__ == "__main__":
    unittest.main()
