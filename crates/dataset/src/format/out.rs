//! Where the bytes of a file go: into memory, into the parts of an upload, or beside bytes that were
//! found, to be compared. Formats write once, for all three.

use std::io;

use crate::content::{Scratch, Stream};

/// Nobody wants the rest of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

/// Bytes that are not known when their turn comes.
#[derive(Debug)]
#[must_use]
pub(crate) struct Later {
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

/// Bytes that may still be open lie before this offset, so that whoever sends a file off in parts has
/// to keep just the first one back.
pub(crate) const LATEST: u64 = 4096;

/// Takes the bytes of a file, from the first to the last.
pub(crate) trait Out {
    /// The next bytes, which every file of the same settings has: headers and the like.
    fn framing(&mut self, bytes: &[u8]) -> Result<(), Stopped>;

    /// The next bytes, which only this file has.
    fn content(&mut self, bytes: &[u8]) -> Result<(), Stopped>;

    /// Leaves `len` bytes open that [`fill_in`](Self::fill_in) gives; they end before [`LATEST`].
    fn later(&mut self, len: usize) -> Result<Later, Stopped>;

    /// Gives bytes that were left open.
    fn fill_in(&mut self, place: Later, bytes: &[u8]);
}

/// Writes the next `len` bytes of `stream` as content; `each` sees every piece of them before.
pub(crate) fn pour(
    mut stream: Stream,
    len: u64,
    out: &mut dyn Out,
    mut each: impl FnMut(&[u8]),
) -> Result<(), Stopped> {
    let mut scratch = Scratch::new();
    let mut left = len;
    while left > 0 {
        let piece = scratch.piece(left);
        stream.fill(piece);
        each(piece);
        out.content(piece)?;
        left -= piece.len() as u64;
    }
    Ok(())
}

impl Out for Vec<u8> {
    fn framing(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn content(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn later(&mut self, len: usize) -> Result<Later, Stopped> {
        let offset = self.len();
        self.resize(offset + len, 0);
        Ok(Later { offset: offset as u64, len })
    }

    fn fill_in(&mut self, place: Later, bytes: &[u8]) {
        let start = place.offset as usize;
        self[start..start + place.len].copy_from_slice(bytes);
    }
}

/// An [`Out`] for libraries that write to [`io::Write`]: what comes through it is content.
pub(crate) struct Writer<'a>(pub(crate) &'a mut dyn Out);

impl io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.content(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(Stopped) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "nobody wants the rest")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts what is written.
#[derive(Debug, Default)]
pub(crate) struct Counted(pub(crate) u64);

impl Out for Counted {
    fn framing(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.0 += bytes.len() as u64;
        Ok(())
    }

    fn content(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.framing(bytes)
    }

    fn later(&mut self, len: usize) -> Result<Later, Stopped> {
        let offset = self.0;
        self.0 += len as u64;
        Ok(Later { offset, len })
    }

    fn fill_in(&mut self, _: Later, _: &[u8]) {}
}

/// Found bytes beside those that should be there.
pub(crate) struct Comparison<'a> {
    found: &'a [u8],
    /// Where the next bytes belong.
    at: usize,
    first_difference: Option<usize>,
    random: usize,
    random_equal: usize,
}

/// What a comparison has come to.
pub(crate) enum Verdict {
    /// Nothing differs.
    Same,
    /// Hardly a random byte is the same.
    Foreign,
    /// The first byte that differs.
    Differs(u64),
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(found: &'a [u8]) -> Self {
        Self { found, at: 0, first_difference: None, random: 0, random_equal: 0 }
    }

    /// The part of what was found that lies at `offset`, as far as there is any.
    fn found(&self, offset: usize, len: usize) -> &'a [u8] {
        let from = offset.min(self.found.len());
        &self.found[from..self.found.len().min(offset.saturating_add(len))]
    }

    /// Notes the first difference of `expected` at `offset`, if there is one.
    fn compare(&mut self, offset: usize, expected: &[u8]) {
        let found = self.found(offset, expected.len());
        if found == expected {
            return;
        }
        let inside = found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(found.len());
        let at = offset + inside;
        self.first_difference = Some(self.first_difference.map_or(at, |first| first.min(at)));
    }

    pub(crate) fn verdict(self) -> Verdict {
        let beyond = (self.found.len() > self.at).then_some(self.at);
        let Some(at) = self.first_difference.or(beyond) else { return Verdict::Same };
        // Of unrelated bytes one in 256 is the same; a file that is damaged has nearly all in common.
        if self.random >= 64 && self.random_equal < self.random / 16 {
            return Verdict::Foreign;
        }
        Verdict::Differs(at as u64)
    }

    /// Where the bytes that were found end, and those that should be there.
    pub(crate) fn lengths(&self) -> (u64, u64) {
        (self.found.len() as u64, self.at as u64)
    }
}

impl Out for Comparison<'_> {
    fn framing(&mut self, expected: &[u8]) -> Result<(), Stopped> {
        self.compare(self.at, expected);
        self.at += expected.len();
        Ok(())
    }

    fn content(&mut self, expected: &[u8]) -> Result<(), Stopped> {
        let found = self.found(self.at, expected.len());
        if found == expected {
            self.random += expected.len();
            self.random_equal += expected.len();
        } else {
            // Zeros, which compressible content has, say nothing.
            let telling = || found.iter().zip(expected).filter(|(_, expected)| **expected != 0);
            self.random += telling().count();
            self.random_equal += telling().filter(|(found, expected)| found == expected).count();
        }
        self.framing(expected)
    }

    fn later(&mut self, len: usize) -> Result<Later, Stopped> {
        let offset = self.at;
        self.at += len;
        Ok(Later { offset: offset as u64, len })
    }

    fn fill_in(&mut self, place: Later, bytes: &[u8]) {
        self.compare(place.offset as usize, bytes);
    }
}
