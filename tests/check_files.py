"""Opens generated data sets with the readers that people use and checks what is in them.

    check_files.py CASES

CASES is a JSON list. Each case is one folder of one set's files:

    format        dataset.format
    folder        where the files are, folders in it included
    files         how many
    samples       in each (1 if not given)
    shape         of a sample
    shapes        of the samples of each file in turn, in place of `shape`
    dtype         of the elements (uint8 if not given)
    compression   none if not given
    compressibility
                  how much smaller compression makes values (1 if not given)
    size          bytes of each file, if they follow from the settings
    sizes         bytes of each file in turn
    datasets      hdf5: datasets of records
    chunks        hdf5: their chunks
    maxshape      hdf5: how far they may grow
    columns       parquet: [name, Arrow's type] of each
    groups        parquet: rows of the row groups
    index         tfrecord, indexed_binary: whether indexes stand beside the files (true if not given)

All that is wrong is an exception, and so is a warning under `python -W error`.
"""

import bz2
import gzip
import hashlib
import io
import itertools
import json
import lzma
import math
import pathlib
import struct
import sys
import zipfile
import zlib

import h5py
import numpy
import pyarrow
import pyarrow.compute
import pyarrow.parquet
from PIL import Image

SUFFIXES = {"gzip": ".gz", "bz2": ".bz2", "zip": ".zip", "xz": ".xz"}


def same(found, expected, what):
    assert found == expected, f"{what} is {found}, not {expected}"


