//! Launchers of many processes, such as `mpirun`.

use std::collections::BTreeMap;

use crate::exit::usage;

/// Variables in which launchers say how many ranks they started.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"];

/// How many ranks a launcher says it started, and in which variable.
pub(crate) fn size(variables: &BTreeMap<String, String>) -> Option<(&'static str, u32)> {
    let slurm = variables.contains_key("SLURM_PROCID").then_some("SLURM_STEP_NUM_TASKS");
    let names = SIZES.into_iter().chain(slurm);
    let number = |name: &str| variables.get(name)?.trim().parse::<u32>().ok();
    names.filter_map(|name| Some((name, number(name)?))).max_by_key(|(_, size)| *size)
}

/// Refuses to be one of several ranks that cannot reach each other: each would be a benchmark of its own,
/// all over one folder.
pub(crate) fn refuse_ranks(variables: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let Some((name, size)) = size(variables).filter(|(_, size)| *size > 1) else { return Ok(()) };
    let why = if cfg!(feature = "mpi") {
        "and this program cannot reach the others: its MPI library is another one than the launcher's, or \
         srun was called without --mpi=pmix or pmi2. Use the launcher of the library it was built with, or"
    } else {
        "but this program was built without MPI:"
    };
    Err(usage(format!(
        "a launcher started {size} ranks ({name}), {why} start it once, and give it --np {size} for as \
         many ranks in one process"
    )))
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
