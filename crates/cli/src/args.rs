//! The command line. Flags only: what they mean together is decided where they are used.

#![expect(
    clippy::doc_markdown,
    reason = "these doc comments are the help that people read in a terminal"
)]
#![expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand};
use clap_complete::Shell;
use feedrate_metrics::units::ByteCount;
use feedrate_s3_server::{FaultRule, MemoryLimit};

use crate::crew::CrewOptions;

/// The version, with the commit and the features that this program was built with.
pub(crate) const VERSION: &str = {
    macro_rules! version {
        ($features:literal) => {
            concat!(
                env!("CARGO_PKG_VERSION"),
                " (commit ",
                env!("FEEDRATE_COMMIT"),
                ", features: ",
                $features,
                ")"
            )
        };
    }
    if cfg!(feature = "mpi") { version!("mpi") } else { version!("none") }
};

/// How many accelerators can this storage keep fed?
///
/// Replays the I/O of AI training against real storage, simulates the accelerators, and reports
/// accelerator utilization (AU), throughput and how both scale.
#[derive(Debug, Parser)]
#[command(name = "feedrate", version = VERSION, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workload at several numbers of accelerators and print the scaling table
    Sweep(SweepArgs),
    /// Run a workload once
    Run(RunArgs),
    /// Generate a workload's data set in a store
    Datagen(DatagenArgs),
    /// Serve S3 from memory or from a folder
    Serve(ServeArgs),
    /// Rebuild the tables and the Markdown page of saved results, or compare two of them
    Report(ReportArgs),
    /// List the built-in workloads
    Workloads,
    /// Print the resolved values of a workload and where each comes from
    Config(ConfigArgs),
    /// Print the completion script of a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// One training in a process of its own: reads its task from standard input
    #[command(hide = true, name = "train-task")]
    TrainTask(CrewArgs),
    /// The embedded server of a sweep: reads its settings from standard input
    #[command(hide = true, name = "serve-task")]
    ServeTask,
}

/// Which workload, and what is changed in it.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct WorkloadArgs {
    /// A built-in workload (see `feedrate workloads`) or the path of a DLIO YAML file
    #[arg(value_name = "WORKLOAD")]
    pub(crate) workload: String,
    /// Files of the training set (dataset.num_files_train)
    #[arg(long, value_name = "N")]
    pub(crate) files: Option<NonZeroU64>,
    /// Epochs to train (train.epochs)
    #[arg(long, value_name = "N")]
    pub(crate) epochs: Option<NonZeroU32>,
    /// Override any key of the workload, such as reader.batch_size=16; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Numbers and defaults as in one of DLIO's originals, where they differ from ours
    #[arg(long, value_name = "WHOSE", value_parser = ["none", "mlcommons", "upstream"])]
    pub(crate) compat: Option<String>,
    /// Refuse unknown keys and unknown DLIO_ and FEEDRATE_ variables, and exit with code 1 when AU
    /// cannot be measured
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Which store.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreArgs {
    /// S3-compatible endpoint, `http://HOST:9000` or `https://HOST`; may be repeated for a store with several:
    /// requests are spread over them
    #[arg(long = "endpoint-url", value_name = "URL", conflicts_with = "local")]
    pub(crate) endpoint_urls: Vec<String>,
    /// Bucket of the data set
    #[arg(long, value_name = "NAME", conflicts_with = "local")]
    pub(crate) bucket: Option<String>,
    /// Region used in signatures
    #[arg(long, value_name = "NAME", conflicts_with = "local")]
    pub(crate) region: Option<String>,
    /// A folder of a file system instead of an object store
    #[arg(long, value_name = "DIR")]
    pub(crate) local: Option<PathBuf>,
    /// Use the public AWS cloud: without this flag no public endpoint is ever contacted
    #[arg(long, conflicts_with_all = ["local", "endpoint_urls"])]
    pub(crate) aws: bool,
}

