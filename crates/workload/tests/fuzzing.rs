//! What the fuzz target in `fuzz/` does, for a moment and the same each time: its committed inputs,
//! mutations of them, and the largest inputs that could be made of little. None panics, none hangs, and none
//! holds more memory than its size explains.

#[path = "../../../fuzz/src/allocations.rs"]
pub mod allocations;

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use feedrate_workload::fuzzing::exercise;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{RngSeed, TestCaseResult};

/// No input takes a tenth of it, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// Most memory that an input may make a thread hold, in bytes.
const MOST_HELD: usize = 256 << 20;

/// Exercises `input` in a thread of its own and says how it did not end well.
fn run(input: Vec<u8>) -> Result<(), String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        exercise(&input);
        let _ = sender.send(allocations::most_held());
    });
    match receiver.recv_timeout(PATIENCE) {
        Ok(held) if held > MOST_HELD => Err(format!("held {held} bytes at once")),
        Ok(_) => Ok(()),
        Err(RecvTimeoutError::Disconnected) => Err("panicked".to_owned()),
        Err(RecvTimeoutError::Timeout) => Err("did not end".to_owned()),
    }
}

/// The inputs that are kept for the fuzz target.
fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/configuration");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn the_kept_inputs_end_well() {
    let corpus = corpus();
    assert!(!corpus.is_empty());
    for input in corpus {
        let shown = String::from_utf8_lossy(&input).into_owned();
        run(input).unwrap_or_else(|error| panic!("{error}: {shown}"));
    }
}

/// One change of an input.
#[derive(Debug, Clone)]
enum Edit {
    Overwrite(Index, u8),
    Insert(Index, &'static str),
    Remove(Index, usize),
    /// Repeats what stands somewhere.
    Repeat(Index, usize, usize),
    /// Puts what stands somewhere in another input here.
    Splice(Index, Index, Index, usize),
}

/// Words that the grammars know.
const WORDS: &[&str] = &[
    "${",
    "}",
    "{",
    "[",
    "]",
    ":",
    "'",
    "\"",
    "\\",
    ",",
    "=",
    "\n",
    "\n%%\n",
    "+",
    "~",
    "++",
    "--",
    "%",
    "é",
    "\0",
    "-",
    "#",
    "!!str ",
    "|\n",
    ">-\n",
    ".",
    "..",
    "@",
    "/",
    "(",
    ")",
    "int(",
    "1e3",
    "-1",
    "0x",
    "18446744073709551616",
    ".nan",
    "null",
    "${oc.env:",
    "${now:%",
    "${hydra:",
    "${workload.",
    "${..",
    "workload.",
    "model",
    "reader.",
    "[0]",
];

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Overwrite(at, byte)),
        (at(), proptest::sample::select(WORDS)).prop_map(|(at, word)| Edit::Insert(at, word)),
        (at(), 1..40_usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        (at(), 1..20_usize, 1..50_usize).prop_map(|(at, l, times)| Edit::Repeat(at, l, times)),
        (at(), at(), at(), 1..200_usize).prop_map(|(at, f, from, l)| Edit::Splice(at, f, from, l)),
    ]
}

/// `length` bytes of `bytes` from `at` on, or as many as there are.
fn piece(bytes: &[u8], at: usize, length: usize) -> Vec<u8> {
    bytes[at..].iter().copied().take(length).collect()
}

impl Edit {
    fn apply(&self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let place = |at: &Index, input: &[u8]| at.index(input.len() + 1);
        let (at, removed, put) = match self {
            Self::Overwrite(at, byte) => (place(at, input), 1, vec![*byte]),
            Self::Insert(at, word) => (place(at, input), 0, word.as_bytes().to_vec()),
            Self::Remove(at, length) => (place(at, input), *length, Vec::new()),
            Self::Repeat(at, length, times) => {
                let at = place(at, input);
                (at, 0, piece(input, at, *length).repeat(*times))
            }
            Self::Splice(at, file, from, length) => {
                let file = file.get(corpus);
                (place(at, input), 0, piece(file, place(from, file), *length))
            }
        };
        let end = (at + removed).min(input.len());
        input.splice(at..end, put);
    }
}

fn mutated_input_ends_well(file: Index, edits: &[Edit]) -> TestCaseResult {
    let corpus = corpus();
    let mut input = file.get(&corpus).clone();
    for edit in edits {
        edit.apply(&mut input, &corpus);
    }
    let shown = String::from_utf8_lossy(&input).into_owned();
    run(input).map_err(|error| TestCaseError::fail(format!("{error}: {shown}")))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000,
        rng_seed: RngSeed::Fixed(4),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn mutations_of_the_kept_inputs_end_well(
        file in any::<Index>(),
        edits in proptest::collection::vec(edit(), 1..8),
    ) {
        mutated_input_ends_well(file, &edits)?;
    }
}

