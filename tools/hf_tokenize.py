#!/usr/bin/env python3
"""Tokenises text with a Hugging Face tokenizer.json and writes the .bin and .idx files that braid reads.

The input is read in the same way as by `braid data prepare`, so that equal ids give equal files. Needs the package `tokenizers`.
"""
import argparse
import array
import gzip
import itertools
import json
import os
import pathlib
import stat
import struct
import sys
import time
import zlib

BINARY_CHECK_BYTES = 8192
BATCH_DOCUMENTS = 256
# The end-of-document token unless --eod names one: the names that published models use.
END_NAMES = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "<|im_end|>")


class InputError(Exception):
    """An error to show to the user."""


class Counts:
    def __init__(self):
        self.hidden = self.excluded = self.other_extension = self.binary = self.special = 0
        self.invalid_utf8 = 0

    def left_out(self):
        parts = [(self.hidden, "hidden"), (self.excluded, "excluded by name"),
                 (self.other_extension, "with another extension"), (self.binary, "binary"),
                 (self.special, "special (links to directories, devices)")]
        return ", ".join(f"{count} {what}" for count, what in parts if count)


def content_extension(path):
    """The extension that gives the file's type: ".rst" of "a.rst.gz"."""
    pure = pathlib.PurePath(path)
    return pathlib.PurePath(pure.stem).suffix if pure.suffix == ".gz" else pure.suffix


def list_directory(directory, options, counts):
    """Files of a directory in the byte order of their paths; links to files are followed, links to directories are not."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                counts.hidden += 1
            elif entry.name in options.exclude:
                counts.excluded += 1
            elif entry.is_dir():
                if entry.is_symlink():
                    counts.special += 1
                else:
                    found += list_directory(entry.path, options, counts)
            elif not entry.is_file():
                counts.special += 1
            elif options.extension and content_extension(entry.path) not in options.extension:
                counts.other_extension += 1
            else:
                found.append(entry.path)
    return sorted(found, key=os.fsencode)


def list_inputs(options, counts):
    """(path, whether the user named it) of every file to read."""
    files = []
    for path in options.input:
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            raise InputError(f"input {path}: no such file or directory") from None
        if stat.S_ISDIR(mode):
            files += [(file, False) for file in list_directory(path, options, counts)]
        elif stat.S_ISREG(mode):
            files.append((path, True))
        else:
            raise InputError(f"input {path} is neither a file nor a directory")
    if not files:
        raise InputError(f"no text file in {options.input[0]}; skipped: {counts.left_out() or 'nothing'}")
    return files


def text_of(data, counts):
    """Text of bytes that should be UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        counts.invalid_utf8 += 1
        return data.decode("utf-8", errors="replace")


def text_of_line(line, key, origin):
    try:
        value = json.loads(line)
    except ValueError as error:
        raise InputError(f"{origin}: not a line of JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f'{origin}: a line must be a JSON object like {{"{key}": "..."}}')
    if key not in value:
        raise InputError(f'{origin}: has no key "{key}" (its keys: {", ".join(value) or "none"}); '
                      "--json_key names the one that holds the text")
    if not isinstance(value[key], str):
        raise InputError(f'{origin}: the value of "{key}" must be a string, but it is {type(value[key]).__name__}')
    try:
        value[key].encode()
    except UnicodeEncodeError:
        raise InputError(f'{origin}: the value of "{key}" has half of a surrogate pair') from None
    return value[key]


def documents_of_file(path, named, options, counts):
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = gzip.open(raw) if packed else raw
        head = stream.read(BINARY_CHECK_BYTES)
        nul = head.find(b"\0")
        if nul >= 0 and named:
            raise InputError(f"{path} is not text: it has a NUL at byte {nul}")
        if nul >= 0:
            counts.binary += 1
            return
        stream.seek(0)
        if content_extension(path) == ".jsonl":
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield text_of_line(line, options.json_key, f"{path}:{number}")
        else:
            yield text_of(stream.read().removeprefix(b"\xef\xbb\xbf"), counts)


def documents(options, counts):
    """Texts of all inputs that are not empty, in order, one at a time."""
    for path, named in list_inputs(options, counts):
        try:
            for text in documents_of_file(path, named, options, counts):
                if text:
                    yield text
        except (EOFError, OSError, zlib.error) as error:
            raise InputError(f"{path} could not be read: {error}") from None


class IndexedWriter:
    """Writes Megatron's format: see braid/data/index/indexed_file.h for its fields."""

    def __init__(self, prefix, vocabulary_size):
        self.prefix = prefix
        self.code, self.letter, self.token_bytes = (8, "H", 2) if vocabulary_size < 65500 else (4, "i", 4)
        if array.array(self.letter).itemsize != self.token_bytes:
            raise InputError("this machine's C types do not have the sizes that the file format needs")
        self.lengths = array.array("i")
        self.bin = open(f"{prefix}.bin.partial", "wb")

    def add(self, ids):
        tokens = array.array(self.letter, ids)
        if sys.byteorder == "big":
            tokens.byteswap()
        self.bin.write(tokens.tobytes())
        self.lengths.append(len(tokens))

    def finish(self):
        self.close_file(self.bin)
        count = len(self.lengths)
        lengths = array.array("i", self.lengths)
        offsets = array.array("q", itertools.accumulate((length * self.token_bytes for length in self.lengths[:-1]), initial=0))
        documents = array.array("q", range(count + 1))
        with open(f"{self.prefix}.idx.partial", "wb") as idx:
            idx.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, self.code, count, count + 1))
            for numbers in (lengths, offsets, documents):
                if sys.byteorder == "big":
                    numbers.byteswap()
                idx.write(numbers.tobytes())
            self.close_file(idx)
        if os.path.exists(f"{self.prefix}.idx"):
            os.remove(f"{self.prefix}.idx")
        for suffix in (".bin", ".idx"):
            os.replace(f"{self.prefix}{suffix}.partial", f"{self.prefix}{suffix}")

    @staticmethod
    def close_file(file):
        file.flush()
        os.fsync(file.fileno())
        file.close()

    def discard(self):
        self.bin.close()
        for suffix in (".bin", ".idx"):
            pathlib.Path(f"{self.prefix}{suffix}.partial").unlink(missing_ok=True)


