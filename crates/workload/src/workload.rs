//! One complete, checked description of a run: every value present, every rule kept. Made only by
//! resolving a file, saved with the results, and never changed after that.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A checked workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// `framework`.
    pub framework: Framework,
    /// `model.*`.
    pub model: Model,
    /// `workflow.*`.
    pub workflow: Workflow,
    /// `dataset.*`.
    pub dataset: Dataset,
    /// `reader.*`.
    pub reader: Reader,
    /// `train.*`.
    pub train: Train,
    /// `metric.*` and `output.metric.*`.
    pub metric: Metric,
    /// `output.*`.
    pub output: Output,
    /// `storage.*`.
    pub storage: Storage,
}

/// `framework`: decides which loader a file without `reader.data_loader` gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framework {
    /// `pytorch`
    Pytorch,
    /// `tensorflow`
    Tensorflow,
}

/// `model.*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// `model.name`: identifier only; used in result folders and titles.
    pub name: String,
    /// `model.type`, free text.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// `workflow.*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workflow {
    /// `workflow.generate_data`: generate before training.
    pub generate_data: bool,
    /// `workflow.train`.
    pub train: bool,
}

/// `dataset.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dataset {
    /// `dataset.data_folder`, without slashes at its end.
    pub data_folder: String,
    /// `dataset.format`.
    pub format: Format,
    /// `dataset.num_files_train`, at least 1.
    pub num_files_train: u64,
    /// `dataset.num_samples_per_file`, at least 1.
    pub num_samples_per_file: u64,
    /// `dataset.record_length_bytes`: bytes of a sample, may have a fraction, at least 1.
    pub record_length_bytes: f64,
    /// `dataset.record_length_bytes_stdev`, at least 0; above 0 the size differs per file.
    pub record_length_bytes_stdev: f64,
    /// `dataset.file_prefix`.
    pub file_prefix: String,
    /// `dataset.seed` (ours): content and sizes.
    pub seed: u64,
}

/// `dataset.format`: what the files are, and their suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One grey JPEG image a file.
    Jpeg,
    /// `NumPy` archive with `x` (samples) and `y` (labels).
    Npz,
}

impl Format {
    /// The format's name, which is the suffix of its files (without the dot).
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Npz => "npz",
        }
    }
}

/// `reader.*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reader {
    /// `reader.data_loader`; by default the framework's own.
    pub data_loader: DataLoader,
    /// `reader.batch_size`: samples a rank takes per step, at least 1.
    pub batch_size: u64,
    /// `reader.read_threads`: readers per rank; 0 reads in the rank's own thread without overlap.
    pub read_threads: u32,
    /// `reader.prefetch_size`: ready batches per rank before rounding up to the readers.
    pub prefetch_size: u32,
    /// `reader.file_shuffle`.
    pub file_shuffle: Shuffle,
    /// `reader.sample_shuffle`.
    pub sample_shuffle: Shuffle,
    /// `reader.pipeline` (ours): in which order a reader keeps files coming.
    pub pipeline: Pipeline,
    /// `reader.payload` (ours): what becomes of the bytes.
    pub payload: Payload,
}

/// `reader.pipeline`: how a reader reads ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pipeline {
    /// A window slides over the reader's files: a file that is used makes room for the next.
    Sliding,
    /// The reader's files come in chunks: the next chunk is fetched while one is used.
    Chunked,
}

/// `reader.payload`: what becomes of the bytes of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// Every byte of a batch is in memory when the accelerator takes it.
    Land,
    /// Every byte is received, into a buffer that is used again at once, and counted.
    Discard,
}

/// `reader.data_loader`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataLoader {
    /// `pytorch`
    Pytorch,
    /// `tensorflow`
    Tensorflow,
}

/// `reader.file_shuffle`, `reader.sample_shuffle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shuffle {
    /// Ascending order.
    Off,
    /// A permutation from `train.seed` (and the epoch, with `train.seed_change_epoch`).
    Seed,
    /// A permutation from fresh entropy in each run.
    Random,
}

