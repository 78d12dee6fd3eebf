//! `feedrate datagen`: a workload's data set, made in a store.

use std::sync::Arc;
use std::time::Duration;

use feedrate_dataset::{
    FileFormat, FileSet, GenerateOptions, GenerateProgress, GenerateSummary, Layout, generate,
};
use feedrate_metrics::requests::RequestStats;
use feedrate_metrics::units::{ByteCount, GIB};
use feedrate_report::Origin;
use feedrate_workload::{Split, Workload};
use serde_json::json;
use tokio::runtime::Handle;

use super::{note, note_warnings, runtime};
use crate::args::{DatagenArgs, StoreArgs, WorkloadArgs};
use crate::environment::Environment;
use crate::exit::Outcome;
use crate::interrupt::exit_on_signal;
use crate::output::{say, say_json};
use crate::progress;
use crate::store::{Access, require_named, resolve_workload};

pub(super) fn run(args: &DatagenArgs) -> anyhow::Result<Outcome> {
    let environment = Environment::capture()?;
    let resolved = resolve_workload(&args.workload, &args.store, Vec::new(), &environment)?;
    require_named(&resolved, "datagen")?;
    note_warnings(args.show.quiet, &resolved);
    let access = Access::new(&resolved, &args.upload, &environment)?;
    let runtime = runtime()?;
    exit_on_signal(runtime.handle(), "files that were stored stay where they are");
    let (summary, location) =
        generate_into(&access, &resolved.workload, runtime.handle(), args.show.quiet)?;
    if args.show.json {
        let figures = json!({
            "files": summary.files,
            "bytes": summary.bytes,
            "seconds": summary.elapsed.as_secs_f64(),
            "location": location,
        });
        say_json(&figures)?;
    } else {
        say(format_args!("{} in {location}", told(&summary)));
    }
    Ok(Outcome::Finished)
}

/// Generates `workload`'s files in the store behind `access`; returns where that is.
///
/// The store is asked first for a listing of what cannot be there, so that a wrong endpoint, bucket or
/// key is told by one quick request and not by as many uploads as go out at once.
pub(super) fn generate_into(
    access: &Access,
    workload: &Workload,
    runtime: &Handle,
    quiet: bool,
) -> anyhow::Result<(GenerateSummary, String)> {
    let dataset = &workload.dataset;
    let set = |split| -> anyhow::Result<FileSet> {
        let layout = Layout::new(dataset, split, access.prefix(), dataset.files(split));
        Ok(FileSet { layout, format: FileFormat::new(dataset, split)? })
    };
    let sets: Arc<[FileSet]> = [set(Split::Train)?, set(Split::Valid)?].into();
    let folder = sets[0].layout.folder();
    let requests = Arc::new(RequestStats::new());
    let store = access.open(Arc::clone(&requests))?;
    let location = format!("{folder} of {}", store.location());
    let nothing = format!("{folder}/.feedrate-preflight");
    runtime.block_on(store.list(&nothing, &mut |_| ()))?;
    let done = Arc::new(GenerateProgress::new(&sets));
    let bar = progress::generation(done.total_bytes(), quiet);
    let shower = runtime.spawn({
        let (bar, done) = (bar.clone(), Arc::clone(&done));
        async move {
            loop {
                bar.set_position(done.bytes());
                bar.set_message(format!("{}/{} files", done.files(), done.total_files()));
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    });
    let outcome = runtime.block_on(generate(store, sets, GenerateOptions::default(), &done));
    shower.abort();
    bar.finish_and_clear();
    let summary = outcome?;
    let retries = requests.summary().retries;
    if !retries.is_empty() {
        note(quiet, format_args!("uploads that were repeated, by reason: {retries:?}"));
    }
    Ok((summary, location))
}

/// A finished generation in words.
pub(super) fn told(summary: &GenerateSummary) -> String {
    let seconds = summary.elapsed.as_secs_f64();
    format!(
        "generated {} files, {}, in {seconds:.1} s ({:.2} GiB/s)",
        summary.files,
        ByteCount(summary.bytes),
        summary.bytes as f64 / GIB / seconds.max(1e-9),
    )
}

/// The command that generates what another one misses.
pub(super) fn command_line(workload: &WorkloadArgs, store: &StoreArgs, files: u64) -> String {
    let mut command = vec!["feedrate".to_owned(), "datagen".to_owned(), workload.workload.clone()];
    let mut option = |name: &str, value: &str| command.extend([name.to_owned(), value.to_owned()]);
    option("--files", &files.to_string());
    for set in &workload.set {
        option("--set", set);
    }
    for endpoint in &store.endpoint_urls {
        option("--endpoint-url", endpoint);
    }
    for (name, value) in [("--bucket", &store.bucket), ("--region", &store.region)] {
        if let Some(value) = value {
            option(name, value);
        }
    }
    if let Some(folder) = &store.local {
        option("--local", &folder.to_string_lossy());
    }
    if store.aws {
        command.push("--aws".to_owned());
    }
    Origin::new("", command, "").command()
}
