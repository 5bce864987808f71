"""Every link in the documents has a target, and every project path that they name exists."""
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import project

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def anchors(text):
    """The anchors that GitHub gives to headings."""
    found = []
    for heading in re.findall(r"^#+\s+(.*)$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).strip().replace(" ", "-")
        found.append(f"{plain}-{found.count(plain)}" if plain in found else plain)
    return found


def link_fault(document, text, target):
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return None  # another site
    path, _, anchor = target.partition("#")
    file = document.parent / path if path else document
    if not file.exists():
        return f"link to {target}: there is no {path}"
    if anchor and file.suffix == ".md" and anchor not in anchors(file.read_text() if path else text):
        return f"link to {target}: there is no such heading"
    return None


def is_project_path(root, words):
    """Whether `words` in code marks denote a file or folder of the project: a path that starts with one of its folders."""
    head, slash, _ = words.partition("/")
    return bool(slash) and re.fullmatch(r"[\w./-]+", words) and (root / head).is_dir() and head not in ("build", "out", ".deps")


def faults(root):
    found = []
    for document in project.files(".md", root=root):
        text = document.read_text()
        prose = FENCE.sub("", text)
        wrong = [link_fault(document, text, target) for target in LINK.findall(CODE.sub("", prose))]
        wrong += [f"names {words}, which does not exist" for words in CODE.findall(prose)
                  if is_project_path(root, words) and not (root / words).exists() and not (document.parent / words).exists()]
        found += [f"{document.relative_to(root).as_posix()}: {fault}" for fault in wrong if fault]
    return found


class DocsLinks(unittest.TestCase):
    def test_project(self):
        self.assertGreater(len(project.files(".md")), 0)
        self.assertEqual(faults(project.ROOT), [])

    def test_every_fault_is_found(self):
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            (root / "docs").mkdir()
            (root / "docs/b.md").write_text("# Two words, `x`\n\n```sh\n# not a heading\n```\n")
            (root / "README.md").write_text(
                "[good](docs/b.md) [heading](docs/b.md#two-words-x) [site](https://example.org/nothing) ![picture](docs/none.svg)\n"
                "[gone](docs/c.md) [wrong](docs/b.md#not-a-heading) `docs/b.md` `docs/d.md` `and/or` `docs/*.md`\n"
                "```\n[in a block](nowhere)\n```\n")
            self.assertEqual(faults(root), [
                "README.md: link to docs/none.svg: there is no docs/none.svg",
                "README.md: link to docs/c.md: there is no docs/c.md",
                "README.md: link to docs/b.md#not-a-heading: there is no such heading",
                "README.md: names docs/d.md, which does not exist",
            ])


if __name__ == "__main__":
    unittest.main()
