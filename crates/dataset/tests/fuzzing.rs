//! What the fuzz targets in `fuzz/` do, for a moment and the same each time: each reader gets files that
//! other programs made, those of the generator, and mutations of both. None makes it panic or hang, and none
//! makes it hold more memory than what a file of that size can need.

#[path = "../../../fuzz/src/allocations.rs"]
pub mod allocations;
#[path = "../../../fuzz/src/readers.rs"]
pub mod readers;

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{RngSeed, TestRunner};
use readers::Reader;

/// No input takes a hundredth of it, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Mutations of each reader's files.
const MUTATIONS: u32 = 3000;

/// The bytes that a reader may hold at once: so many whatever the input, and so many for each byte of it.
fn most_held(reader: &Reader) -> (usize, usize) {
    const MIB: usize = 1 << 20;
    match reader.name {
        // XZ goes back as far as its header says, at most 80 MiB.
        "csv" => (96 * MIB, 16),
        // Values are read 1 MiB at a time, and chunks as a whole.
        "hdf5" => (8 * MIB, 16),
        // A byte can stand for 512 pixels of four components, of which there are coefficients, too.
        "jpeg" => (MIB, 512 * 4 * 4),
        // A byte of Deflate can stand for 1032.
        "png" => (MIB, 4 * 1032),
        // Pages of up to 16 MiB may be said to come of nothing, and are in memory several times.
        "parquet" => (128 * MIB, 4 * 1100),
        _ => (MIB, 16),
    }
}

/// Has `input` read in a thread of its own and says how that did not end well.
fn run(reader: &'static Reader, input: Vec<u8>) -> Result<(), String> {
    let (fixed, each) = most_held(reader);
    let most = fixed + each * input.len();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        reader.exercise(&input);
        let _ = sender.send(allocations::most_held());
    });
    match receiver.recv_timeout(PATIENCE) {
        Ok(held) if held > most => {
            Err(format!("held {held} bytes at once, at most {most} make sense"))
        }
        Ok(_) => Ok(()),
        Err(RecvTimeoutError::Disconnected) => Err("panicked".to_owned()),
        Err(RecvTimeoutError::Timeout) => Err("did not end".to_owned()),
    }
}

/// The files that are kept for the reader's fuzz target, and those that the generator makes.
fn seeds(reader: &Reader) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(reader.name);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!paths.is_empty());
    paths.sort();
    let kept = paths.into_iter().map(|path| std::fs::read(path).unwrap());
    kept.chain(reader.generated()).collect()
}

/// One change of a file.
#[derive(Debug, Clone)]
enum Edit {
    Overwrite(Index, Vec<u8>),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    CutOff(Index),
    /// Repeats what stands somewhere.
    Repeat(Index, usize, usize),
    /// Puts what stands somewhere in another file here.
    Splice(Index, Index, Index, usize),
}

/// Numbers at which things go wrong, in both byte orders and as a varint.
fn number() -> impl Strategy<Value = Vec<u8>> {
    let numbers = [
        0,
        1,
        0x7f,
        0x80,
        0xff,
        0x7fff,
        0xffff,
        1 << 24,
        i32::MAX as u64,
        1 << 31,
        0xffff_ffff,
        1 << 40,
        i64::MAX as u64,
        u64::MAX,
    ];
    (select(numbers.to_vec()), select(vec![1_usize, 2, 4, 8]), 0..3).prop_map(
        |(number, width, kind)| match kind {
            0 => number.to_le_bytes()[..width].to_vec(),
            1 => number.to_be_bytes()[8 - width..].to_vec(),
            _ => {
                let mut left = number;
                let mut varint = Vec::new();
                while left > 0x7f {
                    varint.push(left as u8 | 0x80);
                    left >>= 7;
                }
                varint.push(left as u8);
                varint
            }
        },
    )
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        3 => (at(), number()).prop_map(|(at, bytes)| Edit::Overwrite(at, bytes)),
        2 => (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Overwrite(at, vec![byte])),
        3 => (at(), 0..8_u8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        1 => (at(), number()).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        1 => (at(), 1..40_usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        1 => at().prop_map(Edit::CutOff),
        1 => (at(), 1..20_usize, 1..50_usize).prop_map(|(at, l, times)| Edit::Repeat(at, l, times)),
        1 => (at(), at(), at(), 1..200_usize)
            .prop_map(|(at, f, from, l)| Edit::Splice(at, f, from, l)),
    ]
}

/// `length` bytes of `bytes` from `at` on, or as many as there are.
fn piece(bytes: &[u8], at: usize, length: usize) -> Vec<u8> {
    bytes[at..].iter().copied().take(length).collect()
}

impl Edit {
    fn apply(&self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        // Headers, where most goes wrong, are at the ends.
        let place = |at: &Index, input: &[u8]| {
            let len = input.len() + 1;
            let near = at.index(len.min(64));
            match at.index(4) {
                0 => near,
                1 => len - 1 - near,
                _ => at.index(len),
            }
        };
        let (at, removed, put) = match self {
            Self::Overwrite(at, bytes) => (place(at, input), bytes.len(), bytes.clone()),
            Self::Flip(at, bit) => {
                let at = place(at, input);
                (at, 1, input.get(at).map(|byte| vec![byte ^ 1 << bit]).unwrap_or_default())
            }
            Self::Insert(at, bytes) => (place(at, input), 0, bytes.clone()),
            Self::Remove(at, length) => (place(at, input), *length, Vec::new()),
            Self::CutOff(at) => (place(at, input), input.len(), Vec::new()),
            Self::Repeat(at, length, times) => {
                let at = place(at, input);
                (at, 0, piece(input, at, *length).repeat(*times))
            }
            Self::Splice(at, file, from, length) => {
                let file = file.get(seeds);
                (place(at, input), 0, piece(file, place(from, file), *length))
            }
        };
        let end = (at + removed).min(input.len());
        input.splice(at..end, put);
    }
}

fn files_end_well(reader: &'static Reader) {
    for input in seeds(reader) {
        let shown = String::from_utf8_lossy(&input[..input.len().min(100)]).into_owned();
        run(reader, input).unwrap_or_else(|error| panic!("{error}: {shown:?}"));
    }
}

fn mutations_end_well(reader: &'static Reader) {
    let seeds = seeds(reader);
    let config = ProptestConfig {
        cases: MUTATIONS,
        rng_seed: RngSeed::Fixed(6),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let cases = (any::<Index>(), proptest::collection::vec(edit(), 1..6));
    let outcome = TestRunner::new(config).run(&cases, |(file, edits)| {
        let mut input = file.get(&seeds).clone();
        for edit in &edits {
            edit.apply(&mut input, &seeds);
        }
        run(reader, input).map_err(TestCaseError::fail)
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// The tests of each reader, which run side by side.
macro_rules! test {
    ($($module:ident: $reader:ident),* $(,)?) => {$(
        mod $module {
            use super::*;

            #[test]
            fn files_of_all_programs_end_well() {
                files_end_well(&readers::$reader);
            }

            #[test]
            fn mutations_of_files_end_well() {
                mutations_end_well(&readers::$reader);
            }
        }
    )*};
}

test! {
    npy: NPY,
    npz: NPZ,
    tfrecord: TFRECORD,
    indexed: INDEXED,
    csv: CSV,
    jpeg: JPEG,
    png: PNG,
    hdf5: HDF5,
    parquet: PARQUET,
    manifest: MANIFEST,
}
