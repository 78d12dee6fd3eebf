//! What one epoch reads of each format, by the server's log of requests and our own counters: every
//! sample once over all ranks, and no byte more than that takes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;

use crate::support::{Place, Request, Server, bytes_of_samples, python, serve};

/// A set of the base workload in some format.
struct Set {
    format: &'static str,
    files: u64,
    samples: u64,
    settings: Vec<String>,
}

impl Set {
    fn new(format: &'static str, files: u64, samples: u64, more: &[&str]) -> Self {
        let loader = if format == "tfrecord" { "tensorflow" } else { "pytorch" };
        let settings = [
            format!("dataset.format={format}"),
            format!("dataset.num_files_train={files}"),
            format!("dataset.num_samples_per_file={samples}"),
            format!("dataset.data_folder=data/{format}"),
            format!("framework={loader}"),
            format!("reader.data_loader={loader}"),
            "reader.batch_size=2".to_owned(),
            "train.computation_time=0".to_owned(),
        ];
        let settings = settings.into_iter().chain(more.iter().map(|&more| more.to_owned()));
        Self { format, files, samples, settings: settings.collect() }
    }

    /// `command` for the set, with more settings.
    fn call(&self, place: &Place, command: &str, more: &[&str]) -> crate::support::Call {
        let own: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        place.feedrate(command).args("t0.yaml").set(&own).set(more)
    }

    fn generate(&self, place: &Place, server: &Server) {
        self.call(place, "datagen", &[]).on(server).succeeds();
    }

    /// Bytes of its files in `store`, which is a folder.
    fn bytes(&self, store: &Path) -> u64 {
        bytes_of_samples(&store.join("data").join(self.format).join("train"))
    }

    /// Bytes of a sample where each can be read without the others.
    fn stride(&self, sample: u64) -> Option<u64> {
        match self.format {
            _ if self.samples == 1 => None,
            "tfrecord" if sample < 128 => Some(sample + 48),
            "tfrecord" => Some(sample + 54),
            "indexed_binary" | "mmap_indexed_binary" => Some(sample),
            _ => None,
        }
    }

    /// The file and sample of each sample that the GETs of `log` brought, in their order. Every range
    /// must be whole samples.
    fn samples_of(&self, log: &[Request], stride: Option<u64>) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for request in log.iter().filter(|request| request.reads_a_file()) {
            let name = request.key.rsplit('/').next().unwrap();
            let file = name.split('_').nth(1).unwrap().parse().unwrap();
            let samples = match (request.place(), stride) {
                (None, _) => 0..self.samples,
                (Some(Range { start, end }), Some(stride)) => {
                    assert_eq!((start % stride, end % stride), (0, 0), "{request:?}");
                    start / stride..end / stride
                }
                (Some(_), None) => panic!("a part of a file that is read as a whole: {request:?}"),
            };
            assert!(matches!(request.status, Some(200 | 206)), "{request:?}");
            found.extend(samples.map(|sample| (file, sample)));
        }
        found
    }

    /// All samples, in order.
    fn all(&self) -> Vec<(u64, u64)> {
        let samples = |file| (0..self.samples).map(move |sample| (file, sample));
        (0..self.files).flat_map(samples).collect()
    }
}

fn sorted(mut samples: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    samples.sort_unstable();
    samples
}

const IN_ORDER: &[&str] = &["reader.file_shuffle=off", "reader.sample_shuffle=off"];
const SHUFFLED: &[&str] = &["reader.file_shuffle=seed", "reader.sample_shuffle=seed"];

