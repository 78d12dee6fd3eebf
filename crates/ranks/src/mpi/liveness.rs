//! The thread that keeps in touch with the other processes, whatever the ranks are doing.
//!
//! The processes form a star: every one tells process 0, and process 0 every one, that it is alive,
//! once in a heartbeat. Who is not heard of for too long is lost, and the job has failed. So it has
//! when a rank fails: its process tells process 0, which tells all. Messages travel on a communicator
//! of their own, so that no collective of the ranks has to do with them, and a step that takes long is
//! no failure.
//!
//! A launcher that sees one of its processes die ends the others, mostly within a second: too soon for
//! a heartbeat to be missed. So when something is wrong (a signal to end, a call of MPI that fails),
//! the processes call the roll: who does not answer within [`ROLL_CALL`] is the cause.
//!
//! A process that has nothing more to do says so and stays until all have said so. So nobody's end is
//! taken for a failure, no message is under way when the library is finalized, and when the job has
//! failed nobody's early end makes the launcher end those that still write down what they have.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::attendance::Attendance;
use super::library::{CallError, Communicator, Transfer};
use super::notice::Notice;
use super::shared::{Shared, Wishes};
use super::{Loss, Options};

/// How often messages are looked for. They wait so long at most, of the half second in which a failure
/// should be known everywhere.
const PULSE: Duration = Duration::from_millis(50);
/// The same, while there is something to hurry for.
const QUICK_PULSE: Duration = Duration::from_millis(5);
/// How long processes have to answer a roll call: much longer than [`PULSE`], and much shorter than
/// the second that Open MPI's launcher waits between SIGTERM and SIGKILL.
const ROLL_CALL: Duration = Duration::from_millis(400);
/// How much longer other processes wait for what process 0 has found out.
const ROLL_CALL_OF_0: Duration = Duration::from_millis(200);
/// How long the ranks of a job that has failed may take to notice, before the process is ended.
const GRACE: Duration = Duration::from_secs(2);
/// The same when this process was asked to end, which leaves little time.
const SHORT_GRACE: Duration = Duration::from_millis(150);
/// How long a process stays for the others when the job has failed.
const FAREWELL: Duration = Duration::from_secs(3);

/// Keeps in touch until the job is over.
pub(crate) fn keep_in_touch(control: &Communicator, shared: &Shared, options: &Options) {
    let now = Instant::now();
    let partners = match control.process() {
        0 => 1..control.processes(),
        _ => 0..1,
    };
    let liveness = Liveness {
        control,
        shared,
        options,
        attendance: Attendance::new(partners, options.dead_after, now),
        under_way: Vec::new(),
        next_beat: now,
        roll: None,
        failed_at: None,
        was_told: false,
        callback_done: false,
        leaving_since: None,
        leaving: BTreeSet::new(),
        all_leave: false,
        gone: BTreeSet::new(),
    };
    liveness.run();
}

struct Liveness<'a> {
    control: &'a Communicator,
    shared: &'a Shared,
    options: &'a Options,
    attendance: Attendance,
    /// Messages that are being sent, and to whom.
    under_way: Vec<(u32, Transfer<'a>)>,
    next_beat: Instant,
    roll: Option<Roll>,
    /// When this thread saw that the job has failed.
    failed_at: Option<Instant>,
    /// The failure is known to process 0, as it came from there.
    was_told: bool,
    callback_done: bool,
    /// Since when this process has nothing more to do.
    leaving_since: Option<Instant>,
    /// The others that said so; on process 0.
    leaving: BTreeSet<u32>,
    /// All have said so.
    all_leave: bool,
    /// Those that will say nothing more; on process 0.
    gone: BTreeSet<u32>,
}

/// A roll call that is going on.
struct Roll {
    since: Instant,
    /// What is wrong with this process; none when another process asked.
    reason: Option<String>,
    concluded: bool,
}

