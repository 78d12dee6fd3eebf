//! Files that are not what they should be: with a wrong byte, cut off, empty, of another schema; what
//! `reader.decode` and `--verify` say of them, and what is no file at all.

use std::fs;
use std::path::PathBuf;

use crate::support::{Call, MANIFEST, Place, number, python_on, serve};

const DECODE: &str = "reader.decode=full";

/// A set of four files in a folder, one of which is to be harmed.
struct Harmed {
    place: Place,
    format: &'static str,
    settings: Vec<String>,
}

impl Harmed {
    /// Files of `samples` samples of 64 x 64 elements, unless more settings say otherwise.
    fn new(format: &'static str, samples: u64, more: &[&str]) -> Self {
        let loader = if format == "tfrecord" { "tensorflow" } else { "pytorch" };
        let settings = [
            format!("dataset.format={format}"),
            "dataset.num_files_train=4".to_owned(),
            format!("dataset.num_samples_per_file={samples}"),
            "dataset.record_length_bytes=4096".to_owned(),
            format!("framework={loader}"),
            format!("reader.data_loader={loader}"),
            "reader.batch_size=1".to_owned(),
            "train.computation_time=0".to_owned(),
        ];
        let settings = settings.into_iter().chain(more.iter().map(|&more| more.to_owned()));
        let harmed = Self { place: Place::new(), format, settings: settings.collect() };
        harmed.call("datagen").succeeds();
        harmed
    }

    fn call(&self, command: &str) -> Call {
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        self.place.feedrate(command).args("t0.yaml --local store").set(&settings)
    }

    fn decoding(&self) -> Call {
        self.call("run").set(&[DECODE])
    }

    fn folder(&self) -> PathBuf {
        self.place.directory().join("store/data/t0")
    }

    /// Nothing tells any more how the files were made, so sizes are taken as they are.
    fn forget(&self) {
        fs::remove_file(self.folder().join(MANIFEST)).unwrap();
    }

    /// The name of the file that is harmed.
    fn name(&self) -> String {
        format!("img_2_of_4.{}", self.format)
    }

    fn path(&self) -> PathBuf {
        self.folder().join("train").join(self.name())
    }

    /// Does something to the bytes of the file.
    fn harm(&self, harm: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.path()).unwrap();
        harm(&mut bytes);
        fs::write(self.path(), bytes).unwrap();
    }

    /// Flips a bit of the byte at `at`, counted from the end if it is negative.
    fn flip(&self, at: isize) {
        self.harm(|bytes| {
            let place = at.unsigned_abs();
            let place = if at < 0 { bytes.len() - place } else { place };
            bytes[place] ^= 0x10;
        });
    }
}

#[test]
fn verifying_names_file_byte_and_sample_of_a_wrong_byte_in_every_format() {
    // Behind an array's header; the sample axis is the last one.
    let element = |sample: isize| 128 + 3 * 1000 + sample;
    // Of the archive's first member: its header and name.
    let member = 41;
    for (format, samples, at, sample) in [
        ("npy", 3, element(2), Some(2)),
        ("npz", 3, member + element(1), Some(1)),
        ("hdf5", 3, 2000 + 4096, Some(1)),
        // Rows are as long as their numbers.
        ("csv", 3, 20_000, None),
        ("jpeg", 1, 3000, Some(0)),
        ("png", 1, 3000, Some(0)),
        ("tfrecord", 3, 4150 + 1000, Some(1)),
        ("indexed_binary", 3, 2 * 4096 + 7, Some(2)),
        ("mmap_indexed_binary", 3, 4095, Some(0)),
        ("parquet", 3, 9000, Some(1)),
    ] {
        let harmed = Harmed::new(format, samples, &[]);
        harmed.call("run").arg("--verify").succeeds();
        harmed.flip(at);
        let mut told = vec![harmed.name(), format!("byte {at}")];
        told.extend(sample.map(|sample: u32| format!("sample {sample}")));
        let told: Vec<&str> = told.iter().map(String::as_str).collect();
        harmed.call("run").arg("--verify").fails(1).telling(&told);
        // Nobody looks at it otherwise.
        harmed.call("run").succeeds();
    }
}

#[test]
fn decoding_finds_wrong_bytes_wherever_the_format_has_a_checksum_or_a_rule() {
    let gzip = ["dataset.compression=gzip"];
    for (format, samples, more, at, told) in [
        ("npz", 3, &[][..], 5000, "checksum"),
        ("npz", 3, &["dataset.compression=zip"], 5000, ""),
        ("npy", 3, &[], 0, ""),
        ("npy", 3, &[], 20, ""),
        ("hdf5", 3, &[], 0, ""),
        ("hdf5", 3, &gzip, 5000, ""),
        ("csv", 3, &[], 20_000, ""),
        ("jpeg", 1, &[], 0, ""),
        ("png", 1, &[], 3000, ""),
        // The length, its checksum, the payload, its checksum.
        ("tfrecord", 3, &[], 4150, "sample 1"),
        ("tfrecord", 3, &[], 4150 + 9, "sample 1"),
        ("tfrecord", 3, &[], 4150 + 2000, "sample 1"),
        ("tfrecord", 3, &[], 4150 + 4149, "sample 1"),
        // The head of the first page, a page, the footer's length, the end.
        ("parquet", 3, &[], 4, ""),
        ("parquet", 3, &gzip, 5000, ""),
        ("parquet", 3, &[], -7, ""),
        ("parquet", 3, &[], -1, ""),
    ] {
        let harmed = Harmed::new(format, samples, more);
        harmed.decoding().succeeds();
        harmed.flip(at);
        harmed.decoding().fails(1).telling(&[&harmed.name(), "decode", told]);
        harmed.call("run --np 2").set(&[DECODE]).fails(1).telling(&[&harmed.name(), told]);
        // Nobody else looks, but for where columns are.
        if at >= 0 {
            harmed.call("run").succeeds();
        }
    }
}

