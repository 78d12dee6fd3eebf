use feedrate_metrics::units::Seconds;

use super::*;

/// A rank that is kept from nothing but by its turns.
fn rig(turns: Arc<Turns>, ranks: u32) -> Rig {
    let options = in_order(&["dataset.num_files_train=160", "reader.batch_size=4"]);
    let mut rig = Rig::with_store(&options, ranks, |store| store.delayed(|_, _| MILLI));
    rig.turns = turns;
    rig
}

fn every(step: f64) -> Demand {
    Demand { step: Seconds(step), pieces_per_second: 4.0 / step, ..Demand::endless(512) }
}

#[test]
fn nothing_is_asked_for_further_ahead_than_is_needed() {
    let rig = rig(Turns::auto(1, every(0.05)), 1);
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    for taken in 0..4 {
        rig.runtime.pass(SETTLED);
        assert_eq!(rig.asked_for().len(), (taken + 4) * 4);
        loader.next_batch().unwrap();
    }
}

#[test]
fn fixed_windows_are_filled_at_once_and_nobody_waits_for_others() {
    let rig = rig(Turns::fixed(every(0.05)), 2);
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    rig.runtime.pass(SETTLED);
    assert_eq!(rig.asked_for().len(), 80);
    // All but what has become part of the first ready batches.
    assert_eq!(rig.store.seen().highest, 80);
}

#[test]
fn ranks_read_ahead_as_soon_as_all_first_batches_are_asked_for() {
    let rig = rig(Turns::auto(2, every(0.05)), 2);
    rig.store.at_each_get(|| {});
    let mut loaders = [rig.loader(), rig.loader()];
    rig.start(&mut loaders[0], 0);
    rig.runtime.pass(SETTLED);
    assert_eq!(rig.asked_for().len(), 4);
    rig.start(&mut loaders[1], 1);
    rig.runtime.pass(SETTLED);
    assert_eq!(rig.asked_for().len(), 2 * 4 * 4);
}
