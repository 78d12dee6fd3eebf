//! Compression of a text as a whole: gzip, bzip2, XZ, or a ZIP archive with the text as its one member.
//! All of it is streamed both ways, so neither the text nor the compressed bytes are ever in memory as
//! a whole, whatever it expands to.

use std::io::{self, Cursor, Read, Write};

use bzip2::read::MultiBzDecoder;
use bzip2::write::BzEncoder;
use feedrate_workload::{Compression, Dataset};
use flate2::GzBuilder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::{XzOptions, XzReader, XzWriter};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use crate::format::FormatError;
use crate::format::files::Undecodable;

/// KiB that XZ may take to decompress: more than its highest level needs, which has a window of 64 MiB.
const MOST_XZ_MEMORY: u32 = 80 << 10;

/// What a gzip header says of the system that made it: nothing.
const OS_UNKNOWN: u8 = 255;

/// How a text is compressed, and at which level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// Not at all.
    None,
    Gzip(u32),
    Bz2(u32),
    Xz(u32),
    Zip(u32),
}

impl Packing {
    pub(super) fn new(dataset: &Dataset) -> Result<Self, FormatError> {
        let level = dataset.compression_level;
        match dataset.compression {
            Compression::None => Ok(Self::None),
            Compression::Gzip => Ok(Self::Gzip(level)),
            Compression::Bz2 => Ok(Self::Bz2(level)),
            Compression::Xz => Ok(Self::Xz(level)),
            Compression::Zip => Ok(Self::Zip(level)),
            Compression::Lzf | Compression::Snappy | Compression::Zstd | Compression::Lz4 => {
                let why = "a csv file can have none, gzip, bz2, zip, xz".to_owned();
                Err(FormatError::Unfit { key: "dataset.compression", why })
            }
        }
    }

    /// How `found` is compressed, by its first bytes: the original does not tell by the name. None of
    /// them begins a number.
    pub(super) fn found(found: &[u8]) -> Option<Self> {
        const BEGINNINGS: [(&[u8], Packing); 4] = [
            (b"\x1f\x8b", Packing::Gzip(0)),
            (b"BZh", Packing::Bz2(0)),
            (b"\xfd7zXZ\0", Packing::Xz(0)),
            (b"PK", Packing::Zip(0)),
        ];
        let begins = |(beginning, _): &&(&[u8], Self)| found.starts_with(beginning);
        BEGINNINGS.iter().find(begins).map(|(_, packing)| *packing)
    }

    /// Compresses what `write` writes to `out`. `member` is the name of the text in an archive. Equal
    /// texts give equal bytes: no stamp is of now.
    pub(super) fn pack(
        self,
        member: &str,
        out: impl Write,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut out = UntilFailure { out, failed: false };
        match self {
            Self::None => write(&mut out),
            Self::Gzip(level) => {
                let level = flate2::Compression::new(level);
                let mut gzip =
                    GzBuilder::new().mtime(0).operating_system(OS_UNKNOWN).write(out, level);
                write(&mut gzip)?;
                gzip.finish().map(drop)
            }
            Self::Bz2(level) => {
                let mut bz2 = BzEncoder::new(out, bzip2::Compression::new(level));
                write(&mut bz2)?;
                bz2.finish().map(drop)
            }
            Self::Xz(level) => {
                let mut xz = XzWriter::new(out, XzOptions::with_preset(level))?;
                write(&mut xz)?;
                xz.finish().map(drop)
            }
            Self::Zip(level) => {
                let mut zip = ZipWriter::new_stream(out);
                let options = SimpleFileOptions::default()
                    .compression_method(CompressionMethod::Deflated)
                    .compression_level(Some(level.into()))
                    .last_modified_time(DateTime::default())
                    // Sizes of 64 bits: they are not known beforehand.
                    .large_file(true);
                zip.start_file(member, options)?;
                write(&mut zip)?;
                zip.finish().map(drop).map_err(io::Error::from)
            }
        }
    }

    /// Hands the text that `found` holds to `read`. Reading it to the end checks all checksums.
    pub(super) fn unpack(
        self,
        found: &[u8],
        read: impl FnOnce(&mut dyn Read) -> Result<(), Undecodable>,
    ) -> Result<(), Undecodable> {
        match self {
            Self::None => read(&mut &*found),
            Self::Gzip(_) => read(&mut MultiGzDecoder::new(found)),
            Self::Bz2(_) => read(&mut MultiBzDecoder::new(found)),
            Self::Xz(_) => read(&mut XzReader::new_mem_limit(found, true, MOST_XZ_MEMORY)),
            Self::Zip(_) => {
                let unreadable = |error: ZipError| self.unreadable(&error.into());
                let mut archive = ZipArchive::new(Cursor::new(found)).map_err(unreadable)?;
                if archive.len() != 1 {
                    let members = archive.len();
                    let what = format!("it is a ZIP archive of {members} members instead of one");
                    return Err(Undecodable::file(what));
                }
                read(&mut archive.by_index(0).map_err(unreadable)?)
            }
        }
    }

    /// What it means that the text cannot be read.
    pub(super) fn unreadable(self, error: &io::Error) -> Undecodable {
        let name = match self {
            Self::None => "text",
            Self::Gzip(_) => "gzip",
            Self::Bz2(_) => "bz2",
            Self::Xz(_) => "xz",
            Self::Zip(_) => "zip",
        };
        Undecodable::file(format_args!("it cannot be read as {name}: {error}"))
    }
}

/// Fails once and then takes everything: archivers want to end their archive when they are dropped, and
/// complain on stderr when they cannot.
struct UntilFailure<W> {
    out: W,
    failed: bool,
}

impl<W: Write> Write for UntilFailure<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failed {
            return Ok(bytes.len());
        }
        let outcome = self.out.write(bytes);
        self.failed = outcome.is_err();
        outcome
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.failed { Ok(()) } else { self.out.flush() }
    }
}
