//! CPU time and memory of processes and of the host, read from `/proc`.

mod phases;

use std::fs;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::phases::{CpuByPhase, CpuTime};
use crate::units::{ByteCount, Seconds};

/// What a process used from its start until now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// User and system time of all its threads.
    pub cpu: Seconds,
    /// The most memory it had resident at once (`VmHWM`).
    pub peak_rss: ByteCount,
    /// How long it has been running.
    pub age: Seconds,
    /// The CPU time apart by the phases of a run, where the process notes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<CpuByPhase>,
}

impl ProcessUsage {
    /// Of the calling process.
    pub fn current() -> io::Result<Self> {
        Self::of("self")
    }

    /// Of the process `pid`, which must be alive.
    pub fn of_pid(pid: u32) -> io::Result<Self> {
        Self::of(&pid.to_string())
    }

    /// What this and another process used together: the sums of CPU time, by phases if both know them,
    /// and of peak memory (an upper bound, since not all need have had their peaks at once), and the
    /// longer age.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            peak_rss: self.peak_rss + other.peak_rss,
            age: Seconds(self.age.0.max(other.age.0)),
            phases: self.phases.zip(other.phases).map(|(own, others)| own.and(others)),
        }
    }

    fn of(pid: &str) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let uptime = fs::read_to_string("/proc/uptime")?;
        parse_usage(&stat, &status, &uptime, ticks_per_second())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat")))
    }
}

/// How busy the CPUs were in the moments in which at least one rank waited for a batch
/// of a training.
///
/// Each process samples the CPUs that it may itself use, while one of its own ranks waits. The only
/// process of a job counts its own CPU time. Where other processes of the job, or the store's server,
/// may use the same CPUs, everything that runs on them is counted: of four processes on one machine
/// each has a quarter of the CPUs at most, and yet they are all busy. So a share, also that of several
/// processes ([`WaitingCpu::and`]), says how busy CPUs were however the ranks were put into processes,
/// and whether these share a machine, are pinned to parts of it, or have one each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitingCpu {
    /// The time in which a rank waited, as sampled; over several processes, the sum.
    pub waited: Seconds,
    /// CPU time used in it; over several processes, the sum.
    pub cpu: Seconds,
    /// CPUs that could have been used; over several processes, by how long each waited.
    pub cpus: f64,
}

impl WaitingCpu {
    /// How busy the CPUs were while ranks of this or of other processes waited: CPU time used and CPU
    /// time there was are added up, so a process that waited longer counts for more.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let waited = self.waited + other.waited;
        let available = self.available() + other.available();
        let cpus = if waited.0 > 0.0 { available / waited.0 } else { self.cpus.max(other.cpus) };
        Self { waited, cpu: self.cpu + other.cpu, cpus }
    }

    fn available(&self) -> f64 {
        self.waited.0 * self.cpus
    }

    /// CPU time used over CPU time there was, at most 1; `None` when no waiting was sampled.
    ///
    /// The kernel counts CPU time in ticks of 10 ms, so over a short wait it may have counted more
    /// than there was.
    pub fn busy_share(&self) -> Option<f64> {
        let available = self.available();
        (available > 0.0).then(|| (self.cpu.0 / available).min(1.0))
    }
}

/// User and system time of the calling process until now.
pub fn own_cpu_time() -> io::Result<CpuTime> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    stat_fields(&stat)
        .and_then(|fields| cpu_time(&fields, ticks_per_second()))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/self/stat"))
}

/// Time that those CPUs of this host for which `counts` (given their numbers) together have spent busy
/// since boot: everything in their lines of `/proc/stat` but idle and waiting for I/O.
pub fn busy_time(counts: impl Fn(usize) -> bool) -> io::Result<Duration> {
    cpus_ticks(counts, busy_ticks)
}

/// Time that those CPUs together have spent idle since boot, waiting for I/O included. The kernel
/// measures it, while of the time that CPUs are busy it takes samples, which short work may slip through.
pub fn idle_time(counts: impl Fn(usize) -> bool) -> io::Result<Duration> {
    cpus_ticks(counts, idle_ticks)
}