/// What has no meaning in a program without MPI is not in its help.
const WITHOUT_MPI: bool = cfg!(not(feature = "mpi"));

/// How an MPI launcher is called.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Many processes")]
pub(crate) struct LauncherArgs {
    /// Run each NP through this MPI launcher, such as mpirun
    #[arg(long, value_name = "PROGRAM", hide = WITHOUT_MPI)]
    pub(crate) mpi_bin: Option<PathBuf>,
    /// Hosts with their slots, A:4,B:4, as the launcher's -host takes them
    #[arg(long, value_name = "HOSTS", requires = "mpi_bin", hide = WITHOUT_MPI)]
    pub(crate) hosts: Option<String>,
    /// Further arguments of the launcher, blanks between them; may be repeated
    #[arg(
        long,
        value_name = "ARGS",
        requires = "mpi_bin",
        allow_hyphen_values = true,
        hide = WITHOUT_MPI,
    )]
    pub(crate) mpi_args: Vec<String>,
    #[command(flatten)]
    pub(crate) crew: CrewArgs,
}

/// How the processes of an MPI launcher work together.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Many processes")]
pub(crate) struct CrewArgs {
    /// Under an MPI launcher, such as mpirun: ranks of each process [default: 1]
    #[arg(long, value_name = "N", hide = WITHOUT_MPI)]
    pub(crate) ranks_per_process: Option<NonZeroU32>,
    /// How often processes tell each other that they are alive, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "1",
        value_parser = seconds,
        hide = WITHOUT_MPI,
    )]
    pub(crate) heartbeat: Duration,
    /// A process that was not heard of for so long is lost, and the run with it, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "6",
        value_parser = seconds,
        hide = WITHOUT_MPI,
    )]
    pub(crate) dead_after: Duration,
}

