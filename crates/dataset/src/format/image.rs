//! What formats of one image a file have in common: how long a file is.

use feedrate_workload::{Dataset, Format};

use super::FormatError;
use crate::sizes::Sizes;

/// The lengths of the files of a set of images.
#[derive(Debug, Clone)]
pub(super) struct ImageLengths {
    sizes: Sizes,
    record_length: u64,
}

impl ImageLengths {
    /// Refuses several samples a file: the original counts its one image as many (spec/dlio.md 4.4).
    pub(super) fn new(
        format: Format,
        dataset: &Dataset,
        sizes: Sizes,
    ) -> Result<Self, FormatError> {
        let configured = dataset.num_samples_per_file;
        if configured != 1 {
            return Err(FormatError::SamplesPerFile { format: format.suffix(), configured });
        }
        Ok(Self { sizes, record_length: dataset.record_length_bytes as u64 })
    }

    /// Bytes of `file`: the record length itself where it is the same for all files, whose square root
    /// need not be whole; the product of the drawn sides otherwise.
    pub(super) fn of(&self, file: u64) -> u64 {
        match &self.sizes {
            Sizes::Same(_) => self.record_length,
            Sizes::PerFile { .. } => self.sizes.elements(file),
        }
    }
}