fn cpus_ticks(
    counts: impl Fn(usize) -> bool,
    of_cpu: impl Fn(&str) -> Option<u64>,
) -> io::Result<Duration> {
    let ticks = parse_ticks(&fs::read_to_string("/proc/stat")?, counts, of_cpu);
    Ok(Duration::from_secs_f64(ticks as f64 / ticks_per_second()))
}

/// Memory that can be used without swapping (`MemAvailable`).
pub fn available_memory() -> io::Result<ByteCount> {
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    kib_field(&meminfo, "MemAvailable:")
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/meminfo"))
}

/// `/proc/meminfo` as (name, value) pairs in the kernel's order; values keep their unit (`24 kB`).
pub fn meminfo() -> io::Result<Vec<(String, String)>> {
    Ok(pairs(&fs::read_to_string("/proc/meminfo")?))
}

/// The `name : value` lines of a text of procfs, in their order, without the blanks around.
pub fn pairs(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

/// This host's name.
pub fn hostname() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned())
}

/// Linux reports process times in `USER_HZ`, which is 100 on every architecture we build for.
fn ticks_per_second() -> f64 {
    100.0
}

/// The fields behind the command name, which may hold blanks and brackets itself. Field 0 here is
/// field 3 (`state`) of proc(5).
fn stat_fields(stat: &str) -> Option<Vec<&str>> {
    Some(stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().collect())
}

fn cpu_time(fields: &[&str], hz: f64) -> Option<CpuTime> {
    let seconds = |field: usize| Some(Seconds(fields.get(field)?.parse::<u64>().ok()? as f64 / hz));
    Some(CpuTime { user: seconds(11)?, system: seconds(12)? })
}

fn parse_usage(stat: &str, status: &str, uptime: &str, hz: f64) -> Option<ProcessUsage> {
    let fields = stat_fields(stat)?;
    let started = fields.get(19)?.parse::<u64>().ok()? as f64 / hz;
    let up: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
    Some(ProcessUsage {
        cpu: cpu_time(&fields, hz)?.sum(),
        peak_rss: kib_field(status, "VmHWM:")?,
        age: Seconds((up - started).max(0.0)),
        phases: None,
    })
}

fn parse_ticks(
    stat: &str,
    counts: impl Fn(usize) -> bool,
    of_cpu: impl Fn(&str) -> Option<u64>,
) -> u64 {
    let cpus = stat.lines().filter_map(|line| {
        let (number, fields) = line.strip_prefix("cpu")?.split_once(' ')?;
        if counts(number.parse().ok()?) { of_cpu(fields) } else { None }
    });
    cpus.sum()
}

/// Of the fields of a CPU in `proc_stat(5)`.
fn busy_ticks(fields: &str) -> Option<u64> {
    let mut fields = fields.split_ascii_whitespace();
    let mut next = || fields.next()?.parse::<u64>().ok();
    let (user, nice, system) = (next()?, next()?, next()?);
    let (_idle, _iowait) = (next()?, next()?);
    let (irq, softirq, steal) = (next()?, next()?, next()?);
    Some(user + nice + system + irq + softirq + steal)
}

/// The same for the time that it had nothing to do.
fn idle_ticks(fields: &str) -> Option<u64> {
    let mut fields = fields.split_ascii_whitespace().skip(3);
    let (idle, iowait) = (fields.next()?, fields.next()?);
    Some(idle.parse::<u64>().ok()? + iowait.parse::<u64>().ok()?)
}

