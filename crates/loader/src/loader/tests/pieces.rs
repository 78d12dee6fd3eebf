use feedrate_metrics::units::Seconds;

use super::*;

/// An epoch of `options` on two ranks, which both read all they have to.
fn epoch(options: &[&str]) -> (Rig, u64) {
    let rig = Rig::new(&in_order(options), 2);
    let mut bytes = 0;
    let mut loaders = [rig.loader(), rig.loader()];
    for (loader, rank) in loaders.iter_mut().zip(0..) {
        rig.start(loader, rank);
    }
    for loader in &mut loaders {
        for _ in 0..rig.schedule.steps {
            bytes += loader.next_batch().unwrap().arrived().0;
        }
        assert!(matches!(loader.next_batch(), Err(LoadError::Exhausted)));
    }
    (rig, bytes)
}

/// The ranges that were asked for, by file and ascending; those of a file in one row.
fn ranges(rig: &Rig) -> Vec<Vec<Range<u64>>> {
    let seen = rig.store.seen();
    let mut by_file: Vec<Vec<Range<u64>>> = vec![Vec::new(); rig.source.format.files() as usize];
    for (key, range) in seen.keys.iter().zip(&seen.ranges) {
        let whole = 0..rig.source.format.file_len(index(key));
        by_file[index(key) as usize].push(range.clone().unwrap_or(whole));
    }
    for ranges in &mut by_file {
        ranges.sort_by_key(|range| range.start);
    }
    by_file
}

const MANY: [&str; 4] = [
    "dataset.num_files_train=4",
    "dataset.num_samples_per_file=6",
    "dataset.record_length_bytes=1000000",
    "reader.batch_size=3",
];

#[test]
fn samples_that_lie_alone_are_read_by_range_each_once() {
    for format in ["indexed_binary", "tfrecord"] {
        for shuffle in ["reader.sample_shuffle=off", "reader.sample_shuffle=seed"] {
            let format = format!("dataset.format={format}");
            let (rig, bytes) = epoch(&[&MANY[..], &TENSORFLOW, &[&format, shuffle]].concat());
            assert_eq!(bytes, rig.source.format.total_bytes());
            for (file, ranges) in (0..).zip(ranges(&rig)) {
                // In order four samples make a piece of 4 MiB.
                let pieces = if shuffle.ends_with("off") { 2 } else { 6 };
                assert_eq!(ranges.len(), pieces, "{format}, {shuffle}");
                let ends = ranges.windows(2).all(|pair| pair[0].end == pair[1].start);
                assert!(ends && ranges[0].start == 0, "{ranges:?}");
                assert_eq!(ranges[pieces - 1].end, rig.source.format.file_len(file));
            }
        }
    }
}

const TENSORFLOW: [&str; 2] = ["framework=tensorflow", "reader.data_loader=tensorflow"];

#[test]
fn a_file_of_a_format_that_is_read_whole_is_asked_for_once_shuffled_or_not() {
    for shuffle in ["reader.sample_shuffle=off", "reader.sample_shuffle=seed"] {
        let (rig, bytes) = epoch(&[&MANY[..], &["dataset.format=npz", shuffle]].concat());
        assert_eq!(bytes, rig.source.format.total_bytes());
        assert!(rig.store.seen().ranges.iter().all(Option::is_none));
        assert!(rig.store.asked().values().all(|&times| times == 1));
    }
}

#[test]
fn a_large_file_comes_by_ranges_that_are_put_together_in_order() {
    let options = [
        "dataset.num_files_train=4",
        "dataset.record_length_bytes=1000000",
        "storage.storage_options.range_size=300000",
        "reader.batch_size=2",
        "reader.decode=full",
    ];
    for payload in ["reader.payload=land", "reader.payload=discard"] {
        let decode = if payload.ends_with("land") { "full" } else { "none" };
        let decode = format!("reader.decode={decode}");
        let (rig, bytes) = epoch(&[&options[..], &[payload, &decode]].concat());
        assert_eq!(bytes, rig.source.format.total_bytes());
        for (file, ranges) in (0..).zip(ranges(&rig)) {
            let length = rig.source.format.file_len(file);
            assert_eq!(ranges, [0..300_000, 300_000..600_000, 600_000..900_000, 900_000..length]);
        }
        let decoded = rig.source.work.stats.summary();
        assert_eq!(decoded.pieces, if payload.ends_with("land") { 4 } else { 0 });
    }
}

#[test]
fn of_parquet_files_row_groups_are_read_by_column_and_footers_once() {
    let options = [
        "dataset.format=parquet",
        "dataset.num_files_train=2",
        "dataset.num_samples_per_file=2500",
        "dataset.parquet.row_group_size=1000",
        "dataset.parquet.columns=[{name: a, dtype: int32}, {name: b, dtype: float64}, {name: c, dtype: int32}]",
        "storage.storage_options.columns=[a, c]",
        "reader.batch_size=250",
        "reader.decode=full",
    ];
    let (rig, bytes) = epoch(&options);
    // The store of the test is asked for tails by their ranges.
    let mut read = 0;
    for ranges in ranges(&rig) {
        // Three groups of two columns that do not touch, and the footer.
        assert_eq!(ranges.len(), 7, "{ranges:?}");
        read += ranges.iter().map(|range| range.end - range.start).sum::<u64>();
    }
    assert_eq!(bytes, read);
    let decoded = rig.source.work.stats.summary();
    assert_eq!(decoded.pieces, 6);
    assert!(decoded.bytes.0 > 2 * 2500 * 8 && decoded.time > Seconds(0.0), "{decoded:?}");
}

#[test]
fn an_empty_file_and_one_that_is_cut_off_are_named() {
    for (length, words) in [(0, "is empty"), (500, "has 500 bytes, but")] {
        let options = ["dataset.num_files_train=8", "reader.batch_size=2"];
        let rig = Rig::new(&in_order(&options), 1);
        let key = rig.source.layout.key(3);
        let put = rig.store.put(&key, Bytes::from(vec![0; length]));
        rig.runtime.handle().block_on(put).unwrap();
        let mut loader = rig.loader();
        rig.start(&mut loader, 0);
        let error = loop {
            match loader.next_batch() {
                Ok(_) => {}
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.starts_with(key.as_str()), "{error}");
        assert!(error.contains(words), "{error}");
    }
}