class Case:
    def __init__(self, told):
        self.format = told["format"]
        self.folder = pathlib.Path(told["folder"])
        self.count = told["files"]
        self.samples = told.get("samples", 1)
        self.shapes = told.get("shapes") or [told.get("shape")] * self.count
        self.dtype = numpy.dtype(told.get("dtype", "uint8"))
        self.compression = told.get("compression", "none")
        self.sizes = told.get("sizes") or [told.get("size")] * self.count
        self.told = told

    def paths(self):
        """The files, in the order of their index, and no others but indexes."""
        suffix = "." + self.format
        if self.format == "csv":
            suffix += SUFFIXES.get(self.compression, "")
        width = len(str(self.count))
        found = {path.name: path for path in self.folder.rglob("*") if path.is_file()}
        paths = []
        for file in range(self.count):
            paths.append(found.pop(f"img_{file:0{width}}_of_{self.count}{suffix}"))
        same([name for name in found if not name.endswith(".idx")], [], "what else lies there")
        return paths

    def check(self):
        digests = set()
        for file, path in enumerate(self.paths()):
            content = path.read_bytes()
            digests.add(hashlib.sha256(content).digest())
            if self.sizes[file] is not None:
                same(len(content), self.sizes[file], f"the size of {path}")
            try:
                check = getattr(self, "check_" + self.format)
                check(path, content, self.shapes[file] and tuple(self.shapes[file]))
            except Exception as error:
                error.add_note(str(path))
                raise
        same(len(digests), self.count, "the number of different files")

    def values(self, array):
        """Values of samples, which compression makes as small as is asked for, and which are numbers."""
        same(array.dtype, self.dtype, "the type")
        if array.dtype.kind == "f":
            assert numpy.isfinite(array).all(), "infinities or no numbers"
        raw = array.tobytes()
        if len(raw) >= 4096:
            packed = len(zlib.compress(raw)) / len(raw)
            expected = 1 / self.told.get("compressibility", 1)
            assert abs(packed - expected) < 0.15, f"it compresses to {packed}, not {expected}"
        return raw

    def distinct(self, samples):
        samples = list(samples)
        same(len(samples), self.samples, "the number of samples")
        same(len(set(samples)), len(samples), "the number of different samples")

    def arrays(self, array, shape):
        """An array whose last axis is that of the samples."""
        same(array.shape, (*shape, self.samples), "the shape")
        self.values(array)
        self.distinct(array[..., sample].tobytes() for sample in range(self.samples))

    def check_npy(self, path, content, shape):
        self.arrays(numpy.load(path, allow_pickle=False), shape)

    def check_npz(self, path, content, shape):
        method = {"none": zipfile.ZIP_STORED, "zip": zipfile.ZIP_DEFLATED}[self.compression]
        with zipfile.ZipFile(path) as archive:
            same(archive.testzip(), None, "the first bad member")
            members = [(member.filename, member.compress_type) for member in archive.infolist()]
            same(members, [("x.npy", method), ("y.npy", method)], "the members")
        with numpy.load(path, allow_pickle=False) as arrays:
            self.arrays(arrays["x"], shape)
            self.labels(arrays["y"])

    def labels(self, labels):
        same((labels.dtype, labels.shape), (numpy.int64, (self.samples,)), "the labels")
        assert not labels.any()

    def check_hdf5(self, path, content, shape):
        datasets = self.told.get("datasets", 1)
        with h5py.File(path, "r") as file:
            names = ["labels", *(f"records_{number}" for number in range(datasets))]
            same(sorted(file), names, "the datasets")
            self.labels(file["labels"][:])
            same(file["labels"].compression, None, "the compression of the labels")
            seen = set()
            for name in names[1:]:
                records = file[name]
                same(records.shape, (self.samples, *shape), "the shape")
                wanted = None if self.compression == "none" else self.compression
                same(records.compression, wanted, "the compression")
                if "chunks" in self.told:
                    same(list(records.chunks), self.told["chunks"], "the chunks")
                if "maxshape" in self.told:
                    same(list(records.maxshape), [self.samples, *self.told["maxshape"]], "maxshape")
                values = records[:]
                self.values(values)
                self.distinct(sample.tobytes() for sample in values)
                seen.add(values.tobytes())
            same(len(seen), datasets, "the number of different datasets")

    def check_csv(self, path, content, shape):
        if self.compression == "gzip":
            content = gzip.decompress(content)
        elif self.compression == "bz2":
            content = bz2.decompress(content)
        elif self.compression == "xz":
            content = lzma.decompress(content)
        elif self.compression == "zip":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                (member,) = archive.namelist()
                content = archive.read(member)
        assert content.endswith(b"\n")
        rows = content.decode("ascii").splitlines()
        self.distinct(rows)
        parsed = numpy.loadtxt(rows, self.dtype, delimiter=",", ndmin=2)
        same(parsed.shape, (self.samples, math.prod(shape)), "rows and columns")
        self.values(parsed)

    def check_jpeg(self, path, content, shape):
        self.image(path, "JPEG")

    def check_png(self, path, content, shape):
        self.image(path, "PNG")

    def image(self, path, kind):
        with Image.open(path) as image:
            image.verify()
        with Image.open(path) as image:
            image.load()
            same((image.format, image.mode), (kind, "L"), "the kind of image")
            assert numpy.std(image) > 10, "it is no noise"

    def check_synthetic(self, path, content, shape):
        same(int(content), int(path.name.split("_")[1]), "the index")

    def check_indexed_binary(self, path, content, shape):
        length = math.prod(shape) * self.dtype.itemsize
        same(len(content), length * self.samples, "the length")
        self.values(numpy.frombuffer(content, self.dtype))
        self.distinct(content[at : at + length] for at in range(0, len(content), length))
        for suffix, first, step in [(".off.idx", 0, length), (".sz.idx", length, 0)]:
            index = numpy.fromfile(f"{path}{suffix}", "<u8")
            expected = [first + step * sample for sample in range(self.samples)]
            same(index.tolist(), expected, suffix)

    check_mmap_indexed_binary = check_indexed_binary

    def check_tfrecord(self, path, content, shape):
        length = math.prod(shape) * self.dtype.itemsize
        lines, images = [], []
        for offset, payload in records(content):
            features = example(payload)
            same(sorted(features), ["image", "size"], "the features")
            ((image,), (size,)) = (features["image"], features["size"])
            same((len(image), size), (length, length), "the image's length and size")
            self.values(numpy.frombuffer(image, self.dtype))
            images.append(image)
            lines.append(f"{offset} {len(payload) + 16}\n")
        self.distinct(images)
        if self.told.get("index", True):
            folder = self.folder.parent / "index" / self.folder.name
            same((folder / f"{path.name}.idx").read_text(), "".join(lines), "the index")

    def check_parquet(self, path, content, shape):
        file = pyarrow.parquet.ParquetFile(path)
        columns = self.told.get("columns") or [["data", f"list<uint8>:{math.prod(shape)}"]]
        schema = file.schema_arrow
        same(schema.names, [name for name, _ in columns], "the columns")
        metadata = file.metadata
        same(metadata.num_rows, self.samples, "the number of rows")
        groups = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
        same(groups, self.told.get("groups") or [self.samples], "the row groups")
        codec = {"none": "UNCOMPRESSED"}.get(self.compression, self.compression.upper())
        for group, column in itertools.product(range(len(groups)), range(len(columns))):
            same(metadata.row_group(group).column(column).compression, codec, "the codec")
        table = file.read()
        table.validate(full=True)
        for name, kind in columns:
            column = table[name].combine_chunks()
            same(column.null_count, 0, f"the nulls of {name}")
            kind, _, width = kind.partition(":")
            same(plain(column.type), kind, f"the type of {name}")
            if width:
                lengths = set(pyarrow.compute.list_value_length(column).to_pylist())
                same(lengths, {int(width)}, f"the lengths of the lists of {name}")
                column = column.flatten()
            if pyarrow.types.is_floating(column.type):
                values = column.to_numpy(zero_copy_only=False)
                assert numpy.isfinite(values).all(), f"infinities or no numbers in {name}"
        self.distinct(zip(*(rows(table[name].combine_chunks()) for name, _ in columns)))


