//! Where a test works: a directory with a workload in it, and a home of its own.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::call::{Call, DLIO, DLIO_POSTPROCESSOR, DLIO_QUERY, FEEDRATE};

/// The base workload of the cases: 16 npz files of 256 x 256 bytes, batch 4.
pub(crate) const B0: &str = "\
model: {name: t0, type: cnn}
framework: pytorch
workflow: {generate_data: False, train: True, checkpoint: False}
dataset:
  data_folder: data/t0
  format: npz
  num_files_train: 16
  num_samples_per_file: 1
  record_length_bytes: 65536
reader: {data_loader: pytorch, batch_size: 4, read_threads: 2, file_shuffle: seed, sample_shuffle: seed}
train: {epochs: 1, computation_time: 0.01}
metric: {au: 0.90}
storage: {storage_type: s3, storage_root: bench}
";

/// A working directory, with [`B0`] in `t0.yaml`, and a home directory.
pub(crate) struct Place {
    root: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self { root: tempfile::tempdir().unwrap() };
        for folder in [place.directory(), place.home()] {
            fs::create_dir(folder).unwrap();
        }
        place.write("t0.yaml", B0);
        place
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Writes a file into the working directory, or wherever `..` leads from it.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.directory().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// `feedrate` with the words of `line`, called here.
    pub(crate) fn feedrate(&self, line: &str) -> Call {
        self.call(FEEDRATE).args(line)
    }

    /// `dlio_benchmark` with the words of `line`, called here.
    pub(crate) fn dlio(&self, line: &str) -> Call {
        self.call(DLIO).args(line)
    }

    /// `dlio_benchmark_query` with the words of `line`, called here.
    pub(crate) fn dlio_query(&self, line: &str) -> Call {
        self.call(DLIO_QUERY).args(line)
    }

    /// `dlio_postprocessor` with the words of `line`, called here.
    pub(crate) fn dlio_postprocessor(&self, line: &str) -> Call {
        self.call(DLIO_POSTPROCESSOR).args(line)
    }

    /// A shell that runs `script` here and finds `feedrate` in its `PATH`.
    pub(crate) fn shell(&self, script: &str) -> Call {
        let folder = Path::new(FEEDRATE).parent().unwrap().display();
        let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
        self.call("sh").env("PATH", path).arg("-c").arg(script)
    }

    /// Any program, called here.
    pub(crate) fn call(&self, program: &str) -> Call {
        Call::new(program).directory(self.directory()).env("HOME", self.home())
    }

    /// The newest run of the model `t0`.
    #[track_caller]
    pub(crate) fn run(&self) -> RunFolder {
        RunFolder(newest(&self.directory().join("results/training/t0/run")))
    }

    /// The newest sweep of `model`.
    #[track_caller]
    pub(crate) fn sweep(&self, model: &str) -> PathBuf {
        newest(&self.directory().join(format!("results/{model}_np_sweep")))
    }
}

/// Stamps sort by time: `DATE_TIME`, and within a second `DATE_TIME_2` and so on.
#[track_caller]
fn newest(folder: &Path) -> PathBuf {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let stamp = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.split('_').map(|number| number.parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    entries.map(|entry| entry.unwrap().path()).max_by_key(stamp).unwrap()
}

/// All files below `folder`, in order.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { &mut folders } else { &mut files }.push(path);
        }
    }
    files.sort();
    files
}

/// Bytes of the files of samples below `folder`: all but indexes.
pub(crate) fn bytes_of_samples(folder: &Path) -> u64 {
    let is_index = |path: &PathBuf| path.extension().is_some_and(|suffix| suffix == "idx");
    let files = files_below(folder).into_iter().filter(|path| !is_index(path));
    files.map(|path| fs::metadata(path).unwrap().len()).sum()
}

/// The folder of one run's results.
pub(crate) struct RunFolder(pub(crate) PathBuf);

impl RunFolder {
    #[track_caller]
    pub(crate) fn json(&self, name: &str) -> Value {
        let path = self.0.join(name);
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn summary(&self) -> Value {
        self.json("summary.json")
    }

    /// What DLIO has no key for.
    pub(crate) fn figures(&self) -> Value {
        self.summary()["feedrate"].take()
    }

    /// A list of numbers a step, such as `compute`, of a rank's first block in `epoch`.
    pub(crate) fn steps(&self, rank: u32, epoch: u32, what: &str) -> Vec<f64> {
        let output = self.json(&format!("{rank}_output.json"));
        super::numbers(&output[epoch.to_string()][what]["block1"])
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.0.join("dlio.log")).unwrap()
    }
}
