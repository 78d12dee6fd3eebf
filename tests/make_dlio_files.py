"""Makes small data sets as DLIO does, by the libraries that it uses.

    make_dlio_files.py FOLDER

For each format there is a set of 4 files below FOLDER/{format}/data/t0/train. A sample is 64 x 64 bytes;
there are 3 in a file, or 1 in an image.
"""

import pathlib
import struct
import sys

import h5py
import numpy
import pyarrow
import pyarrow.parquet
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from check_files import masked_crc32c

FILES, SAMPLES, SIDE = 4, 3, 64
RANDOM = numpy.random.default_rng(1)


def values(*shape):
    return RANDOM.integers(255, size=shape, dtype=numpy.uint8)


def npy(path):
    numpy.save(path, values(SIDE, SIDE, SAMPLES))


def npz(path):
    numpy.savez(path, x=values(SIDE, SIDE, SAMPLES), y=[0] * SAMPLES)


def hdf5(path):
    with h5py.File(path, "w", libver="latest") as file:
        records = values(SAMPLES, SIDE, SIDE)
        file.create_dataset("records_0", data=records, chunks=(1, SIDE, SIDE), compression="gzip")
        file.create_dataset("labels", data=[0] * SAMPLES)


def csv(path):
    numpy.savetxt(path, [values(SIDE * SIDE)] * SAMPLES, "%d", delimiter=",")


def jpeg(path):
    Image.fromarray(values(SIDE, SIDE)).save(path, format="JPEG", bits=8)


def png(path):
    Image.fromarray(values(SIDE, SIDE)).save(path, format="PNG", bits=8)


def varint(value):
    text = bytearray()
    while value > 0x7F:
        text.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*text, value])


def message(*fields):
    """A message of fields of bytes, by their numbers."""
    return b"".join(
        varint(number << 3 | 2) + varint(len(value)) + value for number, value in fields
    )


def tfrecord(path):
    with path.open("wb") as file:
        for _ in range(SAMPLES):
            image = values(SIDE * SIDE).tobytes()
            size = message((3, message((1, varint(len(image))))))
            image = message((1, message((1, image))))
            entries = [message((1, b"size"), (2, size)), message((1, b"image"), (2, image))]
            payload = message((1, message(*((1, entry) for entry in entries))))
            length = struct.pack("<Q", len(payload))
            for text in [length, payload]:
                file.write(text + struct.pack("<I", masked_crc32c(text)))


def indexed_binary(path):
    length = SIDE * SIDE
    path.write_bytes(values(SAMPLES * length).tobytes())
    numbers = numpy.arange(SAMPLES, dtype="<u8")
    path.with_name(path.name + ".off.idx").write_bytes((numbers * length).tobytes())
    path.with_name(path.name + ".sz.idx").write_bytes((numbers * 0 + length).tobytes())


def parquet(path):
    data = pyarrow.array(values(SAMPLES * SIDE * SIDE))
    data = pyarrow.FixedSizeListArray.from_arrays(data, SIDE * SIDE)
    table = pyarrow.table({"data": data})
    pyarrow.parquet.write_table(table, path, row_group_size=2, compression="none")


MAKERS = {
    "npy": npy,
    "npz": npz,
    "hdf5": hdf5,
    "csv": csv,
    "jpeg": jpeg,
    "png": png,
    "tfrecord": tfrecord,
    "indexed_binary": indexed_binary,
    "mmap_indexed_binary": indexed_binary,
    "parquet": parquet,
}

if __name__ == "__main__":
    for name, make in MAKERS.items():
        folder = pathlib.Path(sys.argv[1]) / name / "data/t0/train"
        folder.mkdir(parents=True)
        for file in range(FILES):
            make(folder / f"img_{file}_of_{FILES}.{name}")
