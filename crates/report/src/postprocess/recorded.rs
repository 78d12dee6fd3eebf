//! The files of the ranks (spec/dlio.md 8.4, 8.5): `<rank>_output.json` with the times of every
//! step, and `<rank>_per_epoch_stats.json` (in older outputs `per_epoch_stats.json`) with the
//! beginning and end of every phase.
//!
//! Nothing is interpreted here but the kinds of values: a number may be written as text, and what
//! has another form than expected is as good as absent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use serde_json::{Map, Value};

use super::PostprocessError;

/// What the ranks recorded.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The ranks that left a file of steps, in the order of their numbers.
    pub(super) ranks: Vec<RankSteps>,
    /// Phases in the order of time, as the lowest rank saw them: only rank 0 writes checkpoints.
    pub(super) epochs: BTreeMap<u32, EpochSpans>,
}

/// The steps of one rank: phases by epoch and name (`block1`, `eval`).
#[derive(Debug, Default)]
pub(super) struct RankSteps {
    pub(super) phases: BTreeMap<u32, Vec<(String, Steps)>>,
}

/// The times of one phase's steps, in s; NaN where a value is not a number.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Waiting for the batch.
    pub(super) load: Vec<f64>,
    /// Waiting and computing.
    pub(super) proc: Vec<f64>,
}

/// An epoch and its phases in time.
#[derive(Debug, Default)]
pub(super) struct EpochSpans {
    pub(super) whole: Span,
    pub(super) phases: Vec<(String, Span)>,
}

/// Beginning, end and length of something.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Span {
    /// Local time.
    pub(super) start: Option<DateTime>,
    /// Local time.
    pub(super) end: Option<DateTime>,
    /// In s: the recorded one, which comes from a steadier clock, else from start to end.
    pub(super) duration: Option<f64>,
    /// Of a checkpoint, in GiB/s.
    pub(super) throughput: Option<f64>,
}

impl Recorded {
    /// Reads the rank files in `folder`, of the ranks below `num_proc` if that is given.
    pub(super) fn read(
        folder: &Path,
        num_proc: Option<u32>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, PostprocessError> {
        let outputs = numbered(folder, "_output.json")?;
        let spans = numbered(folder, "_per_epoch_stats.json")?
            .into_values()
            .next()
            .or_else(|| Some(folder.join("per_epoch_stats.json")).filter(|path| path.is_file()));
        if outputs.is_empty() && spans.is_none() {
            return Err(PostprocessError::NoResults { folder: folder.to_owned() });
        }

        let mut ranks = Vec::new();
        for path in outputs.range(..num_proc.unwrap_or(u32::MAX)).map(|(_, path)| path) {
            ranks.push(RankSteps::of(&read_json(path)?));
        }
        let expected = num_proc.unwrap_or_else(|| outputs.len().max(1) as u32);
        if ranks.len() < expected as usize {
            warnings.push(format!(
                "{} holds the steps of {} of {expected} ranks (<rank>_output.json): sums leave out \
                 the others",
                folder.display(),
                ranks.len(),
            ));
        }

        if spans.is_none() {
            warnings.push(format!(
                "{} holds no 0_per_epoch_stats.json: when phases began and ended is n/a",
                folder.display()
            ));
        }
        let spans = spans.map_or(Ok(Value::Null), |path| read_json(&path))?;
        let epochs = epochs_of(&spans).map(|(number, epoch)| (number, EpochSpans::of(epoch)));
        Ok(Self { ranks, epochs: epochs.collect() })
    }
}

impl RankSteps {
    fn of(file: &Value) -> Self {
        let steps = |epoch: &Map<String, Value>| {
            let per_phase = |key: &str| epoch.get(key).and_then(Value::as_object);
            let load = per_phase("load");
            let phases = per_phase("proc").into_iter().flatten();
            phases
                .map(|(name, proc)| {
                    let load =
                        load.and_then(|load| load.get(name)).map(numbers).unwrap_or_default();
                    (name.clone(), Steps { load, proc: numbers(proc) })
                })
                .collect()
        };
        Self { phases: epochs_of(file).map(|(number, epoch)| (number, steps(epoch))).collect() }
    }

    /// The steps of a phase, if this rank has it.
    pub(super) fn phase(&self, epoch: u32, name: &str) -> Option<&Steps> {
        let phases = self.phases.get(&epoch)?;
        phases.iter().find(|(phase, _)| phase == name).map(|(_, steps)| steps)
    }
}

impl EpochSpans {
    fn of(epoch: &Map<String, Value>) -> Self {
        let phases = epoch
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), Span::of(value.as_object()?))));
        Self { whole: Span::of(epoch), phases: phases.collect() }
    }
}

impl Span {
    fn of(object: &Map<String, Value>) -> Self {
        let stamp = |key: &str| object.get(key)?.as_str()?.trim().parse::<DateTime>().ok();
        let (start, end) = (stamp("start"), stamp("end"));
        Self {
            start,
            end,
            duration: object.get("duration").and_then(number).or_else(|| seconds(start?, end?)),
            throughput: object.get("throughput").and_then(number),
        }
    }
}

/// From `start` to `end`; none if that would be negative.
pub(super) fn seconds(start: DateTime, end: DateTime) -> Option<f64> {
    Some(end.duration_since(start).as_secs_f64()).filter(|seconds| *seconds >= 0.0)
}

/// The files of `folder` that are called by a rank's number and `suffix`.
fn numbered(folder: &Path, suffix: &str) -> Result<BTreeMap<u32, PathBuf>, PostprocessError> {
    let unreadable = |source| PostprocessError::Read { path: folder.to_owned(), source };
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let rank = name.to_str().and_then(|name| name.strip_suffix(suffix)?.parse().ok());
        if let Some(rank) = rank {
            files.insert(rank, entry.path());
        }
    }
    Ok(files)
}

fn read_json(path: &Path) -> Result<Value, PostprocessError> {
    let json = fs::read(path)
        .map_err(|source| PostprocessError::Read { path: path.to_owned(), source })?;
    serde_json::from_slice(&json)
        .map_err(|source| PostprocessError::Damaged { path: path.to_owned(), source })
}

/// The entries of `file` whose keys are numbers.
fn epochs_of(file: &Value) -> impl Iterator<Item = (u32, &Map<String, Value>)> {
    let entries = file.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.parse().ok()?, value.as_object()?)))
}

/// A finite number, whether or not it is written as text.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok()?,
        value => value.as_f64()?,
    };
    f64::is_finite(number).then_some(number)
}

fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().into_iter().flatten();
    list.map(|value| number(value).unwrap_or(f64::NAN)).collect()
}
