//! What files and the choices among them compose to.

use std::fs;

use jiff::civil::date;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::environment::Variables;
use crate::hydra::{Action, CommandLine, query};
use crate::resolve::{Configuration, Request, Resolved, Source, compose, resolve};

/// A folder of configuration files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn request(arguments: &[&str]) -> Request {
    let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let line = CommandLine::parse(&arguments).unwrap();
    Request {
        workload: Source::Composed(line.composition),
        overrides: line.overrides,
        started: Some(date(2026, 3, 4).at(5, 6, 7, 0).in_tz("UTC").unwrap()),
        directory: PathBuf::from("/work"),
        environment: Variables::from([("ANSWER".to_owned(), "42".to_owned())]),
        strict: line.strict,
        aws: line.aws,
        ..Request::default()
    }
}

#[track_caller]
fn resolved(arguments: &[&str]) -> Resolved {
    resolve(&request(arguments)).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

fn composed(arguments: &[&str]) -> Result<Configuration, ResolveError> {
    compose(&request(arguments), false)
}

#[track_caller]
fn json(arguments: &[&str]) -> String {
    let composed = composed(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    serde_json::to_string(&composed.root).unwrap()
}

#[track_caller]
fn refused(arguments: &[&str], parts: &[&str]) {
    let message = match composed(arguments) {
        Ok(composed) => panic!("{arguments:?}: {}", serde_json::to_string(&composed.root).unwrap()),
        Err(error) => error.to_string(),
    };
    for part in parts {
        assert!(message.contains(part), "{arguments:?}: no {part:?} in {message}");
    }
}

fn in_folder(folder: &TempDir) -> String {
    format!("--config-path={}", folder.path().display())
}

#[test]
fn the_command_of_mlpstorage_works_word_for_word() {
    let users =
        folder(&[("config.yaml", "x: 1"), ("workload/unet3d_h100.yaml", "train: {epochs: 9}")]);
    let config_dir = format!("--config-dir={}", users.path().display());
    let request = request(&[
        "workload=unet3d_h100",
        "++hydra.run.dir=/results/training/unet3d/run/20260304_050607",
        "++hydra.output_subdir=dlio_config",
        "++workload.reader.read_threads=8",
        "++workload.dataset.num_files_train=400",
        "++workload.dataset.data_folder=/mnt/data/unet3d",
        &config_dir,
    ]);
    let resolved = resolve(&request).unwrap();
    let workload = &resolved.workload;
    assert_eq!((workload.model.name.as_str(), workload.train.epochs), ("unet3d", 5));
    assert_eq!((workload.reader.read_threads, workload.dataset.num_files_train), (8, 400));
    assert_eq!(workload.dataset.data_folder, "/mnt/data/unet3d");
    let run = resolved.run.unwrap();
    assert_eq!(run.dir, Path::new("/results/training/unet3d/run/20260304_050607"));
    assert_eq!(run.output_subdir.as_deref(), Some("dlio_config"));
    assert_eq!(
        resolved.overrides,
        [
            "workload=unet3d_h100",
            "++workload.reader.read_threads=8",
            "++workload.dataset.num_files_train=400",
            "++workload.dataset.data_folder=/mnt/data/unet3d",
        ]
    );
    // The built-in file of the same name comes first, and the user is told.
    let [warning] = &resolved.warnings[..] else { panic!("{:?}", resolved.warnings) };
    let text = warning.to_string();
    assert!(
        text.contains("workload/unet3d_h100.yaml") && text.contains("preset unet3d_h100"),
        "{text}"
    );
    assert!(text.contains("--prefer-user"), "{text}");
    assert!(resolved.notes.iter().any(|note| note.to_string().contains("config.yaml")));
}

#[test]
fn both_front_ends_make_the_same_workload() {
    let settings = ["reader.batch_size=3", "dataset.record_length=4096", "train={epochs: 2}"];
    let named = Request {
        workload: "unet3d_h100".into(),
        overrides: settings.iter().map(|option| Override::set(option)).collect(),
        ..Request::default()
    };
    let named = resolve(&named).unwrap();
    let mut arguments = vec!["workload=unet3d_h100".to_owned()];
    arguments.extend(settings.map(|option| format!("++workload.{option}")));
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let composed = resolved(&arguments);
    assert_eq!(composed.workload, named.workload);
    let json = |resolved: &Resolved| serde_json::to_string(&resolved.composed).unwrap();
    assert_eq!(json(&composed), json(&named));
    assert_eq!(composed.overrides[1..], named.overrides);
    let values = |resolved: &Resolved| {
        let values = resolved.values.iter().map(|value| (value.key, value.value.clone()));
        values.collect::<Vec<_>>()
    };
    assert_eq!(values(&composed), values(&named));
}

#[test]
fn a_bare_command_runs_the_default_workload() {
    let resolved = resolved(&[]);
    assert_eq!(resolved.workload.dataset.num_files_train, 64);
    assert!(resolved.overrides.is_empty() && resolved.warnings.is_empty());
    let run = resolved.run.unwrap();
    assert_eq!(run.dir, Path::new("./hydra_log/default/2026-03-04-05-06-07"));
    assert_eq!(run.output_subdir.as_deref(), Some(".hydra"));
    assert!(json(&[]).starts_with(r#"{"workload":{"framework":"pytorch","workflow":"#));
}

#[test]
fn the_last_of_several_choices_of_a_workload_wins() {
    let resolved = resolved(&["workload=nosuch", "workload='unet3d_a100'"]);
    assert_eq!(resolved.workload.model.name, "unet3d");
    assert_eq!(resolved.overrides, ["workload=nosuch", "workload='unet3d_a100'"]);
}

#[test]
fn an_unknown_workload_is_refused_with_all_there_are() {
    let users = folder(&[("workload/mine.yaml", ""), ("workload/deep/er.yaml", "")]);
    let config_dir = format!("--config-dir={}", users.path().display());
    refused(
        &["workload=unet3d_h10", &config_dir],
        &["no workload \"unet3d_h10\"", "deep/er, default", "mine", "did you mean unet3d_h100?"],
    );
    for name in ["", "../config", "/etc/passwd", "deep/", "a//b"] {
        refused(&[&format!("workload={name}")], &["no workload"]);
    }
    for (argument, part) in [
        ("workload=1", "accepts the name of a workload"),
        ("workload=null", "accepts the name"),
        ("workload=[a,b]", "accepts the name"),
        ("++workload=default", "write workload=NAME"),
        ("+workload=default", "chosen already: write workload=NAME"),
        ("~workload", "names no workload"),
        ("~workload=nosuch", "cannot be deleted"),
        ("nogroup/x=y", "not in the list of defaults"),
        ("workload@x=default", "not in the list of defaults"),
    ] {
        refused(&[argument], &[part]);
    }
    assert_eq!(
        request(&[&config_dir]).workload,
        Source::Composed(Composition {
            config_dirs: vec![users.path().to_owned()],
            ..Composition::default()
        })
    );
    let Source::Composed(composition) = request(&[&config_dir]).workload else { unreachable!() };
    let names = composition.workloads().unwrap();
    assert!(names.contains(&"deep/er".to_owned()) && names.contains(&"llama3_8b".to_owned()));
}

#[test]
fn folders_and_primary_files_must_be_there() {
    refused(&["--config-dir=/no/such"], &["--config-dir /no/such: no such folder"]);
    refused(&["--config-path=/no/such"], &["--config-path /no/such: no such folder"]);
    refused(
        &["--config-name=other"],
        &["no primary configuration file \"other\"", "the program itself"],
    );
    let empty = folder(&[]);
    refused(&[&in_folder(&empty)], &["no primary configuration file \"config\""]);
    let bare = folder(&[("config.yaml", "a: 1")]);
    refused(&[&in_folder(&bare)], &["names no workload: choose one with workload=NAME"]);
    let odd = folder(&[("config.yaml", "workload: 3")]);
    refused(&[&in_folder(&odd)], &["config.yaml:1:11", "mapping of keys"]);
    let list = folder(&[("config.yaml", "- a")]);
    refused(&[&in_folder(&list)], &["a configuration file is a mapping"]);
}

#[test]
fn user_folders_stand_behind_the_built_in_files_unless_preferred() {
    let users = folder(&[
        ("workload/default.yaml", "train: {epochs: 7}"),
        ("workload/mine.yaml", "train: {epochs: 8}"),
    ]);
    let other = folder(&[("workload/mine.yaml", "train: {epochs: 9}")]);
    let (users, other) = (users.path().to_str().unwrap(), other.path().to_str().unwrap());
    let epochs = |arguments: &[&str]| resolved(arguments).workload.train.epochs;
    assert_eq!(epochs(&["--config-dir", users]), 10);
    assert_eq!(epochs(&["--config-dir", users, "--prefer-user"]), 7);
    assert_eq!(epochs(&["-cd", users, "workload=mine"]), 8);
    assert_eq!(epochs(&["-cd", users, "-cd", other, "workload=mine"]), 9);
    assert_eq!(epochs(&["-cd", users, "workload=mine.yaml"]), 8);
}

#[test]
fn a_folder_may_replace_the_built_in_files() {
    let files = folder(&[
        ("config.yaml", "defaults: [_self_, workload: small]\nfolder: /mnt\n"),
        ("other.yaml", "defaults: [workload: sub/large]\n"),
        ("workload/small.yaml", "dataset: {data_folder: '${folder}/small', format: npz}\n"),
        ("workload/sub/large.yaml", "dataset: {data_folder: large}\n"),
    ]);
    let path = in_folder(&files);
    let small = resolved(&[&path]);
    assert_eq!(small.workload.dataset.data_folder, "/mnt/small");
    let moved = resolved(&[&path, "folder=/data", "+workload.train.epochs=2"]);
    assert_eq!(moved.workload.dataset.data_folder, "/data/small");
    assert_eq!(
        json(&[&path, "--config-name=other"]),
        r#"{"workload":{"dataset":{"data_folder":"large"}}}"#
    );
    assert_eq!(
        json(&[&path, "-cn", "other.yaml"]),
        json(&[&path, "workload=sub/large", "-cn=other"])
    );
    refused(&[&path, "workload=unet3d_h100"], &["there are small, sub/large"]);
    refused(&[&path, "+added=1"], &["no such key at the root"]);
}

/// The trees are those that Hydra makes of the same files.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn lists_of_defaults_lay_files_over_one_another() {
    let files = folder(&[
        (
            "config.yaml",
            "defaults:\n- _self_\n- workload: default\n- other: o1\n- optional missing: nope\n- db/inner: x\n\
             - glob: g\n- other@alias: o2\n- override hydra/job_logging: disabled\n- nothing: null\n\
             workload: {a: fromprimary}\nroot: 1\n",
        ),
        ("last.yaml", "defaults:\n- workload: default\nworkload: {a: fromprimary}\n"),
        ("must.yaml", "defaults:\n- workload: ???\n"),
        ("workload/default.yaml", "{a: 1, b: 2}"),
        ("workload/base.yaml", "defaults:\n- default\n- sub/other\na: 5\n"),
        ("workload/rich.yaml", "defaults:\n- default@_here_\n- _self_\n- sub: other\na: 5\n"),
        (
            "workload/global.yaml",
            "# @package _global_\ndefaults:\n- default\n- _self_\nworkload: {a: 99}\n",
        ),
        (
            "workload/moved.yaml",
            "# @package zz\ndefaults:\n- sub/other\n- sub: name\n- default@here\n- /other: o1\n- _self_\na: 99\n",
        ),
        ("workload/packages.yaml", "defaults: [default@_global_, default@_global_.q, _self_]\n"),
        ("workload/empty.yaml", ""),
        ("workload/sub/name.yaml", "x: 1"),
        ("workload/sub/other.yaml", "{a: 77, z: 3}"),
        ("other/o1.yaml", "o: 1"),
        ("other/o2.yaml", "o: 2"),
        ("db/inner/x.yaml", "y: 1"),
        ("glob/g.yaml", "# @package _global_\ng: 1\nworkload: {b: global}\n"),
        ("glob/h.yaml", "# @package foo.bar\ng: 1\n"),
        ("glob/i.yaml", "# comment\n# @package _group_\ng: 2\n"),
    ]);
    let path = in_folder(&files);
    let rest = r#""other":{"o":1},"db":{"inner":{"y":1}}"#;
    let tail = format!(r#"{rest},"g":1,"alias":{{"o":2}}"#);
    for (arguments, expected) in [
        (&[][..], format!(r#"{{"workload":{{"a":1,"b":"global"}},"root":1,{tail}}}"#)),
        (
            &["workload=base"],
            format!(
                r#"{{"workload":{{"a":5,"b":"global","sub":{{"a":77,"z":3}}}},"root":1,{tail}}}"#
            ),
        ),
        (
            &["workload=rich"],
            format!(
                r#"{{"workload":{{"a":5,"b":"global","sub":{{"a":77,"z":3}}}},"root":1,{tail}}}"#
            ),
        ),
        (
            &["workload=sub/name"],
            format!(r#"{{"workload":{{"a":"fromprimary","x":1,"b":"global"}},"root":1,{tail}}}"#),
        ),
        (
            &["workload=global"],
            format!(r#"{{"workload":{{"a":99,"b":"global"}},"root":1,"a":1,"b":2,{tail}}}"#),
        ),
        (
            &["workload=moved"],
            format!(
                "{}{}",
                r#"{"workload":{"a":"fromprimary","b":"global"},"root":1,"zz":{"sub":{"a":77,"z":3,"x":1},"#,
                format_args!(r#""here":{{"a":1,"b":2}},"other":{{"o":1}},"a":99}},{tail}}}"#)
            ),
        ),
        (
            &["workload=packages"],
            format!(
                "{}{tail}}}",
                r#"{"workload":{"a":"fromprimary","b":"global"},"root":1,"a":1,"b":2,"q":{"a":1,"b":2},"#
            ),
        ),
        (
            &["workload=empty"],
            format!(r#"{{"workload":{{"a":"fromprimary","b":"global"}},"root":1,{tail}}}"#),
        ),
        (
            &["glob=h"],
            format!(
                r#"{{"workload":{{"a":1,"b":2}},"root":1,{rest},"foo":{{"bar":{{"g":1}}}},"alias":{{"o":2}}}}"#
            ),
        ),
        (
            &["glob=i"],
            format!(
                r#"{{"workload":{{"a":1,"b":2}},"root":1,{rest},"glob":{{"g":2}},"alias":{{"o":2}}}}"#
            ),
        ),
        (
            &["other@alias=o1", "+other@q=o1"],
            format!(
                r#"{{"workload":{{"a":1,"b":"global"}},"root":1,{rest},"g":1,"alias":{{"o":1}},"q":{{"o":1}}}}"#
            ),
        ),
        (
            &["~other=o1", "other@alias=o1", "~db/inner", "~glob"],
            r#"{"workload":{"a":1,"b":2},"root":1,"alias":{"o":1}}"#.to_owned(),
        ),
        (
            &["~workload"],
            format!(r#"{{"workload":{{"a":"fromprimary","b":"global"}},"root":1,{tail}}}"#),
        ),
        (&["-cn", "last"], r#"{"workload":{"a":"fromprimary","b":2}}"#.to_owned()),
        (&["-cn", "must", "workload=default"], r#"{"workload":{"a":1,"b":2}}"#.to_owned()),
    ] {
        let arguments: Vec<_> =
            [path.as_str()].into_iter().chain(arguments.iter().copied()).collect();
        assert_eq!(json(&arguments), expected, "{arguments:?}");
    }
    refused(&[&path, "other=o3"], &["no other \"o3\" (other=o3): there are o1, o2"]);
    refused(&[&path, "~other=o2"], &["cannot be deleted"]);
    refused(&[&path, "+other=o2"], &["chosen already"]);
    refused(&[&path, "++other=o2"], &["++ does not go with a group"]);
    refused(&[&path, "-cn=must"], &["must be chosen with workload=NAME"]);
    assert_eq!(
        resolved_choices(&[&path, "workload=sub/name"]),
        r#"{"workload":"sub/name","other":"o1","missing":"nope","db/inner":"x","glob":"g","other@alias":"o2"}"#
    );
}

fn resolved_choices(arguments: &[&str]) -> String {
    let request = request(arguments);
    let Source::Composed(composition) = &request.workload else { unreachable!() };
    let mut findings = Findings::default();
    let composed = composition.compose(&request.overrides, Path::new("/"), &mut findings).unwrap();
    serde_json::to_string(composed.hydra.get("runtime.choices").unwrap()).unwrap()
}

#[test]
fn a_workload_may_build_on_another_in_either_spelling_and_not_on_itself() {
    let files = folder(&[
        ("config.yaml", "defaults: [workload: top]"),
        ("workload/top.yaml", "defaults: [base, _self_]\ndata_reader: {batch_size: 2}\n"),
        ("workload/base.yaml", "reader: {batch_size: 1, read_threads: 3}\nmodel: base\n"),
        ("workload/one.yaml", "defaults: [two]"),
        ("workload/two.yaml", "defaults: [one]"),
        ("workload/broken.yaml", "defaults: [nope]"),
        ("workload/chooses.yaml", "defaults: [override /workload: base]"),
    ]);
    let path = in_folder(&files);
    let top = resolved(&[&path]).workload;
    assert_eq!((top.reader.batch_size, top.reader.read_threads), (2, 3));
    assert_eq!(top.model.name, "base");
    refused(
        &[&path, "workload=one"],
        &["two.yaml:1:12", "config -> workload/one -> workload/two -> workload/one goes round"],
    );
    refused(
        &[&path, "workload=broken"],
        &["no workload \"nope\" (", "broken.yaml:1:12", "there are base"],
    );
    refused(&[&path, "workload=chooses"], &["cannot choose for /workload here"]);
}

#[test]
fn files_that_double_at_every_step_end() {
    let mut files = vec![("config.yaml".to_owned(), "defaults: [workload: w0]".to_owned())];
    for step in 0..12 {
        let next = step + 1;
        let text = format!("defaults: [w{next}, w{next}@twin]");
        files.push((format!("workload/w{step}.yaml"), text));
    }
    files.push(("workload/w12.yaml".to_owned(), "a: 1".to_owned()));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    refused(&[&in_folder(&folder(&files))], &["names too many files"]);
}

#[test]
fn the_run_folder_and_the_snapshot_follow_hydras_keys() {
    let run = |arguments: &[&str]| resolved(arguments).run.unwrap();
    for (argument, dir) in [
        ("hydra.run.dir=/x", "/x"),
        ("+hydra.run.dir=x/y", "x/y"),
        ("++hydra.run.dir='a b'", "a b"),
        ("hydra.run={dir: z}", "z"),
        ("++hydra={run: {dir: z}}", "z"),
        ("hydra.run.dir=r/${workload.model.name}-${now:%Y}-${oc.env:ANSWER}", "r/unet3d-2026-42"),
        ("hydra.run.dir=${hydra:runtime.choices.workload}", "unet3d_h100"),
        ("hydra.run.dir=${hydra:runtime.cwd}/${hydra:job.name}", "/work/main"),
        ("hydra.run.dir=7", "7"),
    ] {
        let found = run(&["workload=unet3d_h100", argument]);
        assert_eq!(found.dir, Path::new(dir), "{argument}");
        assert_eq!(found.output_subdir.as_deref(), Some(".hydra"), "{argument}");
    }
    for (argument, subdir) in [
        ("hydra.output_subdir=dlio_config", Some("dlio_config")),
        ("++hydra.output_subdir=x", Some("x")),
        ("hydra.output_subdir=null", None),
        ("hydra.output_subdir=", Some("")),
    ] {
        assert_eq!(run(&[argument]).output_subdir.as_deref(), subdir, "{argument}");
    }
    for (argument, part) in [
        ("hydra.run.dir=null", "hydra.run.dir = null: accepts the path of a folder"),
        ("hydra.run.dir=", "accepts the path of a folder"),
        ("hydra.run.dir=[a]", "accepts the path of a folder"),
        ("hydra.output_subdir={a: 1}", "accepts the name of a folder"),
        ("hydra.run.dir=${nope}", "not set"),
        ("hydra.run.dir=${hydra:run.dir}", "circle"),
        ("hydra.run.dir=${oc.env:AWS_SECRET_ACCESS_KEY}", "would show a secret"),
        ("hydra.run.dir=a#b", "must stand in quotes"),
    ] {
        let message = resolve(&request(&[argument])).unwrap_err().to_string();
        assert!(message.contains(part), "{argument}: {message}");
    }
}

#[test]
fn the_folder_of_a_workload_without_a_model_has_the_default_name() {
    let files = folder(&[
        (
            "config.yaml",
            "defaults: [_self_, workload: none]\nhydra: {run: {dir: 'log/${workload.model.name}'}, help: {x: y}}\n",
        ),
        ("workload/none.yaml", "train: {epochs: 1}"),
        ("workload/plain.yaml", "model: resnet"),
    ]);
    let path = in_folder(&files);
    let dir = |arguments: &[&str]| resolved(arguments).run.unwrap().dir;
    assert_eq!(dir(&[&path]), Path::new("log/default"));
    assert_eq!(dir(&[&path, "workload=plain"]), Path::new("log/resnet"));
    assert_eq!(json(&[&path]), r#"{"workload":{"train":{"epochs":1}}}"#);
}

#[test]
fn what_else_is_said_of_hydra_is_noted_and_kept_out_of_the_overrides() {
    let arguments = [
        "hydra.job.chdir=false",
        "hydra/job_logging=disabled",
        "~hydra.sweep",
        "hydra.job.env_set.SOME_TOKEN=hunter2",
        "hydra.run.dir=x",
        "++workload.train.epochs=2",
    ];
    let resolved = resolved(&arguments);
    assert_eq!(resolved.overrides, ["++workload.train.epochs=2"]);
    let notes: Vec<_> = resolved.notes.iter().map(ToString::to_string).collect();
    for argument in &arguments[..3] {
        let told =
            notes.iter().any(|note| note.starts_with(argument) && note.contains("without effect"));
        assert!(told, "{argument}: {notes:?}");
    }
    assert!(!notes.iter().any(|note| note.contains("hydra.run.dir=x")), "{notes:?}");
    let node = serde_json::to_string(&resolved.run.unwrap().node).unwrap();
    assert_eq!(
        node,
        r#"{"run":{"dir":"x"},"output_subdir":".hydra","job":{"name":"main","chdir":false,"env_set":{"SOME_TOKEN":"***"},"config_name":"config"},"overrides":{"hydra":["hydra.job.chdir=false","hydra/job_logging=disabled","~hydra.sweep","hydra.job.env_set.SOME_TOKEN=***","hydra.run.dir=x"],"task":["++workload.train.epochs=2"]},"runtime":{"cwd":"/work","choices":{"workload":"default"}}}"#
    );
}

#[test]
fn the_configuration_is_shown_with_and_without_its_interpolations() {
    let arguments = [
        "workload=unet3d_h100",
        "++workload.dataset.data_folder=/d/${workload.model.name}/${hydra:runtime.choices.workload}",
        "++workload.reader.read_threads=${oc.env:ANSWER}",
        "++workload.storage.storage_options.secret_access_key=hunter2",
        "++workload.storage.storage_options.sekret=hunter2",
        "++workload.no_such_key=3",
    ];
    let root = |interpolate| {
        let configuration = compose(&request(&arguments), interpolate).unwrap();
        serde_json::to_value(&configuration.root).unwrap()["workload"].clone()
    };
    let (plain, filled) = (root(false), root(true));
    assert_eq!(
        plain["dataset"]["data_folder"],
        "/d/${workload.model.name}/${hydra:runtime.choices.workload}"
    );
    assert_eq!(filled["dataset"]["data_folder"], "/d/unet3d/unet3d_h100");
    assert_eq!(
        (&plain["reader"]["read_threads"], &filled["reader"]["read_threads"]),
        (&"${oc.env:ANSWER}".into(), &42.into())
    );
    assert_eq!(plain["no_such_key"], 3);
    assert!(!format!("{plain}{filled}").contains("hunter2"));
    // An interpolation that stands for nothing fails only when it is used.
    let broken = request(&["++workload.no_such_key=${nope}"]);
    compose(&broken, false).unwrap();
    resolve(&broken).unwrap();
    assert!(compose(&broken, true).unwrap_err().to_string().contains("${nope}"));
}

#[test]
fn compat_is_an_option_below_overrides_and_no_override() {
    let resolved = resolved(&["--compat=mlcommons", "++workload.train.epochs=1"]);
    assert_eq!(resolved.workload.compat, crate::Compat::Mlcommons);
    assert_eq!(resolved.overrides, ["++workload.train.epochs=1"]);
    let origin = &resolved.values.iter().find(|value| value.key == "compat").unwrap().origin;
    assert_eq!(origin.to_string(), "--compat mlcommons");
    let both = request(&["++workload.compat=upstream", "--compat=mlcommons"]);
    assert_eq!(resolve(&both).unwrap().workload.compat, crate::Compat::Upstream);
}

#[test]
fn queried_values_look_as_python_prints_them() {
    let resolved = resolved(&[
        "workload=unet3d_h100",
        "++workload.workflow.query=model.name",
        "++workload.dataset.record_length=2.0",
        "++workload.train.computation_time={type: uniform, min: 1, max: 2}",
        "++workload.profiling.iostat_devices=[sda,sdb]",
        "++workload.storage.storage_options.access_key_id=hunter1",
        "++workload.storage.storage_options.secret_access_key=hunter2",
    ]);
    for (key, expected) in [
        ("model.name", "unet3d"),
        ("framework", "pytorch"),
        ("workload.storage.storage_type", "local_fs"),
        ("storage.storage_type", "local_fs"),
        ("workflow.train", "True"),
        ("workflow.generate_data", "False"),
        ("reader.batch_size", "7"),
        ("data_reader.batch_size", "7"),
        ("dataset.record_length_bytes", "2.0"),
        ("dataset.record_length", "2.0"),
        ("dataset.record_length_bytes_stdev", "68341808"),
        ("metric.au", "0.9"),
        ("train.computation_time", "1.5"),
        ("evaluation.eval_time", "0"),
        ("train.total_training_steps", "None"),
        ("profiling.iostat_devices", "['sda', 'sdb']"),
        ("output.folder", "None"),
        ("no.such", "None"),
        ("", "None"),
        ("storage.storage_options.secret_access_key", "***"),
    ] {
        assert_eq!(query(&resolved, key), expected, "{key}");
    }
    let plain = self::resolved(&["workload=unet3d_h100"]);
    assert_eq!(query(&plain, "train.computation_time"), "0.323");
    let whole = self::resolved(&[
        "++workload.train.computation_time=1",
        "++workload.reader.file_shuffle=off",
    ]);
    assert_eq!(query(&whole, "train.computation_time"), "1");
    assert_eq!(query(&whole, "reader.file_shuffle"), "off");
}

#[test]
fn a_comma_list_is_refused_as_a_sweep() {
    refused(&["++workload.reader.batch_size=1,2"], &["list without brackets", "would be a sweep"]);
    refused(&["workload=a,b"], &["list without brackets"]);
}

#[test]
fn what_is_asked_for_does_not_change_what_is_composed() {
    let line =
        CommandLine::parse(&["--cfg=job".to_owned(), "workload=default".to_owned()]).unwrap();
    assert_eq!(line.action, Action::ShowConfig { resolve: false });
    assert_eq!(json(&["--cfg=job", "workload=default"]), json(&[]));
}

/// The longest that are joined, of names that differ; joining them takes the longest, too.
#[test]
fn the_length_of_all_files_together_is_bounded() {
    use std::fmt::Write as _;
    let long = |file: u32| {
        let mut text = "workload:\n".to_owned();
        for key in 0..13_000 {
            writeln!(text, " {file}{key}:").unwrap();
        }
        text
    };
    let (a, b, c) = (long(1), long(2), long(3));
    for (defaults, part) in
        [("[/a@_global_, /b@_global_]", ""), ("[/a, /b, /c]", "c.yaml:1:1: with it the files")]
    {
        let config = format!("defaults: {defaults}\nworkload: {{}}\n");
        let files =
            folder(&[("config.yaml", &config), ("a.yaml", &a), ("b.yaml", &b), ("c.yaml", &c)]);
        let composed = compose(&request(&[&in_folder(&files)]), false);
        match composed {
            Ok(_) => assert_eq!(part, ""),
            Err(error) => assert!(!part.is_empty() && error.to_string().contains(part), "{error}"),
        }
    }
}

proptest! {
    #[test]
    fn no_files_and_arguments_make_composing_panic_or_hang(
        texts in proptest::collection::vec(
            "(# @package (_global_|a\\.b|\\.)\n)?(defaults: \\[((_self_|a|/w/b|g/a|g: a|g@x: b|optional g: c|w: \\?\\?\\?|[{}:@/]), ){0,4}_self_\\]\n)?((w|x|workload): (1|\\{y: 2\\}|'\\$\\{x\\}')\n)?",
            4,
        ),
        arguments in proptest::collection::vec("[+~]{0,2}(w|g|x|workload|hydra)([./@](a|b|x)){0,2}(=(a|b|\\$\\{x\\}|\\{y: 1\\}))?", 0..4),
    ) {
        let paths = ["config.yaml", "w/a.yaml", "g/a.yaml", "workload/b.yaml"];
        let files: Vec<_> = paths.into_iter().zip(texts.iter().map(String::as_str)).collect();
        let files = folder(&files);
        let path = in_folder(&files);
        let arguments: Vec<_> =
            [path.as_str()].into_iter().chain(arguments.iter().map(String::as_str)).collect();
        let request = request(&arguments);
        let _ = (compose(&request, true), resolve(&request));
    }
}
