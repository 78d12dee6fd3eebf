//! Launchers of many processes, such as `mpirun`.

use std::collections::BTreeMap;

use crate::exit::usage;

/// Variables in which launchers say how many ranks they started.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"];

/// Refuses to be one of several ranks: without MPI each would be a benchmark of its own, all over one
/// folder.
pub(crate) fn refuse_ranks(variables: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let number = |name: &str| variables.get(name)?.trim().parse::<u32>().ok();
    let slurm = variables.contains_key("SLURM_PROCID").then_some("SLURM_STEP_NUM_TASKS");
    let several = SIZES
        .into_iter()
        .chain(slurm)
        .find_map(|name| Some((name, number(name).filter(|&size| size > 1)?)));
    match several {
        None => Ok(()),
        Some((name, size)) => Err(usage(format!(
            "a launcher started {size} ranks ({name}), but this program was built without MPI: start it \
             once, and give it --np {size} for as many ranks in one process"
        ))),
    }
}

/// The number that a launcher gave this process, if one did.
pub(crate) fn rank(variables: &BTreeMap<String, String>) -> Option<u32> {
    let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK"];
    names.into_iter().find_map(|name| variables.get(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_one_rank_of_any_launcher_is_refused_in_one_sentence() {
        let check = |variables: &[(&str, &str)]| {
            let variables = variables.iter().map(|&(name, value)| (name.into(), value.into()));
            refuse_ranks(&variables.collect())
        };
        for name in SIZES {
            let error = check(&[(name, "4")]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("--np 4"), "{error}");
            assert!(check(&[(name, "1")]).is_ok());
        }
        assert!(check(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2")]).is_err());
        // A shell inside an allocation has the number, but no rank.
        assert!(check(&[("SLURM_STEP_NUM_TASKS", "2")]).is_ok());
        assert!(check(&[]).is_ok());
    }
}
