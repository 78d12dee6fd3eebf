//! What a client said about an object, in an extended attribute of its file.
//!
//! It is JSON, a few hundred bytes. A file without it, written by another program, is an object
//! without content type and metadata. A checksum is believed only as long as the file is the one that
//! it was computed of.

use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};

use crate::store::Attributes;

const NAME: &str = "user.feedrate";

/// More than any file system keeps in one attribute without tuning.
const MAX_BYTES: usize = 64 << 10;

#[derive(Serialize, Deserialize)]
struct Saved {
    /// Of the object that this was said of.
    etag: String,
    #[serde(flatten)]
    attributes: Attributes,
}

/// What is kept with `file`, whose tag is `etag`. What cannot be read is nothing.
pub(super) fn read(file: &File, etag: &str) -> Attributes {
    let mut json = Vec::with_capacity(512);
    let read = loop {
        match rustix::fs::fgetxattr(file, NAME, rustix::buffer::spare_capacity(&mut json)) {
            Err(rustix::io::Errno::RANGE) if json.capacity() < MAX_BYTES => {
                json = Vec::with_capacity(MAX_BYTES);
            }
            other => break other,
        }
    };
    if read.is_err() {
        return Attributes::default();
    }
    let Ok(Saved { etag: saved_for, mut attributes }) = serde_json::from_slice(&json) else {
        return Attributes::default();
    };
    if saved_for != etag {
        attributes.checksum = None;
    }
    attributes
}

/// Keeps `attributes` with `file`, whose tag is `etag`. A file system that knows no such attributes
/// keeps none.
pub(super) fn write(file: &File, etag: &str, attributes: &Attributes) -> io::Result<()> {
    if *attributes == Attributes::default() {
        return Ok(());
    }
    let saved = Saved { etag: etag.to_owned(), attributes: attributes.clone() };
    let json = serde_json::to_vec(&saved)?;
    match rustix::fs::fsetxattr(file, NAME, &json, rustix::fs::XattrFlags::empty()) {
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
        other => Ok(other?),
    }
}
