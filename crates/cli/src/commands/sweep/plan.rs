//! What a sweep consists of: one series, or one for each accelerator and pipeline to be compared.

use std::collections::BTreeSet;

use feedrate_workload::presets::{self, Group};
use feedrate_workload::{Override, Resolved};

use crate::args::{SweepArgs, WorkloadArgs};
use crate::environment::Environment;
use crate::exit::usage;
use crate::store::resolve_workload;

/// What a sweep makes of a built-in workload unless told otherwise: small enough for a laptop, long
/// enough to mean something.
const FILES: u64 = 6_000;
const EPOCHS: u32 = 3;
/// The end of the name of a preset that never became final.
const DRAFT: &str = "_draft";

/// One series before it runs.
pub(super) struct Planned {
    /// `b200-chunked`, as far as it tells the series apart; empty when there is only one.
    pub(super) name: String,
    /// The workload, and what is changed in it but for the pipeline.
    pub(super) workload: WorkloadArgs,
    /// Instead of `reader.pipeline`.
    pipeline: Option<String>,
    /// The two together.
    pub(super) resolved: Resolved,
}

impl Planned {
    fn new(
        name: String,
        workload: WorkloadArgs,
        pipeline: Option<String>,
        args: &SweepArgs,
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        let mut told = workload.clone();
        // The last one wins: the flag stands above any `--set`.
        told.set.extend(pipeline.iter().map(|pipeline| format!("reader.pipeline={pipeline}")));
        let defaults = defaults(args, &workload.workload);
        let resolved = resolve_workload(&told, &args.store, defaults, environment)?;
        Ok(Self { name, workload, pipeline, resolved })
    }

    /// The same with another data folder.
    pub(super) fn at_folder(
        &self,
        folder: &str,
        args: &SweepArgs,
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        let mut workload = self.workload.clone();
        workload.set.push(format!("dataset.data_folder={folder}"));
        Self::new(self.name.clone(), workload, self.pipeline.clone(), args, environment)
    }

    /// `b200-chunked at `; nothing when there is only one series.
    pub(super) fn at(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!("{} at ", self.name) }
    }
}

/// All series that `args` ask for, pipelines of an accelerator side by side.
pub(super) fn plan(args: &SweepArgs, environment: &Environment) -> anyhow::Result<Vec<Planned>> {
    none_twice("--pipeline", &args.pipeline)?;
    none_twice("--accelerators", &args.accelerators)?;
    let workloads = workloads(args)?;
    let pipelines: Vec<Option<&String>> = match args.pipeline.as_slice() {
        [] => vec![None],
        pipelines => pipelines.iter().map(Some).collect(),
    };
    let mut planned = Vec::new();
    for (accelerator, workload) in &workloads {
        for pipeline in &pipelines {
            let accelerator = accelerator.as_deref().filter(|_| workloads.len() > 1);
            let shown = pipeline.map(String::as_str).filter(|_| pipelines.len() > 1);
            let parts: Vec<&str> = accelerator.into_iter().chain(shown).collect();
            let name = parts.join("-");
            let pipeline = pipeline.cloned();
            planned.push(Planned::new(name, workload.clone(), pipeline, args, environment)?);
        }
    }
    Ok(planned)
}

/// The workload of each accelerator; the given one, of no accelerator by name, without
/// `--accelerators`.
fn workloads(args: &SweepArgs) -> anyhow::Result<Vec<(Option<String>, WorkloadArgs)>> {
    if args.accelerators.is_empty() {
        return Ok(vec![(None, args.workload.clone())]);
    }
    // The others are not called by an accelerator.
    let for_accelerators = |group| matches!(group, Group::Current | Group::Earlier | Group::Draft);
    let names: Vec<&str> = presets::all()
        .iter()
        .filter(|preset| for_accelerators(preset.group))
        .map(|preset| preset.name)
        .collect();
    let found = presets_of(&args.workload.workload, &args.accelerators, &names)?;
    let workload = |name: &str| WorkloadArgs { workload: name.to_owned(), ..args.workload.clone() };
    Ok(args.accelerators.iter().cloned().map(Some).zip(found.into_iter().map(workload)).collect())
}

