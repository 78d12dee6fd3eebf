//! What reads files that anybody may have written, each kind as one function of any bytes: for the fuzz
//! targets, and for `crates/dataset/tests/fuzzing.rs`, which does the same for a moment.
//!
//! An input is a file as it is, so what other programs made is one too. It is decoded as one of several
//! sets, since most of what a reader does follows from what is configured. Checksums keep nearly all
//! mutations from going further than to their check: an input is read as it is, and again with those
//! mended that stand before what they protect is used.

use std::fmt;
use std::hint::black_box;
use std::sync::LazyLock;

use bytes::Bytes;
use crc32c::crc32c;
use feedrate_dataset::{FileFormat, Footers, Layout, Manifest};
use feedrate_storage::{MemoryStore, ObjectKey, Store};
use feedrate_workload::testing::workload;
use feedrate_workload::{Dataset, Split};
use futures::FutureExt;

/// A reader of files of one kind.
pub struct Reader {
    /// As the target is called, and the folder of its corpus.
    pub name: &'static str,
    /// What files are read as.
    sets: LazyLock<Vec<Set>>,
    /// Writes the checksums anew that are looked at early.
    mend: Option<fn(&mut [u8])>,
    /// Reads them in other ways, besides.
    also: Option<fn(&[u8])>,
}

