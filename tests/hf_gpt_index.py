"""Megatron's .bin/.idx files and the order of its training samples, with numpy: written from the description of the format and of
Megatron's GPT dataset, independently of braid's own reader, so that each checks the other."""
import struct

import numpy

DTYPES = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}


class IndexedTokens:
    """The documents of <prefix>.bin/.idx, in file order."""

    def __init__(self, prefix):
        with open(f"{prefix}.idx", "rb") as file:
            index = file.read()
        magic, version, code, sequences, bounds = struct.unpack_from("<9sQBQQ", index)
        assert magic == b"MMIDIDX\0\0" and version == 1, (magic, version)
        self.lengths = numpy.frombuffer(index, "<i4", sequences, 34)
        offsets = numpy.frombuffer(index, "<i8", sequences, 34 + 4 * sequences)
        documents = numpy.frombuffer(index, "<i8", bounds, 34 + 12 * sequences)
        assert documents[0] == 0 and documents[-1] == sequences, documents
        dtype = numpy.dtype(DTYPES[code])
        tokens = numpy.fromfile(f"{prefix}.bin", dtype)
        assert len(tokens) == self.lengths.sum(), (len(tokens), self.lengths.sum())
        self.documents = [tokens[offset // dtype.itemsize:][:length].astype(numpy.int64) for offset, length in zip(offsets, self.lengths)]


def training_documents(documents, weights):
    """The documents that `weights` (train, valid, test) assign to the training part."""
    return documents[:int(round(weights[0] / sum(weights) * len(documents)))]


class TrainingSamples:
    """Samples of `length` + 1 tokens in the order that Megatron trains on: documents shuffled within whole epochs and joined end to end, cut
    into samples that share one token, and the samples shuffled. A last epoch of which less than 80% is needed is shuffled separately."""

    def __init__(self, documents, length, samples, seed):
        per_epoch = sum(map(len, documents))
        self.epochs = -(-(samples * length + 1) // per_epoch)
        before_last = ((self.epochs - 1) * per_epoch - 1) // length if self.epochs > 1 else 0
        self.last_apart = self.epochs > 1 and samples - before_last < int(0.80 * ((per_epoch - 1) // length))
        random = numpy.random.RandomState(seed)
        whole = self.epochs - 1 if self.last_apart else self.epochs
        order = numpy.tile(numpy.arange(len(documents)), whole)
        random.shuffle(order)
        if self.last_apart:
            last = numpy.arange(len(documents))
            random.shuffle(last)
            order = numpy.concatenate([order, last])
        self._text = numpy.concatenate([documents[i] for i in order])
        self._length = length
        count = (self.epochs * per_epoch - 1) // length
        first = before_last if self.last_apart else count
        shuffled = [numpy.arange(first), numpy.arange(first, count)]
        for part in shuffled:
            random.shuffle(part)
        self._order = numpy.concatenate(shuffled)

    def __getitem__(self, index):
        begin = int(self._order[index]) * self._length
        return self._text[begin:begin + self._length + 1]
