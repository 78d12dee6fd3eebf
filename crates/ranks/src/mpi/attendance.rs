//! When each of the other processes was last heard of.

use std::time::{Duration, Instant};

/// The processes that this one listens to.
#[derive(Debug)]
pub(crate) struct Attendance {
    dead_after: Duration,
    last_look: Instant,
    /// Process, and when it was last heard of; those that were given up are gone from here.
    heard: Vec<(u32, Instant)>,
}

impl Attendance {
    pub(crate) fn new(
        processes: impl IntoIterator<Item = u32>,
        dead_after: Duration,
        now: Instant,
    ) -> Self {
        let heard = processes.into_iter().map(|process| (process, now)).collect();
        Self { dead_after, last_look: now, heard }
    }

    /// Notes that a message of `process` has come.
    pub(crate) fn heard(&mut self, process: u32, now: Instant) {
        if let Some((_, heard)) = self.heard.iter_mut().find(|(known, _)| *known == process) {
            *heard = now;
        }
    }

    /// Those that are still listened to.
    pub(crate) fn present(&self) -> impl Iterator<Item = u32> {
        self.heard.iter().map(|(process, _)| *process)
    }

    /// Stops listening to `processes`.
    pub(crate) fn strike(&mut self, processes: &[u32]) {
        self.heard.retain(|(process, _)| !processes.contains(process));
    }

    /// Begins a look around. Looks are `pulse` apart; time in which this process did not get to look
    /// (it was stopped, or starved of CPU) is not held against the others.
    pub(crate) fn look(&mut self, now: Instant, pulse: Duration) {
        let missed = now.saturating_duration_since(self.last_look).saturating_sub(2 * pulse);
        self.last_look = now;
        for (_, heard) in &mut self.heard {
            *heard = (*heard + missed).min(now);
        }
    }

    /// The processes that are to be given up: when one was not heard of for the whole time, all that
    /// were not heard of for half of it, as a lost host takes all of its processes along.
    pub(crate) fn lost(&self, now: Instant) -> Vec<u32> {
        let silent_for = |time: Duration| {
            let silent =
                self.heard.iter().filter(move |(_, heard)| now.duration_since(*heard) > time);
            silent.map(|(process, _)| *process)
        };
        if silent_for(self.dead_after).next().is_some() {
            silent_for(self.dead_after / 2).collect()
        } else {
            Vec::new()
        }
    }

    /// Those not heard of since `then`.
    pub(crate) fn silent_since(&self, then: Instant) -> Vec<u32> {
        self.heard.iter().filter(|(_, heard)| *heard <= then).map(|(process, _)| *process).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const PULSE: Duration = Duration::from_millis(50);

    /// Looks at every pulse until `seconds` are over; `speaks` says who is heard at each second.
    fn after(seconds: u32, speaks: impl Fn(u32, u32) -> bool) -> Vec<u32> {
        let start = Instant::now();
        let mut attendance = Attendance::new(1..=3, 6 * SECOND, start);
        for pulse in 1..=seconds * 20 {
            let now = start + pulse * PULSE;
            attendance.look(now, PULSE);
            for process in (1..=3).filter(|process| pulse % 20 == 0 && speaks(*process, pulse / 20))
            {
                attendance.heard(process, now);
            }
        }
        attendance.lost(start + seconds * SECOND + PULSE)
    }

    #[test]
    fn only_who_is_silent_for_the_whole_time_is_given_up() {
        assert_eq!(after(60, |_, _| true), []);
        assert_eq!(after(10, |process, second| process != 2 || second <= 4), [2]);
        assert_eq!(after(9, |process, second| process != 2 || second <= 4), []);
    }

    #[test]
    fn processes_of_a_lost_host_are_given_up_together() {
        let speaks = |process, second| match process {
            1 => true,
            2 => second <= 4,
            _ => second <= 5,
        };
        assert_eq!(after(10, speaks), [2, 3]);
    }

    #[test]
    fn time_in_which_this_process_was_stopped_is_not_held_against_others() {
        let start = Instant::now();
        let mut attendance = Attendance::new([1], 6 * SECOND, start);
        let now = start + 100 * SECOND;
        attendance.look(now, PULSE);
        assert_eq!(attendance.lost(now), []);
        let later = now + 7 * SECOND;
        for pulse in 1..=140 {
            attendance.look(now + pulse * PULSE, PULSE);
        }
        assert_eq!(attendance.lost(later), [1]);
    }

    #[test]
    fn who_was_struck_off_is_lost_no_more() {
        let start = Instant::now();
        let mut attendance = Attendance::new(1..=2, SECOND, start);
        attendance.strike(&[1]);
        assert_eq!(attendance.present().collect::<Vec<_>>(), [2]);
        assert_eq!(attendance.lost(start + 2 * SECOND), [2]);
        assert_eq!(attendance.silent_since(start), [2]);
    }
}
