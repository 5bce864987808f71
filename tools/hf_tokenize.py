#!/usr/bin/env python3
"""Tokenises text with a Hugging Face tokenizer.json and writes the .bin, .idx and .meta.json files that braid reads.

The input is read in the same way as by `braid data prepare`, so that equal ids give equal files (but zstd is not decompressed). Needs the package `tokenizers`.
"""
import argparse
import array
import gzip
import hashlib
import itertools
import json
import mmap
import os
import pathlib
import random
import stat
import struct
import sys
import time
import zlib

BINARY_CHECK_BYTES = 8192
BATCH_DOCUMENTS = 256
# The end-of-document token unless --eod names one: the names that published models use.
BEGIN_NAMES = ("<s>", "<|begin_of_text|>", "<bos>")
# Files that hold text but must be converted first, also in directories: how they begin, what they are, what to do.
FOREIGN = ((b"version https://git-lfs.github.com", "a Git LFS pointer", "run git lfs pull in its repository"),
           (b"PAR1", "a Parquet file", "convert it to JSON lines"), (b"ARROW1\0", "an Arrow file", "convert it to JSON lines"),
           (b"\xff\xff\xff\xff", "an Arrow file", "convert it to JSON lines"),
           (b"\xff\xfe", "UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"),
           (b"\xfe\xff", "UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"),
           (b"\x28\xb5\x2f\xfd", "compressed by zstd", "decompress it with unzstd"),
           (b"\xfd7zXZ\0", "compressed by xz", "decompress it with unxz"),
           (b"\x04\x22\x4d\x18", "compressed by lz4", "decompress it with unlz4"))
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
END_NAMES = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "<|im_end|>")


class InputError(Exception):
    """An error to show to the user."""


class Counts:
    def __init__(self):
        self.hidden = self.excluded = self.other_extension = self.binary = self.special = self.without_key = 0
        self.invalid_utf8 = 0

    def left_out(self):
        parts = [(self.hidden, "hidden"), (self.excluded, "excluded by name"),
                 (self.other_extension, "with another extension"), (self.binary, "binary"),
                 (self.without_key, "JSON without text under --json_key"), (self.special, "special (links to directories, devices)")]
        return ", ".join(f"{count} {what}" for count, what in parts if count)


def content_extension(path):
    """The extension that gives the file's type, in lower case: ".rst" of "a.RST.gz"."""
    pure = pathlib.PurePath(path.lower())
    return pathlib.PurePath(pure.stem).suffix if pure.suffix in (".gz", ".zst") else pure.suffix


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


def text_of_object(value, key, origin):
    if not isinstance(value, dict):
        raise InputError(f'{origin}: a document must be a JSON object like {{"{key}": "..."}}')
    if key not in value:
        raise InputError(f'{origin}: has no key "{key}" (its keys: {", ".join(value) or "none"}); '
                      "--json_key names the one that holds the text, --format text makes the file one document")
    if not isinstance(value[key], str):
        raise InputError(f'{origin}: the value of "{key}" must be a string, but it is {type(value[key]).__name__}')
    try:
        value[key].encode()
    except UnicodeEncodeError:
        raise InputError(f'{origin}: the value of "{key}" has half of a surrogate pair') from None
    return value[key]


def json_lines(stream, path):
    """(origin, value) of each line."""
    for number, line in enumerate(stream, 1):
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        if line.strip():
            try:
                yield f"{path}:{number}", json.loads(line)
            except ValueError as error:
                raise InputError(f"{path}:{number}: not JSON: {error}") from None


def json_values(data, path):
    """(origin, value) of each entry of an array, or of objects one after the other."""
    try:
        text = data.removeprefix(BYTE_ORDER_MARK).decode("utf-8")
        decoder, at, spaces = json.JSONDecoder(), 0, " \t\r\n"
        if text.lstrip(spaces).startswith("["):
            for number, value in enumerate(json.loads(text), 1):
                yield f"{path}, entry {number}", value
            return
        while text[at:at + 1]:
            if text[at] in spaces:
                at += 1
                continue
            value, end = decoder.raw_decode(text, at)
            yield f"{path}:{text.count(chr(10), 0, at) + 1}", value
            at = end
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from None


