//! Reading files that this or any other program made, with the library `hdf5-pure`.
//!
//! A file may claim what it likes. The library takes no more memory than what a dataset's type, shape
//! and chunks say, so those are compared with the workload's before values are read, and values are read
//! a few samples at a time.

use feedrate_workload::ElementType;
use hdf5_pure::{Chunk, ChunkIndex, Dataset, Datatype, Error, File, Layout};

use super::MOST_CHUNKS;
use crate::format::files::Undecodable;

/// Values to read at a time, in bytes, if a sample or a chunk does not have more.
const WINDOW: u64 = 1 << 20;

/// Opens the file that consists of `bytes`.
pub(super) fn open(bytes: &[u8]) -> Result<File, Undecodable> {
    File::from_bytes(bytes.to_vec())
        .map_err(|error| Undecodable::file(format!("it is no HDF5 file: {error}")))
}

/// Reads all values of the dataset `name`, which must have this type and shape. Its chunks must not be
/// larger than `most`.
pub(super) fn all(
    file: &File,
    name: &str,
    element: ElementType,
    shape: &[u64],
    most: &[u64],
) -> Result<(), Undecodable> {
    let wrong = |what: String| Undecodable::file(format!("dataset {name}: {what}"));
    let failed = |error: Error| wrong(error.to_string());

    let dataset = file.dataset(name).map_err(failed)?;
    let found = dataset.shape().map_err(failed)?;
    if found != shape {
        return Err(wrong(format!("its shape is {found:?}, not {shape:?}")));
    }
    let found = dataset.datatype().map_err(failed)?;
    if !is(&found, element) {
        return Err(wrong(format!("its type is {found}, not {element:?}").to_lowercase()));
    }
    let rows = match dataset.layout().map_err(failed)? {
        Layout::Chunked { chunk_shape, index } => {
            check_chunks(&dataset, &chunk_shape, index, shape, most).map_err(wrong)?;
            chunk_shape[0]
        }
        Layout::Contiguous { address: None, .. } => return Err(wrong("it has no values".into())),
        _ => 1,
    };
    read(&dataset, shape, element.size(), rows).map_err(|(samples, error)| match samples {
        (sample, 1) => Undecodable::sample(sample, format!("dataset {name}: {error}")),
        (first, count) => wrong(format!("samples {first} to {}: {error}", first + count - 1)),
    })
}

/// Looks whether the chunks, of shape `chunk`, are all there and where they may be.
fn check_chunks(
    dataset: &Dataset,
    chunk: &[u64],
    index: ChunkIndex,
    shape: &[u64],
    most: &[u64],
) -> Result<(), String> {
    // With such an index the library believes a number in the file for which there is no bound. It is
    // that of datasets that grow forever, which DLIO does not make.
    if matches!(index, ChunkIndex::ExtensibleArray | ChunkIndex::BTreeV2) {
        return Err("it can grow without limit: give it a maximum shape".to_owned());
    }
    let fits = |(chunk, most): (&u64, &u64)| (1..=*most).contains(chunk);
    if chunk.len() != most.len() || !chunk.iter().zip(most).all(fits) {
        return Err(format!("its chunks of {chunk:?} do not fit into {most:?}"));
    }
    let counts = shape.iter().zip(chunk).map(|(extent, dim)| extent.div_ceil(*dim));
    let count = counts.fold(1, u64::saturating_mul);
    if count > MOST_CHUNKS {
        return Err(format!("it has {count} chunks, but at most {MOST_CHUNKS} are read"));
    }
    let chunks = dataset.chunks().map_err(|error| error.to_string())?;
    if (chunks.len() as u64) < count {
        return Err(format!("of its {count} chunks only {} are there", chunks.len()));
    }
    let outside =
        |chunk: &&Chunk| chunk.offset.iter().zip(shape).any(|(from, extent)| from >= extent);
    match chunks.iter().find(outside) {
        Some(chunk) => Err(format!("a chunk begins at {:?}, outside of {shape:?}", chunk.offset)),
        None => Ok(()),
    }
}

/// Whether a type is that of the elements, in either byte order.
fn is(found: &Datatype, element: ElementType) -> bool {
    use ElementType::{Float16, Float32, Float64, Int8, Int16, Int32, Int64};
    let float = matches!(element, Float16 | Float32 | Float64);
    let signed = matches!(element, Int8 | Int16 | Int32 | Int64);
    match found {
        Datatype::FixedPoint { size, layout, .. } => {
            !float && layout.signed == signed && u64::from(*size) == element.size()
        }
        Datatype::FloatingPoint { size, .. } => float && u64::from(*size) == element.size(),
        _ => false,
    }
}

/// Reads the values, some samples at a time, but always whole `rows` of chunks. What fails is told with
/// the first of the samples and how many they were.
fn read(
    dataset: &Dataset,
    shape: &[u64],
    element: u64,
    rows: u64,
) -> Result<(), ((u64, u64), Error)> {
    let sample = shape[1..].iter().product::<u64>() * element;
    let step = rows * (WINDOW / (sample * rows)).max(1);
    let mut first = 0;
    while first < shape[0] {
        let count = step.min(shape[0] - first);
        dataset.read_raw_rows(first, count).map_err(|error| ((first, count), error))?;
        first += count;
    }
    Ok(())
}
