//! One complete, checked description of a run: every value present, every rule kept. Made only by
//! resolving a file, saved with the results, and never changed after that.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A checked workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Whose numbers and defaults are wanted where they differ from ours.
    pub compat: Compat,
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
    /// `evaluation.*`.
    pub evaluation: Evaluation,
    /// `checkpoint.*`.
    pub checkpoint: Checkpoint,
    /// `metric.*` and `output.metric.*`.
    pub metric: Metric,
    /// `output.*`.
    pub output: Output,
    /// `profiling.*`.
    pub profiling: Profiling,
    /// `storage.*`.
    pub storage: Storage,
}

impl Workload {
    /// Bytes of a sample by which rates are computed (R of spec/dlio.md 7.3): the record length, or the
    /// columns of a Parquet file.
    pub fn record_bytes(&self) -> f64 {
        self.dataset.record_bytes()
    }

    /// How long a step of a set computes.
    pub fn step_time(&self, split: Split) -> &Time {
        match split {
            Split::Train => &self.train.computation_time,
            Split::Valid => &self.evaluation.eval_time,
        }
    }

    /// Whether samples are read from a store at all: files of the format `synthetic` are not (spec/dlio.md
    /// 4.3).
    pub fn reads_storage(&self) -> bool {
        !self.storage.simulate_io
            && self.reader.data_loader != DataLoader::Synthetic
            && self.dataset.format != Format::Synthetic
    }

    /// Sets the number of readers where it follows from the machine: the cores that each of
    /// `ranks_here` ranks has, but at least one and at most what was allowed (spec/dlio.md D8).
    pub fn settle_threads(&mut self, ranks_here: u32, cores: u32) {
        if let Some(most) = self.reader.most_automatic_threads {
            self.reader.read_threads = (cores / ranks_here.max(1)).clamp(1, most.max(1));
        }
    }
}

/// One of a workload's two sets of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// What is trained on.
    Train,
    /// What is evaluated on.
    Valid,
}

impl Split {
    /// The folder of the set's files below the data folder (spec/dlio.md 3.1).
    pub fn folder(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Valid => "valid",
        }
    }

    /// The key that says how many files the set has.
    pub fn files_key(self) -> &'static str {
        match self {
            Self::Train => "dataset.num_files_train",
            Self::Valid => "dataset.num_files_eval",
        }
    }

    /// The key that says over how many subfolders the files are spread.
    pub fn subfolders_key(self) -> &'static str {
        match self {
            Self::Train => "dataset.num_subfolders_train",
            Self::Valid => "dataset.num_subfolders_eval",
        }
    }

    /// The key that says how many samples of the set a rank takes in a step.
    pub fn batch_key(self) -> &'static str {
        match self {
            Self::Train => "reader.batch_size",
            Self::Valid => "reader.batch_size_eval",
        }
    }
}

/// Whose numbers and defaults are wanted (`--compat`, `FEEDRATE_COMPAT`). It changes nothing but those
/// that spec/dlio.md section 10 offers a switch for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compat {
    /// Ours.
    #[default]
    None,
    /// The MLCommons fork of DLIO.
    Mlcommons,
    /// DLIO as its authors publish it.
    Upstream,
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

/// `model.*`. All but the name concerns checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// `model.name`: identifier only; used in result folders and titles.
    pub name: String,
    /// `model.type`, free text; only `transformer` means something.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// `model.model_size_bytes`: bytes of the flat model state.
    pub model_size_bytes: u64,
    /// `model.model_datatype`.
    pub model_datatype: Datatype,
    /// `model.optimizer_datatype`.
    pub optimizer_datatype: Datatype,
    /// `model.num_layers`, if the model is described by layers.
    pub num_layers: Option<u32>,
    /// `model.layer_parameters`: elements of each tensor of a layer.
    pub layer_parameters: Vec<u64>,
    /// `model.optimization_groups`: elements of each group.
    pub optimization_groups: Vec<u64>,
    /// `model.parallelism.*`.
    pub parallelism: Parallelism,
    /// `model.transformer.*`.
    pub transformer: Transformer,
}