/// The presets for `accelerators` of the model that `workload` is or belongs to, among `presets`.
fn presets_of<'a>(
    workload: &str,
    accelerators: &[String],
    presets: &[&'a str],
) -> anyhow::Result<Vec<&'a str>> {
    let is_model = presets.iter().any(|preset| split(preset).0 == workload);
    let model = if is_model {
        workload
    } else if presets.contains(&workload) {
        split(workload).0
    } else {
        let mut models: Vec<&str> = presets.iter().map(|preset| split(preset).0).collect();
        let mut seen = BTreeSet::new();
        models.retain(|model| seen.insert(*model));
        return Err(usage(format!(
            "--accelerators compares built-in workloads of one model, and {workload:?} is neither a \
             model nor one of its workloads: the models are {}",
            models.join(", ")
        )));
    };
    let of_model: Vec<&str> =
        presets.iter().copied().filter(|name| split(name).0 == model).collect();
    let mut found = Vec::new();
    for accelerator in accelerators {
        let named = |end: &str| {
            let name = format!("{model}_{accelerator}{end}");
            of_model.iter().copied().find(|preset| *preset == name)
        };
        let Some(preset) = named("").or_else(|| named(DRAFT)) else {
            let known: Vec<&str> = of_model.iter().map(|preset| split(preset).1).collect();
            return Err(usage(format!(
                "no built-in workload of {model} is for {accelerator:?}: there are {}",
                known.join(", ")
            )));
        };
        if found.contains(&preset) {
            return Err(usage(format!("--accelerators names {preset} twice")));
        }
        found.push(preset);
    }
    Ok(found)
}

/// Model and accelerator of a preset's name, whether it is a draft or not.
fn split(preset: &str) -> (&str, &str) {
    let name = preset.strip_suffix(DRAFT).unwrap_or(preset);
    name.rsplit_once('_').unwrap_or((name, ""))
}

fn none_twice(flag: &str, values: &[String]) -> anyhow::Result<()> {
    let twice = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value));
    twice.map_or(Ok(()), |(_, value)| Err(usage(format!("{flag} names {value} twice"))))
}

/// A built-in workload's set is far too large for a first look; a file says itself what it wants.
fn defaults(args: &SweepArgs, workload: &str) -> Vec<Override> {
    if args.full || presets::get(workload).is_none() {
        return Vec::new();
    }
    let default = |key: &str, value: u64| {
        Override::flag("the default of sweep (--full for the workload's own)", key, value)
    };
    vec![default("dataset.num_files_train", FILES), default("train.epochs", u64::from(EPOCHS))]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESETS: [&str; 5] =
        ["net_b200", "net_mi355", "net_h100_draft", "net_h100", "llm3_8b_a100_draft"];

    fn found(workload: &str, accelerators: &[&str]) -> Result<Vec<&'static str>, String> {
        let accelerators: Vec<String> =
            accelerators.iter().map(|name| (*name).to_owned()).collect();
        presets_of(workload, &accelerators, &PRESETS).map_err(|error| error.to_string())
    }

    #[test]
    fn a_model_or_any_of_its_presets_names_the_model() {
        let both = Ok(vec!["net_mi355", "net_b200"]);
        assert_eq!(found("net", &["mi355", "b200"]), both);
        assert_eq!(found("net_b200", &["mi355", "b200"]), both);
        assert_eq!(found("net_h100_draft", &["mi355", "b200"]), both);
    }

    #[test]
    fn a_draft_is_taken_where_nothing_final_exists() {
        assert_eq!(found("llm3_8b", &["a100"]), Ok(vec!["llm3_8b_a100_draft"]));
        assert_eq!(found("net", &["h100"]), Ok(vec!["net_h100"]));
        assert_eq!(found("net", &["h100_draft"]), Ok(vec!["net_h100_draft"]));
    }

    #[test]
    fn what_is_not_there_is_answered_with_what_is() {
        let error = found("net", &["b200", "b300"]).unwrap_err();
        assert!(error.contains("\"b300\"") && error.contains("b200, mi355, h100"), "{error}");
        let error = found("t0.yaml", &["b200"]).unwrap_err();
        assert!(error.contains("t0.yaml") && error.contains("net, llm3_8b"), "{error}");
        assert!(found("ne", &["t_b200"]).is_err());
    }

    #[test]
    fn nothing_is_compared_with_itself() {
        assert!(none_twice("--pipeline", &["a", "b", "a"].map(str::to_owned)).is_err());
        let presets = ["net_h100_draft"];
        let twice = ["h100", "h100_draft"].map(str::to_owned);
        assert!(presets_of("net", &twice, &presets).is_err());
    }
}