/// Runs an epoch of each set on one and on two ranks, in order and shuffled, from the server and from a
/// folder, and holds what was read against what there is.
fn read_once(sets: &[Set]) {
    let place = Place::new();
    let kept = place.directory().join("kept");
    let server = serve().keeping_files_in(&kept).logging().start();
    let mut runs = Vec::new();
    for set in sets {
        set.generate(&place, &server);
        for (ranks, shuffles) in [(1, IN_ORDER), (1, SHUFFLED), (2, IN_ORDER), (2, SHUFFLED)] {
            let what = format!("{} on {ranks} ranks with {shuffles:?}", set.format);
            let begun = server.counted() as usize;
            let line = format!("run --np {ranks}");
            set.call(&place, &line, shuffles).on(&server).succeeds();
            let figures = place.run().figures();
            assert_eq!(figures["steps_per_epoch"], set.files * set.samples / 2 / ranks, "{what}");
            runs.push((set, begun..server.counted() as usize, figures, what));
        }
        // From the folder that the server keeps its objects in.
        let local = set.call(&place, "run --np 2 --local kept/bench", SHUFFLED);
        local.succeeds();
        let local = place.run().figures();
        let remote = &runs.last().unwrap().2;
        for figure in ["gets", "bytes_read"] {
            assert_eq!(local[figure], remote[figure], "{figure} of {}", set.format);
        }
    }
    let log = server.log();
    for (set, requests, figures, what) in runs {
        let log = &log[requests];
        let samples = set.samples_of(log, set.stride(4096));
        assert_eq!(sorted(samples), set.all(), "{what}");
        let gets = log.iter().filter(|request| request.reads_a_file());
        assert_eq!(figures["gets"], gets.clone().count(), "{what}");
        let sent: u64 = gets.map(|request| request.bytes).sum();
        assert_eq!(sent, set.bytes(&kept.join("bench")), "{what}");
        assert_eq!(figures["bytes_read"], sent, "{what}");
    }
}

#[test]
fn an_epoch_reads_each_sample_of_whole_files_once_over_all_ranks() {
    let small = "dataset.record_length_bytes=4096";
    read_once(&[
        Set::new("npy", 8, 6, &[small]),
        Set::new("npz", 8, 6, &[small]),
        Set::new("hdf5", 8, 6, &[small]),
        Set::new("csv", 8, 6, &[small]),
        Set::new("jpeg", 8, 1, &[small]),
        Set::new("png", 8, 1, &[small]),
        Set::new("tfrecord", 8, 1, &[small]),
    ]);
}

#[test]
fn an_epoch_reads_each_sample_of_files_that_are_read_by_ranges_once_over_all_ranks() {
    let small = "dataset.record_length_bytes=4096";
    read_once(&[
        Set::new("tfrecord", 8, 6, &[small]),
        Set::new("indexed_binary", 8, 6, &[small]),
        Set::new("mmap_indexed_binary", 8, 6, &[small]),
    ]);
}

/// The share of a rank ends in the midst of a file.
#[test]
fn ranks_that_share_a_file_read_no_sample_twice_where_the_format_allows_it() {
    let (place, server) = (Place::new(), serve().logging().start());
    let small = "dataset.record_length_bytes=4096";
    let sets = ["indexed_binary", "npz"].map(|format| Set::new(format, 3, 4, &[small]));
    let mut begun = Vec::new();
    for set in &sets {
        set.generate(&place, &server);
        begun.push(server.counted() as usize);
        set.call(&place, "run --np 2 --verify", IN_ORDER).on(&server).succeeds();
    }
    let log = server.log();
    let of = |set: &Set, log: &[Request]| sorted(set.samples_of(log, set.stride(4096)));
    assert_eq!(of(&sets[0], &log[begun[0]..begun[1]]), sets[0].all());
    // The file in the middle is each rank's, and cannot be read by halves.
    let mut twice = sets[1].all();
    twice.extend((0..4).map(|sample| (1, sample)));
    assert_eq!(of(&sets[1], &log[begun[1]..]), sorted(twice));
}

#[test]
fn synthetic_data_is_not_read_at_all() {
    let (place, server) = (Place::new(), serve().start());
    let set = Set::new("synthetic", 8, 1, &[]);
    set.generate(&place, &server);
    server.reset();
    set.call(&place, "run", &["reader.data_loader=synthetic"]).on(&server).succeeds();
    assert_eq!(server.status().requests.get, 0);
}

