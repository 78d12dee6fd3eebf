//! HDF5: a dataset `labels`, one 64-bit zero a sample, and datasets `records_0`, `records_1` and so on,
//! each an array of shape (samples, dimensions…) with values of its own.
//!
//! Files are written here, from front to back, since libraries want all values at once or a file to seek
//! in. First comes the superblock, then the labels' values, then each dataset's values and behind them
//! what describes them (the index of its chunks, its object header), and last the root group. Of what
//! comes first only the superblock depends on what follows: it names the file's length. Where chunks are
//! compressed it is left open until the end; elsewhere all is arithmetic.
//!
//! Values lie in one piece, or in chunks if the workload says how big those are, compresses them, or lets
//! datasets grow. A chunk, and its compressed form, is what is in memory at a time.
//!
//! Reading is a library's work, see [`read`].

mod chunks;
mod filter;
mod lzf;
mod read;
mod structure;

use std::fmt;
use std::ops::Range;

use feedrate_workload::{Compression, Dataset, ElementType};

use self::chunks::Chunks;
use self::filter::{Encoder, Filter};
use self::structure::{Layout, Stored};
use super::files::{Files, Length, Undecodable};
use super::guard::guarded;
use super::out::{Out, Stopped, pour};
use super::{FormatError, Ingredients};
use crate::content::{Content, PIECE};
use crate::sizes::Sizes;

/// Dimensions that a dataset can have.
const MOST_DIMS: usize = 32;
/// The content of datasets begins so far apart; none has as many bytes.
const APART: u64 = 1 << 44;
/// A chunk's size and dimensions are numbers of 32 bits. Compression may add to it, but less than this
/// leaves.
const LARGEST_CHUNK: u64 = 0xff00_0000;
/// The index of a dataset's chunks is in memory, some 16 bytes of each.
const MOST_CHUNKS: u64 = 1 << 20;
/// Values begin at a multiple of this, so that those who map a file into memory find them aligned.
const ALIGNMENT: u64 = 8;

const CHUNK_DIMS: &str = "dataset.hdf5.chunk_dims";

/// The HDF5 files of a set.
pub(super) struct Hdf5 {
    content: Content,
    sizes: Sizes,
    element: ElementType,
    samples: u64,
    /// Datasets that a record is divided into.
    datasets: u64,
    /// Whether the workload gives a record's dimensions, which the datasets share.
    exact: bool,
    chunk_dims: Vec<u64>,
    max_shape: Vec<u64>,
    filter: Filter,
    /// How much smaller compression is expected to make values.
    compressibility: f64,
    /// Bytes of the header of a dataset of records.
    header_len: u64,
    /// Bytes of the header of the labels.
    labels_len: u64,
    /// Bytes of the header of the root group.
    root_len: u64,
}

/// Where things are in a file.
struct Plan {
    /// Of each dataset of records, the sample axis first.
    shape: Vec<u64>,
    chunks: Option<Chunks>,
    /// Bytes of the values of a dataset.
    values: u64,
    /// Bytes that they take where they are not compressed: of chunks that stick out, all are stored.
    data: u64,
    /// From one dataset to the next, if they are not compressed.
    stride: u64,
}

impl fmt::Debug for Hdf5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hdf5")
            .field("element", &self.element)
            .field("samples", &self.samples)
            .field("datasets", &self.datasets)
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

impl Hdf5 {
    pub(super) fn new(made_from: Ingredients<'_>) -> Result<Self, FormatError> {
        let Ingredients { dataset, content, sizes, .. } = made_from;
        let mut this = Self {
            content,
            sizes,
            element: dataset.record_element_type,
            samples: dataset.num_samples_per_file,
            datasets: dataset.hdf5.num_dset_per_record,
            exact: !dataset.record_dims.is_empty(),
            chunk_dims: dataset.hdf5.chunk_dims.clone(),
            max_shape: dataset.hdf5.max_shape.clone(),
            filter: filter_of(dataset),
            compressibility: dataset.compressibility.max(1.0),
            header_len: 0,
            labels_len: 0,
            root_len: 0,
        };
        this.check_shapes()?;
        if !this.sizes.is_of_no_file() {
            this.header_len = this.header(&this.plan(0), 0).len() as u64;
        }
        this.labels_len = this.labels_header().len() as u64;
        this.root_len = structure::root(this.names().zip(0..)).len() as u64;
        Ok(this)
    }

    /// Looks whether each file's datasets can be made and described.
    fn check_shapes(&self) -> Result<(), FormatError> {
        let files = match &self.sizes {
            Sizes::Same(_) => 1,
            Sizes::PerFile { sides, first } => (sides.len() - first) as u64,
        };
        (0..files).try_for_each(|file| self.check_shape(file))
    }

