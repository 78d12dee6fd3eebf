//! The data sets of a sweep. Series with the same one share it; sets that differ live side by side.
//!
//! A file's name holds the number of files of its set, so sets of different sizes fit into one folder.
//! Sets of the same size whose files have the same names, but other contents, do not: all but the
//! first get a folder of their own below it, named after the workload. That holds for a store of the
//! user's as well as for the embedded server, so that what one command generates another finds.

use std::fmt::Write;

use anyhow::{Context, anyhow, bail};
use feedrate_dataset::{FileFormat, Layout, Manifest};
use feedrate_metrics::process::available_memory;
use feedrate_metrics::requests::RequestStats;
use feedrate_metrics::units::ByteCount;
use feedrate_workload::{Split, Workload};
use tokio::runtime::Handle;

use super::plan::Planned;
use crate::args::SweepArgs;
use crate::commands::datagen::command_line;
use crate::data::{Generation, check_made, find, is_missing, splits};
use crate::environment::Environment;
use crate::output::note;
use crate::store::Access;

/// The embedded server's memory store may take this share of the memory that is free.
const MEMORY_SHARE: f64 = 0.60;

/// Gives every set whose files would overwrite those of another a folder of its own.
pub(super) fn keep_apart(
    series: &mut [Planned],
    args: &SweepArgs,
    environment: &Environment,
) -> anyhow::Result<()> {
    for number in 1..series.len() {
        let (before, rest) = series.split_at_mut(number);
        let planned = &mut rest[0];
        let Some(owner) = before.iter().find(|other| collide(other, planned)) else { continue };
        let preset = &planned.workload.workload;
        let folder = match planned.resolved.workload.dataset.data_folder.as_str() {
            "" => preset.clone(),
            parent => format!("{parent}/{preset}"),
        };
        note(
            args.output.show.quiet,
            format_args!(
                "the files of {preset} would have the names of {}'s, with other contents: they are \
                 kept apart in {folder}",
                owner.workload.workload
            ),
        );
        *planned = planned.at_folder(&folder, args, environment)?;
    }
    Ok(())
}

/// The same names in the same place for different contents.
fn collide(a: &Planned, b: &Planned) -> bool {
    let names = |planned: &Planned| -> Vec<Layout> {
        let workload = &planned.resolved.workload;
        let dataset = &workload.dataset;
        splits(workload)
            .map(|split| Layout::new(dataset, split, "", dataset.files(split)))
            .collect()
    };
    let (ours, theirs) = (names(a), names(b));
    same_place(a, b) && !shared(a, b) && ours.iter().any(|layout| theirs.contains(layout))
}

fn same_place(a: &Planned, b: &Planned) -> bool {
    a.resolved.workload.storage.target == b.resolved.workload.storage.target
}

fn shared(a: &Planned, b: &Planned) -> bool {
    same_place(a, b) && a.resolved.workload.dataset == b.resolved.workload.dataset
}

/// The numbers of the series that have a data set that none before them has.
fn distinct(series: &[Planned]) -> impl Iterator<Item = usize> {
    (0..series.len()).filter(|&at| !series[..at].iter().any(|other| shared(other, &series[at])))
}

/// Sets that do not fit the memory are refused before anything is made.
pub(super) fn check_memory(series: &[Planned]) -> anyhow::Result<()> {
    let mut bytes = 0;
    for at in distinct(series) {
        let formats = FileFormat::both(&series[at].resolved.workload.dataset)?;
        bytes += formats.iter().map(FileFormat::total_bytes).sum::<u64>();
    }
    let free = available_memory().context("cannot tell how much memory is free")?;
    if bytes as f64 > MEMORY_SHARE * free.0 as f64 {
        let has = match distinct(series).count() {
            1 => "the data set has".to_owned(),
            sets => format!("the {sets} data sets have"),
        };
        bail!(
            "{has} {}, more than {:.0} % of the {free} of memory that is free, and the embedded \
             server keeps it in memory. Use fewer files (--files), or a real store (--endpoint-url \
             and --bucket, or --local DIR)",
            ByteCount(bytes),
            100.0 * MEMORY_SHARE,
        );
    }
    Ok(())
}

/// Makes every data set that has to be made first: all of them in the embedded server, in a given
/// store those that are missing, and only with `--generate` or where the workload itself generates.
pub(super) fn provide(
    args: &SweepArgs,
    series: &[Planned],
    accesses: &[Access],
    runtime: &Handle,
) -> anyhow::Result<()> {
    let quiet = args.output.show.quiet;
    let mut missing = String::new();
    for at in distinct(series) {
        let (planned, access) = (&series[at], &accesses[at]);
        let workload = &planned.resolved.workload;
        // A set of another size is as good, unless it may be that of another series.
        let others = || series.iter().filter(|other| !shared(other, planned));
        let exactly = others().any(|other| same_place(other, planned));
        let lacking = if access.shown.embedded {
            Some(String::new())
        } else {
            lacking(access, workload, exactly, runtime)?
        };
        match lacking {
            None => {}
            Some(_)
                if access.shown.embedded || args.generate || workload.workflow.generate_data =>
            {
                let generation = Generation { access, workload, resume: false, runtime, quiet };
                note(quiet, generation.alone()?);
            }
            Some(what) => {
                let files = workload.dataset.num_files_train;
                let command = command_line(&planned.workload, &args.store, files);
                let _ = writeln!(missing, "{what}.\nTo generate it, run\n  {command}");
            }
        }
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(anyhow!("{missing}or give this command --generate"))
    }
}

/// What a given store lacks of a data set that runs read. With `exactly` only a set of the configured
/// size counts.
fn lacking(
    access: &Access,
    workload: &Workload,
    exactly: bool,
    runtime: &Handle,
) -> anyhow::Result<Option<String>> {
    if !workload.reads_storage() {
        return Ok(None);
    }
    let store = access.open(RequestStats::new().into())?;
    let dataset = &workload.dataset;
    let formats = FileFormat::both(dataset)?;
    let evaluated = workload.workflow.evaluates().then_some(Split::Valid);
    let wanted = [Some(Split::Train), evaluated].into_iter().flatten();
    for (split, format) in wanted.zip(&formats) {
        match runtime.block_on(find(&*store, workload, format, split, access.prefix())) {
            Ok((layout, _)) if exactly && layout.total() != dataset.files(split) => {
                return Ok(Some(format!(
                    "only a set of {} files is in {} of {}, which may be another workload's: a set of \
                     {} files is needed",
                    layout.total(),
                    layout.folder(),
                    store.location(),
                    dataset.files(split)
                )));
            }
            Ok((layout, _)) => {
                let manifest = runtime.block_on(Manifest::read(&*store, access.prefix()))?;
                let made = manifest.as_ref().and_then(|manifest| manifest.find(&layout, split));
                let check = |made| check_made(made, workload, false, &layout, &*store);
                if let Some(Err(error)) = made.map(check) {
                    return Ok(Some(error.to_string()));
                }
            }
            Err(error) if is_missing(&error) => return Ok(Some(error.to_string())),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