/// T02.
#[test]
fn many_samples_a_file_make_as_many_steps_as_there_are_samples_for() {
    let (place, server) = (Place::new(), serve().logging().start());
    let few = Set::new("npz", 8, 4, &["dataset.record_length_bytes=4096"]);
    few.generate(&place, &server);
    few.call(&place, "run", &["reader.batch_size=4"]).on(&server).succeeds();
    assert_eq!(place.run().steps(0, 1, "compute").len(), 8);

    let options = ["dataset.record_length_bytes=64", "reader.batch_size=400"];
    let many = Set::new("tfrecord", 100, 1251, &options);
    many.generate(&place, &server);
    let begun = server.counted() as usize;
    let in_order = ["reader.sample_shuffle=off"];
    let said = many.call(&place, "run --np 8", &in_order).on(&server).succeeds();
    for rank in 0..8 {
        assert_eq!(place.run().steps(rank, 1, "compute").len(), 39, "rank {rank}");
    }
    // 300 of 125,100 are left over.
    said.telling(&["300"]);
    let samples = sorted(many.samples_of(&server.log()[begun..], many.stride(64)));
    assert_eq!(samples.len(), 39 * 400 * 8);
    assert!(samples.windows(2).all(|two| two[0] != two[1]), "a sample was read twice");
}

/// Lets a request be logged well before the one that follows it ends.
const IN_TURN: &str = "get delay_first_byte=2ms";

/// T11 on one rank and one thread, which reads in the order that is trained in.
#[test]
fn the_order_of_samples_follows_the_seed_and_the_epoch_in_every_way_of_reading() {
    let (place, server) = (Place::new(), serve().fault(IN_TURN).logging().start());
    let small = "dataset.record_length_bytes=4096";
    let sets = ["npz", "tfrecord", "indexed_binary"].map(|format| Set::new(format, 4, 4, &[small]));
    let fixed = "train.seed_change_epoch=False";
    let changing = "train.seed_change_epoch=True";
    let mut runs = BTreeMap::new();
    for set in &sets {
        set.generate(&place, &server);
        for (name, line, options) in [
            ("fixed", "--np 1 --epochs 2", &["reader.read_threads=0", fixed][..]),
            ("changing", "--np 1 --epochs 2", &["reader.read_threads=0", changing]),
            ("again", "--np 1 --epochs 2", &["reader.read_threads=0", changing]),
            (
                "in order",
                "--np 1 --epochs 2",
                &["reader.read_threads=0", IN_ORDER[0], IN_ORDER[1], changing],
            ),
            ("two ranks", "--np 2 --epochs 2", &["reader.read_threads=2", changing]),
            ("two ranks in order", "--np 2 --epochs 2", IN_ORDER),
        ] {
            let begun = server.counted() as usize;
            set.call(&place, &format!("run {line}"), options).on(&server).succeeds();
            runs.insert((set.format, name), begun..server.counted() as usize);
        }
    }
    let log = server.log();
    for set in &sets {
        let epochs = |name| {
            let log = &log[runs[&(set.format, name)].clone()];
            let mut first = set.samples_of(log, set.stride(4096));
            assert_eq!(first.len(), 32, "{} {name}", set.format);
            let second = first.split_off(16);
            assert_eq!(sorted(first.clone()), set.all(), "{} {name}", set.format);
            assert_eq!(sorted(second.clone()), set.all(), "{} {name}", set.format);
            [first, second]
        };
        let [first, second] = epochs("fixed");
        assert_eq!(first, second, "{}", set.format);
        let [first, second] = epochs("changing");
        assert_ne!(first, second, "{}", set.format);
        assert_eq!(epochs("again"), [first, second], "{}", set.format);
        assert_eq!(epochs("in order"), [set.all(), set.all()], "{}", set.format);
        epochs("two ranks");
        epochs("two ranks in order");
    }
}

/// A file that is larger than a range comes by several at once, and never by a HEAD.
#[test]
fn large_files_come_by_ranges_that_cover_them_once() {
    let (place, server) = (Place::new(), serve().logging().start());
    let large = Set::new("npz", 2, 1, &["dataset.record_length_bytes=40e6", "reader.batch_size=1"]);
    large.generate(&place, &server);
    let read = |range_size: &str| {
        let begun = server.counted() as usize;
        let option = format!("storage.storage_options.range_size={range_size}");
        large.call(&place, "run", &[&option]).on(&server).succeeds();
        begun..server.counted() as usize
    };
    let ways = [("auto", 5), ("1048576", 39), ("0", 1)];
    let runs = ways.map(|(range_size, ranges)| (read(range_size), ranges));
    let log = server.log();
    // 6324 x 6324 values, and what an npz file adds.
    let length = 6324 * 6324 + 8 + 450;
    for (requests, ranges) in runs {
        let log = &log[requests];
        assert!(log.iter().all(|request| request.method != "HEAD"), "{log:?}");
        let mut places: BTreeMap<&str, Vec<Range<u64>>> = BTreeMap::new();
        for request in log.iter().filter(|request| request.reads_a_file()) {
            let place = request.place().unwrap_or(0..length);
            assert_eq!(request.bytes, place.end - place.start, "{request:?}");
            places.entry(&request.key).or_default().push(place);
        }
        assert_eq!(places.len(), 2);
        for mut places in places.into_values() {
            places.sort_by_key(|place| place.start);
            assert_eq!(places.len(), ranges, "{places:?}");
            assert_eq!((places[0].start, places[ranges - 1].end), (0, length));
            assert!(places.windows(2).all(|two| two[0].end == two[1].start), "{places:?}");
        }
    }
    assert_eq!(place.run().figures()["bytes_read"], 2 * length);
}