#[test]
fn files_that_are_cut_off_are_found_by_their_length_or_by_decoding() {
    for (format, samples) in [
        ("npz", 3),
        ("npy", 3),
        ("hdf5", 3),
        ("csv", 3),
        ("jpeg", 1),
        ("png", 1),
        ("tfrecord", 3),
        ("indexed_binary", 3),
        ("parquet", 3),
    ] {
        let harmed = Harmed::new(format, samples, &[]);
        harmed.harm(|bytes| bytes.truncate(bytes.len() / 2));
        match format {
            // How long it should be only making it tells.
            "csv" => {
                harmed.call("run").succeeds();
                harmed.call("run").arg("--verify").fails(1).telling(&[&harmed.name()]);
            }
            _ => drop(harmed.call("run").fails(1).telling(&[&harmed.name()])),
        }
        harmed.forget();
        harmed.decoding().fails(1).telling(&[&harmed.name(), "decode"]);
    }
}

#[test]
fn an_empty_file_holds_no_sample_whether_decoded_or_not() {
    for (format, samples) in
        [("npz", 3), ("csv", 3), ("jpeg", 1), ("tfrecord", 3), ("tfrecord", 1), ("parquet", 3)]
    {
        let harmed = Harmed::new(format, samples, &[]);
        harmed.harm(Vec::clear);
        for _ in 0..2 {
            harmed.call("run").fails(1).telling(&[&harmed.name()]).keeping_quiet_about("AU ");
            harmed.decoding().fails(1).telling(&[&harmed.name()]);
            let _: Result<(), std::io::Error> = fs::remove_file(harmed.folder().join(MANIFEST));
        }
    }
}

#[test]
fn parquet_of_another_schema_is_refused_by_the_column_that_is_not_there() {
    let columns = |text: &str| format!("dataset.parquet.columns=[{text}]");
    let made = columns("{name: a, dtype: int32}, {name: b, dtype: float32, size: 4}");
    let harmed = Harmed::new("parquet", 8, &[&made]);
    let run = |text: &str| harmed.call("run").set(&[&columns(text), DECODE]);
    // The manifest knows better.
    run("{name: a, dtype: int64}").fails(1).telling(&["parquet.columns"]);
    harmed.forget();
    for (text, told) in [
        ("{name: a, dtype: int32}, {name: c, dtype: float32}", "\"c\""),
        ("{name: a, dtype: int64}, {name: b, dtype: float32, size: 4}", "\"a\""),
        ("{name: a, dtype: int32}, {name: b, dtype: float64, size: 4}", "\"b\""),
    ] {
        run(text).fails(1).telling(&["parquet", told]);
    }
    // Other rows than there are.
    let rows = harmed.call("run").set(&["dataset.num_samples_per_file=9", DECODE]);
    rows.fails(1).telling(&["img_", "8", "9"]);
    harmed.decoding().succeeds();
}

#[test]
fn samples_that_are_missing_in_a_file_of_another_program_are_told() {
    for format in ["npz", "npy", "hdf5", "csv", "tfrecord"] {
        let harmed = Harmed::new(format, 4, &[]);
        harmed.forget();
        let more = harmed.call("run").set(&["dataset.num_samples_per_file=8", DECODE]);
        more.fails(1).telling(&["img_", "decode", "4", "8"]);
    }
}

/// Puts objects of no bytes where some tools mark folders.
const MARKERS: &str = "
import boto3, os
client = boto3.client('s3', endpoint_url=os.environ['AWS_ENDPOINT_URL'], region_name='us-east-1')
for key in ['data/', 'data/t0/', 'data/t0/train/', 'data/t0/valid/', 'data/t0/train/_SUCCESS']:
    client.put_object(Bucket='bench', Key=key, Body=b'')
";

#[test]
fn markers_of_folders_are_passed_over() {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    python_on(MARKERS, &server);
    server.reset();
    place.feedrate("run t0.yaml --verify").set(&[DECODE]).on(&server).succeeds();
    assert_eq!(server.gets().len(), 16);
    let resumed = place.feedrate("datagen t0.yaml --resume").on(&server).succeeds();
    assert!(resumed.stdout.contains("16 were there already"), "{resumed:?}");
}

#[test]
fn decoding_is_counted_apart_from_waiting_and_only_where_it_is_done() {
    for (format, samples, pieces) in
        [("npz", 3, 4), ("png", 1, 4), ("tfrecord", 3, 12), ("parquet", 3, 4)]
    {
        let harmed = Harmed::new(format, samples, &[]);
        harmed.call("run").succeeds();
        let plain = harmed.place.run().figures();
        assert!(plain["decoded"].is_null(), "{plain}");
        let said = harmed.decoding().succeeds();
        let figures = harmed.place.run().figures();
        let decoded = &figures["decoded"];
        assert_eq!(decoded["pieces"], pieces, "{format}: {decoded}");
        assert!(number(&decoded["bytes"]) <= number(&figures["bytes_read"]), "{figures}");
        assert!(number(&decoded["bytes"]) >= 4.0 * 4096.0, "{decoded}");
        assert!(number(&decoded["time"]) > 0.0, "{decoded}");
        assert_eq!(figures["gets"], plain["gets"]);
        assert!(said.stdout.contains("decod"), "{}", said.stdout);
    }
}