/// `model.parallelism.*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parallelism {
    /// `tensor`, at least 1.
    pub tensor: u32,
    /// `pipeline`, at least 1.
    pub pipeline: u32,
    /// `data`; all ranks there are when absent.
    pub data: Option<u32>,
    /// `zero_stage`, 0 to 3.
    pub zero_stage: u32,
}

/// `model.transformer.*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transformer {
    /// `vocab_size`.
    pub vocab_size: u64,
    /// `hidden_size`.
    pub hidden_size: u64,
    /// `ffn_hidden_size`.
    pub ffn_hidden_size: u64,
    /// `num_attention_heads`.
    pub num_attention_heads: u64,
    /// `num_kv_heads`.
    pub num_kv_heads: u64,
}

/// `model.model_datatype`, `model.optimizer_datatype`: the type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Datatype {
    /// 2 bytes.
    Fp16,
    /// 2 bytes.
    Bf16,
    /// 4 bytes.
    Fp32,
    /// 8 bytes.
    Fp64,
    /// 1 byte.
    Int8,
    /// 1 byte.
    Uint8,
}

/// `workflow.*`: which parts a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub struct Workflow {
    /// `workflow.generate_data`: generate before training.
    pub generate_data: bool,
    /// `workflow.train`.
    pub train: bool,
    /// `workflow.evaluation`: evaluate inside the epoch loop; nothing without `train`.
    pub evaluation: bool,
    /// `workflow.checkpoint`: checkpoints in the loop, or without `train` nothing but checkpoints.
    pub checkpoint: bool,
    /// `workflow.profiling`: start `profiling.profiler`.
    pub profiling: bool,
}

impl Workflow {
    /// Nothing but data is made: no metrics, no summary (spec/dlio.md 2.2).
    pub fn generates_only(&self) -> bool {
        self.generate_data && !self.train && !self.checkpoint
    }

    /// Nothing but checkpoints, perhaps after generating: the epoch loop is skipped.
    pub fn checkpoints_only(&self) -> bool {
        self.checkpoint && !self.train
    }

    /// Whether epochs end in evaluations.
    pub fn evaluates(&self) -> bool {
        self.train && self.evaluation
    }
}

/// `dataset.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dataset {
    /// `dataset.data_folder`, without slashes at its end.
    pub data_folder: String,
    /// `dataset.format`.
    pub format: Format,
    /// `dataset.num_files_train`, at least 1 when training.
    pub num_files_train: u64,
    /// `dataset.num_files_eval`.
    pub num_files_eval: u64,
    /// `dataset.num_files_stored` (ours): the number that is part of the stored files' names, when
    /// they are not listed and more are stored than used.
    pub num_files_stored: Option<u64>,
    /// `dataset.num_samples_per_file`, at least 1.
    pub num_samples_per_file: u64,
    /// `dataset.record_length_bytes`: bytes of a sample, may have a fraction, at least 1. With
    /// `record_dims` their product times the element's size.
    pub record_length_bytes: f64,
    /// `dataset.record_length_bytes_stdev`, at least 0; above 0 the size differs per file.
    pub record_length_bytes_stdev: f64,
    /// `dataset.record_dims`: the exact shape of a record; empty is a square.
    pub record_dims: Vec<u64>,
    /// `dataset.record_element_type`.
    pub record_element_type: ElementType,
    /// `dataset.num_subfolders_train`; 0 and 1 are none.
    pub num_subfolders_train: u64,
    /// `dataset.num_subfolders_eval`; 0 and 1 are none.
    pub num_subfolders_eval: u64,
    /// `dataset.file_prefix`.
    pub file_prefix: String,
    /// `dataset.compression`.
    pub compression: Compression,
    /// `dataset.compression_level`, in force: given, or the usual one of the compression; 0 for those
    /// without levels.
    pub compression_level: u32,
    /// `dataset.keep_files`: false removes the set's files at the end of the run.
    pub keep_files: bool,
    /// `dataset.generation_buffer_size`: largest write of indexed binary files, in bytes.
    pub generation_buffer_size: u64,
    /// `dataset.skip_listing`: trust the names instead of listing them.
    pub skip_listing: bool,
    /// `dataset.listing_validation_interval`: with `skip_listing` the first, the last and every n-th
    /// file is looked for; 0 is none.
    pub listing_validation_interval: u64,
    /// `dataset.hdf5.*`.
    pub hdf5: Hdf5,
    /// `dataset.parquet.*`.
    pub parquet: Parquet,
    /// `dataset.seed` (ours): content and sizes.
    pub seed: u64,
    /// `dataset.exact_size` (ours): a record is one row of floor(`record_length_bytes` / the element's
    /// size) elements, at least 1, instead of a square. Without `record_dims` and deviation.
    pub exact_size: bool,
    /// `dataset.compressibility` (ours), at least 1: to which part of its size a store that compresses
    /// can bring the content; 1 is not at all.
    pub compressibility: f64,
    /// `dataset.dedup_ratio` (ours), at least 1: files of a set / files whose content is their own; 1 is
    /// that no two share anything.
    pub dedup_ratio: f64,
}