def is_object(line):
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def is_lines_name(path):
    return content_extension(path) in (".jsonl", ".ndjson")


def format_of(stream, path, options):
    """text, jsonl or json; reads the first line if the name does not say."""
    if options.format != "auto":
        return options.format
    if is_lines_name(path):
        return "jsonl"
    first = stream.readline().removeprefix(BYTE_ORDER_MARK)
    if first.lstrip()[:1] == b"{" and is_object(first):
        return "jsonl"
    return "json" if content_extension(path) == ".json" else "text"


def check_text(path, head, named, counts):
    """Whether a file with these first bytes is text."""
    for magic, what, cure in FOREIGN:
        if head.startswith(magic):
            raise InputError(f"{path} is {what}, not a text file: {cure}")
    nul = head.find(b"\0")
    if nul >= 0 and named:
        raise InputError(f"{path} is not text: it has a NUL at byte {nul}")
    counts.binary += nul >= 0
    return nul < 0


def documents_of_file(path, named, options, counts):
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = gzip.open(raw) if packed else raw
        if not check_text(path, stream.read(BINARY_CHECK_BYTES), named, counts):
            return
        stream.seek(0)
        kind = format_of(stream, path, options)
        stream.seek(0)
        if kind == "text":
            data = stream.read()
            if check_text(path, data, named, counts):
                yield text_of(data.removeprefix(BYTE_ORDER_MARK), counts)
            return
        values = json_lines(stream, path) if kind == "jsonl" else json_values(stream.read(), path)
        for number, (origin, value) in enumerate(values):
            has_text = isinstance(value, dict) and options.json_key in value
            if not has_text and number == 0 and not named and options.format == "auto" and not is_lines_name(path):
                counts.without_key += 1
                return
            yield text_of_object(value, options.json_key, origin)


def documents(options, counts):
    """Texts of all inputs that are not empty, in order, one at a time."""
    for path, named in list_inputs(options, counts):
        try:
            for text in documents_of_file(path, named, options, counts):
                if text:
                    yield text
        except (EOFError, OSError, zlib.error) as error:
            raise InputError(f"{path} could not be read: {error}") from None


