//! Compression of pages, each by itself.

use std::io::Write;

use feedrate_workload::{Compression, Dataset};
use flate2::write::GzEncoder;

use super::super::FormatError;

/// How pages are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    None,
    Snappy,
    /// With a level of 0 to 9.
    Gzip(u32),
    /// With a level of 0 (the library's own choice) to 22.
    Zstd(i32),
    /// Blocks without a frame.
    Lz4,
}

/// Compresses one page after another.
pub(super) enum Compressor {
    None,
    Snappy(Box<snap::raw::Encoder>),
    Gzip(u32),
    Zstd(zstd::bulk::Compressor<'static>),
    Lz4,
}

impl Codec {
    /// `dataset.compression` and its level.
    pub(super) fn of(dataset: &Dataset) -> Result<Self, FormatError> {
        let level = dataset.compression_level;
        match dataset.compression {
            Compression::None => Ok(Self::None),
            Compression::Snappy => Ok(Self::Snappy),
            Compression::Lz4 => Ok(Self::Lz4),
            Compression::Zstd => Ok(Self::Zstd(level.min(22).cast_signed())),
            Compression::Gzip => Ok(Self::Gzip(level.min(9))),
            other => {
                let why = format!("a parquet file cannot have {other:?}").to_lowercase();
                Err(FormatError::Unfit { key: "dataset.compression", why })
            }
        }
    }

    /// Its number in the enum `CompressionCodec` of parquet.thrift.
    pub(super) fn number(self) -> i32 {
        match self {
            Self::None => 0,
            Self::Snappy => 1,
            Self::Gzip(_) => 2,
            Self::Zstd(_) => 6,
            Self::Lz4 => 7,
        }
    }

    pub(super) fn compressor(self) -> Compressor {
        match self {
            Self::None => Compressor::None,
            Self::Snappy => Compressor::Snappy(Box::new(snap::raw::Encoder::new())),
            Self::Gzip(level) => Compressor::Gzip(level),
            Self::Zstd(level) => Compressor::Zstd(
                zstd::bulk::Compressor::new(level).expect("the level is one that zstd has"),
            ),
            Self::Lz4 => Compressor::Lz4,
        }
    }
}

impl Compressor {
    /// Compresses `plain` into the place of what `packed` held, and returns what is to be stored.
    pub(super) fn pack<'a>(&mut self, plain: &'a [u8], packed: &'a mut Vec<u8>) -> &'a [u8] {
        const ROOM: &str = "the buffer holds whatever the codec can make of the page";
        let room = match self {
            Self::None => return plain,
            Self::Snappy(_) => snap::raw::max_compress_len(plain.len()),
            // It grows as needed.
            Self::Gzip(_) => 0,
            Self::Zstd(_) => zstd::zstd_safe::compress_bound(plain.len()),
            Self::Lz4 => lz4_flex::block::get_maximum_output_size(plain.len()),
        };
        packed.resize(room, 0);
        let len = match self {
            Self::None => 0,
            Self::Snappy(encoder) => encoder.compress(plain, packed).expect(ROOM),
            Self::Zstd(encoder) => encoder.compress_to_buffer(plain, &mut packed[..]).expect(ROOM),
            Self::Lz4 => lz4_flex::block::compress_into(plain, packed).expect(ROOM),
            Self::Gzip(level) => {
                packed.clear();
                let mut encoder = GzEncoder::new(&mut *packed, flate2::Compression::new(*level));
                encoder.write_all(plain).and_then(|()| encoder.try_finish()).expect(ROOM);
                drop(encoder);
                packed.len()
            }
        };
        &packed[..len]
    }
}
