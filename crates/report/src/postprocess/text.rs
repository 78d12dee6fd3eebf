//! The report as text: at most 100 columns wide, labels and order as in the reports of DLIO.

use std::fmt::Write;

use feedrate_metrics::units::MIB;
use jiff::civil::DateTime;

use super::distribution::Distribution;
use super::iostat::{Cpu, Disk, Iostat, Sample};
use super::phases::{Epoch, Kind, Phase};
use super::recorded::{Span, seconds};
use super::{Run, has};

/// What stands where nothing is known.
const NOT_KNOWN: &str = "n/a";

/// The column at which figures begin.
const LABEL_WIDTH: usize = 30;

/// The label of a row and its figure of one sample.
type Figure<T> = (&'static str, fn(&T) -> Option<f64>);

const DISK_FIGURES: [Figure<Disk>; 7] = [
    ("R Bandwidth (MiB/s):", |disk| disk.read_mib_per_second),
    ("W Bandwidth (MiB/s):", |disk| disk.written_mib_per_second),
    ("R IOPS:", |disk| disk.reads_per_second),
    ("W IOPS:", |disk| disk.writes_per_second),
    ("Avg R Time (ms):", |disk| disk.read_wait_millis),
    ("Avg W Time (ms):", |disk| disk.write_wait_millis),
    ("Avg Queue Length:", |disk| disk.queue),
];

const CPU_FIGURES: [Figure<Cpu>; 5] = [
    ("User (%):", |cpu| cpu.user),
    ("System (%):", |cpu| cpu.system),
    ("IO Wait (%):", |cpu| cpu.iowait),
    ("Steal (%):", |cpu| cpu.steal),
    ("Idle (%):", |cpu| cpu.idle),
];

const NOTE: &str = "\
Note: statistics of less than two values are n/a: those of very short phases, which have too few
steps or, in I/O and CPU statistics, too few seconds. The duration of an epoch is the one that was
recorded, in current outputs that of its training alone.
";

pub(super) fn render(run: &Run) -> String {
    let mut page = Page(format!("DLIO v1.0 Report\n\n{NOTE}\n"));
    page.overall(run);
    page.0.push_str("\nDetailed Report\n");
    for epoch in &run.epochs {
        page.epoch(run, epoch);
    }
    page.0
}

/// The text so far.
struct Page(String);

impl Page {
    fn overall(&mut self, run: &Run) {
        self.title(0, "Overall");
        let start = run.epochs.first().and_then(|epoch| epoch.span.start);
        let end = run.epochs.last().and_then(|epoch| epoch.span.end);
        let duration = start.zip(end).and_then(|(start, end)| seconds(start, end));
        self.fact(4, "Run name:", run.name.as_deref().unwrap_or(NOT_KNOWN));
        self.span(4, Span { start, end, duration, throughput: None });
        self.fact(4, "Num Ranks:", &run.ranks.to_string());
        self.fact(4, "Batch size (per rank):", &run.batch_sizes.train.to_string());
        if has(&run.epochs, Kind::Eval) {
            self.fact(4, "Eval batch size:", &run.batch_sizes.eval.to_string());
        }
        let length = run.record_length.map_or(NOT_KNOWN.to_owned(), |length| length.to_string());
        self.fact(4, "Record length (bytes):", &length);

        let phases = || run.epochs.iter().flat_map(|epoch| &epoch.phases);
        let blocks = phases().filter(|phase| phase.kind == Kind::Block);
        let rates: Vec<f64> = blocks.flat_map(|block| &block.samples_per_second).copied().collect();
        self.header();
        self.title(4, "Training throughput (over all epochs)");
        self.throughput(6, run, rates);
        if let Some(iostat) = &run.iostat {
            self.0.push('\n');
            self.title(4, "I/O and CPU (over all phases)");
            let samples: Vec<&Sample> =
                phases().flat_map(|phase| iostat.within(phase.span)).collect();
            self.io(6, iostat, &samples);
        }
    }

    fn epoch(&mut self, run: &Run, epoch: &Epoch) {
        self.0.push('\n');
        self.title(0, &format!("Epoch {}", epoch.number));
        self.span(4, epoch.span);
        for phase in &epoch.phases {
            self.0.push('\n');
            self.phase(run, phase);
        }
    }

    fn phase(&mut self, run: &Run, phase: &Phase) {
        self.title(4, &format!("{} {}", phase.kind.name(), phase.number));
        self.span(8, phase.span);
        let has_steps = phase.kind != Kind::Checkpoint;
        if has_steps {
            self.fact(8, "Avg loading time / rank (s):", &number(phase.loading));
            self.fact(8, "Avg processing time / rank (s):", &number(phase.processing));
        } else if let Some(throughput) = phase.span.throughput {
            self.fact(8, "Throughput (GiB/s):", &format!("{throughput:.4}"));
        }
        if has_steps || run.iostat.is_some() {
            self.header();
        }
        if has_steps {
            self.throughput(8, run, phase.samples_per_second.clone());
        }
        if let Some(iostat) = &run.iostat {
            self.io(8, iostat, &iostat.within(phase.span));
        }
    }

    fn title(&mut self, indent: usize, title: &str) {
        let _ = writeln!(self.0, "{:indent$}{title}", "");
    }

    fn span(&mut self, indent: usize, span: Span) {
        self.fact(indent, "Started:", &moment(span.start));
        self.fact(indent, "Ended:", &moment(span.end));
        self.fact(indent, "Duration (s):", &number(span.duration));
    }

    fn fact(&mut self, indent: usize, label: &str, value: &str) {
        let _ = writeln!(self.0, "{:indent$}{label:<31} {value}", "");
    }

    /// The heads of the columns of figures.
    fn header(&mut self) {
        let _ = write!(self.0, "\n{:LABEL_WIDTH$}", "");
        for name in Distribution::NAMES {
            let _ = write!(self.0, " {name:>9}");
        }
        self.0.push('\n');
    }

    fn throughput(&mut self, indent: usize, run: &Run, samples_per_second: Vec<f64>) {
        let length = run.record_length;
        let mib_per_second = length.map_or(Vec::new(), |length| {
            samples_per_second.iter().map(|rate| rate * length / MIB).collect()
        });
        self.statistics(indent, "Samples/s:", samples_per_second);
        self.statistics(indent, "MiB/s:", mib_per_second);
    }

    fn io(&mut self, indent: usize, iostat: &Iostat, samples: &[&Sample]) {
        for device in iostat.devices() {
            self.title(indent, &format!("Device: {device}"));
            let disks = || samples.iter().flat_map(|sample| &sample.disks);
            for (label, figure) in DISK_FIGURES {
                let values = disks().filter(|disk| disk.name == device).filter_map(figure);
                self.statistics(indent + 2, label, values.collect());
            }
        }
        self.title(indent, "CPU");
        for (label, figure) in CPU_FIGURES {
            let values = samples.iter().filter_map(|sample| figure(&sample.cpu));
            self.statistics(indent + 2, label, values.collect());
        }
    }

    /// A row of figures.
    fn statistics(&mut self, indent: usize, label: &str, values: Vec<f64>) {
        let width = LABEL_WIDTH - indent;
        let _ = write!(self.0, "{:indent$}{label:<width$}", "");
        let figures = Distribution::of(values).map(|distribution| distribution.figures());
        for column in 0..Distribution::NAMES.len() {
            let _ = write!(self.0, " {:>9}", number(figures.map(|figures| figures[column])));
        }
        self.0.push('\n');
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or(NOT_KNOWN.to_owned(), |value| format!("{value:.2}"))
}

fn moment(time: Option<DateTime>) -> String {
    time.map_or(NOT_KNOWN.to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S.%6f").to_string())
}