    fn check_shape(&self, file: u64) -> Result<(), FormatError> {
        let unfit = |key, why| Err(FormatError::Unfit { key, why });
        let shape = self.shape(file);
        if shape.len() > MOST_DIMS {
            let why = format!(
                "with the samples there are {} dimensions, but an HDF5 dataset has at most {MOST_DIMS}: \
                 join some",
                shape.len()
            );
            return unfit("dataset.record_dims", why);
        }
        if !self.max_shape.is_empty() {
            let record = &shape[1..];
            let holds = |(most, dim): (&u64, &u64)| most >= dim;
            if self.max_shape.len() != record.len() || !self.max_shape.iter().zip(record).all(holds)
            {
                let why = format!(
                    "{:?} does not hold the datasets' records of shape {record:?} (file {file}): give as \
                     many dimensions, none of them smaller",
                    self.max_shape
                );
                return unfit("dataset.hdf5.max_shape", why);
            }
        }
        if !self.chunk_dims.is_empty() {
            let most = self.max_dims(&shape).unwrap_or_else(|| shape.clone());
            let fits = |(chunk, most): (&u64, &u64)| chunk <= most;
            if self.chunk_dims.len() != most.len() || !self.chunk_dims.iter().zip(&most).all(fits) {
                let why = format!(
                    "{:?} does not fit into datasets of shape {most:?} (file {file}): give as many \
                     dimensions, the samples first, none of them larger",
                    self.chunk_dims
                );
                return unfit(CHUNK_DIMS, why);
            }
        }
        let plan = self.plan(file);
        if let Some(chunks) = &plan.chunks {
            if chunks.bytes() > LARGEST_CHUNK {
                let why = format!(
                    "a chunk would have {} bytes, but can have at most {LARGEST_CHUNK}: lower them",
                    chunks.bytes()
                );
                return unfit(CHUNK_DIMS, why);
            }
            if chunks.count() > MOST_CHUNKS {
                let why = format!(
                    "a dataset would have {} chunks (file {file}), but is made of at most {MOST_CHUNKS}: \
                     set or raise them",
                    chunks.count()
                );
                return unfit(CHUNK_DIMS, why);
            }
        }
        if plan.data > APART {
            let (format, bytes) = (feedrate_workload::Format::Hdf5.suffix(), plan.data);
            return Err(FormatError::TooLarge { format, file, bytes, most: APART });
        }
        Ok(())
    }

    /// The shape of the datasets of records in `file`. They share a record's first dimension, and drop
    /// what they have of it if that is 1 (spec/dlio.md 4.3).
    fn shape(&self, file: u64) -> Vec<u64> {
        let mut shape: Vec<_> = [self.samples].into_iter().chain(self.sizes.dims(file)).collect();
        if self.exact {
            shape[1] /= self.datasets;
            if shape[1] == 1 {
                shape.remove(1);
            }
        }
        shape
    }

    /// How far datasets of `shape` can grow, if they can.
    fn max_dims(&self, shape: &[u64]) -> Option<Vec<u64>> {
        let can_grow = !self.max_shape.is_empty();
        can_grow.then(|| [shape[0]].into_iter().chain(self.max_shape.iter().copied()).collect())
    }

    fn plan(&self, file: u64) -> Plan {
        let shape = self.shape(file);
        let size = self.element.size();
        let chunk = if !self.chunk_dims.is_empty() {
            Some(self.chunk_dims.clone())
        } else if self.filter != Filter::None || !self.max_shape.is_empty() {
            Some(chunks::automatic(&shape, size))
        } else {
            None
        };
        let chunks = chunk.map(|chunk| Chunks::new(&shape, chunk, size));
        let values = shape.iter().copied().fold(size, u64::saturating_mul);
        let data = match &chunks {
            Some(chunks) => chunks.count().saturating_mul(chunks.bytes()),
            None => values,
        };
        let tree = chunks.as_ref().map_or(0, structure::tree_len);
        let own = data.saturating_add(tree).saturating_add(self.header_len);
        let stride = own.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
        Plan { shape, chunks, values, data, stride }
    }

    /// Where the values of the records begin.
    fn start(&self) -> u64 {
        self.samples.saturating_mul(8).saturating_add(structure::SUPERBLOCK)
    }

    fn records(&self) -> impl Iterator<Item = String> {
        (0..self.datasets).map(|dataset| format!("records_{dataset}"))
    }

    /// The datasets, in the order of their headers.
    fn names(&self) -> impl Iterator<Item = String> {
        self.records().chain(["labels".to_owned()])
    }

    /// The header of a dataset of records whose values, or the index of them, are at `address`.
    fn header(&self, plan: &Plan, address: u64) -> Vec<u8> {
        let layout = match &plan.chunks {
            Some(chunks) => Layout::Chunked { tree: address, chunks, filter: self.filter },
            None => Layout::Contiguous { address, size: plan.data },
        };
        structure::dataset(
            &plan.shape,
            self.max_dims(&plan.shape).as_deref(),
            self.element,
            &layout,
        )
    }

    fn labels_header(&self) -> Vec<u8> {
        let layout = Layout::Contiguous {
            address: structure::SUPERBLOCK,
            size: self.samples.saturating_mul(8),
        };
        structure::dataset(&[self.samples], None, ElementType::Int64, &layout)
    }

