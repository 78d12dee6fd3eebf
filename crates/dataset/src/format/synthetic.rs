//! Synthetic files: hardly anything, for runs that read nothing at all. Each holds its index among the
//! files of both sets, those to train on first, as decimal text (spec/dlio.md 4.3).

use std::ops::Range;

use feedrate_workload::{Dataset, Split};

use super::files::{Files, Length, Undecodable};
use super::out::{Out, Stopped};

/// The synthetic files of a set.
#[derive(Debug, Clone)]
pub(super) struct Synthetic {
    /// Index of the set's first file among those of both sets.
    first: u64,
    /// Digits of the last file's index there.
    most_digits: u64,
}

impl Synthetic {
    pub(super) fn new(dataset: &Dataset, split: Split) -> Self {
        let first = match split {
            Split::Train => 0,
            Split::Valid => dataset.num_files_train,
        };
        let last = first.saturating_add(dataset.files(split).saturating_sub(1));
        Self { first, most_digits: last.to_string().len() as u64 }
    }

    fn text(&self, file: u64) -> String {
        self.first.saturating_add(file).to_string()
    }
}

impl Files for Synthetic {
    /// The same for all files, so that nobody has to count the digits of each of very many.
    fn length(&self, _: u64) -> Length {
        Length::About(self.most_digits)
    }

    fn write(&self, file: u64, _: Range<u64>, out: &mut dyn Out) -> Result<(), Stopped> {
        out.content(self.text(file).as_bytes())
    }

    fn sample_at(&self, _: u64, _: u64) -> Option<u64> {
        None
    }

    fn decode(&self, file: u64, _: Range<u64>, found: &[u8]) -> Result<(), Undecodable> {
        let text = self.text(file);
        if found == text.as_bytes() {
            return Ok(());
        }
        // Longer than any number is not worth showing.
        let shown = String::from_utf8_lossy(&found[..found.len().min(20)]);
        Err(Undecodable::file(format_args!("it holds {shown:?}, not its index {text}")))
    }
}

#[cfg(test)]
mod tests {
    use feedrate_workload::{Dataset, Format, Split};

    use crate::testing::dataset;
    use crate::{FileFormat, Length, Mismatch};

    fn format(split: Split) -> FileFormat {
        let set = Dataset {
            num_files_eval: 3,
            num_samples_per_file: 4,
            ..dataset(Format::Synthetic, 10, 1000.0)
        };
        FileFormat::new(&set, split).expect("nothing can be wrong")
    }

    fn text(format: &FileFormat, file: u64) -> String {
        let mut bytes = Vec::new();
        format.write(file, &mut bytes);
        String::from_utf8(bytes).expect("digits")
    }

    #[test]
    fn a_file_holds_its_index_among_those_of_both_sets() {
        let (train, valid) = (format(Split::Train), format(Split::Valid));
        assert_eq!([0, 9].map(|file| text(&train, file)), ["0", "9"]);
        assert_eq!([0, 2].map(|file| text(&valid, file)), ["10", "12"]);
    }

    #[test]
    fn lengths_are_the_longest() {
        assert_eq!(
            (format(Split::Train).total_bytes(), format(Split::Valid).total_bytes()),
            (10, 6)
        );
        let set = dataset(Format::Synthetic, 1 << 40, 1000.0);
        let format = FileFormat::new(&set, Split::Train).expect("nothing can be wrong");
        assert_eq!(format.length(0), Length::About(13));
        assert_eq!(format.largest_file(), 13);
        assert_eq!(format.verify(0, 0..1, b"0"), Ok(()));
    }

    #[test]
    fn only_its_own_index_decodes() {
        let valid = format(Split::Valid);
        assert_eq!(valid.decode(1, 0..4, b"11"), Ok(()));
        assert_eq!(valid.verify(1, 0..4, b"11"), Ok(()));
        assert!(matches!(
            valid.verify(1, 0..4, b"12"),
            Err(Mismatch::Content { offset: 1, sample: None })
        ));
        for found in [&b"12"[..], b"1", b"", b"11\n", &[0xff; 500]] {
            let error = valid.decode(1, 0..4, found).expect_err("it is not 11").to_string();
            assert!(error.ends_with("not its index 11"), "{error}");
            assert!(error.len() < 300, "{error}");
        }
    }
}