/// `train.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Train {
    /// `train.epochs`, at least 1.
    pub epochs: u32,
    /// `train.computation_time` with `train.computation_time_stdev`: seconds a step computes.
    pub computation_time: Time,
    /// `train.total_training_steps`: steps of each epoch instead of all there are.
    pub total_training_steps: Option<u64>,
    /// `train.seed`.
    pub seed: u64,
    /// `train.seed_change_epoch`.
    pub seed_change_epoch: bool,
}

/// A time or a distribution of times, in seconds (spec/dlio.md 6.3). A drawn value counts by its
/// absolute value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Time {
    /// Always `mean`.
    Constant {
        /// Seconds.
        mean: f64,
    },
    /// Normal.
    Normal {
        /// Seconds.
        mean: f64,
        /// Seconds, at least 0.
        stdev: f64,
    },
    /// Uniform in `min..max`.
    Uniform {
        /// Seconds.
        min: f64,
        /// Seconds, at least `min`.
        max: f64,
    },
    /// Gamma; its mean is `shape` × `scale`.
    Gamma {
        /// Above 0.
        shape: f64,
        /// Seconds, above 0.
        scale: f64,
    },
    /// Exponential.
    Exponential {
        /// Its mean in seconds, at least 0.
        scale: f64,
    },
    /// Poisson: whole seconds.
    Poisson {
        /// Its mean, at least 0.
        lam: f64,
    },
}

impl Time {
    /// The mean of the distribution in seconds, before absolute values are taken.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Constant { mean } | Self::Normal { mean, .. } => mean,
            Self::Uniform { min, max } => f64::midpoint(min, max),
            Self::Gamma { shape, scale } => shape * scale,
            Self::Exponential { scale } => scale,
            Self::Poisson { lam } => lam,
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant { mean } => write!(f, "{mean}"),
            Self::Normal { mean, stdev } => write!(f, "normal (mean {mean}, stdev {stdev})"),
            Self::Uniform { min, max } => write!(f, "uniform (min {min}, max {max})"),
            Self::Gamma { shape, scale } => write!(f, "gamma (shape {shape}, scale {scale})"),
            Self::Exponential { scale } => write!(f, "exponential (scale {scale})"),
            Self::Poisson { lam } => write!(f, "poisson (lam {lam})"),
        }
    }
}

/// `metric.*` and `output.metric.*`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// `metric.au`: the pass mark as a fraction.
    pub au: f64,
    /// `output.metric.exclude_start_steps`.
    pub exclude_start_steps: u64,
    /// `output.metric.exclude_end_steps`.
    pub exclude_end_steps: u64,
}

/// `output.*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// `output.folder`: where the results go; the front end's choice when absent.
    pub folder: Option<PathBuf>,
    /// `output.log_file`.
    pub log_file: String,
}

/// `storage.*`: where the data set is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    /// Which store, as far as the workload names one.
    pub target: Target,
    /// `storage.storage_options.prefetch_window`: files a reader may have in flight or ready; for
    /// the chunked pipeline the files of a chunk.
    pub prefetch_window: u32,
    /// `storage.storage_options.stagger_workers`: with the chunked pipeline reader k of a rank starts
    /// k mean computation times later.
    pub stagger_workers: bool,
}

/// GETs that one reader of the chunked pipeline has in flight at most, however large its chunk: as in
/// DLIO's loader.
pub const CHUNKED_GETS_IN_FLIGHT: u32 = 64;

/// A store and the place in it below which `dataset.data_folder` lies. Every spelling that
/// spec/dlio.md 3.3 allows ends in one of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "scheme", rename_all = "lowercase")]
pub enum Target {
    /// A folder of a file system.
    Local {
        /// `storage.storage_root` joined with the data folder: keys are below it.
        root: PathBuf,
    },
    /// A bucket of an S3-compatible store.
    S3 {
        /// Bucket name.
        bucket: String,
        /// The data set's prefix in the bucket, without slashes at either end; may be empty.
        prefix: String,
        /// `storage.storage_options.endpoint_url` or what stood in for it: the bucket's objects are
        /// behind each of them. Empty is the public cloud.
        endpoint_urls: Vec<String>,
        /// Region, when one is named.
        region: Option<String>,
    },
}