impl Dataset {
    /// Bytes of a sample by which rates are computed: see [`Workload::record_bytes`].
    pub(crate) fn record_bytes(&self) -> f64 {
        if self.format == Format::Parquet && !self.parquet.columns.is_empty() {
            self.parquet.row_bytes() as f64
        } else {
            self.record_length_bytes
        }
    }

    /// Files of a set.
    pub fn files(&self, split: Split) -> u64 {
        match split {
            Split::Train => self.num_files_train,
            Split::Valid => self.num_files_eval,
        }
    }

    /// Subfolders of a set; fewer than two are none (spec/dlio.md D7).
    pub fn subfolders(&self, split: Split) -> u64 {
        match split {
            Split::Train => self.num_subfolders_train,
            Split::Valid => self.num_subfolders_eval,
        }
    }
}

/// `dataset.hdf5.*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hdf5 {
    /// `num_dset_per_record`, at least 1.
    pub num_dset_per_record: u64,
    /// `chunk_dims`, the sample axis among them; empty is contiguous.
    pub chunk_dims: Vec<u64>,
    /// `max_shape` of a record.
    pub max_shape: Vec<u64>,
}

/// `dataset.parquet.*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parquet {
    /// `columns`, no two of one name; empty is DLIO's one column of bytes.
    pub columns: Vec<ParquetColumn>,
    /// `row_group_size` in rows.
    pub row_group_size: u64,
    /// `partition_by`: the column of hive partitions, one of several, of single whole numbers or texts.
    pub partition_by: Option<String>,
    /// `generation_batch_size` in rows; 0 is a row group's.
    pub generation_batch_size: u64,
}

impl Parquet {
    /// Bytes of a row of the columns as DLIO counts them; 0 without columns.
    pub fn row_bytes(&self) -> u64 {
        self.columns.iter().map(ParquetColumn::bytes).fold(0, u64::saturating_add)
    }
}

/// An entry of `dataset.parquet.columns`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParquetColumn {
    /// Its name, not empty.
    pub name: String,
    /// Its type.
    pub dtype: ColumnType,
    /// Elements of a value, at least 1; of a `bool` always 1.
    pub size: u64,
}

impl ParquetColumn {
    /// Bytes of a value as DLIO counts them (spec/dlio.md 4.3): 4 for every element of a type without
    /// a width.
    pub fn bytes(&self) -> u64 {
        let element = match self.dtype {
            ColumnType::Int8 | ColumnType::Uint8 | ColumnType::Bool => 1,
            ColumnType::Int16 | ColumnType::Uint16 | ColumnType::Float16 => 2,
            ColumnType::Int32
            | ColumnType::Uint32
            | ColumnType::Float32
            | ColumnType::List
            | ColumnType::String
            | ColumnType::Binary => 4,
            ColumnType::Int64 | ColumnType::Uint64 | ColumnType::Float64 => 8,
        };
        self.size.saturating_mul(element)
    }
}

