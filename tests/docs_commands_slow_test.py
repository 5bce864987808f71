"""Every command in the documents runs.

The ```sh blocks of README.md and docs/*.md are executed in order, each document in its own scratch folder, with `braid` in PATH and the
project's folders visible. Lines that call make are left to CI, which calls the same targets itself. In a block marked ```sh no-run (two
machines, a GPU, hours) each `braid` line is checked against `--help`: its commands and flags must exist.
"""
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

BLOCK = re.compile(r"^```sh[ \t]*(no-run)?[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
TIMEOUT_S = 600
SEEN_IN_SCRATCH = ("docs", "bench", "recipes", "tools", "README.md")


def blocks(text):
    """[(line of its first command, whether it is run, its text)]"""
    return [(text.count("\n", 0, found.start(2)) + 1, found[1] is None, found[2]) for found in BLOCK.finditer(text)]


def without_make(script):
    """The same without the lines that call make (and their continuations)."""
    logical = re.split(r"(?<!\\)\n", script)
    return "\n".join(line for line in logical if not re.match(r"\s*(\w+=\S+\s+)*make\b", line))


class Help:
    """The output of `braid ... --help`, queried once per command."""

    def __init__(self, braid):
        self.braid, self.known = braid, {}

    def __call__(self, commands):
        if commands not in self.known:
            done = subprocess.run([self.braid, *commands, "--help"], stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=60)
            self.known[commands] = done.stdout if done.returncode == 0 else None
        return self.known[commands]


def line_faults(line, help_of):
    """What is wrong with one `braid ...` line: a command or a flag that --help does not know."""
    words = shlex.split(line, comments=True)
    while words and re.match(r"\w+=", words[0]):
        words.pop(0)
    if not words or words[0] != "braid":
        return []
    faults, commands, in_flags = [], (), False
    for position, word in enumerate(words[1:], 1):
        if word.startswith("--"):
            in_flags = True
            flag = word.partition("=")[0]
            if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", help_of(commands) or ""):
                faults.append(f"braid {' '.join(commands)} --help does not name {flag}")
        elif commands[:1] == ("launch",) and words[position - 1] != "launch" and re.fullmatch("pretrain|generate", word):
            commands, in_flags = (word,), False  # the command that launch starts
        elif not in_flags and len(commands) < 2 and re.fullmatch("[a-z]+", word):
            if commands and commands[0] not in ("data", "schedule"):
                continue  # a file or another argument
            if help_of((*commands, word)) is None:
                faults.append(f"there is no command braid {' '.join((*commands, word))}")
                break
            commands = (*commands, word)
    return faults


def script_faults(script, help_of):
    lines = re.sub(r"\\\n", " ", script).splitlines()
    return [fault for line in lines for fault in line_faults(line, help_of)]


def run_document(path, braid):
    """Runs what `path` says. Returns the faults; after one the rest of the document is not run."""
    name = path.relative_to(project.ROOT).as_posix()
    help_of = Help(braid)
    search = [str(braid.parent), os.environ["PATH"]]
    if "BRAID_PYTHON" in os.environ:
        search.insert(1, str(pathlib.Path(os.environ["BRAID_PYTHON"]).parent))
    environment = {**os.environ, "PATH": os.pathsep.join(search), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory(prefix="braid_docs_") as scratch:
        for seen in SEEN_IN_SCRATCH:
            if (project.ROOT / seen).exists():
                os.symlink(project.ROOT / seen, pathlib.Path(scratch, seen))
        for line, runs, script in blocks(path.read_text()):
            if not runs:
                faults = script_faults(script, help_of)
                if faults:
                    return [f"{name}:{line}: {fault}" for fault in faults]
                continue
            with tempfile.TemporaryFile("w+") as output:  # no pipe: a process left behind would hold it open
                try:
                    code = subprocess.run(["bash", "-euo", "pipefail", "-c", without_make(script)], cwd=scratch, env=environment,
                                          stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, timeout=TIMEOUT_S).returncode
                except subprocess.TimeoutExpired:
                    code = f"none in {TIMEOUT_S} s"
                output.seek(0)
                said = output.read()[-4000:]
            if code != 0:
                return [f"{name}:{line}: exit code {code}\n{script}\n{said}"]
    return []


class DocsCommands(unittest.TestCase):
    def test_documents(self):
        braid = pathlib.Path(os.environ.get("BRAID_BUILD_DIR", project.ROOT / "build"), "braid").resolve()
        documents = [project.ROOT / "README.md", *sorted((project.ROOT / "docs").glob("*.md"))]
        for document in documents:
            with self.subTest(document.name):
                self.assertEqual(run_document(document, braid), [])
        self.assertTrue(any(runs for document in documents for _, runs, _ in blocks(document.read_text())))


class OwnParts(unittest.TestCase):
    HELP = {(): "commands: data launch pretrain", ("data",): "prepare", ("data", "prepare"): "--input FILE", ("launch",): "--gpus LIST",
            ("pretrain",): "--max_steps N"}

    def test_blocks_and_marks(self):
        text = "a\n```sh\nbraid x\n```\n```sh no-run\nbraid y\n```\n```json\n{}\n```\n"
        self.assertEqual(blocks(text), [(3, True, "braid x\n"), (6, False, "braid y\n")])

    def test_make_is_omitted(self):
        self.assertEqual(without_make("make test\nCORPUS=x make \\\n  pretrain\nbraid \\\n  make\n"), "braid \\\n  make\n")

    def test_unknown_commands_and_flags_are_found(self):
        script = ("braid data prepare --input x --inptu y\nbraid launch --gpus 0,1 \\\n  pretrain run.yaml --max_steps 3 --gpus 2\n"
                  "A=1 braid data prepair --input x\nbraid prune\nls --none\n")
        self.assertEqual(script_faults(script, self.HELP.get), [
            "braid data prepare --help does not name --inptu",
            "braid pretrain --help does not name --gpus",
            "there is no command braid data prepair",
            "there is no command braid prune",
        ])

    def test_failing_command_is_found(self):
        with tempfile.TemporaryDirectory(dir=project.ROOT / "docs") as folder:
            document = pathlib.Path(folder, "page.md")
            document.write_text("```sh\necho here > file\n```\n```sh\ncat file\nfalse | cat\n```\n")
            self.assertRegex(run_document(document, pathlib.Path("/nowhere/braid"))[0], r"(?s)page.md:5: exit code 1.*here")
            document.write_text("```sh\necho here > file\n```\n```sh\ncat file\n```\n")
            self.assertEqual(run_document(document, pathlib.Path("/nowhere/braid")), [])


if __name__ == "__main__":
    unittest.main()