fn kib_field(text: &str, name: &str) -> Option<ByteCount> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(ByteCount(kib * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b)) S 1 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 9 0 5000 0 0";
        let status = "Name:\ta\nVmHWM:\t  2048 kB\n";
        let usage = parse_usage(stat, status, "60.00 99.00", 100.0).unwrap();
        assert_eq!(usage.cpu, Seconds(2.0));
        assert_eq!(usage.peak_rss, ByteCount(2048 * 1024));
        assert_eq!(usage.age, Seconds(10.0));
    }

    #[test]
    fn cpus_are_never_busier_than_wholly() {
        let waiting =
            |waited, cpu| WaitingCpu { waited: Seconds(waited), cpu: Seconds(cpu), cpus: 2.0 };
        assert_eq!(waiting(1.0, 1.0).busy_share(), Some(0.5));
        assert_eq!(waiting(0.01, 0.03).busy_share(), Some(1.0));
        assert_eq!(waiting(0.0, 0.0).busy_share(), None);
    }

    #[test]
    fn processes_on_a_busy_machine_are_busy_together_and_those_that_wait_longer_count_for_more() {
        let waiting =
            |waited, cpu, cpus| WaitingCpu { waited: Seconds(waited), cpu: Seconds(cpu), cpus };
        let share = |one: WaitingCpu, other| one.and(other).busy_share().unwrap();
        let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value}");
        // Both see the same two CPUs, nine tenths busy.
        close(share(waiting(1.0, 1.8, 2.0), waiting(3.0, 5.4, 2.0)), 0.9);
        // One has a busy CPU, the other seven idle ones.
        close(share(waiting(1.0, 1.0, 1.0), waiting(1.0, 0.0, 7.0)), 1.0 / 8.0);
        close(share(waiting(1.0, 2.0, 2.0), waiting(0.0, 0.0, 64.0)), 1.0);
        let idle = waiting(0.0, 0.0, 2.0).and(waiting(0.0, 0.0, 4.0));
        assert_eq!((idle.busy_share(), idle.cpus), (None, 4.0));
    }

    #[test]
    fn only_the_cpus_asked_for_count_and_neither_their_idle_time_nor_iowait() {
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 1000 2000 4 5 6 0 0\n\
                    cpu1 100 0 0 0 0 0 0 0 0 0\ncpu12 0 0 1000 0 0 0 0 0 0 0\nintr 7 0\n";
        assert_eq!(parse_ticks(stat, |_| true, busy_ticks), 1121);
        assert_eq!(parse_ticks(stat, |cpu| cpu == 0, busy_ticks), 21);
        assert_eq!(parse_ticks(stat, |cpu| cpu == 12, busy_ticks), 1000);
        assert_eq!(parse_ticks(stat, |_| true, idle_ticks), 3000);
        assert_eq!(parse_ticks(stat, |cpu| cpu == 1, idle_ticks), 0);
    }

    #[test]
    fn usages_add_up() {
        let usage = |cpu, rss, age| ProcessUsage {
            cpu: Seconds(cpu),
            peak_rss: ByteCount(rss),
            age: Seconds(age),
            phases: None,
        };
        assert_eq!(usage(1.0, 10, 5.0).and(usage(2.0, 20, 4.0)), usage(3.0, 30, 5.0));
        let phases = Some(CpuByPhase {
            training: CpuTime { user: Seconds(1.0), system: Seconds(0.5) },
            ..CpuByPhase::default()
        });
        let known = ProcessUsage { phases, ..usage(1.0, 10, 5.0) };
        let both = known.and(known).phases.unwrap();
        assert_eq!(both.training, CpuTime { user: Seconds(2.0), system: Seconds(1.0) });
        assert_eq!(known.and(usage(1.0, 10, 5.0)).phases, None, "one does not know");
    }

    #[test]
    fn what_is_known_of_an_earlier_program_has_no_phases() {
        let usage = r#"{"cpu": 2.0, "peak_rss": 1024, "age": 3.0}"#;
        let usage: ProcessUsage = serde_json::from_str(usage).unwrap();
        assert_eq!(usage.phases, None);
        assert!(!serde_json::to_string(&usage).unwrap().contains("phases"));
    }

    #[test]
    fn cpus_are_idle_for_some_time_after_boot() {
        let first = idle_time(|cpu| cpu == 0).unwrap();
        let all = idle_time(|_| true).unwrap();
        assert!(all > Duration::ZERO && all >= first);
    }

    #[test]
    fn this_process_has_used_memory() {
        let usage = ProcessUsage::current().unwrap();
        assert!(usage.peak_rss.0 > 0);
        assert!(available_memory().unwrap().0 > 0);
    }
}
