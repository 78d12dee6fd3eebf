//! `iostat.json`: what disks and CPUs did, second by second, while the benchmark ran. It is the
//! output of `iostat -mdxtcy -o JSON <devices> 1` (sysstat), started and stopped with the run.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use jiff::civil::DateTime;
use serde::Deserialize;

use super::recorded::Span;

/// How iostat writes a moment: by default as the locale has it (C and American English here), and
/// with `S_TIME_FORMAT=ISO`, whose offset is cut off before: what we compare with is local time too.
const TIME_FORMATS: [&str; 5] = [
    "%m/%d/%y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%m/%d/%y %I:%M:%S %p",
    "%m/%d/%Y %I:%M:%S %p",
    "%Y-%m-%dT%H:%M:%S",
];

/// What closes a file that ends behind a whole sample.
const CLOSING: &str = "]}]}}";

/// The samples of a run, in the order of time.
#[derive(Debug)]
pub(super) struct Iostat {
    samples: Vec<Sample>,
}

/// One second.
#[derive(Debug)]
pub(super) struct Sample {
    time: DateTime,
    /// Shares of the CPU's time.
    pub(super) cpu: Cpu,
    /// The devices.
    pub(super) disks: Vec<Disk>,
}

/// Shares of the CPU's time, in %.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cpu {
    pub(super) user: Option<f64>,
    pub(super) system: Option<f64>,
    pub(super) iowait: Option<f64>,
    pub(super) steal: Option<f64>,
    pub(super) idle: Option<f64>,
}

/// What a device did. sysstat's MB are MiB.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Disk {
    #[serde(rename = "disk_device")]
    pub(super) name: String,
    #[serde(rename = "rMB/s")]
    pub(super) read_mib_per_second: Option<f64>,
    #[serde(rename = "wMB/s")]
    pub(super) written_mib_per_second: Option<f64>,
    #[serde(rename = "r/s")]
    pub(super) reads_per_second: Option<f64>,
    #[serde(rename = "w/s")]
    pub(super) writes_per_second: Option<f64>,
    #[serde(rename = "r_await")]
    pub(super) read_wait_millis: Option<f64>,
    #[serde(rename = "w_await")]
    pub(super) write_wait_millis: Option<f64>,
    #[serde(rename = "aqu-sz")]
    pub(super) queue: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct File {
    sysstat: Sysstat,
}

#[derive(Debug, Deserialize)]
struct Sysstat {
    hosts: Vec<Host>,
}

#[derive(Debug, Deserialize)]
struct Host {
    #[serde(default)]
    statistics: Vec<Statistic>,
}

#[derive(Debug, Deserialize)]
struct Statistic {
    #[serde(default)]
    timestamp: String,
    #[serde(default, rename = "avg-cpu")]
    cpu: Cpu,
    #[serde(default)]
    disk: Vec<Disk>,
}

impl Iostat {
    /// Reads the file at `path`; `None` if there is none, or, with a warning, nothing to be read from
    /// it.
    pub(super) fn read(path: &Path, warnings: &mut Vec<String>) -> Option<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => {
                warnings.push(format!("cannot read {}: {error}", path.display()));
                return None;
            }
        };
        Self::parse(&text)
            .map_err(|problem| {
                warnings.push(format!("{} is left out: {problem}", path.display()));
            })
            .ok()
    }

    /// The samples in `text`, which may end anywhere, as it does when iostat was killed.
    fn parse(text: &str) -> Result<Self, String> {
        let file: File = serde_json::from_str(text)
            .or_else(|error| {
                whole_part(text).map_or(Err(error), |part| serde_json::from_str(&part))
            })
            .map_err(|error| format!("it is not JSON of iostat: {error}"))?;
        let statistics = file.sysstat.hosts.into_iter().flat_map(|host| host.statistics);
        let samples = statistics.map(Sample::of).collect::<Result<Vec<_>, _>>()?;
        if samples.is_empty() {
            return Err("it holds no whole sample".to_owned());
        }
        Ok(Self { samples })
    }

    /// The samples whose time lies within `span`.
    pub(super) fn within(&self, span: Span) -> Vec<&Sample> {
        let (Some(start), Some(end)) = (span.start, span.end) else { return Vec::new() };
        self.samples.iter().filter(|sample| (start..=end).contains(&sample.time)).collect()
    }

    /// The names of the devices.
    pub(super) fn devices(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for disk in self.samples.iter().flat_map(|sample| &sample.disks) {
            if !names.contains(&disk.name.as_str()) {
                names.push(&disk.name);
            }
        }
        names
    }
}

impl Sample {
    fn of(statistic: Statistic) -> Result<Self, String> {
        let text = statistic.timestamp.trim();
        let time = TIME_FORMATS
            .iter()
            .find_map(|format| {
                let text = if format.contains('T') { text.get(..19)? } else { text };
                DateTime::strptime(format, text).ok()
            })
            .ok_or_else(|| {
                format!(
                    "cannot tell the time '{text}' of a sample; run iostat with S_TIME_FORMAT=ISO \
                     or LC_ALL=C"
                )
            })?;
        Ok(Self { time, cpu: statistic.cpu, disks: statistic.disk })
    }
}

/// `text` up to its last whole sample, closed. Samples are the objects in the fifth level of
/// brackets: root, sysstat, hosts, host, statistics.
fn whole_part(text: &str) -> Option<String> {
    const STATISTICS: usize = 5;
    let (mut level, mut in_string, mut end) = (0_usize, false, None);
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => level += 1,
            b'}' | b']' => {
                level = level.checked_sub(1)?;
                if level == STATISTICS && byte == b'}' {
                    end = Some(position);
                }
            }
            _ => {}
        }
    }
    Some(format!("{}{CLOSING}", &text[..=end?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/postprocess/iostat.json");
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_file_that_was_cut_off_anywhere_keeps_its_whole_samples() {
        let whole = fixture();
        let count = Iostat::parse(&whole).unwrap().samples.len();
        let mut seen = 0;
        for end in 0..whole.len() {
            let Ok(cut) = Iostat::parse(&whole[..end]) else { continue };
            assert!(cut.samples.len() >= seen, "{end}");
            seen = cut.samples.len();
        }
        assert_eq!((count, seen), (6, 6));
    }

    #[test]
    fn times_are_read_in_every_form_that_iostat_has() {
        let expected: DateTime = "2026-11-30T18:47:54".parse().unwrap();
        for text in [
            "11/30/26 18:47:54",
            "11/30/2026 06:47:54 PM",
            "2026-11-30T18:47:54+0100",
            "2026-11-30T18:47:54Z",
        ] {
            let json = format!("{{\"timestamp\": \"{text}\"}}");
            let sample = Sample::of(serde_json::from_str(&json).unwrap()).unwrap();
            assert_eq!(sample.time, expected, "{text}");
        }
        let problem = Sample::of(serde_json::from_str("{\"timestamp\": \"30.11.\"}").unwrap());
        assert!(problem.unwrap_err().contains("S_TIME_FORMAT=ISO"));
    }
}