    /// Reads all values of the file `found`.
    fn read(&self, file: u64, found: &[u8]) -> Result<(), Undecodable> {
        let plan = self.plan(file);
        // Chunks that were made elsewhere may be larger than these, but not than what they hold.
        let most = self.max_dims(&plan.shape).unwrap_or_else(|| plan.shape.clone());
        let source = read::open(found)?;
        for name in self.records() {
            read::all(&source, &name, self.element, &plan.shape, &most)?;
        }
        let labels = [self.samples];
        read::all(&source, "labels", ElementType::Int64, &labels, &labels)
    }

    /// Writes the chunks of a dataset, from `address` on, and tells what became of them.
    fn write_chunks(
        &self,
        file: u64,
        dataset: u64,
        chunks: &Chunks,
        mut address: u64,
        out: &mut dyn Out,
    ) -> Result<Vec<Stored>, Stopped> {
        let mut encoder = Encoder::new(self.filter);
        let mut values = vec![0; chunks.bytes() as usize];
        let mut all = Vec::with_capacity(chunks.count() as usize);
        for chunk in 0..chunks.count() {
            let start = dataset * APART + chunk * chunks.bytes();
            let mut stream = self.content.elements(file, start, self.element);
            values.chunks_mut(PIECE).for_each(|piece| stream.fill(piece));
            chunks.clear_outside(chunk, &mut values);
            let shrunk = encoder.encode(&values);
            out.content(shrunk.unwrap_or(&values))?;
            let size = shrunk.map_or(values.len(), <[u8]>::len) as u32;
            all.push(Stored { address, size, filtered: shrunk.is_some() });
            address += u64::from(size);
        }
        Ok(all)
    }
}

/// The filter that `dataset` asks for. Other compressions, and levels, are refused when the workload is
/// resolved.
fn filter_of(dataset: &Dataset) -> Filter {
    match dataset.compression {
        Compression::Gzip => Filter::Gzip { level: dataset.compression_level },
        Compression::Lzf => Filter::Lzf,
        _ => Filter::None,
    }
}

impl Files for Hdf5 {
    fn length(&self, file: u64) -> Length {
        let plan = self.plan(file);
        let framing = self.start().saturating_add(self.labels_len + self.root_len);
        if self.filter == Filter::None {
            let datasets = plan.stride.saturating_mul(self.datasets);
            return Length::Exact(framing.saturating_add(datasets));
        }
        let shrunk = (plan.values as f64 / self.compressibility) as u64;
        let dataset = shrunk.saturating_add(plan.stride - plan.data);
        Length::About(framing.saturating_add(dataset.saturating_mul(self.datasets)))
    }

    fn write(&self, file: u64, _: Range<u64>, out: &mut dyn Out) -> Result<(), Stopped> {
        let plan = self.plan(file);
        let open = match self.length(file) {
            Length::Exact(end) => {
                out.framing(&structure::superblock(end, end - self.root_len))?;
                None
            }
            Length::About(_) => Some(out.later(structure::SUPERBLOCK as usize)?),
        };
        zeros(self.samples * 8, out)?;
        let mut at = self.start();
        let mut headers = Vec::with_capacity(self.datasets as usize + 1);
        for dataset in 0..self.datasets {
            let described = if let Some(chunks) = &plan.chunks {
                let stored = self.write_chunks(file, dataset, chunks, at, out)?;
                at += stored.iter().map(|chunk| u64::from(chunk.size)).sum::<u64>();
                let root = structure::write_tree(chunks, &stored, at, out)?;
                at += structure::tree_len(chunks);
                root
            } else {
                let stream = self.content.elements(file, dataset * APART, self.element);
                pour(stream, plan.data, out, |_| ())?;
                at += plan.data;
                at - plan.data
            };
            headers.push(at);
            out.framing(&self.header(&plan, described))?;
            at += self.header_len;
            let aligned = at.next_multiple_of(ALIGNMENT);
            zeros(aligned - at, out)?;
            at = aligned;
        }
        headers.push(at);
        out.framing(&self.labels_header())?;
        at += self.labels_len;
        out.framing(&structure::root(self.names().zip(headers)))?;
        if let Some(open) = open {
            out.fill_in(open, &structure::superblock(at + self.root_len, at));
        }
        Ok(())
    }

    /// In compressed files only the index tells, which nobody has at hand.
    fn sample_at(&self, file: u64, offset: u64) -> Option<u64> {
        if self.filter != Filter::None {
            return None;
        }
        let plan = self.plan(file);
        let records = offset.checked_sub(self.start())?;
        let inside = Some(records % plan.stride)
            .filter(|&inside| inside < plan.data && records / plan.stride < self.datasets)?;
        match &plan.chunks {
            Some(chunks) => chunks.sample_at(inside),
            None => Some(inside / (plan.data / self.samples)),
        }
    }

    fn decode(&self, file: u64, _: Range<u64>, found: &[u8]) -> Result<(), Undecodable> {
        guarded(|| self.read(file, found))
    }
}

/// Writes `len` zeros.
fn zeros(len: u64, out: &mut dyn Out) -> Result<(), Stopped> {
    let zeros = [0; PIECE];
    let mut left = len;
    while left > 0 {
        let piece = left.min(PIECE as u64);
        out.framing(&zeros[..piece as usize])?;
        left -= piece;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