/// The longest file and the longest argument that are read.
const FILE: usize = 1 << 17;
const ARGUMENT: usize = 1 << 16;

/// As many of the pieces that `piece` numbers as fit into `bytes`.
fn many(bytes: usize, piece: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0.. {
        let piece = piece(number);
        if text.len() + piece.len() > bytes {
            break;
        }
        text.push_str(&piece);
    }
    text
}

/// `item` again and again, as a list of `bytes`.
fn list(bytes: usize, item: &str) -> String {
    format!("[{}]", many(bytes - 2, |_| format!("{item}, ")))
}

fn ends_well(what: &str, input: String) {
    run(input.into_bytes()).unwrap_or_else(|error| panic!("{what}: {error}"));
}

#[test]
fn the_largest_files_end_well() {
    let framework = |word: String| format!("framework: '{word}'\n");
    let interpolations = "${a".repeat(FILE / 5) + &"}".repeat(FILE / 5);
    for (what, file) in [
        ("names", many(FILE, |number| format!("k{number}:\n"))),
        ("names in a section", "reader:\n".to_owned() + &many(FILE - 8, |n| format!(" k{n}:\n"))),
        ("a word", "a".repeat(FILE)),
        ("a name", "a".repeat(FILE - 1) + ":"),
        ("open lists", "[".repeat(FILE)),
        ("open mappings", "{a: ".repeat(FILE / 4)),
        ("a list of nulls", "a: ".to_owned() + &list(FILE - 3, "~")),
        ("a list of lists", "a: ".to_owned() + &list(FILE - 3, "[]")),
        ("open interpolations", framework("${".repeat(FILE / 3))),
        ("interpolations in one another", framework(interpolations)),
        ("digits", "framework: ".to_owned() + &"9".repeat(FILE - 11)),
        ("places to the base of 60", "framework: 1".to_owned() + &":1".repeat(FILE / 3)),
        ("widths of times", framework("${now:%65535Y%65535Y%999999999Y}".to_owned())),
    ] {
        ends_well(what, file);
    }
}

#[test]
fn the_longest_arguments_end_well() {
    let argument = |value: String| format!("++workload.a={value}");
    let interpolations = "${a".repeat(ARGUMENT / 5) + &"}".repeat(ARGUMENT / 5);
    for (what, arguments) in [
        ("of one name each", many(FILE, |number| format!("++workload.k{number}=1\n"))),
        (
            "of all names",
            format!("++workload={{{}z: 1}}", many(ARGUMENT - 20, |n| format!("k{n}: 1, "))),
        ),
        ("open lists", argument("[".repeat(ARGUMENT - 20))),
        ("open casts", argument("int(".repeat(ARGUMENT / 5))),
        ("backslashes", argument(format!("'{}'", "\\".repeat(ARGUMENT - 20)))),
        ("interpolations", argument(interpolations)),
        ("options", "--cfg\njob\n".repeat(10_000)),
        ("choices", "+g/h=default\n".repeat(5000)),
        ("choices for packages", many(FILE, |number| format!("+g/h@k{number}=default\n"))),
    ] {
        ends_well(what, format!("\n%%\n{arguments}"));
    }
    let variables = many(FILE, |number| format!("DLIO_X{number}=1\n"));
    ends_well("variables", format!("\n%%\n\n%%\n{variables}"));
}

/// Every value of the workload refers to a list, which has more of everything than it looks.
#[test]
fn interpolations_that_multiply_end_well() {
    let refers = "reader: {batch_size: R, read_threads: R, prefetch_size: R, payload: R}\n\
                  train: {epochs: R, computation_time: R, seed: R, total_training_steps: R}\n\
                  dataset: {format: R, num_files_train: R, record_dims: R, file_prefix: R}\n\
                  checkpoint: {mode: R, fsync: R, rank_sync: R, checkpoint_folder: R}\n\
                  output: {folder: R, log_file: R, log_level: R}\nframework: R\n"
        .replace('R', "'${workload.list}'");
    let thousand = list(21_000, "'${workload.item}'");
    for (what, item) in [
        ("nulls", list(FILE / 2, "~")),
        ("lists", list(FILE / 2, "[]")),
        ("names", format!("{{{}: ~}}", "a".repeat(FILE / 2))),
        ("text", "a".repeat(FILE / 2)),
        ("one another", "'${workload.list}'".to_owned()),
    ] {
        ends_well(what, format!("{refers}item: {item}\nlist: {thousand}\n"));
    }
    let before = many(FILE / 2, |number| format!("k{number}:\n"));
    ends_well("looking far", format!("{refers}{before}item: 1\nlist: {thousand}\n"));
}