impl Liveness<'_> {
    fn run(mut self) {
        while !self.is_over() {
            let hurry = self.leaving_since.is_some()
                || self.roll.as_ref().is_some_and(|roll| !roll.concluded);
            let wishes = self.shared.wishes_within(if hurry { QUICK_PULSE } else { PULSE });
            self.receive();
            self.beat();
            self.give_up_the_silent();
            self.call_roll(wishes.roll_call.clone());
            self.spread_failure();
            self.leave(&wishes);
            self.end_the_stuck(&wishes);
        }
        self.flush(FAREWELL);
    }

    fn receive(&mut self) {
        self.attendance.look(Instant::now(), PULSE);
        loop {
            match self.control.take_message() {
                Ok(Some((sender, bytes))) => {
                    self.attendance.heard(sender, Instant::now());
                    if let Some(notice) = Notice::from_bytes(&bytes) {
                        self.take(sender, notice);
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    self.suspect(&error);
                    return;
                }
            }
        }
    }

    fn take(&mut self, sender: u32, notice: Notice) {
        match notice {
            Notice::Alive => {}
            Notice::RollCall => {
                self.send(sender, &Notice::Alive);
                if self.is_hub() && self.roll.is_none() && !self.has_failed() {
                    self.begin_roll(None);
                }
            }
            Notice::Failed(aborted) => {
                self.was_told = sender == 0;
                self.shared.fail(aborted);
            }
            Notice::Leaving => {
                self.leaving.insert(sender);
            }
            Notice::AllLeave => {
                self.all_leave = true;
                self.send(0, &Notice::Gone);
            }
            Notice::Gone => {
                self.gone.insert(sender);
            }
        }
    }

    fn beat(&mut self) {
        self.send_on();
        let now = Instant::now();
        if now >= self.next_beat && !self.all_leave {
            self.next_beat = now + self.options.heartbeat;
            self.send_all(&Notice::Alive);
        }
    }

    fn give_up_the_silent(&mut self) {
        let silent = self.attendance.lost(Instant::now());
        if !silent.is_empty() && !self.all_leave {
            let time = self.options.dead_after;
            self.lose(&silent, &format!("was not heard of for {time:?}"));
        }
    }

    fn lose(&mut self, processes: &[u32], what: &str) {
        // Those that leave a job that has failed are not the cause.
        if !self.has_failed() {
            if processes.contains(&0) {
                self.shared.lost_process_0();
            }
            let why = "it was killed or stopped, or its host or the network is down";
            self.shared.fail(self.shared.loss(processes, &format!("{what}: {why}")));
            // The lost ones are told too: one that was only stopped then does not take the end of the
            // others for a failure of theirs.
            self.spread_failure();
        }
        self.attendance.strike(processes);
    }

    /// A call of MPI has failed, by the fault of some process.
    fn suspect(&mut self, error: &CallError) {
        if self.roll.is_none() && !self.has_failed() {
            self.begin_roll(Some(error.to_string()));
        }
    }

    fn begin_roll(&mut self, reason: Option<String>) {
        self.roll = Some(Roll { since: Instant::now(), reason, concluded: false });
        self.send_all(&Notice::RollCall);
    }

    fn call_roll(&mut self, wish: Option<String>) {
        match (&mut self.roll, wish) {
            (None, Some(reason)) => self.begin_roll(Some(reason)),
            (Some(roll), Some(reason)) => {
                roll.reason.get_or_insert(reason);
            }
            (_, None) => {}
        }
        let time = if self.is_hub() { ROLL_CALL } else { ROLL_CALL + ROLL_CALL_OF_0 };
        let due = |roll: &&mut Roll| !roll.concluded && roll.since.elapsed() >= time;
        let Some(roll) = self.roll.as_mut().filter(due) else {
            return;
        };
        roll.concluded = true;
        let silent = self.attendance.silent_since(roll.since);
        let reason = roll.reason.clone();
        if self.has_failed() {
            return;
        }
        if !silent.is_empty() {
            let after = reason.map(|reason| format!(" after {reason}")).unwrap_or_default();
            self.lose(&silent, &format!("does not answer{after}"));
        } else if let Some(reason) = reason {
            let process = self.control.process();
            let rank = self.shared.first_rank(process);
            self.shared.fail(self.shared.failure(process, rank, reason));
        }
    }

    /// Tells those of the failure who do not know it yet.
    fn spread_failure(&mut self) {
        if let (None, Some(aborted)) = (self.failed_at, self.shared.aborted()) {
            self.failed_at = Some(Instant::now());
            if !self.was_told {
                self.send_all(&Notice::Failed(aborted.clone()));
            }
        }
    }

    fn leave(&mut self, wishes: &Wishes) {
        if !wishes.leave {
            return;
        }
        if self.leaving_since.is_none() {
            self.leaving_since = Some(Instant::now());
            if !self.is_hub() {
                self.send(0, &Notice::Leaving);
            }
        }
        let all_present = self.attendance.present().all(|one| self.leaving.contains(&one));
        if self.is_hub() && !self.all_leave && all_present {
            self.send_all(&Notice::AllLeave);
            self.all_leave = true;
        }
    }

    fn is_over(&self) -> bool {
        let Some(since) = self.leaving_since else {
            return false;
        };
        let alone = self.attendance.present().next().is_none();
        let all_gone = if self.is_hub() {
            self.attendance.present().all(|one| self.gone.contains(&one))
        } else {
            true
        };
        (self.all_leave && all_gone) || alone || self.has_failed() && since.elapsed() >= FAREWELL
    }

    /// Calls the callback when the job has failed and this process does not notice it by itself.
    fn end_the_stuck(&mut self, wishes: &Wishes) {
        let Some(failed_at) = self.failed_at else {
            return;
        };
        let asked_to_end = self.roll.as_ref().is_some_and(|roll| roll.reason.is_some());
        let grace = if asked_to_end { SHORT_GRACE } else { GRACE };
        if self.callback_done || wishes.leave || failed_at.elapsed() < grace {
            return;
        }
        self.callback_done = true;
        self.flush(ROLL_CALL_OF_0);
        if let Some(aborted) = self.shared.aborted() {
            let loss = Loss { aborted: aborted.clone(), speaks: self.shared.claim_word() };
            (self.options.on_lost)(&loss);
        }
    }

    /// Waits until the messages to those who are there have gone, at most for `time`.
    fn flush(&mut self, time: Duration) {
        let until = Instant::now() + time;
        let present: Vec<u32> = self.attendance.present().collect();
        self.under_way.retain(|(to, _)| present.contains(to));
        while !self.under_way.is_empty() && Instant::now() < until {
            self.send_on();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets messages be sent that are being sent.
    fn send_on(&mut self) {
        let mut failed = None;
        self.under_way.retain_mut(|(_, transfer)| match transfer.is_over() {
            Ok(over) => !over,
            Err(error) => {
                failed = Some(error);
                false
            }
        });
        if let Some(error) = failed {
            self.suspect(&error);
        }
    }

    fn send_all(&mut self, notice: &Notice) {
        let present: Vec<u32> = self.attendance.present().collect();
        for process in present {
            self.send(process, notice);
        }
    }

    fn send(&mut self, to: u32, notice: &Notice) {
        let waiting = self.under_way.iter().any(|(process, _)| *process == to);
        // Another one would tell no more than the one before.
        if waiting && *notice == Notice::Alive {
            return;
        }
        match self.control.send(to, notice.to_bytes()) {
            Ok(transfer) => self.under_way.push((to, transfer)),
            Err(error) => self.suspect(&error),
        }
    }

    fn is_hub(&self) -> bool {
        self.control.process() == 0
    }

    fn has_failed(&self) -> bool {
        self.shared.aborted().is_some()
    }
}