def rows(column):
    """Something to tell the values of a column apart by."""
    if pyarrow.types.is_list(column.type) or pyarrow.types.is_fixed_size_list(column.type):
        values = column.flatten().to_numpy(zero_copy_only=False)
        return [row.tobytes() for row in values.reshape(len(column), -1)]
    return column.to_pylist()


def plain(kind):
    """A type of Arrow, lists of any kind alike."""
    if pyarrow.types.is_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        return f"list<{kind.value_type}>"
    return str(kind)


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = crc_table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(content):
    """Offset and payload of each record of a TFRecord file, whose checksums are right."""
    offset = 0
    while offset < len(content):
        length, crc = struct.unpack_from("<QI", content, offset)
        same(crc, masked_crc32c(content[offset : offset + 8]), f"the length's CRC at {offset}")
        payload = content[offset + 12 : offset + 12 + length]
        (crc,) = struct.unpack_from("<I", content, offset + 12 + length)
        same(crc, masked_crc32c(payload), f"the payload's CRC at {offset}")
        yield offset, payload
        offset += length + 16


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """Number and value of each field of a message; only whole numbers and bytes occur."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        value, at = varint(data, at)
        if tag & 7 == 2:
            length, value = value, data[at : at + value]
            same(len(value), length, "a field's length")
            at += length
        else:
            same(tag & 7, 0, "the kind of a field")
        yield tag >> 3, value


def example(payload):
    """The values of each feature of a tf.train.Example, by name."""
    (features,) = (value for number, value in fields(payload) if number == 1)
    found = {}
    for number, entry in fields(features):
        same(number, 1, "a field of Features")
        entry = dict(fields(entry))
        ((kind, values),) = fields(entry[2])
        values = [value for number, value in fields(values)]
        if kind == 3 and values and isinstance(values[0], bytes):
            values = list(packed(values[0]))
        found[entry[1].decode()] = values
    return found


def packed(data):
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        yield value


if __name__ == "__main__":
    for told in json.loads(sys.argv[1]):
        try:
            Case(told).check()
        except Exception as error:
            error.add_note(f"case {json.dumps(told)}")
            raise