/// Prints of each file its row groups: their rows, and where those of the columns COLUMNS are, columns
/// that touch as one.
const ROW_GROUPS: &str = "
import json, pathlib, sys
import pyarrow.parquet
def groups(path):
    metadata = pyarrow.parquet.read_metadata(path)
    first = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        ranges = []
        for at in range(group.num_columns):
            column = group.column(at)
            if column.path_in_schema.split('.')[0] in COLUMNS:
                start = column.dictionary_page_offset or column.data_page_offset
                end = start + column.total_compressed_size
                if ranges and ranges[-1][1] == start:
                    ranges[-1][1] = end
                else:
                    ranges.append([start, end])
        yield [[first, first + group.num_rows], ranges]
        first += group.num_rows
print(json.dumps([list(groups(path)) for path in sorted(pathlib.Path(sys.argv[1]).glob('*'))]))
";

/// Four files of eight rows in row groups of two, of three columns.
fn parquet() -> Set {
    let columns = "dataset.parquet.columns=[{name: a, dtype: float32, size: 40}, \
        {name: b, dtype: int64}, {name: c, dtype: binary, size: 100}]";
    Set::new("parquet", 4, 8, &[columns, "dataset.parquet.row_group_size=2"])
}

/// A row group: its rows, and the ranges of the file that hold what is wanted of it.
type RowGroup = (Range<u64>, Vec<Range<u64>>);

/// The row groups of each file, by the files themselves.
fn row_groups(folder: &Path, columns: &str) -> Vec<Vec<RowGroup>> {
    let told = python(&ROW_GROUPS.replace("COLUMNS", columns), folder).json();
    let range = |ends: &Value| ends[0].as_u64().unwrap()..ends[1].as_u64().unwrap();
    let group = |group: &Value| {
        let ranges = group[1].as_array().unwrap().iter().map(range).collect();
        (range(&group[0]), ranges)
    };
    let file = |file: &Value| file.as_array().unwrap().iter().map(group).collect();
    told.as_array().unwrap().iter().map(file).collect()
}

/// The footers that `log` asked for, by the keys of their files; and the rows of the groups, in the order
/// in which the first range of each was asked for. Every range must be all of what is wanted of a
/// group.
fn footers_and_rows(log: &[Request], files: &[Vec<RowGroup>]) -> (Vec<String>, Vec<(u64, u64)>) {
    let (mut footers, mut rows) = (Vec::new(), Vec::new());
    let mut ranges = Vec::new();
    for request in log.iter().filter(|request| request.reads_a_file()) {
        let name = request.key.rsplit('/').next().unwrap();
        if request.range.as_deref().is_some_and(|range| range.starts_with("bytes=-")) {
            footers.push(name.to_owned());
            continue;
        }
        let file: u64 = name.split('_').nth(1).unwrap().parse().unwrap();
        let place = request.place().unwrap();
        assert_eq!(request.bytes, place.end - place.start, "{request:?}");
        let mut groups = files[file as usize].iter();
        if let Some((samples, _)) = groups.find(|(_, ranges)| ranges[0] == place) {
            rows.extend(samples.clone().map(|row| (file, row)));
        }
        ranges.push((file, place.start, place.end));
    }
    footers.sort();
    let mut expected = Vec::new();
    for &(file, row) in &rows {
        let group = files[file as usize].iter().find(|(samples, _)| samples.start == row);
        let places = group.into_iter().flat_map(|(_, ranges)| ranges);
        expected.extend(places.map(|range| (file, range.start, range.end)));
    }
    ranges.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ranges, expected, "ranges that are not those of the columns");
    (footers, rows)
}

