//! The chunks that a dataset is divided into: a grid, whose last chunks in each dimension stick out.

/// The chunks of a dataset, counted in C order.
pub(super) struct Chunks {
    /// Of the dataset.
    shape: Vec<u64>,
    /// Of a chunk.
    dims: Vec<u64>,
    /// Bytes of an element.
    element: u64,
}

impl Chunks {
    /// `dims` are as many as those of `shape`, none 0.
    pub(super) fn new(shape: &[u64], dims: Vec<u64>, element: u64) -> Self {
        Self { shape: shape.to_vec(), dims, element }
    }

    /// The dimensions of a chunk, the samples' first.
    pub(super) fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// Bytes of an element.
    pub(super) fn element(&self) -> u64 {
        self.element
    }

    /// Bytes of a chunk; [`u64::MAX`] if there are more.
    pub(super) fn bytes(&self) -> u64 {
        self.dims.iter().copied().fold(self.element, u64::saturating_mul)
    }

    /// Chunks in each dimension.
    fn counts(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator {
        self.shape.iter().zip(&self.dims).map(|(extent, dim)| extent.div_ceil(*dim))
    }

    /// The number of chunks; [`u64::MAX`] if there are more.
    pub(super) fn count(&self) -> u64 {
        self.counts().fold(1, u64::saturating_mul)
    }

    /// Where in the dataset `chunk` begins.
    pub(super) fn origin(&self, chunk: u64) -> Vec<u64> {
        let mut left = chunk;
        let mut origin = vec![0; self.dims.len()];
        for ((from, count), dim) in origin.iter_mut().zip(self.counts()).zip(&self.dims).rev() {
            *from = left % count * dim;
            left /= count;
        }
        origin
    }

    /// Zeroes those of the chunk's `values` that lie outside of the dataset.
    pub(super) fn clear_outside(&self, chunk: u64, values: &mut [u8]) {
        let inside =
            |((from, extent), dim): ((u64, &u64), &u64)| (extent - from).min(*dim) as usize;
        let inside: Vec<_> =
            self.origin(chunk).into_iter().zip(&self.shape).zip(&self.dims).map(inside).collect();
        if inside.iter().zip(&self.dims).any(|(&inside, &dim)| (inside as u64) < dim) {
            clear(values, &self.dims, &inside);
        }
    }

    /// The sample that the byte at `offset` of all chunks belongs to, if to one.
    pub(super) fn sample_at(&self, offset: u64) -> Option<u64> {
        let (chunk, inside) = (offset / self.bytes(), offset % self.bytes());
        let sample = self.origin(chunk)[0] + inside / (self.bytes() / self.dims[0]);
        Some(sample).filter(|&sample| sample < self.shape[0])
    }
}

/// Zeroes what is not among the first `inside` of each dimension.
fn clear(values: &mut [u8], dims: &[u64], inside: &[usize]) {
    let ([dim, dims @ ..], [kept, inside @ ..]) = (dims, inside) else { return };
    let row = values.len() / *dim as usize;
    let (kept, outside) = values.split_at_mut(row * kept);
    outside.fill(0);
    if !dims.is_empty() {
        kept.chunks_mut(row).for_each(|row| clear(row, dims, inside));
    }
}

/// The chunks that h5py takes for a dataset of `shape` where it is not told: dimension after dimension
/// is halved until a chunk has some 16 KiB, doubled for each tenfold of 1 MiB that the dataset has.
pub(super) fn automatic(shape: &[u64], element: u64) -> Vec<u64> {
    const BASE: f64 = (16 << 10) as f64;
    const LEAST: f64 = (8 << 10) as f64;
    const MOST: f64 = (1 << 20) as f64;
    let mut dims = shape.to_vec();
    let bytes = |dims: &[u64]| dims.iter().fold(element as f64, |bytes, &dim| bytes * dim as f64);
    let target = (BASE * (bytes(&dims) / MOST).log10().exp2()).clamp(LEAST, MOST);
    for turn in 0.. {
        let bytes = bytes(&dims);
        let small = bytes < target || (bytes - target) / target < 0.5;
        if small && bytes < MOST || dims.iter().all(|&dim| dim == 1) {
            break;
        }
        let dim = turn % dims.len();
        dims[dim] = dims[dim].div_ceil(2);
    }
    dims
}
