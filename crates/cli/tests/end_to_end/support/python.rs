//! The Python that checks generated files, with the readers that people use.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Call, Said, Server};

/// Runs `script` with `folder` as its argument, warnings being errors, and asserts that it ends well.
#[track_caller]
pub(crate) fn python(script: &str, folder: &Path) -> Said {
    interpreter().arg("-c").arg(script).arg(folder).succeeds()
}

/// The same with endpoint and keys of `server` in its environment.
#[track_caller]
pub(crate) fn python_on(script: &str, server: &Server) {
    interpreter().arg("-c").arg(script).on(server).succeeds();
}

/// Checks sets of files as `tests/check_files.py` says.
#[track_caller]
pub(crate) fn check_files(cases: &[Value]) {
    let script = repository().join("tests/check_files.py");
    interpreter().arg(script).arg(Value::from(cases).to_string()).succeeds();
}

/// Makes sets of files in `folder` as `tests/make_dlio_files.py` says.
#[track_caller]
pub(crate) fn make_dlio_files(folder: &Path) {
    interpreter().arg(repository().join("tests/make_dlio_files.py")).arg(folder).succeeds();
}

/// `./test` makes the environment; without it the test fails, because a check that is skipped is
/// none.
#[track_caller]
fn interpreter() -> Call {
    let interpreter = repository().join("target/venv/bin/python");
    assert!(
        interpreter.exists(),
        "{} is missing: run ./test once, it makes the Python environment",
        interpreter.display()
    );
    Call::new(interpreter).args("-B -W error")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
