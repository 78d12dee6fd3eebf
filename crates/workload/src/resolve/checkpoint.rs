//! `checkpoint.*` and the rules between it and `model.parallelism` (spec/dlio.md 2.7).

use super::keys::{MANY, VERY_MANY};
use crate::origin::Origin;
use crate::settings::{Choices, Settings, number};
use crate::tree::Node;
use crate::workload::{Checkpoint, CheckpointMode, Compat, Model, Workflow};

const MODES: Choices<CheckpointMode> = Choices {
    supported: &[("default", CheckpointMode::Default), ("subset", CheckpointMode::Subset)],
    not_supported: &[],
};

/// The value of DLIO's default of `time_between_checkpoints`, which it waits by its absolute value.
const DLIO_WAITS: f64 = 1.0;

pub(super) fn checkpoint(
    settings: &mut Settings<'_>,
    model: &Model,
    workflow: Workflow,
    compat: Compat,
) -> Checkpoint {
    let checkpoint_folder = settings.folder("checkpoint.checkpoint_folder", "./checkpoints/").value;
    let write = settings.count("checkpoint.num_checkpoints_write", 1..=MANY).unwrap_or(0);
    let read = settings.count("checkpoint.num_checkpoints_read", 1..=MANY).unwrap_or(0);
    if write > 0 && read > write {
        settings.object_to_value(
            "checkpoint.num_checkpoints_read",
            format!("is {read}, more than the {write} of checkpoint.num_checkpoints_write"),
        );
    }
    let mode = settings.choice("checkpoint.mode", &MODES, CheckpointMode::Default);
    if workflow.checkpoint {
        let key = "model.parallelism.data";
        match (mode.value, model.parallelism.data) {
            (CheckpointMode::Default, Some(data)) => settings.object_to_value(
                key,
                format!("is {data}, which checkpoint.mode default does not take: leave it out"),
            ),
            (CheckpointMode::Subset, None) => {
                settings.object(
                    &mode.origin,
                    key,
                    "not given, but checkpoint.mode subset needs it",
                );
            }
            _ => {}
        }
    }
    let randomize_tensor = settings.truth("checkpoint.randomize_tensor", true);
    let ksm = settings.find("checkpoint.ksm");
    if let Some(ksm) = ksm.filter(|_| randomize_tensor) {
        settings.object(
            &ksm.origin,
            "checkpoint.ksm",
            "needs checkpoint.randomize_tensor false: random pages cannot be merged",
        );
    }
    let steps = settings.whole_or_negative("checkpoint.steps_between_checkpoints", VERY_MANY);
    Checkpoint {
        checkpoint_folder,
        checkpoint_after_epoch: settings.whole_u32(
            "checkpoint.checkpoint_after_epoch",
            0..=MANY,
            1,
        ),
        epochs_between_checkpoints: settings.whole_u32(
            "checkpoint.epochs_between_checkpoints",
            0..=MANY,
            1,
        ),
        steps_between_checkpoints: steps,
        num_checkpoints_write: write,
        num_checkpoints_read: read,
        time_between_checkpoints: time_between(settings, compat),
        fsync: settings.truth("checkpoint.fsync", false),
        rank_sync: settings.truth("checkpoint.rank_sync", false),
        recovery_rank_shift: settings.truth("checkpoint.recovery_rank_shift", false),
        mode: mode.value,
        randomize_tensor,
    }
}

/// Negative or absent is no wait; the originals wait by the absolute value (spec/dlio.md D29).
fn time_between(settings: &mut Settings<'_>, compat: Compat) -> f64 {
    const KEY: &str = "checkpoint.time_between_checkpoints";
    let found = settings.optional(KEY, |node: &Node| number(node, &(-86_400.0..=86_400.0)));
    let seconds = match (compat, found.as_ref().map(|found| found.value)) {
        (Compat::None, None) => 0.0,
        (Compat::None, Some(seconds)) => seconds.max(0.0),
        (_, None) => DLIO_WAITS,
        (_, Some(seconds)) => seconds.abs(),
    };
    settings.record(KEY, seconds, &found.map_or(Origin::Default, |found| found.origin));
    seconds
}
