use super::*;
use crate::{NothingToVerify, check_payload};

const WAYS: [&[&str]; 3] = [
    &["reader.pipeline=sliding", "reader.read_threads=2"],
    &["reader.pipeline=chunked", "reader.read_threads=2"],
    &["reader.read_threads=0"],
];

#[test]
fn discarded_bytes_are_counted_and_nothing_is_kept_of_them() {
    let options = [
        "dataset.num_files_train=24",
        "dataset.num_samples_per_file=3",
        "reader.batch_size=4",
        "reader.sample_shuffle=off",
        "reader.payload=discard",
    ];
    for way in WAYS {
        let rig =
            Rig::with_store(&[&options[..], way].concat(), 1, |store| store.delayed(|_, _| MILLI));
        let mut loader = rig.loader();
        rig.start(&mut loader, 0);
        let (mut samples, mut arrived) = (0, 0);
        while let Ok(batch) = loader.next_batch() {
            assert_eq!(batch.buffers().count(), 0);
            samples += batch.samples();
            arrived += batch.arrived().0;
            rig.runtime.pass(SETTLED);
            assert_eq!(rig.held(&loader), 0, "with batches ready, {way:?}");
        }
        assert_eq!((samples, arrived), (72, 24 * rig.file_bytes()), "{way:?}");
        assert!(rig.store.asked().values().all(|&times| times == 1));
        assert_eq!(rig.asked_for().len(), 24);
        assert_eq!(rig.source.pool.idle(), ByteCount(0));
    }
}

#[test]
fn the_budget_bounds_what_is_in_flight() {
    for way in &WAYS[..2] {
        let options = [
            &["dataset.num_files_train=200", "reader.batch_size=2", "reader.payload=discard"],
            *way,
        ]
        .concat();
        let mut rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| MILLI));
        rig.process_budget = ByteCount(20 * rig.file_bytes());
        let mut loader = rig.loader();
        let highest = rig.highest_held(&loader);
        rig.start(&mut loader, 0);
        while loader.next_batch().is_ok() {}
        let highest = highest.load(Ordering::Relaxed) / rig.file_bytes();
        assert!((16..=20).contains(&highest), "{highest} files, {way:?}");
        assert_eq!(rig.held(&loader), 0);
    }
}

#[test]
fn a_file_that_is_missing_is_an_error_although_nobody_wants_its_bytes() {
    for way in WAYS {
        let options =
            [&["dataset.num_files_train=16", "reader.batch_size=4", "reader.payload=discard"], way]
                .concat();
        let rig = Rig::with_store(&options, 1, |store| store.failing(|key, _| index(key) == 9));
        let mut loader = rig.loader();
        rig.start(&mut loader, 0);
        let error = (0..5).find_map(|_| loader.next_batch().err()).unwrap();
        assert!(matches!(error, LoadError::Store(_)), "{error:?}");
        assert_eq!(rig.held(&loader), 0);
    }
}

#[test]
fn what_is_discarded_cannot_be_verified() {
    assert_eq!(check_payload(Payload::Discard, true), Err(NothingToVerify));
    for (payload, verify) in
        [(Payload::Discard, false), (Payload::Land, true), (Payload::Land, false)]
    {
        assert_eq!(check_payload(payload, verify), Ok(()));
    }
    assert!(NothingToVerify.to_string().contains("reader.payload"));
}
