//! Tells the binary which commit it was built from.

use std::process::Command;

fn main() {
    let commit = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map_or_else(|| "unknown".to_owned(), |commit| commit.trim().to_owned());
    println!("cargo::rustc-env=FEEDRATE_COMMIT={commit}");
    // `logs/HEAD` changes with every commit, also on the same branch; a source archive has none.
    if std::path::Path::new("../../.git/logs/HEAD").exists() {
        println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
    } else {
        println!("cargo::rerun-if-changed=build.rs");
    }
}