def fingerprint(path):
    """The same as braid's: see braid/base/fingerprint.h."""
    size, most, block_bytes = os.path.getsize(path), 32 << 20, 64 << 10
    with open(path, "rb") as file:
        if size <= most:
            return f"sha256:{hashlib.sha256(file.read()).hexdigest()[:32]}"
        total = hashlib.sha256(f"{size}\n".encode())
        blocks, last = most // block_bytes, size - block_bytes
        for block in range(blocks):
            file.seek(last * block // (blocks - 1))
            total.update(file.read(block_bytes))
        return f"sampled:{total.hexdigest()[:32]}"


def permutation(count, seed):
    """numpy.random.RandomState(seed).permutation(count), for the same order as braid data prepare's."""
    words = [seed]
    for i in range(1, 624):
        words.append((1812433253 * (words[-1] ^ (words[-1] >> 30)) + i) & 0xFFFFFFFF)
    twister = random.Random()
    twister.setstate((3, (*words, 624), None))
    order = array.array("q", range(count))
    for i in range(count - 1, 0, -1):
        mask = (1 << i.bit_length()) - 1
        partner = twister.getrandbits(32) & mask
        while partner > i:
            partner = twister.getrandbits(32) & mask
        order[i], order[partner] = order[partner], order[i]
    return order


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

    def shuffle(self, seed):
        """Writes the documents once more in the order of a permutation."""
        self.close_file(self.bin)
        begins = array.array("q", itertools.accumulate((length * self.token_bytes for length in self.lengths), initial=0))
        order = permutation(len(self.lengths), seed)
        shuffled = f"{self.prefix}.bin.shuffled.partial"
        with open(self.bin.name, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as ordered:
            with open(shuffled, "wb") as out:
                for document in order:
                    out.write(ordered[begins[document]:begins[document + 1]])
                self.close_file(out)
        self.lengths = array.array("i", (self.lengths[document] for document in order))
        os.replace(shuffled, self.bin.name)

    def finish(self, record):
        """`record` becomes PREFIX.meta.json: see braid/data/index/data_record.h."""
        if not self.bin.closed:
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
        record |= {"documents": count, "tokens": sum(self.lengths), "bin_fingerprint": fingerprint(self.bin.name)}
        with open(f"{self.prefix}.meta.json.partial", "w", encoding="utf-8") as meta:
            meta.write("{\n " + ",\n ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items()) + "\n}\n")
            self.close_file(meta)
        if os.path.exists(f"{self.prefix}.idx"):
            os.remove(f"{self.prefix}.idx")
        for suffix in (".bin", ".meta.json", ".idx"):
            os.replace(f"{self.prefix}{suffix}.partial", f"{self.prefix}{suffix}")

    @staticmethod
    def close_file(file):
        file.flush()
        os.fsync(file.fileno())
        file.close()

    def discard(self):
        self.bin.close()
        for suffix in (".bin", ".bin.shuffled", ".meta.json", ".idx"):
            pathlib.Path(f"{self.prefix}{suffix}.partial").unlink(missing_ok=True)


class TextBytes:
    """The bytes of text that each id stands for, as far as the documents' sizes confirm them."""

    def __init__(self, tokenizer):
        description = json.loads(tokenizer.to_str())
        special = {token["id"] for token in description["added_tokens"] if token["special"]}
        byte_level = "ByteLevel" in json.dumps([description["decoder"], description["pre_tokenizer"]])
        added = {token["id"] for token in description["added_tokens"]}
        self.bytes = [0] * tokenizer.get_vocab_size()
        for token, number in tokenizer.get_vocab().items():
            if number in special or number >= len(self.bytes):
                continue
            if byte_level and number not in added:
                self.bytes[number] = len(token)  # a character stands for a byte
            elif len(token) == 6 and token.startswith("<0x"):
                self.bytes[number] = 1
            else:
                self.bytes[number] = len(token.replace("\u2581", " ").encode())
        self.extra = None  # what a document's sum exceeds its size by: 1 where a space is put before it
        self.exact = True

    def add(self, text, ids):
        extra = sum(self.bytes[number] for number in ids) - len(text.encode())
        self.extra = extra if self.extra is None else self.extra
        self.exact = self.exact and extra == self.extra and extra in (0, 1)


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
        return Tokenizer.from_file(file), file
    except Exception as error:  # the package raises the bare class
        raise InputError(f"{file} is not a tokenizer.json: {error}") from None


def find_id(tokenizer, names):
    return next((found for name in names if (found := tokenizer.token_to_id(name)) is not None), None)


def wanted_id(tokenizer, wanted, names, place, flag, switch):
    """The id to put at the `place` of documents, or None; the name given by `flag`, else the first of `names`."""
    found = find_id(tokenizer, names)
    if wanted and found is None:
        raise InputError(f"the tokenizer has no token {' or '.join(names)} for the {place} of a document: name one with {flag}, "
                         f"or pass {switch} 0 to omit it")
    return found if wanted else None


def check_output(options):
    prefix = options.output_prefix.removesuffix(".bin").removesuffix(".idx")
    if not prefix or prefix.endswith("/") or os.path.isdir(prefix):
        raise InputError(f"output_prefix must name files, as in out/corpus for out/corpus.bin; got '{options.output_prefix}'")
    for suffix in (".bin", ".idx", ".meta.json"):
        if os.path.exists(prefix + suffix) and not options.overwrite:
            raise InputError(f"{prefix}{suffix} exists: choose another --output_prefix, or pass --overwrite to replace it")
    os.makedirs(os.path.dirname(prefix) or ".", exist_ok=True)
    return prefix


def batches(items, size):
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield batch


def run(options):
    options.extension = [(e if e.startswith(".") else f".{e}").lower() for e in options.extension]
    if not 0 <= options.shuffle < 1 << 32:
        raise InputError(f"--shuffle must be in [0, 2^32), got {options.shuffle}")
    tokenizer, file = load_tokenizer(options.tokenizer)
    # Long documents stay whole, whatever length the tokenizer's model accepts.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    begin_names, end_names = (options.bos,) if options.bos else BEGIN_NAMES, (options.eod,) if options.eod else END_NAMES
    end = wanted_id(tokenizer, options.append_eod, end_names, "end", "--eod", "--append_eod")
    begin = wanted_id(tokenizer, options.prepend_bos, begin_names, "beginning", "--bos", "--prepend_bos")
    prefix = check_output(options)
    counts, start, progress = Counts(), time.monotonic(), sys.stderr.isatty()
    writer, text_bytes, total_bytes = IndexedWriter(prefix, tokenizer.get_vocab_size()), TextBytes(tokenizer), 0
    try:
        for batch in batches(documents(options, counts), BATCH_DOCUMENTS):
            for text, encoding in zip(batch, tokenizer.encode_batch(batch, add_special_tokens=False)):
                text_bytes.add(text, encoding.ids)
                total_bytes += len(text.encode())
                writer.add([*([] if begin is None else [begin]), *encoding.ids, *([] if end is None else [end])])
            if progress:
                print(f"\r{len(writer.lengths)} documents", end="", file=sys.stderr, flush=True)
        if not writer.lengths:
            raise InputError(f"the input holds no text; skipped: {counts.left_out() or 'nothing'}")
        if options.shuffle:
            writer.shuffle(options.shuffle)
        writer.finish({
            "format": "braid token files", "version": 1,
            "tokenizer": {"kind": "tokenizer.json", "fingerprint": fingerprint(file), "vocabulary_size": tokenizer.get_vocab_size(),
                          "bos_id": find_id(tokenizer, begin_names), "eos_id": find_id(tokenizer, end_names)},
            "add_bos": begin is not None, "eod_id": end, "documents": 0, "tokens": 0, "text_bytes": total_bytes,
            "shuffle_seed": options.shuffle or None, "bin_fingerprint": "",
            "extra_bytes_per_document": text_bytes.extra if text_bytes.exact else 0,
            "token_bytes": text_bytes.bytes if text_bytes.exact else []})
    finally:
        writer.discard()
        if progress:
            print(file=sys.stderr)
    print(f"{prefix}: {len(writer.lengths)} documents, {sum(writer.lengths)} tokens in {time.monotonic() - start:.1f} s, "
          + (f"shuffled with seed {options.shuffle}" if options.shuffle else "in the order of the input"))
    if counts.left_out():
        print(f"skipped: {counts.left_out()}")
    if counts.invalid_utf8:
        print(f"not UTF-8: {counts.invalid_utf8} file(s), invalid bytes replaced by U+FFFD")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", nargs="+", required=True, metavar="PATH",
                        help="text files (one document each), JSON files (a document per object), directories; also .gz")
    parser.add_argument("--format", choices=("auto", "text", "jsonl", "json"), default="auto", help="as braid data prepare's (default: auto)")
    parser.add_argument("--tokenizer", required=True, metavar="PATH", help="tokenizer.json, or a directory that contains it")
    parser.add_argument("--output_prefix", required=True, metavar="PREFIX", help="writes PREFIX.bin, PREFIX.idx and PREFIX.meta.json")
    parser.add_argument("--json_key", default="text", metavar="KEY", help="key of the text in a JSON object (default: text)")
    parser.add_argument("--exclude", nargs="+", default=[], metavar="NAME", help="names of files and directories to skip")
    parser.add_argument("--extension", nargs="+", default=[], metavar="EXT", help="in directories, read only files with these extensions")
    parser.add_argument("--prepend_bos", type=int, choices=(0, 1), default=0, help="begin every document with a token (default: 0)")
    parser.add_argument("--bos", metavar="TOKEN", help=f"that token (default: the first of these that exists: {' '.join(BEGIN_NAMES)})")
    parser.add_argument("--append_eod", type=int, choices=(0, 1), default=1, help="end every document with a token (default: 1)")
    parser.add_argument("--eod", metavar="TOKEN", help=f"that token (default: the first of these that exists: {' '.join(END_NAMES)})")
    parser.add_argument("--shuffle", type=int, default=1, metavar="SEED", help="of the documents' order; 0: the order of the input (default: 1)")
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")
    try:
        run(parser.parse_args())
    except (InputError, OSError) as error:
        sys.exit(f"hf_tokenize: {error}")


if __name__ == "__main__":
    main()
