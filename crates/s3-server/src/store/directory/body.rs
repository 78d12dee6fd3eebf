//! A file on its way out.
//!
//! It is read in pieces, and the next piece is read while the one before it is sent: two pieces of an
//! answer are in memory, whatever the size of the file and however slow the client. The first piece is
//! smaller, so that the first byte comes early.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use s3s::Body;
use tokio::task::JoinHandle;

use crate::store::{Content, StoreError};

const FIRST_PIECE_BYTES: u64 = 64 << 10;
const PIECE_BYTES: u64 = 256 << 10;

/// The content of an object: an open file, which stays what it is when another takes its name.
#[derive(Debug, Clone)]
pub(crate) struct FileContent {
    file: Arc<File>,
    path: Arc<PathBuf>,
}

impl FileContent {
    pub(super) fn new(file: File, path: &Path) -> Self {
        Self { file: Arc::new(file), path: Arc::new(path.to_owned()) }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Content for FileContent {
    fn body(&self, range: Range<u64>) -> Body {
        if range.is_empty() {
            return Body::empty();
        }
        let content = self.clone();
        let unsent = range.end - range.start;
        let mut body = FileBody { content, unread: range, unsent, reading: None };
        body.read_ahead(FIRST_PIECE_BYTES);
        Body::http_body(body)
    }
}

struct FileBody {
    content: FileContent,
    /// What no read was started for.
    unread: Range<u64>,
    /// How many bytes have not been handed out.
    unsent: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl FileBody {
    /// Starts to read the next piece, if there is one.
    fn read_ahead(&mut self, most: u64) {
        let start = self.unread.start;
        let len = most.min(self.unread.end - start);
        if len == 0 {
            return;
        }
        self.unread.start += len;
        let file = Arc::clone(&self.content.file);
        self.reading = Some(tokio::task::spawn_blocking(move || read(&file, start, len as usize)));
    }

    fn failed(&self, error: io::Error) -> StoreError {
        StoreError::io(&self.content.path, error)
    }
}

impl HttpBody for FileBody {
    type Data = Bytes;
    type Error = StoreError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StoreError>>> {
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let piece = match read {
            Ok(Ok(piece)) => piece,
            Ok(Err(error)) => return Poll::Ready(Some(Err(self.failed(error)))),
            Err(error) => return Poll::Ready(Some(Err(StoreError::Broken(error.to_string())))),
        };
        self.unsent -= piece.len() as u64;
        self.read_ahead(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.unsent == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.unsent)
    }
}

/// Reads `len` bytes from `offset` on.
fn read(file: &File, mut offset: u64, len: usize) -> io::Result<Bytes> {
    let mut piece = Vec::with_capacity(len);
    while piece.len() < len {
        // The allocator may have given more room than was asked for.
        let read = rustix::io::retry_on_intr(|| {
            rustix::io::pread(file, rustix::buffer::spare_capacity(&mut piece), offset)
        })?;
        if read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was being read",
            ));
        }
        offset += read as u64;
    }
    piece.truncate(len);
    Ok(Bytes::from(piece))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn content(bytes: &[u8]) -> (FileContent, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        (FileContent::new(file.reopen().unwrap(), file.path()), file)
    }

    #[tokio::test]
    async fn every_byte_of_a_range_comes_once() {
        let bytes: Vec<u8> = (0..1_000_003_u32).map(|i| (i % 251) as u8).collect();
        let (content, _file) = content(&bytes);
        for range in [0..1_000_003, 0..0, 7..8, 65_535..65_537, 300_000..1_000_003] {
            let body = content.body(range.clone());
            assert_eq!(HttpBody::size_hint(&body).exact(), Some(range.end - range.start));
            let read = body.collect().await.unwrap().to_bytes();
            assert!(read == bytes[range.start as usize..range.end as usize], "{range:?}");
        }
    }

    #[tokio::test]
    async fn the_first_piece_is_small_and_the_end_is_seen_with_the_last() {
        let (content, _file) = content(&vec![7; 400_000]);
        let mut body = content.body(0..400_000);
        let mut pieces = Vec::new();
        while !HttpBody::is_end_stream(&body) {
            pieces.push(body.frame().await.unwrap().unwrap().into_data().unwrap().len());
        }
        assert_eq!(pieces, [65_536, 262_144, 400_000 - 65_536 - 262_144]);
    }

    #[tokio::test]
    async fn a_file_that_became_shorter_is_an_error_that_names_it() {
        let (content, file) = content(&[7; 100]);
        file.as_file().set_len(10).unwrap();
        let error = content.body(0..100).collect().await.unwrap_err().to_string();
        assert!(error.contains(file.path().to_str().unwrap()), "{error}");
        assert!(error.contains("shorter"), "{error}");
    }
}
