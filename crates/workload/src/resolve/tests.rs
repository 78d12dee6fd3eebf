//! What users write, and what becomes of it.

use super::*;
use crate::workload::{
    ColumnType, DataLoader, Decode, Format, Framework, GetEngine, RangeSize, Shuffle, Target, Time,
    Window,
};

/// The base workload of the cases.
const B0: &str = "\
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
";

/// A request under construction.
#[derive(Default)]
struct Given {
    yaml: String,
    request: Request,
}

fn b0() -> Given {
    yaml(B0)
}

fn yaml(yaml: &str) -> Given {
    Given { yaml: yaml.to_owned(), ..Given::default() }
}

impl Given {
    fn set(mut self, option: &str) -> Self {
        self.request.overrides.push(Override::set(option));
        self
    }

    fn flag(mut self, typed: &str, key: &str, value: impl Into<Value>) -> Self {
        self.request.overrides.push(Override::flag(typed, key, value));
        self
    }

    fn environment(mut self, name: &str, value: &str) -> Self {
        self.request.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    fn dotenv(mut self, name: &str, value: &str) -> Self {
        self.request.dotenv.insert(name.to_owned(), value.to_owned());
        self
    }

    fn shared(mut self, endpoint_url: Option<&str>, region: Option<&str>) -> Self {
        let shared = |value: &str| SharedValue {
            value: value.to_owned(),
            source: "~/.aws/config, profile default".to_owned(),
        };
        self.request.store_defaults =
            StoreDefaults { endpoint_url: endpoint_url.map(shared), region: region.map(shared) };
        self
    }

    fn aws(mut self) -> Self {
        self.request.aws = true;
        self
    }

    fn resolve(&self) -> Result<Resolved, ResolveError> {
        let layers = layers_of_text(&Arc::from("bench.yaml"), &self.yaml, &self.request)?;
        finish(layers, &self.request)
    }

    #[track_caller]
    fn accepted(&self) -> Resolved {
        self.resolve().unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    fn refused(&self) -> String {
        match self.resolve() {
            Ok(resolved) => panic!("accepted: {:?}", resolved.workload),
            Err(error) => error.to_string(),
        }
    }

    #[track_caller]
    fn refused_with(&self, parts: &[&str]) {
        let message = self.refused();
        for part in parts {
            assert!(message.contains(part), "no {part:?} in: {message}");
        }
    }
}

fn warnings(resolved: &Resolved) -> Vec<String> {
    resolved.warnings.iter().map(Remark::to_string).collect()
}

fn value_of(resolved: &Resolved, key: &str) -> String {
    let value = resolved.values.iter().find(|value| value.key == key).expect("a known key");
    format!("{} ({})", value.value, value.origin)
}

fn s3(target: &Target) -> (&str, &str) {
    match target {
        Target::S3 { bucket, prefix, .. } => (bucket, prefix),
        Target::Local { root } => panic!("local: {}", root.display()),
    }
}

fn local(target: &Target) -> &str {
    match target {
        Target::Local { root } => root.to_str().expect("UTF-8"),
        Target::S3 { bucket, prefix, .. } => panic!("S3: {bucket}/{prefix}"),
    }
}

#[test]
fn what_is_odd_is_told_beside_what_is_wrong() {
    let text =
        B0.replace("num_files_train", "num_file_train").replace("batch_size: 4", "batch_size: x");
    let said = yaml(&text).resolve().unwrap_err().to_string();
    assert!(said.contains("1 problem") && said.contains("reader.batch_size"), "{said}");
    assert!(said.contains("warning: ") && said.contains("num_files_train"), "{said}");
}

#[test]
fn the_presets_hold_the_published_numbers_and_give_no_warning() {
    let (current, draft) = ((1_170_301, 322_957.0, 0.0), (1_743_042, 153_600.0, 51_200.0));
    let presets = [
        ("retinanet_b200", current, 24, 8, 0.04755),
        ("retinanet_mi355", current, 32, 8, 0.0634),
        ("retinanet_h100_draft", draft, 16, 5, 0.18),
        ("retinanet_a100_draft", draft, 16, 5, 0.21),
    ];
    for (name, (files, bytes, stdev), batch_size, epochs, seconds) in presets {
        let request = Request { workload: name.into(), ..Request::default() };
        let resolved = resolve(&request).unwrap();
        assert_eq!(warnings(&resolved), [""; 0]);
        assert_eq!(resolved.store_named, None);
        let Workload { framework, model, dataset, reader, train, metric, storage, .. } =
            resolved.workload;
        assert_eq!(framework, Framework::Pytorch);
        assert_eq!((model.name.as_str(), model.kind.as_deref()), ("retinanet", Some("cnn")));
        assert_eq!(
            (dataset.data_folder.as_str(), dataset.format),
            ("data/retinanet", Format::Jpeg)
        );
        assert_eq!((dataset.num_files_train, dataset.num_samples_per_file), (files, 1));
        let sizes = [dataset.record_length_bytes, dataset.record_length_bytes_stdev];
        assert_eq!(sizes.map(f64::to_bits), [bytes, stdev].map(f64::to_bits));
        assert_eq!(
            (reader.batch_size, reader.read_threads, reader.prefetch_size),
            (batch_size, 8, 2)
        );
        assert_eq!((reader.file_shuffle, reader.sample_shuffle), (Shuffle::Seed, Shuffle::Seed));
        assert_eq!(train.epochs, epochs);
        assert_eq!(train.computation_time, Time::Constant { mean: seconds });
        assert_eq!(metric.au.to_bits(), 0.85_f64.to_bits());
        assert_eq!(local(&storage.target), "./data/retinanet");
    }
}

#[test]
fn a_workload_survives_the_way_to_a_child_process() {
    let resolved = b0()
        .set("train.computation_time={type: gamma, shape: 2, scale: 0.01}")
        .set("train.seed=18446744073709551615")
        .set("storage.storage_root=s3://bench")
        .environment("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
        .accepted();
    let json = serde_json::to_string(&resolved.workload).unwrap();
    assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), resolved.workload);
}

#[test]
fn a_file_that_gives_only_the_format_has_dlios_defaults() {
    let resolved = yaml("dataset: {format: npz}").accepted();
    let workload = &resolved.workload;
    assert_eq!(workload.framework, Framework::Tensorflow);
    assert_eq!(workload.reader.data_loader, DataLoader::Tensorflow);
    assert_eq!((workload.model.name.as_str(), &workload.model.kind), ("default", &None));
    assert!(workload.workflow.train && !workload.workflow.generate_data);
    assert_eq!(workload.dataset.num_files_train, 8);
    assert_eq!(workload.dataset.record_length_bytes.to_bits(), 65_536_f64.to_bits());
    assert_eq!(workload.reader.file_shuffle, Shuffle::Off);
    assert_eq!(workload.train.computation_time, Time::Constant { mean: 0.0 });
    assert_eq!(local(&workload.storage.target), "./data");
    assert_eq!(resolved.store_named, None);
}

#[test]
fn every_key_that_is_read_is_listed_once_in_the_order_of_the_specification() {
    let resolved = b0().accepted();
    let keys: Vec<_> = resolved.values.iter().map(|value| value.key).collect();
    assert_eq!(keys, schema::read_keys().collect::<Vec<_>>());
    assert_eq!(value_of(&resolved, "reader.batch_size"), "4 (bench.yaml:10:44)");
    assert_eq!(value_of(&resolved, "reader.prefetch_size"), "2 (default)");
    assert_eq!(value_of(&resolved, "train.total_training_steps"), "null (default)");
    assert_eq!(value_of(&resolved, "reader.file_shuffle"), "seed (bench.yaml:10:78)");
}

#[test]
fn the_workload_may_stand_below_its_own_node() {
    let nested = format!("  {}", B0.trim_end().replace('\n', "\n  ")) + "\n";
    let resolved = yaml(&format!("workload:\n{nested}")).accepted();
    assert_eq!(resolved.workload, b0().accepted().workload);
    yaml(&format!("workload:\n{nested}hydra: {{}}\n")).refused_with(&["beside 'workload:'"]);
    yaml("workload: 3").refused_with(&["bench.yaml:1:11", "mapping"]);
    yaml("").refused_with(&["bench.yaml:1:1", "mapping"]);
    yaml("- a\n").refused_with(&["mapping"]);
}

#[test]
fn every_problem_is_reported_at_once_with_its_place() {
    let message = b0()
        .set("reader.batch_size=0")
        .set("train.epochs")
        .set("dataset.num_files_train=1.5")
        .flag("--np-window 0", "storage.storage_options.prefetch_window", 0_u64)
        .environment("DLIO_STORAGE_TYPE", "s4")
        .set("metric.au=90")
        .set("reader.reader_classname=my.Reader")
        .refused();
    let expected = "\
7 problems in the configuration:
  --set train.epochs: override: no '=' in it: write KEY=VALUE, such as train.epochs=3
  --set reader.reader_classname=my.Reader: reader.reader_classname = \"my.Reader\": not supported: it names a Python class, which cannot be loaded here
  --set dataset.num_files_train=1.5: dataset.num_files_train = 1.5: accepts a whole number from 1 to 1000000000000
  --set reader.batch_size=0: reader.batch_size = 0: accepts a whole number from 1 to 4294967295
  --set metric.au=90: metric.au = 90: accepts a number from 0 to 1
  environment DLIO_STORAGE_TYPE: storage.storage_type = \"s4\": accepts local_fs, parallel_fs, s3
  --np-window 0: storage.storage_options.prefetch_window = 0: accepts a whole number from 1 to 1000000";
    assert_eq!(message, expected);
    let broken = B0.replace("epochs: 1", "epochs: one").replace("au: 0.90", "au: yes");
    yaml(&broken).refused_with(&[
        "2 problems",
        "bench.yaml:11:17: train.epochs = \"one\": accepts a whole number",
        "bench.yaml:12:14: metric.au = yes: accepts a number from 0 to 1",
    ]);
}

#[test]
fn a_file_that_is_no_yaml_is_refused_with_the_place() {
    yaml("model: {name: t0\ntrain: [").refused_with(&["bench.yaml:", "not YAML"]);
}

#[test]
fn the_command_line_beats_the_file_the_environment_dotenv_and_the_shared_configuration() {
    const REGION: &str = "storage.storage_options.region";
    let endpoint = "storage: {storage_root: s3://b, storage_options: {endpoint_url: http://file:1";
    let region = |given: Given| value_of(&given.accepted(), REGION);
    let all = |file: &str| {
        yaml(&format!("{B0}{endpoint}{file}}}}}\n"))
            .environment("AWS_REGION", "from-environment")
            .dotenv("AWS_REGION", "from-dotenv")
            .shared(None, Some("from-shared"))
    };
    assert_eq!(
        region(all(", region: file").set(&format!("{REGION}=set"))),
        format!("set (--set {REGION}=set)")
    );
    assert_eq!(region(all(", region: file")), "file (bench.yaml:13:88)");
    assert_eq!(region(all(", region: null")), "from-environment (environment AWS_REGION)");
    let mut given = all("");
    given.request.environment.insert("AWS_REGION".to_owned(), String::new());
    assert_eq!(region(given), "from-dotenv (.env AWS_REGION)");
    let mut given = all("");
    given.request.environment.clear();
    given.request.dotenv.clear();
    assert_eq!(region(given), "from-shared (~/.aws/config, profile default)");
    assert_eq!(region(yaml(&format!("{B0}{endpoint}}}}}"))), "null (default)");
}

#[test]
fn variables_stand_in_for_their_keys() {
    let resolved = b0()
        .environment("AWS_ENDPOINT_URL", "http://general:1")
        .environment("AWS_ENDPOINT_URL_S3", "http://special:1/")
        .environment("AWS_DEFAULT_REGION", "eu-1")
        .environment("DLIO_OUTPUT_FOLDER", "out")
        .environment("DLIO_BUCKET", "bench")
        .accepted();
    assert_eq!(
        resolved.workload.storage.target,
        Target::S3 {
            bucket: "bench".to_owned(),
            prefix: "data/t0".to_owned(),
            endpoint_urls: vec!["http://special:1".to_owned()],
            region: Some("eu-1".to_owned()),
        }
    );
    assert_eq!(resolved.workload.output.folder, Some(PathBuf::from("out")));
}

#[test]
fn later_overrides_win_and_mappings_are_joined() {
    let resolved = b0()
        .set("reader.batch_size=8")
        .set("++workload.reader.batch_size=2")
        .set("workload.reader={read_threads: 0}")
        .accepted();
    assert_eq!(resolved.workload.reader.batch_size, 2);
    assert_eq!(resolved.workload.reader.read_threads, 0);
    assert_eq!(
        resolved.overrides,
        [
            "++workload.reader.batch_size=8",
            "++workload.reader.batch_size=2",
            "++workload.reader={read_threads: 0}"
        ]
    );
}

#[test]
fn null_means_not_given() {
    let resolved = b0().set("reader.batch_size=null").set("storage=null").accepted();
    assert_eq!(resolved.workload.reader.batch_size, 1);
}

#[test]
fn a_plain_model_is_its_name() {
    let resolved = yaml(&B0.replace("model: {name: t0, type: cnn}", "model: unet3d")).accepted();
    assert_eq!(resolved.workload.model.name, "unet3d");
    assert_eq!(b0().set("model=other").accepted().workload.model.name, "other");
}

#[test]
fn old_spellings_mean_the_present_keys() {
    let old = B0.replace("record_length_bytes: 65536", "record_length: 2164832");
    let old = old.replace("reader:", "data_reader:");
    let resolved = yaml(&old).accepted();
    assert_eq!(warnings(&resolved), [""; 0]);
    assert_eq!(value_of(&resolved, "dataset.record_length_bytes"), "2164832 (bench.yaml:9:18)");
    assert_eq!(resolved.workload.reader.batch_size, 4);
    // What is kept of the configuration is as it was written.
    assert!(resolved.composed.get("data_reader.batch_size").is_some());
    assert!(resolved.composed.get("reader").is_none());

    // In one layer the present spelling counts, whichever comes first.
    for order in [["_bytes=1000", "=2000"], ["=2000", "_bytes=1000"]] {
        let given =
            order.iter().fold(b0(), |given, end| given.set(&format!("dataset.record_length{end}")));
        let resolved = given.accepted();
        assert_eq!(resolved.workload.dataset.record_length_bytes.to_bits(), 1000_f64.to_bits());
        assert!(warnings(&resolved)[0].contains("is given too"), "{:?}", warnings(&resolved));
    }

    // The command line wins over the file in whatever spelling.
    let resolved = b0()
        .set("dataset.record_length=1000")
        .set("data_reader.batch_size=2")
        .set("dataset.record_length_stdev=5")
        .accepted();
    assert_eq!(value_of(&resolved, "dataset.record_length_bytes").split(' ').next(), Some("1000"));
    assert_eq!(resolved.workload.reader.batch_size, 2);
    assert!(resolved.workload.dataset.record_length_bytes_stdev > 4.0);
}

#[test]
fn of_two_spellings_the_present_one_wins_with_a_warning_if_they_differ() {
    let both = B0.replace("65536", "65536\n  record_length: 1")
        + "data_reader: {batch_size: 9, prefetch_size: 7, read_threads: 2}\n";
    let resolved = yaml(&both).accepted();
    assert_eq!(resolved.workload.reader.batch_size, 4);
    assert_eq!(resolved.workload.reader.prefetch_size, 7);
    assert_eq!(
        warnings(&resolved),
        [
            "bench.yaml:14:27: data_reader.batch_size = 9: ignored, because reader.batch_size is \
             given too (bench.yaml:11:44)",
            "bench.yaml:10:18: dataset.record_length = 1: ignored, because \
             dataset.record_length_bytes is given too (bench.yaml:9:24)",
        ]
    );
}

#[test]
fn shuffles_are_off_as_a_truth_value_and_as_a_word() {
    for (written, shuffle) in [
        ("off", Shuffle::Off),
        ("'off'", Shuffle::Off),
        ("false", Shuffle::Off),
        ("OFF", Shuffle::Off),
        ("seed", Shuffle::Seed),
        ("on", Shuffle::Seed),
        ("Random", Shuffle::Random),
    ] {
        let yaml = yaml(&B0.replace("file_shuffle: seed", &format!("file_shuffle: {written}")));
        assert_eq!(yaml.accepted().workload.reader.file_shuffle, shuffle, "{written}");
    }
    // On the command line `off` is text.
    let resolved = b0().set("reader.sample_shuffle=off").accepted();
    assert_eq!(resolved.workload.reader.sample_shuffle, Shuffle::Off);
    b0().set("reader.file_shuffle=sed").refused_with(&["accepts off, seed, random", "seed?"]);
}

fn time(written: &str, stdev: Option<&str>) -> Given {
    let stdev = stdev.map(|s| format!(", computation_time_stdev: {s}")).unwrap_or_default();
    yaml(&B0.replace("computation_time: 0.01", &format!("computation_time: {written}{stdev}")))
}

#[test]
fn computation_time_is_a_number_or_a_distribution() {
    for (written, stdev, expected) in [
        ("0.05", None, Time::Constant { mean: 0.05 }),
        ("0.05", Some("0.01"), Time::Normal { mean: 0.05, stdev: 0.01 }),
        ("0.05", Some("0"), Time::Constant { mean: 0.05 }),
        ("{mean: 0.05}", None, Time::Constant { mean: 0.05 }),
        ("{mean: 0.05}", Some("0.01"), Time::Normal { mean: 0.05, stdev: 0.01 }),
        ("{mean: 0.05, stdev: 0.01}", None, Time::Normal { mean: 0.05, stdev: 0.01 }),
        ("{type: uniform, min: 0.02, max: 0.04}", None, Time::Uniform { min: 0.02, max: 0.04 }),
        ("{type: normal, mean: 0.01, stdev: 0.05}", None, Time::Normal { mean: 0.01, stdev: 0.05 }),
        ("{type: normal, mean: 0.01}", Some("0.05"), Time::Normal { mean: 0.01, stdev: 0.05 }),
        ("{type: exponential, scale: 0.02}", None, Time::Exponential { scale: 0.02 }),
        ("{type: gamma, shape: 2, scale: 0.01}", None, Time::Gamma { shape: 2.0, scale: 0.01 }),
        ("{type: poisson, lam: 0}", None, Time::Poisson { lam: 0.0 }),
        ("null", None, Time::Constant { mean: 0.0 }),
        ("1e-2", None, Time::Constant { mean: 0.01 }),
    ] {
        let resolved = time(written, stdev).accepted();
        assert_eq!(resolved.workload.train.computation_time, expected, "{written}");
    }
}

#[test]
fn a_wrong_computation_time_is_a_problem_that_names_the_parameter() {
    for (written, stdev, parts) in [
        (
            "{type: nromal, mean: 0.01, stdev: 0}",
            None,
            &["train.computation_time.type", "\"nromal\"", "did you mean normal?"][..],
        ),
        (
            "{type: normal, mean: 0.05}",
            None,
            &["bench.yaml:11:38: train.computation_time.stdev", "takes mean and stdev"],
        ),
        ("{stdev: 0.05}", None, &["train.computation_time.mean", "not given"]),
        ("{}", None, &["train.computation_time.mean", "not given"]),
        ("{type: uniform, min: 3, max: 2}", None, &["computation_time.max = 2", "from min on"]),
        ("{type: gamma, shape: 0, scale: 1}", None, &["computation_time.shape = 0", "above 0"]),
        ("{type: gamma}", None, &["2 problems", "shape", "scale"]),
        ("{type: poisson, lam: -1}", None, &["computation_time.lam = -1", "from 0"]),
        ("{type: exponential, scale: .inf}", None, &["computation_time.scale = .inf"]),
        ("{type: uniform, min: 0, max: 1}", Some("0.5"), &["uniform takes no stdev"]),
        ("-1", None, &["train.computation_time = -1", "from 0", "seconds"]),
        (".nan", None, &["train.computation_time = .nan"]),
        ("fast", None, &["train.computation_time = \"fast\""]),
        ("[1]", None, &["train.computation_time = [1]"]),
        ("null", Some("0.1"), &["computation_time_stdev", "not given"]),
        ("0.1", Some("-1"), &["computation_time_stdev = -1"]),
    ] {
        time(written, stdev).refused_with(parts);
    }
    let resolved = time("{type: uniform, min: 0, max: 1, maen: 2}", None).accepted();
    assert!(warnings(&resolved)[0].contains("train.computation_time.maen"));
    assert!(warnings(&resolved)[0].contains("did you mean mean?"));
}

#[test]
fn ranges_and_types_are_checked() {
    for (option, parts) in [
        ("dataset.num_files_train=0", &["accepts a whole number from 1"][..]),
        ("dataset.num_files_train=-1", &["accepts a whole number from 1"]),
        ("dataset.num_files_train='16'", &["= \"16\"", "accepts a whole number"]),
        ("dataset.num_files_train=1000000000000000000000", &["accepts a whole number"]),
        ("dataset.record_length_bytes=0.5", &["accepts a number from 1 to 1099511627776"]),
        ("dataset.record_length_bytes=nan", &["accepts a number from 1"]),
        ("dataset.record_length_bytes=inf", &["accepts a number from 1"]),
        ("dataset.record_length_bytes_stdev=-1", &["accepts a number from 0"]),
        ("dataset.seed=-1", &["from 0 to 18446744073709551615"]),
        ("train.seed=18446744073709551616", &["from 0 to 18446744073709551615"]),
        ("train.epochs=0", &["from 1"]),
        ("train.total_training_steps=-2", &["from 1", "or -1 for all"]),
        ("train.seed_change_epoch=1", &["accepts true or false"]),
        ("workflow.train=yes", &["accepts true or false"]),
        ("reader.read_threads=-1", &["from 0 to 1024"]),
        ("output.log_file=a/b", &["accepts a file name"]),
        ("output.log_file=", &["accepts a file name"]),
        ("output.log_file=summary.json", &["no result's"]),
        ("model.name=..", &["accepts a file name"]),
        ("dataset.file_prefix='a\nb'", &["control characters"]),
        ("dataset.file_prefix=true", &["accepts text: put it in quotes"]),
        ("framework=pytorhc", &["accepts pytorch, tensorflow; did you mean pytorch?"]),
        ("framework=tensorflow", &["reader.data_loader", "framework is tensorflow"]),
        ("reader.data_loader=tensorflow", &["framework is pytorch (bench.yaml:2:12)"]),
        ("reader.data_loader=dali", &["but not supported: accepts pytorch, tensorflow"]),
        ("dataset.format=tfrecord", &["reader.data_loader", "pytorch", "tfrecord"]),
        ("dataset.format=hdf5_opt", &["but not supported: accepts tfrecord, hdf5"]),
        ("dataset.format=jpg", &["accepts tfrecord", "did you mean jpeg?"]),
        ("storage.storage_type=direct_fs", &["but not supported: accepts local_fs"]),
        ("storage.storage_type=aistore", &["but not supported: accepts local_fs"]),
        ("dataset.record_dims=4.5", &["accepts a list"]),
        ("dataset.record_dims=[0]", &["accepts a whole number from 1"]),
        ("dataset.parquet.columns=[{dtype: float128}]", &["float128", "not known"]),
        ("dataset.parquet.columns=[1]", &["no column"]),
        ("dataset.parquet.columns=[{name: ''}]", &["empty name"]),
        ("dataset.parquet.columns=[{name: a}, {name: b}, {name: a}]", &["two columns", "\"a\""]),
        ("dataset.parquet.columns=[{}, {}]", &["two columns", "\"data\""]),
        (
            "dataset.parquet.read_mode=file",
            &["dataset.parquet.read_mode", "row group by row group"],
        ),
        ("dataset.compressibility=0.9", &["accepts a number from 1 to 1000"]),
        ("dataset.compressibility=1001", &["accepts a number from 1 to 1000"]),
        ("dataset.dedup_ratio=0", &["accepts a number from 1 to 1000000"]),
        ("dataset.exact_size=1", &["accepts true or false"]),
        ("reader.decode=half", &["accepts none, full"]),
        ("reader.window=64", &["accepts auto, fixed"]),
        ("storage.storage_options.range_size=65535", &["from 65536 to 5368709120", "auto"]),
        ("storage.storage_options.range_size=5368709121", &["from 65536 to 5368709120"]),
        ("storage.storage_options.range_size=-1", &["0 for no ranges"]),
        ("storage.storage_options.range_size=never", &["0 for no ranges", "auto"]),
        ("storage.storage_options.get_engine=reqwest", &["accepts feedrate, object_store"]),
        ("profiling.iostat_devices=[-x]", &["no name of a device"]),
        ("profiling.profiler=tensorboard", &["but not supported: accepts none, iostat"]),
        ("compat=fork", &["accepts none, mlcommons, upstream"]),
        ("model.parallelism.zero_stage=4", &["from 0 to 3"]),
        ("model.model_datatype=fp8", &["accepts fp16"]),
        ("dataset=3", &["dataset = 3", "accepts a mapping"]),
        ("reader.batch_size.x=1", &["reader.batch_size", "accepts a whole number"]),
    ] {
        b0().set(option).refused_with(parts);
    }
    b0().set("model.name=3").accepted();
    yaml(&B0.replace("name: t0", "name: 010")).refused_with(&["put it in quotes"]);
    for (option, steps) in [("-1", None), ("0", None), ("3", Some(3))] {
        let given = b0().set(&format!("train.total_training_steps={option}"));
        assert_eq!(given.accepted().workload.train.total_training_steps, steps);
    }
}

#[test]
fn more_samples_than_a_jpeg_holds_and_sets_beyond_counting_are_refused() {
    b0().set("dataset.format=jpeg").set("dataset.num_samples_per_file=4").refused_with(&[
        "dataset.num_samples_per_file",
        "is 4",
        "holds 1 sample",
    ]);
    b0().set("dataset.num_files_train=1000000000000")
        .set("dataset.num_samples_per_file=1000000000000")
        .refused_with(&["dataset.num_files_train", "8 EiB"]);
    b0().set("dataset.num_files_train=1000000000000")
        .set("dataset.record_length_bytes=1e12")
        .refused_with(&["8 EiB"]);
}

#[test]
fn what_cannot_be_done_here_is_refused_unless_it_is_not_asked_for() {
    for (option, part) in [
        ("reader.reader_classname=my.Reader", "a Python class"),
        ("reader.data_loader_classname=my.Loader", "a Python class"),
        ("checkpoint.checkpoint_mechanism_classname=my.Mechanism", "a Python class"),
        ("storage.storage_options.s3_profile=lab", "AWS_PROFILE"),
        ("storage.storage_options.uri_scheme=az", "storage.storage_type"),
        ("reader.odirect=True", "not supported"),
    ] {
        b0().set(option).refused_with(&[option.split('=').next().unwrap(), part]);
    }
    for option in [
        "reader.reader_classname=null",
        "storage.storage_options.uri_scheme=S3",
        "reader.odirect=false",
        "reader.read_type=on_demand",
        "reader.read_type=memory",
        "dataset.compression=none",
        "dataset.num_subfolders_train=1",
    ] {
        assert_eq!(warnings(&b0().set(option).accepted()), [""; 0], "{option}");
    }
}

#[test]
fn keys_that_make_no_difference_here_are_accepted_with_a_note_that_says_why() {
    for (option, part) in [
        ("reader.pin_memory=True", "threads"),
        ("reader.multiprocessing_context=spawn", "threads"),
        ("reader.dont_use_mmap=True", "threads"),
        ("reader.shuffle_size=4", "shuffle keys"),
        ("dataset.record_length_resize=150528", "in memory"),
        ("dataset.data_gen_method=dgen", "dataset.seed"),
        ("storage.storage_library=s3dlio", "storage client"),
        ("storage.storage_options.s3_force_path_style=true", "path"),
        ("workflow.query=reader.batch_size", "dlio_benchmark_query"),
        ("checkpoint.type=all_ranks", "no effect in DLIO"),
    ] {
        let resolved = b0().set(option).accepted();
        assert_eq!(warnings(&resolved), [""; 0], "{option}");
        let notes: Vec<_> = resolved.notes.iter().map(Remark::to_string).collect();
        assert_eq!(notes.len(), 1, "{option}: {notes:?}");
        assert!(notes[0].contains("without effect") && notes[0].contains(part), "{notes:?}");
    }
}

#[test]
fn the_rules_between_keys_are_kept_before_anything_is_read() {
    let tfrecord = |framework: &str| {
        let options = format!("{{framework: {framework}, dataset: {{format: tfrecord}}}}");
        yaml(&options)
    };
    tfrecord("tensorflow").accepted();
    tfrecord("pytorch").refused_with(&["tfrecord", "pytorch"]);
    tfrecord("pytorch").set("workflow.train=false").set("workflow.generate_data=true").accepted();
    for (options, parts) in [
        (
            &["dataset.record_dims=[4,8]", "dataset.record_length_bytes_stdev=3"][..],
            &["dataset.record_dims", "dataset.record_length_bytes_stdev"][..],
        ),
        (
            &["dataset.format=hdf5", "dataset.record_dims=[5,8]", "dataset.num_dset_per_record=2"],
            &["begins with 5", "num_dset_per_record 2"],
        ),
        (&["dataset.format=png", "dataset.record_dims=[1,2,3]"], &["3 dimensions", "png has 2"]),
        (&["dataset.format=csv", "reader.odirect=true"], &["npy and npz files only", "csv"]),
        (&["dataset.compression=gzip"], &["is gzip", "npz file can have none, zip"]),
        (&["dataset.format=jpeg", "dataset.compression=zip"], &["jpeg file can have none"]),
        (&["dataset.num_files_stored=15"], &["dataset.num_files_stored", "fewer than the 16"]),
        (
            &["dataset.num_samples_per_file=4", "reader.read_type=memory"],
            &["reader.read_type", "on_demand"],
        ),
        (&["checkpoint.ksm={}"], &["checkpoint.ksm", "randomize_tensor false"]),
        (
            &["checkpoint.num_checkpoints_write=2", "checkpoint.num_checkpoints_read=3"],
            &["is 3", "the 2 of"],
        ),
        (
            &["model.parallelism.pipeline=2", "model.parallelism.zero_stage=3"],
            &["model.parallelism.pipeline", "zero_stage 3"],
        ),
        (
            &["model.num_layers=2", "model.parallelism.pipeline=4"],
            &["model.num_layers", "is 2", "4 stages"],
        ),
        (
            &["workflow.checkpoint=true", "model.parallelism.data=2"],
            &["model.parallelism.data", "is 2", "checkpoint.mode default"],
        ),
        (
            &["workflow.checkpoint=true", "checkpoint.mode=subset"],
            &["model.parallelism.data", "not given", "subset"],
        ),
        (&["workflow.profiling=true", "profiling.profiler=darshan"], &["LD_PRELOAD"]),
    ] {
        options.iter().fold(b0(), |given, option| given.set(option)).refused_with(parts);
    }
    for (options, place) in [
        (&["reader.odirect=true"][..], "--set reader.odirect=true: reader.odirect: "),
        (
            &["checkpoint.num_checkpoints_read=3", "checkpoint.num_checkpoints_write=2"],
            "--set checkpoint.num_checkpoints_read=3: checkpoint.num_checkpoints_read: ",
        ),
        (
            &["workflow.checkpoint=true", "model.parallelism.data=2"],
            "--set model.parallelism.data=2: model.parallelism.data: ",
        ),
        (
            &["profiling.iostat_devices=[sda, -x]"],
            "--set profiling.iostat_devices=[sda, -x]: profiling.iostat_devices: ",
        ),
    ] {
        options.iter().fold(b0(), |given, option| given.set(option)).refused_with(&[place]);
    }
    let text = B0.replace("reader: {", "reader: {odirect: on, ");
    yaml(&text).refused_with(&["bench.yaml:10:19: reader.odirect: "]);
    b0().set("checkpoint.ksm={}").set("checkpoint.randomize_tensor=false").accepted();
    b0().set("checkpoint.num_checkpoints_read=2")
        .set("checkpoint.num_checkpoints_write=0")
        .accepted();
    b0().set("workflow.profiling=true")
        .set("profiling.profiler=darshan")
        .environment("LD_PRELOAD", "/usr/lib/libdarshan.so")
        .accepted();
}

#[test]
fn an_exact_shape_takes_the_place_of_the_record_length() {
    let resolved = b0()
        .set("dataset.record_dims=[4,8,6]")
        .set("dataset.record_element_type=float32")
        .accepted();
    let dataset = &resolved.workload.dataset;
    assert_eq!(dataset.record_dims, [4, 8, 6]);
    assert_eq!(dataset.record_length_bytes.to_bits(), 768_f64.to_bits());
    let images = b0().set("dataset.format=png").set("dataset.record_element_type=float32");
    let resolved = images.accepted();
    assert_eq!(resolved.workload.dataset.record_element_type, crate::ElementType::Uint8);
    assert!(warnings(&resolved)[0].contains("taken as uint8"), "{:?}", warnings(&resolved));
}

#[test]
fn the_columns_of_a_parquet_file_are_its_record() {
    let resolved = b0()
        .set("dataset.format=parquet")
        .set(
            "dataset.parquet.columns=[{name: a, dtype: float64, size: 3}, {name: b, dtype: INT8}, {}, \
             {name: s, dtype: string, size: 2}, {name: t, dtype: bool, size: 9}]",
        )
        .accepted();
    let bytes = 3.0 * 8.0 + 1.0 + 4.0 + 2.0 * 4.0 + 1.0;
    assert_eq!(resolved.workload.record_bytes().to_bits(), f64::to_bits(bytes));
    let columns = &resolved.workload.dataset.parquet.columns;
    let column = |at: usize| (columns[at].name.as_str(), columns[at].dtype, columns[at].size);
    assert_eq!(column(1), ("b", ColumnType::Int8, 1));
    assert_eq!(column(2), ("data", ColumnType::Float32, 1));
    assert_eq!(column(4), ("t", ColumnType::Bool, 1));

    let long = "dataset.parquet.columns=[{name: a, size: 1000000000000}]";
    b0().set("dataset.format=parquet").set(long).refused_with(&["columns", "longer than 1 TiB"]);
    b0().set("dataset.format=parquet")
        .set("dataset.parquet.columns=[{name: a, size: 200000000000}]")
        .set("dataset.num_files_train=1000000000000")
        .refused_with(&["800000000000 bytes", "8 EiB"]);
}

#[test]
fn the_type_of_a_column_is_saved_by_its_name() {
    let names = [
        "float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16",
        "uint32", "uint64", "list", "string", "binary", "bool",
    ];
    for name in names {
        let columns = format!("dataset.parquet.columns=[{{name: a, dtype: {name}}}]");
        let dataset = b0().set("dataset.format=parquet").set(&columns).accepted().workload.dataset;
        let saved = serde_json::to_value(dataset.parquet.columns[0].dtype).unwrap();
        assert_eq!(saved, serde_json::Value::from(name));
    }
}

#[test]
fn a_parquet_set_is_partitioned_by_a_column_whose_values_can_name_folders() {
    let columns = "dataset.parquet.columns=[{name: day, dtype: int32}, {name: tag, dtype: string, \
                   size: 8}, {name: x, size: 4}, {name: pair, dtype: int8, size: 2}]";
    let by = |column: &str| {
        b0().set("dataset.format=parquet")
            .set(columns)
            .set(&format!("dataset.parquet.partition_by={column}"))
    };
    for column in ["day", "tag"] {
        let parquet = by(column).accepted().workload.dataset.parquet;
        assert_eq!(parquet.partition_by.as_deref(), Some(column));
    }
    let key = "dataset.parquet.partition_by";
    by("dya").refused_with(&[key, "\"dya\"", "none of", "did you mean day?"]);
    by("x").refused_with(&[key, "float32 with size 4", "integer"]);
    by("pair").refused_with(&[key, "int8 with size 2"]);
    b0().set("dataset.format=parquet")
        .set("dataset.parquet.partition_by=day")
        .refused_with(&[key, "no dataset.parquet.columns are given"]);
    by("day")
        .set("dataset.parquet.columns=[{name: day, dtype: int32}]")
        .refused_with(&[key, "the only one"]);
    // What is wrong with the columns is said once.
    let wrong = by("day").set("dataset.parquet.columns=[{dtype: x}]").refused();
    assert!(wrong.starts_with("1 problem "), "{wrong}");
}

#[test]
fn the_columns_to_read_are_columns_of_the_files() {
    let read = |columns: &str| {
        b0().set("dataset.format=parquet")
            .set("dataset.parquet.columns=[{name: day, dtype: int32}, {name: x}, {name: y}]")
            .set(&format!("storage.storage_options.columns={columns}"))
    };
    let columns = |given: Given| given.accepted().workload.storage.columns;
    assert_eq!(columns(read("[y, x]")), Some(vec!["y".to_owned(), "x".to_owned()]));
    assert_eq!(columns(read("x")), Some(vec!["x".to_owned()]));
    assert_eq!(columns(read("[]")), None);
    let key = "storage.storage_options.columns";
    read("[x, dya]").refused_with(&[key, "\"dya\"", "none of", "did you mean day?"]);
    read("[x, y, x]").refused_with(&[key, "\"x\" twice"]);
    read("[x, day]").set("dataset.parquet.partition_by=day").refused_with(&[
        key,
        "\"day\"",
        "in no file",
    ]);
    // Files of others may have any columns.
    let unknown = b0().set("dataset.format=parquet").set("storage.storage_options.columns=[x]");
    assert_eq!(warnings(&unknown.accepted()), [""; 0]);
    let resolved = b0().set("storage.storage_options.columns=[x]").accepted();
    let warnings = warnings(&resolved);
    assert!(warnings[0].contains(key) && warnings[0].contains("no effect"), "{warnings:?}");
}

#[test]
fn a_compression_has_the_level_that_is_given_or_its_usual_one() {
    let given = |format: &str, compression: &str| {
        b0().set(&format!("dataset.format={format}"))
            .set(&format!("dataset.compression={compression}"))
    };
    for (format, compression, usual, least, most) in [
        ("hdf5", "gzip", 4, 0, 9),
        ("csv", "gzip", 6, 0, 9),
        ("parquet", "gzip", 6, 0, 9),
        ("npz", "zip", 6, 0, 9),
        ("csv", "bz2", 9, 1, 9),
        ("csv", "xz", 6, 0, 9),
        ("parquet", "zstd", 3, 1, 22),
    ] {
        let level = |given: Given| given.accepted().workload.dataset.compression_level;
        let at = |level: i32| {
            given(format, compression).set(&format!("dataset.compression_level={level}"))
        };
        assert_eq!(level(given(format, compression)), usual, "{format} {compression}");
        assert_eq!(level(at(least)), least as u32, "{format} {compression}");
        assert_eq!(level(at(most)), most as u32, "{format} {compression}");
        let accepted = format!("from {least} to {most} with dataset.compression {compression}");
        for wrong in [least - 1, most + 1] {
            at(wrong).refused_with(&["dataset.compression_level", &accepted]);
        }
    }
    for (format, compression) in
        [("npz", "none"), ("hdf5", "lzf"), ("parquet", "snappy"), ("parquet", "lz4")]
    {
        let without = given(format, compression).accepted();
        assert_eq!(warnings(&without), [""; 0], "{format} {compression}");
        let with = given(format, compression).set("dataset.compression_level=4").accepted();
        assert_eq!(with.workload.dataset.compression_level, 0, "{format} {compression}");
        let warnings = warnings(&with);
        assert!(warnings[0].contains("no effect") && warnings[0].contains(compression));
    }
}

#[test]
fn an_exact_size_is_the_whole_record_length_and_nothing_else() {
    let exact = || b0().set("dataset.exact_size=true");
    let dataset = exact().set("dataset.record_length_bytes=1000.5").accepted().workload.dataset;
    assert!(dataset.exact_size);
    assert_eq!(dataset.record_length_bytes.to_bits(), 1000.5_f64.to_bits());
    let key = "dataset.exact_size";
    exact().set("dataset.record_dims=[4]").refused_with(&[key, "dataset.record_dims"]);
    exact()
        .set("dataset.record_length_bytes_stdev=1")
        .refused_with(&[key, "dataset.record_length_bytes_stdev"]);
    exact()
        .set("dataset.record_length_bytes=7")
        .set("dataset.record_element_type=float64")
        .refused_with(&[key, "is 7", "8 bytes of one float64"]);
}

#[test]
fn who_says_how_many_gets_are_in_flight_is_a_choice_only_where_a_window_slides() {
    let window = |case: Given| case.accepted().workload.reader.window;
    assert_eq!(window(b0()), Window::Auto);
    assert_eq!(window(b0().set("reader.window=fixed")), Window::Fixed);
    for (no_choice, why) in
        [("reader.pipeline=chunked", "chunk after chunk"), ("reader.read_threads=0", "one file")]
    {
        assert_eq!(window(b0().set(no_choice)), Window::Fixed);
        assert_eq!(window(b0().set(no_choice).set("reader.window=fixed")), Window::Fixed);
        b0().set(no_choice)
            .set("reader.window=auto")
            .refused_with(&["--set reader.window=auto: reader.window: is auto, but ", why]);
    }
}

#[test]
fn only_what_is_read_and_kept_can_be_decoded() {
    let full = || b0().set("reader.decode=full");
    assert_eq!(b0().accepted().workload.reader.decode, Decode::None);
    assert_eq!(full().accepted().workload.reader.decode, Decode::Full);
    for (option, part) in [
        ("reader.payload=discard", "reader.payload is discard"),
        ("reader.data_loader=synthetic", "reader.data_loader is synthetic"),
        ("storage.storage_options.simulate_io=true", "simulate_io is true"),
    ] {
        full().set(option).refused_with(&["--set reader.decode=full: reader.decode: ", part]);
        full().set("reader.decode=none").set(option).accepted();
    }
}

#[test]
fn large_objects_are_read_in_ranges_of_the_given_size_or_never_or_as_it_suits() {
    let range_size = |value: &str| {
        let option = format!("storage.storage_options.range_size={value}");
        b0().set(&option).accepted().workload.storage.range_size
    };
    assert_eq!(b0().accepted().workload.storage.range_size, RangeSize::Auto);
    assert_eq!(range_size("Auto"), RangeSize::Auto);
    assert_eq!(range_size("0"), RangeSize::Never);
    assert_eq!(range_size("65536"), RangeSize::Bytes(65_536));
    assert_eq!(range_size("5368709120"), RangeSize::Bytes(5 << 30));
}

#[test]
fn an_engine_for_gets_can_be_chosen_where_there_are_gets() {
    const OPTION: &str = "storage.storage_options.get_engine";
    let engine = |given: Given| {
        let resolved = given.accepted();
        (resolved.workload.storage.get_engine, value_of(&resolved, OPTION))
    };
    let is = |engine, shown: &str| (engine, shown.to_owned());
    let (default, other) = ("feedrate (default)", "--set storage.storage_options.get_engine");
    assert_eq!(engine(stored(Some("bench"), "x")), is(GetEngine::Feedrate, default));
    let reference = || stored(Some("bench"), "x").set(&format!("{OPTION}=object_store"));
    let shown = format!("object_store ({other}=object_store)");
    assert_eq!(engine(reference()), is(GetEngine::ObjectStore, &shown));
    // Nobody has named a store: a sweep will start one.
    assert_eq!(engine(b0().set(&format!("{OPTION}=object_store"))).0, GetEngine::ObjectStore);

    let local = |engine: &str| {
        b0().flag("--local here", "storage.storage_type", "local_fs")
            .flag("--local here", "storage.storage_root", "here")
            .set(&format!("{OPTION}={engine}"))
    };
    local("feedrate").accepted();
    local("object_store").refused_with(&[
        "--set storage.storage_options.get_engine=object_store: ",
        "is object_store, a client of S3, but the store is local_fs (--local here)",
    ]);
    reference().set("storage.storage_options.use_full_object_uri=true").refused_with(&[
        "use_full_object_uri: is true",
        "object_store",
        "has no name",
    ]);
}

#[test]
fn compat_brings_back_the_defaults_and_numbers_of_the_originals() {
    for compat in ["mlcommons", "upstream"] {
        let given = || b0().set(&format!("compat={compat}"));
        for shuffle in ["off", "false", "random"] {
            let reader =
                given().set(&format!("reader.file_shuffle={shuffle}")).accepted().workload.reader;
            assert_eq!(reader.file_shuffle, Shuffle::Seed, "{compat} {shuffle}");
        }
        let unset =
            yaml("{framework: pytorch, dataset: {format: npz}}").set(&format!("compat={compat}"));
        let workload = unset.accepted().workload;
        assert_eq!(workload.reader.file_shuffle, Shuffle::Off);
        assert_eq!(workload.checkpoint.time_between_checkpoints.to_bits(), 1_f64.to_bits());
        let waits = given().set("checkpoint.time_between_checkpoints=-5").accepted().workload;
        assert_eq!(waits.checkpoint.time_between_checkpoints.to_bits(), 5_f64.to_bits());
    }
    let waits = b0().set("checkpoint.time_between_checkpoints=-5").accepted().workload;
    assert_eq!(waits.checkpoint.time_between_checkpoints.to_bits(), 0_f64.to_bits());
    let by_variable = b0().environment("FEEDRATE_COMPAT", "upstream").accepted();
    assert_eq!(by_variable.workload.compat, crate::Compat::Upstream);
}

#[test]
fn one_reader_is_one_unless_the_fork_or_auto_asks_for_more() {
    let threads = |given: Given, ranks, cores| {
        let mut workload = given.accepted().workload;
        workload.settle_threads(ranks, cores);
        workload.reader.read_threads
    };
    let one = || b0().set("reader.read_threads=1");
    assert_eq!(threads(one(), 1, 16), 1);
    assert_eq!(threads(one().set("compat=upstream"), 1, 16), 1);
    assert_eq!(threads(one().set("compat=mlcommons"), 1, 16), 8);
    assert_eq!(threads(one().set("compat=mlcommons"), 4, 16), 4);
    assert_eq!(threads(one().set("compat=mlcommons"), 32, 16), 1);
    let auto = || b0().set("reader.read_threads=auto");
    assert_eq!(threads(auto(), 2, 16), 8);
    assert_eq!(threads(auto().environment("DLIO_MAX_AUTO_THREADS", "3"), 2, 16), 3);
    assert_eq!(threads(b0().set("reader.read_threads=0").set("compat=mlcommons"), 1, 16), 0);
}

#[test]
fn an_evaluation_is_due_from_its_first_epoch_on_and_every_so_often() {
    let due = |after: u32, between: u32| {
        let evaluation = b0()
            .set(&format!("evaluation.eval_after_epoch={after}"))
            .set(&format!("evaluation.epochs_between_evals={between}"))
            .accepted()
            .workload
            .evaluation;
        (1..=6).filter(|&epoch| evaluation.is_due(epoch)).collect::<Vec<_>>()
    };
    assert_eq!(due(1, 1), [1, 2, 3, 4, 5, 6]);
    assert_eq!(due(2, 2), [2, 4, 6]);
    assert_eq!(due(3, 0), [3, 4, 5, 6]);
    assert_eq!(due(0, 5), [1, 5]);
}

#[test]
fn a_variable_is_a_number_where_one_is_taken_and_text_elsewhere() {
    let resolved = b0()
        .environment("DLIO_DROP_CACHES_TIMEOUT", "60")
        .environment("DLIO_OUTPUT_FOLDER", "20261130")
        .accepted();
    assert_eq!(resolved.workload.storage.drop_caches_timeout, 60);
    assert_eq!(resolved.workload.output.folder, Some("20261130".into()));
    let folder = b0().environment("DLIO_OUTPUT_FOLDER", "007").accepted().workload.output.folder;
    assert_eq!(folder, Some("007".into()));
    for (value, seconds) in [
        ("soon", 30),
        ("", 30),
        ("0", 1),
        ("-5", 1),
        ("1.5", 30),
        (" 7 ", 7),
        ("99999999999999999999", 86_400),
    ] {
        let name = "DLIO_DROP_CACHES_TIMEOUT";
        for given in [b0().environment(name, value), b0().dotenv(name, value)] {
            let resolved = given.accepted();
            assert_eq!(resolved.workload.storage.drop_caches_timeout, seconds, "{value:?}");
            let shown = value_of(&resolved, "storage.drop_caches_timeout");
            assert!(shown.starts_with(&format!("{seconds} (")), "{shown}");
            let warnings = warnings(&resolved);
            assert_eq!(warnings.is_empty(), value.is_empty(), "{value:?}: {warnings:?}");
            let taken = format!("storage.drop_caches_timeout = \"{value}\": taken as {seconds}: ");
            let told = warnings.iter().all(|warning| {
                warning.contains(name) && warning.replace(" = 0:", " = \"0\":").contains(&taken)
            });
            assert!(told, "{warnings:?}");
        }
    }
    for value in ["soon", "0", "86401"] {
        b0().environment("DLIO_DROP_CACHES_TIMEOUT", "7")
            .set(&format!("storage.drop_caches_timeout={value}"))
            .refused_with(&["--set storage.drop_caches_timeout", "from 1 to 86400"]);
    }
    yaml(&format!("{B0}storage: {{drop_caches_timeout: 0}}\n"))
        .refused_with(&["bench.yaml:13:32", "from 1 to 86400"]);
}

#[test]
fn under_strict_what_nobody_knows_is_a_problem() {
    let mut given = b0().set("reader.batch_sise=3").environment("DLIO_XYZZY", "x");
    given.request.strict = true;
    given.refused_with(&["2 problems", "reader.batch_size?", "DLIO_XYZZY"]);
    let mut given = b0().set("reader.pin_memory=true");
    given.request.strict = true;
    given.accepted();
}

#[test]
fn unknown_keys_warn_with_the_nearest_known_name() {
    for (option, hint) in [
        ("reader.batch_sise=3", "did you mean reader.batch_size?"),
        ("raeder.batch_size=3", "raeder: ignored: unknown key; did you mean reader?"),
        ("batch_size=3", "did you mean reader.batch_size?"),
        ("dataset.epochs=3", "did you mean train.epochs?"),
        ("trian={}", "did you mean train?"),
        ("zzz=3", "ignored: unknown key"),
        ("output.metric.exclude_start=3", "did you mean output.metric.exclude_start_steps?"),
    ] {
        let warnings = warnings(&b0().set(option).accepted());
        assert_eq!(warnings.len(), 1, "{option}: {warnings:?}");
        assert!(warnings[0].ends_with(hint), "{option}: {warnings:?}");
    }
    let resolved = yaml(&format!("{B0}logging:\n  level: x\n")).accepted();
    assert_eq!(warnings(&resolved), ["bench.yaml:13:1: logging: ignored: unknown key"]);
    yaml(&format!("{B0}train.epochs: 3\n")).refused_with(&["bench.yaml:13:1", "a dot in a name"]);
}

#[test]
fn unknown_variables_warn_with_the_nearest_known_name() {
    let given = b0()
        .environment("DLIO_OUTPUT_FODLER", "x")
        .environment("DLIO_LOG_LEVEL", "debug")
        .environment("FEEDRATE_FILES", "x")
        .environment("PATH", "/bin")
        .dotenv("DLIO_XYZZY", "x");
    assert_eq!(
        warnings(&given.accepted()),
        [
            "environment DLIO_OUTPUT_FODLER: DLIO_OUTPUT_FODLER: ignored: unknown variable; did \
             you mean DLIO_OUTPUT_FOLDER?",
            "environment FEEDRATE_FILES: FEEDRATE_FILES: ignored: unknown variable",
            ".env DLIO_XYZZY: DLIO_XYZZY: ignored: unknown variable",
        ]
    );
}

#[test]
fn folders_are_shown_without_slashes_at_their_end_if_they_are_given() {
    for key in ["dataset.data_folder", "checkpoint.checkpoint_folder"] {
        for (folder, shown) in
            [("data/t0//", "data/t0"), ("data/t0", "data/t0"), ("/", "/"), ("file:///", "file:///")]
        {
            let resolved = b0().set(&format!("{key}={folder}")).accepted();
            let expected = format!("{shown} (--set {key}={folder})");
            assert_eq!(value_of(&resolved, key), expected);
            let Workload { dataset, checkpoint, .. } = &resolved.workload;
            assert!(
                [&dataset.data_folder, &checkpoint.checkpoint_folder].contains(&&shown.to_owned())
            );
        }
    }
    let resolved = yaml("model: x").accepted();
    assert_eq!(value_of(&resolved, "dataset.data_folder"), "./data/ (default)");
    assert_eq!(resolved.workload.dataset.data_folder, "./data");
}

#[test]
fn a_workload_may_repeat_parts_of_itself() {
    let text = "\
model: &model {name: &name t0, type: cnn}
dataset: {<<: &files {format: npz, num_files_train: 16}, data_folder: *name, num_files_train: 8}
reader: {batch_size: &four 4}
train: {epochs: *four}
storage: {storage_root: *model}
";
    yaml(text).refused_with(&["1 problem", "bench.yaml:1:15: storage.storage_root"]);
    let resolved = yaml(text.split("storage:").next().unwrap()).accepted();
    let Workload { dataset, train, .. } = &resolved.workload;
    assert_eq!((dataset.format, dataset.num_files_train, train.epochs), (Format::Npz, 8, 4));
    assert_eq!(value_of(&resolved, "dataset.data_folder"), "t0 (bench.yaml:1:28)");
    assert_eq!(value_of(&resolved, "dataset.format"), "npz (bench.yaml:2:31)");
}

#[test]
fn a_strict_user_is_not_told_that_something_is_ignored() {
    let mut given = b0().set("raeder.batch_size=3").environment("DLIO_OUTPUT_FODLER", "x");
    given.request.strict = true;
    given.refused_with(&["raeder: unknown key; did", "DLIO_OUTPUT_FODLER: unknown variable; did"]);
    assert!(!given.refused().contains("ignored"), "{}", given.refused());
}

fn stored(root: Option<&str>, folder: &str) -> Given {
    let given = b0()
        .set(&format!("dataset.data_folder={folder}"))
        .set("storage.storage_type=s3")
        .set("storage.storage_options.endpoint_url=http://127.0.0.1:9000");
    match root {
        Some(root) => given.set(&format!("storage.storage_root={root}")),
        None => given,
    }
}

#[test]
fn every_spelling_of_a_location_gives_the_same_bucket_and_prefix() {
    for (root, folder) in [
        (Some("bench"), "data/t0"),
        (Some("s3://bench"), "data/t0"),
        (Some("s3://bench/"), "/data/t0/"),
        (Some("s3://bench/data"), "t0"),
        (Some("bench"), "s3://bench/data/t0"),
        (Some("bench/data"), "t0"),
        (Some("bench/data/"), "./t0"),
        (None, "s3://bench/data/t0"),
        (None, "S3://bench//data/t0//"),
    ] {
        let resolved = stored(root, folder).accepted();
        let target = &resolved.workload.storage.target;
        assert_eq!(s3(target), ("bench", "data/t0"), "{root:?} {folder}");
    }
    let resolved = stored(Some("bench"), "s3://bench").accepted();
    assert_eq!(s3(&resolved.workload.storage.target), ("bench", ""));
    let resolved = stored(Some("bench"), "'ds a+b%20/ü=1&x'").accepted();
    assert_eq!(s3(&resolved.workload.storage.target), ("bench", "ds a+b%20/ü=1&x"));
}

#[test]
fn contradicting_locations_are_refused() {
    for (root, folder, parts) in [
        (Some("bench"), "s3://other/x", &["dataset.data_folder", "other", "bench"][..]),
        (Some("/mnt/nvme"), "x", &["storage.storage_root", "local folder", "S3 is meant"]),
        (Some("./x"), "x", &["storage.storage_root", "local folder"]),
        (Some("file:///mnt"), "x", &["storage.storage_root", "local folder"]),
        (Some("bench"), "file:///mnt", &["dataset.data_folder", "local folder"]),
        (Some("gs://bench"), "x", &["gs:// is not supported"]),
        (Some("be nch"), "x", &["no bucket name"]),
        (Some("s3://"), "x", &["no bucket name"]),
        (Some("bench"), "a/../b", &["'..'"]),
        (None, "x", &["no bucket is known", "--bucket", "storage.storage_root"]),
    ] {
        let message = stored(root, folder).refused();
        assert!(message.starts_with("1 problem in"), "{message}");
        for part in parts {
            assert!(message.contains(part), "no {part:?} in {message}");
        }
    }
    b0().set("storage.storage_type=local_fs")
        .set("storage.storage_root=s3://bench")
        .refused_with(&["storage.storage_root", "local_fs"]);
}

#[test]
fn local_folders_are_joined_and_an_absolute_one_wins() {
    for (root, folder, expected) in [
        ("./", "./data/", "./data"),
        ("/mnt/", "data/t0/", "/mnt/data/t0"),
        ("mnt", "./data", "mnt/data"),
        ("file:///mnt", "data", "/mnt/data"),
        ("x", "file:///abs/data", "/abs/data"),
        ("/mnt", "/abs/data/", "/abs/data"),
    ] {
        let given = b0()
            .flag(&format!("--local {root}"), "storage.storage_root", root)
            .flag(&format!("--local {root}"), "storage.storage_type", "local_fs")
            .flag("--folder", "dataset.data_folder", folder)
            // Neither belongs to a local store.
            .environment("AWS_ENDPOINT_URL", "http://x:1")
            .environment("DLIO_BUCKET", "bench");
        let resolved = given.accepted();
        assert_eq!(local(&resolved.workload.storage.target), expected, "{root} {folder}");
        assert_eq!(resolved.store_named, Some(format!("--local {root}")));
        let absolute = folder.contains("/abs");
        assert_eq!(warnings(&resolved).len(), usize::from(absolute), "{:?}", warnings(&resolved));
    }
}

#[test]
fn what_named_the_store_is_told() {
    let none = b0().environment("AWS_ACCESS_KEY_ID", "k").environment("AWS_SECRET_ACCESS_KEY", "s");
    let none = none.environment("AWS_REGION", "r").set("storage.storage_options.prefetch_window=1");
    assert_eq!(none.accepted().store_named, None);

    let file = yaml(&format!("{B0}storage: {{storage_root: /mnt}}"));
    assert_eq!(
        file.accepted().store_named.as_deref(),
        Some("storage.storage_root (bench.yaml:13:25)")
    );
    let environment = b0().environment("AWS_ENDPOINT_URL", "http://x:1");
    environment.refused_with(&["no bucket is known", "environment AWS_ENDPOINT_URL"]);
    let environment =
        environment.flag("--bucket bench", "storage.storage_root", "bench").accepted();
    assert_eq!(environment.store_named.as_deref(), Some("--bucket bench"));
    let shared = b0().shared(Some("http://x:1"), None).dotenv("DLIO_BUCKET", "b").accepted();
    assert_eq!(shared.store_named.as_deref(), Some(".env DLIO_BUCKET"));
    b0().shared(Some("http://x:1"), None).refused_with(&["~/.aws/config, profile default"]);
}

#[test]
fn s3_without_an_endpoint_is_refused_unless_the_public_cloud_is_allowed() {
    let bucket = || {
        b0().flag("--bucket b", "storage.storage_root", "b").flag(
            "--bucket b",
            "storage.storage_type",
            "s3",
        )
    };
    for given in [
        bucket(),
        b0().environment("DLIO_BUCKET", "b"),
        b0().set("storage.storage_root=s3://b"),
        yaml(&format!("{B0}storage: {{storage_type: s3, storage_root: b}}")),
    ] {
        given.refused_with(&["1 problem", "no endpoint is known", "--endpoint-url", "--aws"]);
    }
    let resolved = bucket().aws().accepted();
    assert!(matches!(
        &resolved.workload.storage.target,
        Target::S3 { bucket, endpoint_urls, .. } if bucket == "b" && endpoint_urls.is_empty()
    ));
    let warned = bucket().aws().environment("AWS_ENDPOINT_URL", "http://x:1").accepted();
    assert!(warnings(&warned)[0].contains("--aws has no effect"));
    b0().aws().refused_with(&["--aws", "no bucket is known"]);
}

#[test]
fn a_typed_endpoint_against_a_local_store_is_a_contradiction() {
    let yaml = yaml(&format!("{B0}storage: {{storage_type: local_fs}}"));
    yaml.flag("--endpoint-url http://x:1", "storage.storage_options.endpoint_url", "http://x:1")
        .refused_with(&["--endpoint-url http://x:1", "local_fs", "storage.storage_type=s3"]);
}

#[test]
fn endpoints_are_checked_without_repeating_what_could_be_a_password() {
    for endpoint in [
        "127.0.0.1:9000",
        "ftp://x",
        "http://",
        "http://x:0",
        "http://x:99999",
        "http://x y",
        "http://x?q",
        "http://user:hunter2@x",
    ] {
        let option = "storage.storage_options.endpoint_url";
        let given = b0().set("storage.storage_root=b").set(&format!("{option}='{endpoint}'"));
        given.refused_with(&["1 problem", option, "accepts http"]);
        assert!(!given.refused().contains("hunter2"));
        assert!(!format!("{:?}", given.request).contains("hunter2"));
        let flag = b0().set("storage.storage_root=b").flag(
            &format!("--endpoint-url {endpoint}"),
            option,
            endpoint,
        );
        assert!(!flag.refused().contains("hunter2"));
    }
    for (written, endpoint) in [
        ("http://x:1/", "http://x:1"),
        ("HTTPS://x.example", "https://x.example"),
        ("http://[::1]:9000", "http://[::1]:9000"),
        ("http://x:1/path/", "http://x:1/path"),
        ("http://X.Example:80/Path", "http://x.example/Path"),
        ("https://x:443", "https://x"),
        ("https://x:80", "https://x:80"),
    ] {
        let given = stored(Some("b"), "d")
            .set(&format!("storage.storage_options.endpoint_url='{written}'"));
        let resolved = given.accepted();
        let found = value_of(&resolved, "storage.storage_options.endpoint_url");
        assert_eq!(found.split(' ').next(), Some(endpoint));
    }
}

const ENDPOINT: &str = "storage.storage_options.endpoint_url";

/// The endpoints in force, and the key's resolved value and origin.
fn endpoints(given: &Given) -> (Vec<String>, String) {
    let resolved = given.accepted();
    let shown = value_of(&resolved, ENDPOINT);
    match resolved.workload.storage.target {
        Target::S3 { endpoint_urls, .. } => (endpoint_urls, shown),
        Target::Local { root } => panic!("local: {}", root.display()),
    }
}

#[test]
fn several_endpoints_are_a_text_with_commas_or_a_list() {
    let bucket = || b0().set("storage.storage_root=s3://b");
    let in_file = |value: &str| {
        let options =
            format!("{{storage_root: s3://b, storage_options: {{endpoint_url: {value}}}}}");
        yaml(&format!("{B0}storage: {options}\n"))
    };
    let two = ["http://x:1", "http://y:1/z"];
    for given in [
        in_file("'http://x:1,http://y:1/z'"),
        in_file("' http://x:1/ , http://y:1/z/ '"),
        in_file("['http://x:1', 'http://y:1/z']"),
        bucket().set(&format!("{ENDPOINT}=[http://x:1,http://y:1/z]")),
        bucket().set(&format!("{ENDPOINT}='http://x:1,http://y:1/z'")),
        bucket().flag("--endpoint-url", ENDPOINT, "http://x:1,http://y:1/z"),
        bucket().environment("S3_ENDPOINT_URIS", "http://x:1,http://y:1/z"),
        bucket().dotenv("S3_ENDPOINT_URIS", "http://x:1, http://y:1/z"),
    ] {
        let (endpoints, shown) = endpoints(&given);
        assert_eq!(endpoints, two);
        assert!(shown.starts_with("http://x:1,http://y:1/z ("), "{shown}");
    }
    // What a flag gave can be given again as an override.
    let flagged = bucket().flag("--endpoint-url", ENDPOINT, "http://x:1,http://y:1/z").accepted();
    assert_eq!(endpoints(&bucket().set(&flagged.overrides[1])).0, two);
    assert_eq!(endpoints(&in_file("[http://x:1]")).0, ["http://x:1"]);
}

#[test]
fn the_list_of_endpoints_has_the_precedence_of_the_one() {
    const FILE: &str = "http://file:1";
    let all = |endpoint: &str| {
        let options = format!("{{endpoint_url: {endpoint}}}");
        yaml(&format!("{B0}storage: {{storage_root: s3://b, storage_options: {options}}}\n"))
            .environment("S3_ENDPOINT_URIS", "http://many:1,http://many:2")
            .environment("AWS_ENDPOINT_URL_S3", "http://special:1")
            .dotenv("S3_ENDPOINT_URIS", "http://dotenv:1,http://dotenv:2")
            .dotenv("AWS_ENDPOINT_URL", "http://dotenv:3")
            .shared(Some("http://shared:1"), None)
    };
    let first = |given: &Given| endpoints(given).0[0].clone();
    let option = format!("{ENDPOINT}=http://set:1");
    assert_eq!(endpoints(&all(FILE).set(&option)).0, ["http://set:1"]);
    assert_eq!(endpoints(&all(FILE)).0, [FILE]);
    let mut given = all("null");
    let (found, shown) = endpoints(&given);
    assert_eq!(found, ["http://many:1", "http://many:2"]);
    assert!(shown.ends_with("(environment S3_ENDPOINT_URIS)"), "{shown}");
    given.request.environment.insert("S3_ENDPOINT_URIS".to_owned(), String::new());
    assert_eq!(first(&given), "http://special:1");
    given.request.environment.clear();
    assert_eq!(endpoints(&given).0, ["http://dotenv:1", "http://dotenv:2"]);
    given.request.dotenv.remove("S3_ENDPOINT_URIS");
    assert_eq!(first(&given), "http://dotenv:3");
    given.request.dotenv.clear();
    assert_eq!(first(&given), "http://shared:1");
}

#[test]
fn an_endpoint_given_twice_and_one_that_is_none_are_refused() {
    for (list, part) in [
        ("http://x:1,http://y:1,http://x:1", "the endpoint http://x:1 is given twice"),
        ("http://x:1,HTTP://X:1/", "the endpoint http://x:1 is given twice"),
        ("http://x,http://x:80", "the endpoint http://x is given twice"),
        ("http://x:1,y:1", "entry 2 of 2 is no endpoint: accepts http://HOST"),
        ("http://x:1,,http://y:1", "entry 2 of 3 is no endpoint"),
        ("http://x:1,http://u:hunter2@y", "entry 2 of 2 is no endpoint: a user name or password"),
        ("http://u:hun,ter2@y", "entry 1 of 2 is no endpoint"),
    ] {
        let typed = format!("--endpoint-url {list}");
        for given in [
            b0().set("storage.storage_root=s3://b").set(&format!("{ENDPOINT}='{list}'")),
            b0().set("storage.storage_root=s3://b").flag(&typed, ENDPOINT, list),
            b0().environment("DLIO_BUCKET", "b").environment("S3_ENDPOINT_URIS", list),
        ] {
            given.refused_with(&["1 problem", ENDPOINT, part]);
            assert!(!format!("{} {:?}", given.refused(), given.request).contains("ter2"));
        }
    }
    b0().set("storage.storage_root=s3://b").set(&format!("{ENDPOINT}=[]")).refused_with(&[
        "1 problem",
        ENDPOINT,
        "accepts one endpoint or more",
    ]);
    b0().set("storage.storage_root=s3://b")
        .set(&format!("{ENDPOINT}=[http://x:1,{{a: 1}}]"))
        .refused_with(&["1 problem", ENDPOINT, "accepts text"]);
}

#[test]
fn secrets_reach_only_the_secrets() {
    const OPTIONS: &str = "storage.storage_options";
    let yaml = yaml(&format!(
        "{B0}storage:\n  storage_type: s3\n  storage_root: b\n  storage_options:\n    \
         endpoint_url: http://x:1\n    access_key_id: hunter1\n    secret_acess_key: hunter3\n"
    ));
    let given = yaml
        .set(&format!("{OPTIONS}.secret_access_key=hunter2"))
        .set(&format!("{OPTIONS}={{secret_access_key: hunter2}}"))
        .set(&format!("{OPTIONS}.secretaccesskey=hunter4"))
        .environment("AWS_SECRET_ACCESS_KEY", "hunter5");
    let resolved = given.accepted();
    assert_eq!(resolved.secrets.access_key_id.as_deref(), Some("hunter1"));
    assert_eq!(resolved.secrets.secret_access_key.as_deref(), Some("hunter2"));
    let shown = format!(
        "{:?} {:?} {} {}",
        resolved,
        given.request,
        serde_json::to_string(&resolved.composed).unwrap(),
        warnings(&resolved).join(" "),
    );
    assert!(!shown.contains("hunter"), "{shown}");
    assert_eq!(
        value_of(&resolved, "storage.storage_options.secret_access_key"),
        "*** (--set storage.storage_options=***)"
    );

    let wrong = b0()
        .set(&format!("{OPTIONS}.secret_access_key=[hunter2]"))
        .set(&format!("{OPTIONS}.access_key_id='hunter1"))
        .set("storage=hunter6")
        .refused();
    assert!(!wrong.contains("hunter"), "{wrong}");
    let copied = given.set("model.name=${workload.storage.storage_options.secret_access_key}");
    copied.refused_with(&["would show a secret"]);
    assert!(!copied.refused().contains("hunter"));
}

#[test]
fn half_a_pair_of_keys_is_filled_from_the_environment_or_refused() {
    const ID: &str = "storage.storage_options.access_key_id=k";
    let filled = b0().set(ID).environment("AWS_SECRET_ACCESS_KEY", "s").accepted();
    assert_eq!(filled.secrets.secret_access_key.as_deref(), Some("s"));
    b0().set(ID).refused_with(&["storage.storage_options.secret_access_key: not given"]);
    let none = b0().environment("AWS_SECRET_ACCESS_KEY", "s").accepted();
    assert_eq!(none.secrets, Secrets::default());
}

#[test]
fn interpolations_take_other_keys_and_variables() {
    let resolved = yaml(&B0.replace("data/t0", "data/${workload.model.name}/${oc.env:SET,x}"))
        .environment("SET", "y")
        .set("reader.batch_size=${oc.env:UNSET,3}")
        .set("reader.prefetch_size=${workload.data_reader.batch_size}")
        .set("output.folder=${oc.env:UNSET,a b}")
        .accepted();
    assert_eq!(resolved.workload.dataset.data_folder, "data/t0/y");
    assert_eq!(resolved.workload.reader.batch_size, 3);
    assert_eq!(resolved.workload.reader.prefetch_size, 3);
    assert_eq!(resolved.workload.output.folder, Some(PathBuf::from("a b")));
    // The snapshot keeps them as they were written.
    let written = resolved.composed.get("reader.batch_size").unwrap();
    assert_eq!(written.value, Value::from("${oc.env:UNSET,3}"));

    for (value, part) in [
        ("${now:%Y}", "not supported"),
        ("${hydra:run.dir}", "not supported"),
        ("${.name}", "circle"),
        ("${model.name}", "such as ${workload.model.name}"),
        ("${workload.model.nome}", "not set"),
        ("${workload.dataset}", "accepts text"),
        ("${oc.env:UNSET}", "UNSET is not set"),
        ("${oc.env:AWS_SECRET_ACCESS_KEY}", "would show a secret"),
        ("${workload.model.name}", "circle"),
        ("a${workload.model.name}${workload.model.name}", "circle"),
    ] {
        b0().environment("AWS_SECRET_ACCESS_KEY", "hunter2")
            .flag("--name", "model.name", value)
            .refused_with(&["model.name", part]);
    }
}

#[test]
fn an_unknown_workload_is_refused_with_the_presets() {
    let resolve = |workload: &str| {
        resolve(&Request { workload: workload.into(), ..Request::default() }).unwrap_err()
    };
    let message = resolve("retinanet_b20").to_string();
    assert!(message.contains("retinanet_b200, retinanet_mi355"), "{message}");
    assert!(message.contains("did you mean retinanet_b200?"), "{message}");
    for path in ["./no/such/file", "nosuch.yaml", "/"] {
        let error = resolve(path);
        assert!(matches!(error, ResolveError::Unreadable { .. }), "{error}");
    }
}

#[test]
fn a_file_is_read_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.yaml");
    std::fs::write(&path, B0).unwrap();
    let workload = path.to_str().unwrap().into();
    let resolved = resolve(&Request { workload, ..Request::default() }).unwrap();
    assert_eq!(resolved.workload.model.name, "t0");
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    let workload = path.to_str().unwrap().into();
    let error = resolve(&Request { workload, ..Request::default() }).unwrap_err();
    assert!(matches!(error, ResolveError::Unreadable { .. }), "{error}");
}

#[test]
fn the_snapshot_reads_back_as_the_same_workload() {
    let given = b0()
        .set("model.name='on'")
        .set("dataset.file_prefix='1e3'")
        .set("model.type='1:30'")
        .set("output.log_file='010'")
        .set("output.folder='~'");
    let resolved = given.accepted();
    let written = serde_saphyr::to_string(&resolved.composed).unwrap();
    assert_eq!(yaml(&written).accepted().workload, resolved.workload, "{written}");
}
