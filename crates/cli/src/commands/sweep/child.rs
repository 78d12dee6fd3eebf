//! The process of one run of a sweep.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use feedrate_workload::Schedule;

use crate::progress;
use crate::training::{Message, Task, show};

/// Runs `task` in a child process, showing its progress; returns why it failed, if it did.
///
/// # Errors
/// When no process can be started, which would be no different for the next run.
pub(super) fn run_child(task: &Task, quiet: bool) -> anyhow::Result<Option<String>> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut child = Command::new(program)
        .arg("train-task")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A terminal's Ctrl-C is for the parent; see `interrupt`.
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start the process of NP {}", task.np))?;
    let told = follow(&mut child, task, quiet);
    if told.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().context("waiting for the process of a run")?;
    Ok(match (told, status.success()) {
        (Ok(None), true) => None,
        (Ok(None), false) => Some(format!("its process ended without a word ({status})")),
        (Ok(Some(why)), _) => Some(why),
        (Err(error), _) => Some(format!("its process cannot be followed any more: {error:#}")),
    })
}

/// Hands `task` to the child and listens until it has nothing more to say.
fn follow(child: &mut Child, task: &Task, quiet: bool) -> anyhow::Result<Option<String>> {
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("the process of NP {} has no pipes", task.np);
    };
    // The child lives as long as this pipe: it is closed when `input` is dropped.
    writeln!(input, "{}", serde_json::to_string(task)?)?;
    let steps = Schedule::new(&task.workload, task.np)?.steps;
    let bar = progress::training(steps * u64::from(task.workload.train.epochs), task.np, quiet);
    let mut failure = None;
    for line in BufReader::new(output).lines() {
        match serde_json::from_str(&line?)? {
            Message::Failed(why) => failure = Some(why),
            message => show(&bar, steps, quiet, message),
        }
    }
    bar.finish_and_clear();
    Ok(failure)
}