def load_tokenizer(path):
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise InputError("the Python package 'tokenizers' is missing: python3 -m pip install tokenizers "
                      "(in a virtual environment if the system requires one)") from None
    file = os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path
    if not os.path.isfile(file):
        raise InputError(f"tokenizer {path}: {file} does not exist")
    try:
        return Tokenizer.from_file(file)
    except Exception as error:  # the package raises the bare class
        raise InputError(f"{file} is not a tokenizer.json: {error}") from None


def end_id(tokenizer, options):
    if not options.append_eod:
        return None
    names = (options.eod,) if options.eod else END_NAMES
    for name in names:
        found = tokenizer.token_to_id(name)
        if found is not None:
            return found
    raise InputError(f"the tokenizer has no token {' or '.join(names)} to end a document with: name one with --eod, "
                  "or pass --append_eod 0 to omit it")


def check_output(options):
    prefix = options.output_prefix.removesuffix(".bin").removesuffix(".idx")
    if not prefix or prefix.endswith("/") or os.path.isdir(prefix):
        raise InputError(f"output_prefix must name files, as in out/corpus for out/corpus.bin; got '{options.output_prefix}'")
    for suffix in (".bin", ".idx"):
        if os.path.exists(prefix + suffix) and not options.overwrite:
            raise InputError(f"{prefix}{suffix} exists: choose another --output_prefix, or pass --overwrite to replace it")
    os.makedirs(os.path.dirname(prefix) or ".", exist_ok=True)
    return prefix


def batches(items, size):
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield batch


def run(options):
    options.extension = [e if e.startswith(".") else f".{e}" for e in options.extension]
    tokenizer = load_tokenizer(options.tokenizer)
    # Long documents stay whole, whatever length the tokenizer's model accepts.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    end = end_id(tokenizer, options)
    prefix = check_output(options)
    counts, start, progress = Counts(), time.monotonic(), sys.stderr.isatty()
    writer = IndexedWriter(prefix, tokenizer.get_vocab_size())
    try:
        for batch in batches(documents(options, counts), BATCH_DOCUMENTS):
            for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
                writer.add(encoding.ids if end is None else encoding.ids + [end])
            if progress:
                print(f"\r{len(writer.lengths)} documents", end="", file=sys.stderr, flush=True)
        if not writer.lengths:
            raise InputError(f"the input holds no text; skipped: {counts.left_out() or 'nothing'}")
        writer.finish()
    finally:
        writer.discard()
        if progress:
            print(file=sys.stderr)
    print(f"{prefix}: {len(writer.lengths)} documents, {sum(writer.lengths)} tokens in {time.monotonic() - start:.1f} s")
    if counts.left_out():
        print(f"skipped: {counts.left_out()}")
    if counts.invalid_utf8:
        print(f"not UTF-8: {counts.invalid_utf8} file(s), invalid bytes replaced by U+FFFD")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", nargs="+", required=True, metavar="PATH",
                        help="text files (one document each), .jsonl files (one document per line), directories; also .gz")
    parser.add_argument("--tokenizer", required=True, metavar="PATH", help="tokenizer.json, or a directory that contains it")
    parser.add_argument("--output_prefix", required=True, metavar="PREFIX", help="writes PREFIX.bin and PREFIX.idx")
    parser.add_argument("--json_key", default="text", metavar="KEY", help="key of the text in a line of JSON (default: text)")
    parser.add_argument("--exclude", nargs="+", default=[], metavar="NAME", help="names of files and directories to skip")
    parser.add_argument("--extension", nargs="+", default=[], metavar="EXT", help="in directories, read only files with these extensions")
    parser.add_argument("--append_eod", type=int, choices=(0, 1), default=1, help="end every document with a token (default: 1)")
    parser.add_argument("--eod", metavar="TOKEN", help=f"that token (default: the first of these that exists: {' '.join(END_NAMES)})")
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")
    try:
        run(parser.parse_args())
    except (InputError, OSError) as error:
        sys.exit(f"hf_tokenize: {error}")


if __name__ == "__main__":
    main()
