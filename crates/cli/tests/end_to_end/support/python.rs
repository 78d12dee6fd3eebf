//! The Python that checks generated files, with the readers that people use.

use std::path::Path;

use super::Call;

/// Runs `script` with `folder` as its argument, warnings being errors, and asserts that it ends well.
///
/// `./test` makes the environment; without it the test fails, because a check that is skipped is
/// none.
#[track_caller]
pub(crate) fn python(script: &str, folder: &Path) {
    let interpreter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv/bin/python");
    assert!(
        interpreter.exists(),
        "{} is missing: run ./test once, it makes the Python environment",
        interpreter.display()
    );
    Call::new(interpreter).args("-W error -c").arg(script).arg(folder).succeeds();
}