#[test]
fn of_parquet_the_wanted_columns_of_each_row_group_are_read_once_and_each_footer_once_a_run() {
    let place = Place::new();
    let kept = place.directory().join("kept");
    let server = serve().keeping_files_in(&kept).logging().start();
    let set = parquet();
    set.generate(&place, &server);
    let mut runs = Vec::new();
    for columns in ["['a', 'b', 'c']", "['a', 'c']", "['b']"] {
        let only = format!("storage.storage_options.columns={}", columns.replace('\'', ""));
        for (epochs, line, more) in [
            (1, "run --verify", IN_ORDER),
            (1, "run --np 2 --verify", SHUFFLED),
            (3, "run --epochs 3 --np 2", &["reader.decode=full", "reader.pipeline=chunked"]),
            (2, "run --epochs 2", &["reader.payload=discard"]),
        ] {
            let begun = server.counted() as usize;
            set.call(&place, line, more).set(&[&only]).on(&server).succeeds();
            let requests = begun..server.counted() as usize;
            runs.push((
                columns,
                format!("{line} {more:?}"),
                epochs,
                requests,
                place.run().figures(),
            ));
            if line.contains("np 2") {
                set.call(&place, line, more).set(&[&only]).args("--local kept/bench").succeeds();
                let (local, remote) = (place.run().figures(), &runs.last().unwrap().4);
                assert_eq!(local["gets"], remote["gets"], "{columns} {line}");
                assert_eq!(local["bytes_read"], remote["bytes_read"], "{columns} {line}");
            }
        }
    }
    let folder = kept.join("bench/data/parquet/train");
    let names: Vec<_> = (0..4).map(|file| format!("img_{file}_of_4.parquet")).collect();
    let log = server.log();
    for (columns, what, epochs, requests, figures) in runs {
        let files = row_groups(&folder, columns);
        let log = &log[requests];
        let (footers, rows) = footers_and_rows(log, &files);
        assert_eq!(footers, names, "{columns} {what}");
        let expected: Vec<_> = set.all().into_iter().flat_map(|row| vec![row; epochs]).collect();
        assert_eq!(sorted(rows), expected, "{columns} {what}");
        let gets = log.iter().filter(|request| request.reads_a_file());
        assert_eq!(figures["gets"], gets.clone().count(), "{columns} {what}");
        assert_eq!(figures["bytes_read"], gets.map(|request| request.bytes).sum::<u64>());
    }
}

/// T11 for row groups, as [`the_order_of_samples_follows_the_seed_and_the_epoch_in_every_way_of_reading`].
#[test]
fn the_order_of_row_groups_follows_the_seed_and_the_epoch() {
    let place = Place::new();
    let kept = place.directory().join("kept");
    let server = serve().keeping_files_in(&kept).fault(IN_TURN).logging().start();
    let set = parquet();
    set.generate(&place, &server);
    let alone = "reader.read_threads=0";
    let ways = [
        ("--np 1", vec![alone, "train.seed_change_epoch=False"]),
        ("--np 1", vec![alone, "train.seed_change_epoch=True"]),
        ("--np 1", vec![alone, "train.seed_change_epoch=True"]),
        ("--np 1", [&[alone], IN_ORDER].concat()),
        ("--np 2", vec!["reader.read_threads=2"]),
    ];
    let runs = ways.map(|(line, options)| {
        let begun = server.counted() as usize;
        set.call(&place, &format!("run --epochs 2 {line}"), &options).on(&server).succeeds();
        begun..server.counted() as usize
    });
    let log = server.log();
    let files = row_groups(&kept.join("bench/data/parquet/train"), "['a', 'b', 'c']");
    let [fixed, changing, again, in_order, _] = runs.map(|requests| {
        let (_, mut first) = footers_and_rows(&log[requests], &files);
        let second = first.split_off(first.len() / 2);
        assert_eq!(sorted(first.clone()), set.all());
        assert_eq!(sorted(second.clone()), set.all());
        [first, second]
    });
    assert_eq!(fixed[0], fixed[1]);
    assert_ne!(changing[0], changing[1]);
    assert_eq!(changing, again);
    assert_eq!(in_order, [set.all(), set.all()]);
}