/// `dtype` of an entry of `dataset.parquet.columns`.
///
/// A number is a scalar if `size` is 1, else a list of `size` numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// `float32`
    Float32,
    /// `float64`
    Float64,
    /// `float16`
    Float16,
    /// `int8`
    Int8,
    /// `int16`
    Int16,
    /// `int32`
    Int32,
    /// `int64`
    Int64,
    /// `uint8`
    Uint8,
    /// `uint16`
    Uint16,
    /// `uint32`
    Uint32,
    /// `uint64`
    Uint64,
    /// `list`: always a list, of `float32`.
    List,
    /// `string`: one text, whatever `size` is.
    String,
    /// `binary`: `size` bytes.
    Binary,
    /// `bool`: one truth value.
    Bool,
}

/// `dataset.format`: what the files are, and their suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// `TensorFlow` records.
    Tfrecord,
    /// HDF5.
    Hdf5,
    /// Decimal text.
    Csv,
    /// `NumPy` archive with `x` (samples) and `y` (labels).
    Npz,
    /// `NumPy` array.
    Npy,
    /// One grey JPEG image a file.
    Jpeg,
    /// One grey PNG image a file.
    Png,
    /// Samples back to back, with index files.
    IndexedBinary,
    /// The same, read through memory maps by the original.
    MmapIndexedBinary,
    /// Nothing worth reading.
    Synthetic,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// The format's name, which is the suffix of its files (without the dot).
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Tfrecord => "tfrecord",
            Self::Hdf5 => "hdf5",
            Self::Csv => "csv",
            Self::Npz => "npz",
            Self::Npy => "npy",
            Self::Jpeg => "jpeg",
            Self::Png => "png",
            Self::IndexedBinary => "indexed_binary",
            Self::MmapIndexedBinary => "mmap_indexed_binary",
            Self::Synthetic => "synthetic",
            Self::Parquet => "parquet",
        }
    }
}

/// `dataset.compression`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// As it is.
    None,
    /// gzip.
    Gzip,
    /// HDF5's LZF.
    Lzf,
    /// bzip2.
    Bz2,
    /// Deflate in a ZIP archive.
    Zip,
    /// LZMA.
    Xz,
    /// Snappy, for Parquet.
    Snappy,
    /// Zstandard, for Parquet.
    Zstd,
    /// LZ4, for Parquet.
    Lz4,
}

/// `dataset.record_element_type`, by its `NumPy` name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementType {
    /// `uint8`
    Uint8,
    /// `uint16`
    Uint16,
    /// `uint32`
    Uint32,
    /// `uint64`
    Uint64,
    /// `int8`
    Int8,
    /// `int16`
    Int16,
    /// `int32`
    Int32,
    /// `int64`
    Int64,
    /// `float16`
    Float16,
    /// `float32`
    Float32,
    /// `float64`
    Float64,
}

impl ElementType {
    /// Bytes of an element.
    pub fn size(self) -> u64 {
        match self {
            Self::Uint8 | Self::Int8 => 1,
            Self::Uint16 | Self::Int16 | Self::Float16 => 2,
            Self::Uint32 | Self::Int32 | Self::Float32 => 4,
            Self::Uint64 | Self::Int64 | Self::Float64 => 8,
        }
    }
}

