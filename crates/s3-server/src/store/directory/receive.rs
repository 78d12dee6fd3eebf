//! A body on its way into a file.
//!
//! Pieces are gathered and written together; while one gathering is being written the next one
//! arrives. At most two of them are in memory.

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::TemporaryFile;
use crate::store::{Receiver, StoreError, StoreResult};

/// How many bytes are written at once.
const GATHERED_BYTES: usize = 256 << 10;

/// Receives a body into a temporary file.
#[derive(Debug)]
pub(crate) struct FileReceiver {
    file: FileState,
    pieces: Vec<Bytes>,
    gathered: usize,
}

/// The file is here, or with the thread that writes to it.
#[derive(Debug)]
enum FileState {
    Here(TemporaryFile),
    Away(JoinHandle<StoreResult<TemporaryFile>>),
    /// A write failed.
    Lost,
}

impl FileReceiver {
    pub(super) fn new(file: TemporaryFile) -> Self {
        Self { file: FileState::Here(file), pieces: Vec::new(), gathered: 0 }
    }

    /// The file, when what was written last is in it.
    async fn file(&mut self) -> StoreResult<TemporaryFile> {
        match std::mem::replace(&mut self.file, FileState::Lost) {
            FileState::Here(file) => Ok(file),
            FileState::Away(writing) => {
                writing.await.map_err(|error| StoreError::Broken(error.to_string()))?
            }
            FileState::Lost => Err(StoreError::Broken("an earlier write failed".to_owned())),
        }
    }

    /// Starts to write what was gathered.
    async fn write_gathered(&mut self) -> StoreResult<()> {
        let mut file = self.file().await?;
        let pieces = std::mem::take(&mut self.pieces);
        self.gathered = 0;
        self.file = FileState::Away(tokio::task::spawn_blocking(move || {
            file.write(&pieces)?;
            Ok(file)
        }));
        Ok(())
    }
}

impl Receiver for FileReceiver {
    type Blob = TemporaryFile;

    async fn write(&mut self, piece: Bytes) -> StoreResult<()> {
        self.gathered += piece.len();
        self.pieces.push(piece);
        if self.gathered >= GATHERED_BYTES {
            self.write_gathered().await?;
        }
        Ok(())
    }

    async fn finish(mut self) -> StoreResult<TemporaryFile> {
        if !self.pieces.is_empty() {
            self.write_gathered().await?;
        }
        self.file().await
    }
}
