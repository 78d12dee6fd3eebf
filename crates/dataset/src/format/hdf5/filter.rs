//! What compresses chunks: gzip or LZF.

use flate2::{Compress, Compression, FlushCompress, Status};

use super::lzf;

/// A dataset's filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    None,
    Gzip {
        level: u32,
    },
    /// As h5py has it.
    Lzf,
}

impl Filter {
    /// The registered number.
    pub(super) fn id(self) -> u16 {
        match self {
            Self::None => 0,
            Self::Gzip { .. } => 1,
            Self::Lzf => 32_000,
        }
    }

    /// The name, which filters have that are not the library's own, with a zero at the end.
    pub(super) fn name(self) -> &'static [u8] {
        if self == Self::Lzf { b"lzf\0" } else { b"" }
    }

    /// What a reader is told beside: for gzip its level; for LZF the version of h5py's filter, that of
    /// the LZF library, and the bytes of a `chunk`.
    pub(super) fn parameters(self, chunk: u64) -> Vec<u32> {
        match self {
            Self::None => Vec::new(),
            Self::Gzip { level } => vec![level],
            Self::Lzf => vec![4, 0x0105, chunk as u32],
        }
    }
}

/// Compresses chunk by chunk, with one state and one buffer.
pub(super) struct Encoder {
    method: Method,
    encoded: Vec<u8>,
}

enum Method {
    None,
    Gzip(Compress),
    Lzf(lzf::Table),
}

impl Encoder {
    pub(super) fn new(filter: Filter) -> Self {
        let method = match filter {
            Filter::None => Method::None,
            Filter::Gzip { level } => Method::Gzip(Compress::new(Compression::new(level), true)),
            Filter::Lzf => Method::Lzf(lzf::Table::default()),
        };
        Self { method, encoded: Vec::new() }
    }

    /// The compressed `values`; `None` if they are stored as they are. As in the HDF5 library and in h5py
    /// that is what becomes of values that LZF does not shrink, while gzip's format, which has a
    /// checksum, is kept even then.
    pub(super) fn encode(&mut self, values: &[u8]) -> Option<&[u8]> {
        self.encoded.clear();
        let encoded = match &mut self.method {
            Method::None => false,
            Method::Gzip(state) => deflate(state, values, &mut self.encoded),
            Method::Lzf(table) => lzf::compress(values, table, &mut self.encoded),
        };
        encoded.then_some(&self.encoded)
    }
}

/// Appends the compressed `values` to `out`; `false` if that does not work out.
fn deflate(state: &mut Compress, values: &[u8], out: &mut Vec<u8>) -> bool {
    state.reset();
    loop {
        // What does not shrink grows by less than a thousandth.
        let left = &values[state.total_in() as usize..];
        out.reserve(left.len() + left.len() / 1000 + 64);
        match state.compress_vec(left, out, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}