/// What files are read as.
struct Set {
    dataset: Dataset,
    format: FileFormat,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Reader {
    const fn new(name: &'static str, sets: fn() -> Vec<Set>) -> Self {
        Self { name, sets: LazyLock::new(sets), mend: None, also: None }
    }

    const fn mended_by(mut self, mend: fn(&mut [u8])) -> Self {
        self.mend = Some(mend);
        self
    }

    const fn also_by(mut self, also: fn(&[u8])) -> Self {
        self.also = Some(also);
        self
    }

    /// Reads `input` in every way. Whatever is found wrong with it is fine.
    ///
    /// # Panics
    /// Never: that is what it is for.
    pub fn exercise(&self, input: &[u8]) {
        self.read(input);
        if let Some(mend) = self.mend {
            let mut mended = input.to_vec();
            mend(&mut mended);
            if mended != input {
                self.read(&mended);
            }
        }
    }

    fn read(&self, input: &[u8]) {
        for Set { format, .. } in &*self.sets {
            let samples = format.samples_per_file();
            let _ = black_box(format.decode(0, 0..samples, input));
            let last = samples - 1..samples;
            if samples > 1 && format.place(0, last.clone()).is_some() {
                let _ = black_box(format.decode(0, last, input));
            }
        }
        if let Some(also) = self.also {
            also(input);
        }
    }

    /// Files that the generator makes: what a search can begin with.
    pub fn generated(&self) -> Vec<Vec<u8>> {
        let made = |Set { format, .. }: &Set| {
            let mut bytes = Vec::new();
            format.write(0, &mut bytes);
            bytes
        };
        self.sets.iter().map(made).collect()
    }
}

/// NPY arrays.
pub static NPY: Reader = Reader::new("npy", || {
    sets("npy", &[&[], &["dataset.num_samples_per_file=3", "dataset.record_element_type=float32"]])
});

/// Archives of NPY arrays, stored or deflated.
pub static NPZ: Reader = Reader::new("npz", || {
    let several = ["dataset.num_samples_per_file=3", "dataset.record_element_type=float64"];
    sets("npz", &[&[], &several, &["dataset.compression=zip", "dataset.compressibility=4"]])
});

/// Records of `tf.train.Example`.
pub static TFRECORD: Reader = Reader::new("tfrecord", || {
    let alone = ["framework=tensorflow", "reader.data_loader=tensorflow"];
    let several = [&alone[..], &["dataset.num_samples_per_file=3"]].concat();
    sets("tfrecord", &[&alone, &several])
})
.mended_by(mend_tfrecord);

/// Samples back to back.
pub static INDEXED: Reader =
    Reader::new("indexed", || sets("indexed_binary", &[&[], &["dataset.num_samples_per_file=3"]]));

/// Rows of numbers of several types, with every compression.
pub static CSV: Reader = Reader::new("csv", || {
    let set = |compression: &'static str, element: &'static str| {
        ["dataset.num_samples_per_file=2", compression, element]
    };
    sets(
        "csv",
        &[
            &set("dataset.compression=none", "dataset.record_element_type=float32"),
            &set("dataset.compression=gzip", "dataset.record_element_type=uint8"),
            &set("dataset.compression=bz2", "dataset.record_element_type=int64"),
            &set("dataset.compression=zip", "dataset.record_element_type=float16"),
            &set("dataset.compression=xz", "dataset.record_element_type=float64"),
        ],
    )
})
.mended_by(mend_xz);

/// JPEG images.
pub static JPEG: Reader = Reader::new("jpeg", || sets("jpeg", &[&[]]));

/// PNG images.
pub static PNG: Reader = Reader::new("png", || sets("png", &[&[]])).mended_by(mend_png);

/// HDF5 files, of one dataset of records and of two.
pub static HDF5: Reader = Reader::new("hdf5", || {
    let divided = [
        "dataset.record_dims=[2,8,8]",
        "dataset.hdf5.num_dset_per_record=2",
        "dataset.num_samples_per_file=3",
        "dataset.record_element_type=int16",
        "dataset.compression=gzip",
    ];
    // Two samples of 31 x 31 bytes, which may grow.
    let grows = ["dataset.num_samples_per_file=2", "dataset.hdf5.max_shape=[62,62]"];
    sets("hdf5", &[&grows, &["dataset.num_samples_per_file=2"], &divided])
});

/// Columns of every kind.
const COLUMNS: &str = "dataset.parquet.columns=[{name: f, dtype: float32, size: 5}, \
     {name: h, dtype: float16, size: 1}, {name: u, dtype: uint8, size: 40}, {name: t, dtype: string}, \
     {name: b, dtype: bool}, {name: x, dtype: binary, size: 7}, {name: l, dtype: int64, size: 1}]";

/// Parquet files: as a whole, and by footer and columns.
pub static PARQUET: Reader = Reader::new("parquet", || {
    let rows = "dataset.num_samples_per_file=20";
    let groups = "dataset.parquet.row_group_size=8";
    sets(
        "parquet",
        &[
            &[rows, "dataset.record_length_bytes=64"],
            &[rows, groups, COLUMNS],
            &[rows, COLUMNS, "dataset.compression=zstd"],
            &[rows, COLUMNS, "dataset.compression=snappy", groups],
        ],
    )
})
.also_by(read_columns);

/// What stands beside a set of files.
pub static MANIFEST: Reader = Reader::new("manifest", Vec::new).also_by(read_manifest);

/// Sets of small files of `format` with these options.
fn sets(format: &str, options: &[&[&str]]) -> Vec<Set> {
    let set = |options: &&[&str]| {
        let format = format!("dataset.format={format}");
        let usual = [
            format.as_str(),
            "dataset.record_length_bytes=1000",
            "dataset.record_length_bytes_stdev=0",
        ];
        let dataset = workload(&[&usual, *options].concat()).dataset;
        let format = FileFormat::new(&dataset, Split::Train).expect("the set can be made");
        Set { dataset, format }
    };
    options.iter().map(set).collect()
}

/// Reads the end of a file, and the columns of each row group where the footer says they are: all of
/// them, and some.
fn read_columns(input: &[u8]) {
    let some = ["data", "f", "t"].map(str::to_owned);
    for Set { dataset, format } in &*PARQUET.sets {
        let wanted =
            some.iter().filter(|name| input.windows(name.len()).any(|at| at == name.as_bytes()));
        let wanted: Vec<_> = wanted.cloned().collect();
        for columns in [None, Some(&wanted[..])] {
            let footers = Footers::new(dataset, columns);
            let len = input.len() as u64;
            let Ok(needed) = Footers::needs(&input[input.len().saturating_sub(8)..], len) else {
                continue;
            };
            let end = &input[input.len() - needed as usize..];
            let Ok(footer) = footers.parse(end, len) else { continue };
            for (index, group) in footer.groups().iter().enumerate() {
                let fetched: Vec<_> = group
                    .ranges()
                    .map(|range| (range.start, &input[range.start as usize..range.end as usize]))
                    .map(|(start, bytes)| (start, Bytes::copy_from_slice(bytes)))
                    .collect();
                let _ = black_box(footer.decode(index, &fetched));
                let _ = black_box(format.verify_columns(0, &footer, index, &fetched));
            }
        }
    }
}

/// Reads a manifest, compares what it says of sets, and takes it away.
fn read_manifest(input: &[u8]) {
    static SETS: LazyLock<Vec<Set>> = LazyLock::new(|| {
        let eval = "dataset.num_files_eval=3";
        let train = "dataset.num_files_train=4";
        [sets("npz", &[&[train, eval]]), sets("parquet", &[&[train, COLUMNS]])]
            .into_iter()
            .flatten()
            .collect()
    });
    // A store in memory never waits.
    let store = MemoryStore::new();
    let key = ObjectKey::new("data/.feedrate-dataset.json");
    let _ = store.put(&key, Bytes::copy_from_slice(input)).now_or_never();
    let Some(Ok(Some(mut manifest))) = Manifest::read(&store, "data").now_or_never() else {
        return;
    };
    for Set { dataset, .. } in &*SETS {
        for split in [Split::Train, Split::Valid] {
            let layout = Layout::new(dataset, split, "data", dataset.files(split));
            if let Some(made) = manifest.find(&layout, split) {
                for difference in made.differences(dataset) {
                    black_box((difference.to_string(), difference.matters()));
                }
            }
            manifest.forget(&layout, split);
        }
    }
    let _ = black_box(manifest.write(&store, "data").now_or_never());
}

/// Writes the checksums of all records.
fn mend_tfrecord(file: &mut [u8]) {
    let masked =
        |bytes: &[u8]| crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let mut rest = file;
    while let Some((length, after)) = rest.split_first_chunk_mut::<8>() {
        let payload = u64::from_le_bytes(*length);
        let Some((checksum, after)) = after.split_first_chunk_mut() else { return };
        *checksum = masked(length);
        let split = usize::try_from(payload).ok().and_then(|len| after.split_at_mut_checked(len));
        let Some((payload, after)) = split else { return };
        let Some((checksum, after)) = after.split_first_chunk_mut() else { return };
        *checksum = masked(payload);
        rest = after;
    }
}

/// Writes the checksums of all chunks.
fn mend_png(file: &mut [u8]) {
    const SIGNATURE: usize = 8;
    let mut rest = file.get_mut(SIGNATURE..).unwrap_or_default();
    while let Some((length, after)) = rest.split_first_chunk_mut::<4>() {
        let type_and_data = u32::from_be_bytes(*length) as usize + 4;
        let Some((chunk, after)) = after.split_at_mut_checked(type_and_data) else { return };
        let Some((checksum, after)) = after.split_first_chunk_mut() else { return };
        *checksum = crc32fast::hash(chunk).to_be_bytes();
        rest = after;
    }
}

/// Writes the checksums of the headers of the stream and of its first block, which say how much memory
/// it takes.
fn mend_xz(file: &mut [u8]) {
    if !file.starts_with(b"\xfd7zXZ\0") {
        return;
    }
    let block = file.get(12).map_or(0, |&size| (usize::from(size) + 1) * 4);
    for header in [6..12, 12..12 + block] {
        let header = file.get_mut(header).unwrap_or_default();
        if let Some((header, checksum)) = header.split_last_chunk_mut::<4>() {
            *checksum = crc32fast::hash(header).to_le_bytes();
        }
    }
}