/// `reader.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reader {
    /// `reader.data_loader`; by default the framework's own.
    pub data_loader: DataLoader,
    /// `reader.batch_size`: samples a rank takes per step, at least 1.
    pub batch_size: u64,
    /// `reader.batch_size_eval`: the same in evaluation.
    pub batch_size_eval: u64,
    /// `reader.read_threads`: readers per rank; 0 reads in the rank's own thread without overlap.
    pub read_threads: u32,
    /// When the number of readers is to follow from the machine: the most there may be. See
    /// [`Workload::settle_threads`](crate::Workload::settle_threads).
    pub most_automatic_threads: Option<u32>,
    /// `reader.write_threads`: threads that generate data; all cores when absent.
    pub write_threads: Option<u32>,
    /// `reader.computation_threads`: threads that decode TFRecords in DLIO; here all cores do.
    pub computation_threads: u32,
    /// `reader.prefetch_size`: ready batches per rank before rounding up to the readers.
    pub prefetch_size: u32,
    /// `reader.file_shuffle`.
    pub file_shuffle: Shuffle,
    /// `reader.sample_shuffle`.
    pub sample_shuffle: Shuffle,
    /// `reader.transfer_size`: bytes of a read in DLIO, where a format is read piece by piece.
    pub transfer_size: Option<u64>,
    /// `reader.preprocess_time` with `reader.preprocess_time_stdev`: seconds that a reader works on
    /// each sample behind its read.
    pub preprocess_time: Time,
    /// `reader.odirect`: read past the page cache.
    pub odirect: bool,
    /// `reader.pipeline` (ours): in which order a reader keeps files coming.
    pub pipeline: Pipeline,
    /// `reader.window` (ours): who says how many GETs are in flight. `fixed` where there is no choice:
    /// without readers, and with the chunked pipeline.
    #[serde(default)]
    pub window: Window,
    /// `reader.payload` (ours): what becomes of the bytes.
    pub payload: Payload,
    /// `reader.decode` (ours): whether samples are looked into.
    pub decode: Decode,
}

impl Reader {
    /// Samples that a rank takes per step of a set.
    pub fn batch(&self, split: Split) -> u64 {
        match split {
            Split::Train => self.batch_size,
            Split::Valid => self.batch_size_eval,
        }
    }
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

/// `reader.window`: who says how many GETs are in flight, and how far ahead they are sent. The windows
/// are bounds either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Window {
    /// No more than keep the next batches ready, as far as latency, demand and waits tell.
    #[default]
    Auto,
    /// As many as windows, ready batches and the byte budget have room for, as in DLIO.
    Fixed,
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

/// `reader.decode`: what a reader does with a sample that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decode {
    /// Its bytes are counted, as in DLIO's fork.
    None,
    /// It is decoded as its format has it, checksums compared. Never with [`Payload::Discard`], and
    /// never where nothing is read ([`Workload::reads_storage`]).
    Full,
}

/// `reader.data_loader`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataLoader {
    /// `pytorch`
    Pytorch,
    /// `tensorflow`
    Tensorflow,
    /// `synthetic`: samples come from nowhere, no file is read or looked for.
    Synthetic,
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

/// `evaluation.*`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// `evaluation.eval_time` with `evaluation.eval_time_stdev`: seconds an evaluation step computes.
    pub eval_time: Time,
    /// `evaluation.eval_after_epoch`: the first epoch with an evaluation, from 1.
    pub eval_after_epoch: u32,
    /// `evaluation.epochs_between_evals`; 0 is every epoch.
    pub epochs_between_evals: u32,
}

impl Evaluation {
    /// Whether one is due behind `epoch` (spec/dlio.md 6.6): when the epoch has reached the next one,
    /// which is `eval_after_epoch` at first and moves on by `epochs_between_evals` each time.
    pub fn is_due(&self, epoch: u32) -> bool {
        let between = self.epochs_between_evals.max(1);
        match self.eval_after_epoch {
            // The first epoch is beyond this, but the next ones are counted from it.
            0 => epoch == 1 || epoch.is_multiple_of(between),
            first => epoch >= first && (epoch - first).is_multiple_of(between),
        }
    }
}

/// `checkpoint.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub struct Checkpoint {
    /// `checkpoint.checkpoint_folder`, without slashes at its end.
    pub checkpoint_folder: String,
    /// `checkpoint.checkpoint_after_epoch`: the first epoch with a checkpoint.
    pub checkpoint_after_epoch: u32,
    /// `checkpoint.epochs_between_checkpoints`.
    pub epochs_between_checkpoints: u32,
    /// `checkpoint.steps_between_checkpoints`; absent is by epochs.
    pub steps_between_checkpoints: Option<u64>,
    /// `checkpoint.num_checkpoints_write`; 0 is none.
    pub num_checkpoints_write: u32,
    /// `checkpoint.num_checkpoints_read`; 0 is none.
    pub num_checkpoints_read: u32,
    /// `checkpoint.time_between_checkpoints` in seconds.
    pub time_between_checkpoints: f64,
    /// `checkpoint.fsync`.
    pub fsync: bool,
    /// `checkpoint.rank_sync`.
    pub rank_sync: bool,
    /// `checkpoint.recovery_rank_shift`.
    pub recovery_rank_shift: bool,
    /// `checkpoint.mode`.
    pub mode: CheckpointMode,
    /// `checkpoint.randomize_tensor`.
    pub randomize_tensor: bool,
}

