//! `dataset.compression` and its level: what each format can have (spec/dlio.md 4.4).

use std::ops::RangeInclusive;

use crate::origin::Origin;
use crate::settings::{Choices, Setting, Settings, whole};
use crate::workload::{Compression, Format};

const COMPRESSIONS: Choices<Compression> = Choices {
    supported: &[
        ("none", Compression::None),
        ("gzip", Compression::Gzip),
        ("lzf", Compression::Lzf),
        ("bz2", Compression::Bz2),
        ("zip", Compression::Zip),
        ("xz", Compression::Xz),
        ("snappy", Compression::Snappy),
        ("zstd", Compression::Zstd),
        ("lz4", Compression::Lz4),
    ],
    not_supported: &[],
};

/// The compression of a format's files, and its level; 0 if it has no levels.
pub(super) fn compression(settings: &mut Settings<'_>, format: Format) -> (Compression, u32) {
    let compression = kind(settings, format);
    (compression, level(settings, format, compression))
}

fn kind(settings: &mut Settings<'_>, format: Format) -> Compression {
    use Compression::{Bz2, Gzip, Lz4, Lzf, None, Snappy, Xz, Zip, Zstd};
    let compression = settings.choice("dataset.compression", &COMPRESSIONS, None);
    let known: &[Compression] = match format {
        Format::Npz => &[None, Zip],
        Format::Csv => &[None, Gzip, Bz2, Zip, Xz],
        Format::Hdf5 => &[None, Gzip, Lzf],
        Format::Parquet => &[None, Snappy, Zstd, Gzip, Lz4],
        _ => &[None],
    };
    if !known.contains(&compression.value) {
        let names: Vec<_> = known.iter().map(|&known| COMPRESSIONS.name(known)).collect();
        let text = format!(
            "is {}, but a {} file can have {}",
            COMPRESSIONS.name(compression.value),
            format.suffix(),
            names.join(", ")
        );
        settings.object(&compression.origin, "dataset.compression", text);
    }
    compression.value
}

/// The levels of a compression, and that which is taken when none is given: h5py's and DLIO's 4 for
/// HDF5, else what the compression's own program takes.
fn levels(format: Format, compression: Compression) -> Option<(RangeInclusive<u64>, u64)> {
    match compression {
        Compression::Gzip if format == Format::Hdf5 => Some((0..=9, 4)),
        Compression::Gzip | Compression::Zip | Compression::Xz => Some((0..=9, 6)),
        Compression::Bz2 => Some((1..=9, 9)),
        Compression::Zstd => Some((1..=22, 3)),
        Compression::None | Compression::Lzf | Compression::Snappy | Compression::Lz4 => None,
    }
}

fn level(settings: &mut Settings<'_>, format: Format, compression: Compression) -> u32 {
    const LEVEL: &str = "dataset.compression_level";
    const ANY: RangeInclusive<u64> = 0..=22;
    let name = COMPRESSIONS.name(compression);
    let Some((range, usual)) = levels(format, compression) else {
        if settings.optional_whole(LEVEL, ANY).is_some() {
            let text = format!("has no effect: dataset.compression {name} has no levels");
            settings.warn_of_value(LEVEL, text);
        }
        return 0;
    };
    let given = settings.optional(LEVEL, |node| {
        whole(node, &range).map_err(|text| format!("{text} with dataset.compression {name}"))
    });
    let level = given.unwrap_or(Setting { value: usual, origin: Origin::Default });
    settings.record(LEVEL, level.value, &level.origin);
    level.value as u32
}
