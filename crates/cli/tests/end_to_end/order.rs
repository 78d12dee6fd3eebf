//! In which order files are read, by the server's record of GETs.

use std::collections::BTreeSet;

use crate::support::{B0, Place, Server, serve};

/// The names of `files` files in ascending order.
fn names(files: usize) -> Vec<String> {
    let width = files.to_string().len();
    (0..files).map(|file| format!("img_{file:0width$}_of_{files}.npz")).collect()
}

/// The GETs of two epochs of the base workload, read one file at a time.
fn two_epochs(place: &Place, server: &Server, overrides: &[&str]) -> [Vec<String>; 2] {
    server.reset();
    place
        .feedrate("run t0.yaml --epochs 2")
        .set(&["reader.read_threads=0", "train.computation_time=0"])
        .set(overrides)
        .on(server)
        .succeeds();
    let mut first = server.gets();
    assert_eq!(first.len() % 2, 0);
    let second = first.split_off(first.len() / 2);
    [first, second]
}

fn with_sixteen_files() -> (Place, Server) {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    (place, server)
}

#[test]
fn without_shuffles_files_are_read_in_ascending_order() {
    let (place, server) = with_sixteen_files();
    let epochs =
        two_epochs(&place, &server, &["reader.file_shuffle=off", "reader.sample_shuffle=off"]);
    assert_eq!(epochs, [names(16), names(16)]);
}

#[test]
fn off_means_off_as_a_word_and_as_the_boolean_that_yaml_makes_of_it() {
    let (place, server) = with_sixteen_files();
    for off in ["off", "'off'", "False"] {
        let shuffles = format!("file_shuffle: {off}, sample_shuffle: {off}");
        place.write("t0.yaml", &B0.replace("file_shuffle: seed, sample_shuffle: seed", &shuffles));
        assert_eq!(two_epochs(&place, &server, &[]), [names(16), names(16)], "{off}");
    }
}

#[test]
fn each_shuffle_alone_reads_every_file_once_in_another_order() {
    let (place, server) = with_sixteen_files();
    for off in ["reader.file_shuffle=off", "reader.sample_shuffle=off"] {
        for mut epoch in two_epochs(&place, &server, &[off]) {
            assert_ne!(epoch, names(16), "{off}");
            epoch.sort();
            assert_eq!(epoch, names(16), "{off}");
        }
    }
}

#[test]
fn the_order_changes_from_epoch_to_epoch_only_where_the_seed_does() {
    let (place, server) = with_sixteen_files();
    let [first, second] = two_epochs(&place, &server, &["train.seed_change_epoch=False"]);
    assert_eq!(first, second);
    let [first, second] = two_epochs(&place, &server, &["train.seed_change_epoch=True"]);
    assert_ne!(first, second);
}

#[test]
fn two_runs_with_one_seed_read_in_one_order_and_another_seed_in_another() {
    let (place, server) = with_sixteen_files();
    let once = two_epochs(&place, &server, &[]);
    assert_eq!(once, two_epochs(&place, &server, &[]));
    assert_ne!(once, two_epochs(&place, &server, &["train.seed=7"]));
}

/// 4 files x 4 samples, batch 2, 2 ranks: 4 steps.
#[test]
fn both_ranks_together_read_all_files_of_many_samples_in_every_epoch() {
    const FOUR: [&str; 3] =
        ["dataset.num_files_train=4", "dataset.num_samples_per_file=4", "reader.batch_size=2"];
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("datagen t0.yaml").set(&FOUR).on(&server).succeeds();
    let gets = |more: &[&str]| {
        server.reset();
        place
            .feedrate("run t0.yaml --np 2 --epochs 2 --verify")
            .set(&FOUR)
            .set(more)
            .on(&server)
            .succeeds();
        let run = place.run();
        for (rank, epoch) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
            assert_eq!(run.steps(rank, epoch, "compute").len(), 4, "rank {rank} epoch {epoch}");
        }
        server.gets()
    };
    let all: BTreeSet<String> = names(4).into_iter().collect();

    // In order, a rank's samples of a file follow each other: one GET serves them all.
    for seed_change in ["train.seed_change_epoch=True", "train.seed_change_epoch=False"] {
        let gets = gets(&["reader.sample_shuffle=off", seed_change]);
        assert_eq!(gets.len(), 8, "{gets:?}");
        for epoch in gets.chunks(4) {
            assert_eq!(epoch.iter().cloned().collect::<BTreeSet<_>>(), all);
        }
    }
    // Shuffled, a file is read again where its samples stand apart. Both epochs are equally long
    // when they have one order, so the record can be cut in the middle.
    let gets = gets(&["train.seed_change_epoch=False", "reader.read_threads=0"]);
    for epoch in gets.chunks(gets.len() / 2) {
        assert_eq!(epoch.iter().cloned().collect::<BTreeSet<_>>(), all);
    }
}