/// `checkpoint.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointMode {
    /// All ranks of the parallelism are there.
    Default,
    /// Only some of them are.
    Subset,
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
    /// `output.log_level` (ours, `DLIO_LOG_LEVEL`): the least important lines that are logged.
    pub log_level: LogLevel,
}

/// `output.log_level`: which lines DLIO's log has. Lines of the level OUTPUT are always there but
/// under `error` and `critical`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// A line for each step and rank.
    Info,
    /// Warnings and what follows.
    Warning,
    /// Errors alone.
    Error,
    /// Nothing but what ends the run.
    Critical,
}

/// `profiling.*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profiling {
    /// `profiling.profiler`.
    pub profiler: Profiler,
    /// `profiling.iostat_devices`; empty is all.
    pub iostat_devices: Vec<String>,
}

/// `profiling.profiler`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profiler {
    /// None.
    None,
    /// `iostat` of sysstat, beside the run.
    Iostat,
    /// Darshan, which the user preloads.
    Darshan,
}

/// `storage.*`: where the data set is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Storage {
    /// Which store, as far as the workload names one.
    pub target: Target,
    /// `storage.storage_options.prefetch_window`: files a reader may have in flight or ready; for
    /// the chunked pipeline the files of a chunk.
    pub prefetch_window: u32,
    /// `storage.storage_options.stagger_workers`: with the chunked pipeline reader k of a rank starts
    /// k mean computation times later.
    pub stagger_workers: bool,
    /// `storage.storage_options.s3_max_attempts`: attempts of a request, at least 1; the client's own
    /// number when absent.
    pub max_attempts: Option<u32>,
    /// `storage.storage_options.simulate_io`: files come from nowhere at once, none is looked for.
    pub simulate_io: bool,
    /// `storage.storage_options.use_full_object_uri`: keys are the whole URI, `s3://bucket/` included,
    /// as DLIO once wrote them.
    pub full_object_uri: bool,
    /// `storage.storage_options.columns`: the Parquet columns to read, at least one and none twice; all
    /// when absent.
    pub columns: Option<Vec<String>>,
    /// `storage.storage_options.range_size` (ours): whether one large object is read in ranges.
    pub range_size: RangeSize,
    /// `storage.storage_options.get_engine` (ours): whose code reads objects of an S3 store.
    #[serde(default)]
    pub get_engine: GetEngine,
    /// `storage.post_generation_settle_seconds`: how long an object store gets between generating and
    /// training.
    pub post_generation_settle_seconds: f64,
    /// `storage.drop_caches` (ours).
    pub drop_caches: DropCaches,
    /// `storage.drop_caches_timeout` (ours, `DLIO_DROP_CACHES_TIMEOUT`) in seconds.
    pub drop_caches_timeout: u32,
}

/// `storage.storage_options.range_size`: the ranges by which one large object is read in parallel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RangeSize {
    /// Ranges where they are faster, of a size that suits.
    Auto,
    /// Never ranges: one GET for an object.
    Never,
    /// Ranges of this many bytes, 64 KiB to 5 GiB.
    Bytes(u64),
}

impl fmt::Display for RangeSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Never => f.write_str("0"),
            Self::Bytes(bytes) => bytes.fmt(f),
        }
    }
}

/// `storage.storage_options.get_engine`: whose S3 client makes the GETs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GetEngine {
    /// Ours.
    #[default]
    Feedrate,
    /// That of the library `object_store`, to hold ours against.
    ObjectStore,
}

/// `storage.drop_caches`: whether the kernel drops its page cache before each epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DropCaches {
    /// Where files of a file system are read.
    Auto,
    /// Never.
    Never,
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