impl CrewArgs {
    pub(crate) fn options(&self) -> CrewOptions {
        CrewOptions {
            ranks_per_process: self.ranks_per_process.map(u32::from),
            heartbeat: self.heartbeat,
            dead_after: self.dead_after,
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let duration = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration
        .filter(|duration| (Duration::from_millis(1)..=Duration::from_hours(24)).contains(duration))
        .ok_or_else(|| "accepts seconds from 0.001 to 86400".to_owned())
}

/// How uploads are made.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct UploadArgs {
    /// Sign the SHA-256 of every uploaded body instead of UNSIGNED-PAYLOAD with a CRC32C
    #[arg(long, help_heading = "Store")]
    pub(crate) sign_payload: bool,
}

/// How files are read.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Reading")]
pub(crate) struct ReadArgs {
    /// Compare every byte read with what the generator must have written
    #[arg(long)]
    pub(crate) verify: bool,
    /// Memory that the batches and windows of one process may hold together, in MiB
    #[arg(long, value_name = "MIB", default_value_t = BYTE_BUDGET_MIB)]
    byte_budget: NonZeroU64,
}

const BYTE_BUDGET_MIB: NonZeroU64 = NonZeroU64::new(256).unwrap();

/// The budget without `--byte-budget`.
pub(crate) fn default_byte_budget() -> ByteCount {
    ByteCount(BYTE_BUDGET_MIB.get() << 20)
}

impl ReadArgs {
    pub(crate) fn byte_budget(&self) -> ByteCount {
        ByteCount(self.byte_budget.get().saturating_mul(1 << 20))
    }
}

/// What is shown and kept.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Where results are written, in a folder for each sweep and run [default: results]
    #[arg(long, value_name = "DIR")]
    pub(crate) results_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

impl OutputArgs {
    pub(crate) fn results_dir(&self) -> &Path {
        self.results_dir.as_deref().unwrap_or(Path::new("results"))
    }
}

/// What is shown.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Output")]
pub(crate) struct ShowArgs {
    /// No progress and no notes, only results and errors
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Print results as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// Numbers of accelerators, in the order in which they are run
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', default_value = "1,2,4")]
    pub(crate) np: Vec<NonZeroU32>,
    /// Ways of reading ahead to measure instead of the workload's reader.pipeline; several are
    /// compared, NP by NP
    #[arg(
        long,
        value_name = "NAME,NAME",
        value_delimiter = ',',
        value_parser = ["sliding", "chunked"],
    )]
    pub(crate) pipeline: Vec<String>,
    /// Accelerators to compare, such as b200,mi355: WORKLOAD is a model (retinanet) or any built-in
    /// workload of it. Those with equal dataset sections share a data set; sets whose files would have
    /// the same names are kept apart, in a folder named after the workload
    #[arg(long, value_name = "NAME,NAME,…", value_delimiter = ',')]
    pub(crate) accelerators: Vec<String>,
    /// A built-in workload's own numbers of files and epochs, instead of 6,000 and 3
    #[arg(long, conflicts_with_all = ["files", "epochs"])]
    pub(crate) full: bool,
    /// Generate the data set where the store does not have it
    #[arg(long)]
    pub(crate) generate: bool,
    /// Leave the embedded server running and print how to reach it
    #[arg(long)]
    pub(crate) keep_server: bool,
    /// Exit with code 3 when AU misses the workload's target at any number of accelerators
    #[arg(long)]
    pub(crate) require_au: bool,
    #[command(flatten)]
    pub(crate) launcher: LauncherArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) upload: UploadArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// Number of accelerators [default: 1, or what an MPI launcher started]
    #[arg(long, value_name = "N")]
    pub(crate) np: Option<NonZeroU32>,
    #[command(flatten)]
    pub(crate) crew: CrewArgs,
    /// Exit with code 3 when AU misses the workload's target
    #[arg(long)]
    pub(crate) require_au: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) upload: UploadArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DatagenArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) crew: CrewArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) upload: UploadArgs,
    /// Make only the files that are not there yet with the right size, of a set that was made with the
    /// same settings
    #[arg(long)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print the values as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9000")]
    pub(crate) listen: SocketAddr,
    /// Keep objects as plain files: this folder holds a folder for each bucket, and what already lies
    /// there is served as it is. Without it, objects are kept in memory
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<PathBuf>,
    /// The most that objects may take in memory, such as 4GiB; writes beyond it are refused
    #[arg(long, value_name = "SIZE", conflicts_with = "dir")]
    pub(crate) max_memory: Option<MemoryLimit>,
    /// Bucket to create at the start; may be repeated [default: feedrate, and none with --dir]
    #[arg(long = "bucket", value_name = "NAME")]
    pub(crate) buckets: Vec<String>,
    /// File of key pairs, a line each: ACCESS_KEY_ID SECRET [read-only]. Its mode must be 0600
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
    /// Write what a shell needs to use the server, keys included, into this file (mode 0600) and
    /// print no keys
    #[arg(long, value_name = "PATH")]
    pub(crate) env_file: Option<PathBuf>,
    /// Domain below which a host names a bucket, as localhost does in BUCKET.localhost:9000; may be repeated
    #[arg(long = "domain", value_name = "NAME", default_value = "localhost")]
    pub(crate) domains: Vec<String>,
    /// Append a line for each request to this file; - is standard error
    #[arg(long, value_name = "PATH")]
    pub(crate) access_log: Option<PathBuf>,
    /// Rule for failing on purpose, such as "get key=*img_3* attempt=1 status=503"; may be repeated
    #[arg(long = "fault", value_name = "RULE")]
    pub(crate) faults: Vec<FaultRule>,
    /// Keep the keys of GET requests in order, to be read at /_feedrate/gets
    #[arg(long)]
    pub(crate) record_gets: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReportArgs {
    /// A sweep's or run's folder, or a folder above exactly one of them
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Compare the sweep or run in this folder with that in DIR, and write nothing
    #[arg(value_name = "OTHER")]
    pub(crate) other: Option<PathBuf>,
    /// Print the saved figures as JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}
