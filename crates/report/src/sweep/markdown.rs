//! `report.md`: what was measured, where, and what it means, in plain words. Every sentence is made
//! from the figures; where they say nothing, the sentence is missing.

use std::fmt::Write;
use std::path::Path;

use feedrate_metrics::units::ByteCount;
use feedrate_metrics::verdict::Verdict;
use feedrate_workload::{
    CHUNKED_GETS_IN_FLIGHT, Compat, DataLoader, Payload, Pipeline, Shuffle, Window, Workload,
};

use super::{Sweep, SweepRun};
use crate::run::{
    Percentiles, cache_drops_in_words, compat_in_words, get_engine_in_words, in_flight_section,
    per_gib, phases_section,
};
use crate::table::Table;
use crate::text::{UNKNOWN, counted, fixed, grouped, numbers, pass, percent, rate, short, time};

/// Windows that hold more than this share of an epoch read it nearly all at once.
const WINDOW_WARNING_ABOVE: f64 = 0.25;

/// Files that differ more than this from their nominal size were made for another workload.
const SIZE_WARNING_ABOVE: f64 = 0.05;

/// What the shares of the waiting are.
const WAIT_SHARES: &str = "\
A wait for a batch is told by the file of it that came last: first byte runs from its request, transfer \
from the first byte to the last; it was queued in the client before it was asked for; hand-over is putting \
the batch together and waking up. Barriers are waits for other accelerators.\n\n";

impl Sweep {
    /// The page for people. `folder` is where the sweep's files lie.
    pub fn to_markdown(&self, folder: &Path) -> String {
        let mut page = self.head();
        page += &self.environment_section();
        page += &self.utilization_section();
        page += &self.results_section();
        page += &self.evaluation_section();
        page += &self.warnings_section();
        if self.runs.len() == 1 {
            page += "## Analysis\n\n";
        } else {
            page += "## Scaling analysis\n\n";
            page += &self.efficiency_section();
            page += &self.throughput_section();
        }
        page += &self.time_section();
        page += &self.ranks_section();
        page += &self.latency_section();
        let in_flight = self.runs.iter().map(|run| (run.np, run.figures.in_flight.as_ref()));
        page += &in_flight_section(&in_flight.collect::<Vec<_>>());
        page += &self.endpoints_section();
        page += &self.cost_section();
        page += &self.nodes_section();
        page += &self.loading_section();
        page += &self.raw_section(folder);
        page
    }

    /// What a reader should know before trusting the figures; empty when there is nothing.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.client_bound();
        for run in &self.runs {
            let (np, figures) = (run.np, &run.figures);
            if let Some(why) = &run.failed {
                warnings.push(format!(
                    "NP {np} ended early, after {} of {} epochs: {why}",
                    figures.epochs_finished, self.epochs
                ));
            } else if figures.epochs_finished < self.epochs {
                warnings.push(format!(
                    "NP {np} has {} of {} epochs.",
                    figures.epochs_finished, self.epochs
                ));
            }
            if let Some(reason) = &figures.not_measurable_reason {
                warnings.push(format!("AU at NP {np} is not measurable: {reason}."));
            }
            if let Some(share) = figures.window_share_of_epoch.filter(|s| *s > WINDOW_WARNING_ABOVE)
            {
                warnings.push(format!(
                    "At NP {np} the readers' windows may hold {:.0} % of an epoch's files: much of \
                     an epoch can be read ahead, so the figures say little about a longer one. Use \
                     more files or a smaller storage.storage_options.prefetch_window.",
                    100.0 * share
                ));
            }
        }
        if let Some((np, arrived)) = self.other_sizes() {
            warnings.push(format!(
                "At NP {np} a sample had {} bytes on average, but dataset.record_length_bytes is \
                 {}: I/O MiB/s, which is of the latter, is not what the store delivered.",
                bytes(arrived.round()),
                bytes(self.record_length_bytes)
            ));
        }
        if self.skips_checkpoints() {
            warnings.push(
                "checkpoint: skipped. The workload asks for checkpoints between the steps of \
                 training; none was written, so what they cost is in no figure."
                    .to_owned(),
            );
        }
        let (data, (whose, memory)) = (self.data_set_size(), self.memory());
        if self.environment.store.endpoint.is_none() && data < memory && !self.always_dropped() {
            warnings.push(format!(
                "The data set ({data}) fits into {whose} memory ({memory}): reads may come from the \
                 page cache instead of the file system."
            ));
        }
        warnings
    }

    /// Runs whose figures are the client's own.
    fn client_bound(&self) -> Vec<String> {
        let bound =
            self.runs.iter().filter(|run| run.figures.verdict == Some(Verdict::ClientBound));
        bound
            .map(|run| {
                format!(
                    "NP {} is client-bound: its figures say what this client can take, not what the \
                     store can give. Give it more CPUs, or take the store's server off this host.",
                    run.np
                )
            })
            .collect()
    }

    /// Whose page cache might hold the data set, and the memory there is for it: of several nodes, each
    /// of which reads a part of the data set in an epoch, that of all.
    fn memory(&self) -> (&'static str, ByteCount) {
        if self.environment.hosts.is_empty() {
            return ("this host's", self.environment.memory_bytes);
        }
        let of_nodes = self
            .runs
            .iter()
            .map(|run| run.figures.per_node.iter().map(|node| node.memory_bytes.0).sum::<u64>());
        ("the hosts'", ByteCount(of_nodes.max().unwrap_or_default()))
    }

    fn skips_checkpoints(&self) -> bool {
        self.runs.iter().any(|run| run.figures.checkpoint.is_some())
    }

    /// Whether the page cache was dropped before every epoch of every run.
    fn always_dropped(&self) -> bool {
        self.runs.iter().all(|run| {
            let drops = &run.figures.cache_drops;
            drops.dropped >= self.epochs && drops.not_dropped.is_none()
        })
    }

    /// What became of the page cache, in every run or by NP where it is not the same.
    fn page_cache(&self) -> String {
        let mut told: Vec<(String, Vec<String>)> = Vec::new();
        for run in &self.runs {
            let words = cache_drops_in_words(&run.figures.cache_drops);
            match told.iter_mut().find(|(known, _)| *known == words) {
                Some((_, nps)) => nps.push(run.np.to_string()),
                None => told.push((words, vec![run.np.to_string()])),
            }
        }
        match told.as_slice() {
            [] => UNKNOWN.to_owned(),
            [(words, _)] => words.clone(),
            several => {
                let by_np =
                    several.iter().map(|(words, nps)| format!("NP {}: {words}", nps.join(", ")));
                by_np.collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// The first NP whose samples were not as large as the workload says they are, and how large they
    /// were.
    fn other_sizes(&self) -> Option<(u32, f64)> {
        let (dataset, nominal) = (&self.workload.dataset, self.record_length_bytes);
        if dataset.record_length_bytes_stdev > 0.0 {
            return None;
        }
        self.runs
            .iter()
            .filter_map(|run| {
                let gets = run.figures.gets.filter(|gets| *gets > 0)?;
                let samples = gets as f64 * dataset.num_samples_per_file as f64;
                Some((run.np, run.figures.bytes_read?.0 as f64 / samples))
            })
            .find(|(_, arrived)| (arrived / nominal - 1.0).abs() > SIZE_WARNING_ABOVE)
    }

    /// Nominal bytes of the data set.
    fn data_set_size(&self) -> ByteCount {
        let samples = self.files * self.workload.dataset.num_samples_per_file;
        ByteCount((samples as f64 * self.record_length_bytes) as u64)
    }

    fn head(&self) -> String {
        let (title, date) = match self.runs.as_slice() {
            [run] => (format!("{} at NP {}", self.model, run.np), "Date"),
            _ => (format!("{} NP scaling results", self.model), "Sweep date"),
        };
        // Two blanks end a line in Markdown.
        format!(
            "# {title}\n\n{date}: {}  \nfeedrate {}  \nCommand: `{}`\n\n",
            self.start.minute(),
            self.origin.tool_version,
            self.origin.command().replace('`', "'"),
        )
    }

    fn environment_section(&self) -> String {
        let (host, workload) = (&self.environment, &self.workload);
        let (dataset, reader) = (&workload.dataset, &workload.reader);
        let sha = if host.sha_extensions { "with SHA extensions" } else { "no SHA extensions" };
        let several = !host.hosts.is_empty();
        let (here, all) =
            if several { ("the first host", "the hosts") } else { ("this host", "this host") };
        let placed = if host.store.co_located { format!(", on {here}") } else { String::new() };
        let store = match &host.store.endpoint {
            Some(endpoint) if host.store.embedded => {
                format!("feedrate's own S3 test server in memory ({endpoint}{placed})")
            }
            Some(endpoint) => format!("{endpoint}{placed}"),
            None => format!("a file system of {all}"),
        };
        let place = if host.store.endpoint.is_some() { "Bucket / path" } else { "Folder" };
        let spread = match dataset.record_length_bytes_stdev {
            stdev if stdev > 0.0 => format!(", σ {} bytes", bytes(stdev)),
            _ => String::new(),
        };
        let mut rows = vec![
            (
                if several { "First host" } else { "Host" },
                format!(
                    "{}: {} CPUs ({}, {sha}), {} memory",
                    host.hostname, host.logical_cpus, host.cpu_model, host.memory_bytes
                ),
            ),
            ("Storage", store),
            (place, host.store.location.clone()),
            (
                "Data set",
                format!(
                    "{} {} files × {} (≈ {})",
                    grouped(self.files),
                    dataset.format.suffix().to_uppercase(),
                    counted(dataset.num_samples_per_file, "sample"),
                    self.data_set_size()
                ),
            ),
            (
                "Record length",
                format!(
                    "{} bytes ({}){spread}",
                    bytes(self.record_length_bytes),
                    ByteCount(self.record_length_bytes as u64)
                ),
            ),
            ("Batch size", reader.batch_size.to_string()),
            ("Read threads", format!("{} for each accelerator", reader.read_threads)),
            ("Computation time", time(&workload.train.computation_time)),
            ("Data loader", loader_in_words(workload)),
            ("Pipeline", pipeline_in_words(workload)),
            ("Payload", payload_in_words(reader.payload).to_owned()),
            ("Epochs", self.epochs.to_string()),
            ("AU target", format!("≥ {} %", percent(workload.metric.au))),
            ("Workload", self.origin.workload_name.clone()),
        ];
        if several {
            rows.insert(1, ("Hosts", host.hosts.join(", ")));
        }
        if let Some(engine) = get_engine_in_words(workload.storage.get_engine) {
            rows.push(("GETs made by", engine.to_owned()));
        }
        if let Some(compat) = compat_in_words(workload.compat) {
            rows.push(("Compatibility", compat.to_owned()));
        }
        if self.skips_checkpoints() {
            rows.push(("Checkpoint", "skipped".to_owned()));
        }
        if host.store.endpoint.is_none() {
            rows.push(("Page cache before each epoch", self.page_cache()));
        }
        let mut table = Table::new(["Parameter", "Value"]);
        for (name, value) in rows {
            table.row([name.to_owned(), value]);
        }
        let mut text = format!("## Test environment\n\n{}", table.markdown());
        if reader.payload == Payload::Discard {
            text += "> **Nothing lands in memory.** `reader.payload` is `discard`: every byte is \
                     received into a buffer that is used again at once, counted and dropped. A \
                     training would also have to write its batches to memory, which these figures \
                     leave out.\n\n";
        }
        if host.store.co_located && several {
            text += "> **Storage and benchmark on one host.** The storage server shares the first \
                     host's CPUs, memory and network with the simulated accelerators that run there. \
                     With storage of its own, what the server takes from them would be free.\n\n";
        } else if host.store.co_located {
            text += "> **Storage and benchmark on one host.** The storage server and the simulated \
                     accelerators share this host's CPUs, memory and loopback network. With storage \
                     of its own, what the server takes from them here would be free, and a real \
                     network would lie between.\n\n";
        }
        text
    }

    fn utilization_section(&self) -> String {
        let metric = &self.workload.metric;
        format!(
            "## Accelerator utilization (AU)\n\n\
             AU is the share of time in which the simulated accelerator computes instead of waiting \
             for its next batch or for the other accelerators. The target is AU ≥ {} %.\n\n\
             - **AU** is what DLIO reports: measured compute time over the time of the metric \
             window, which {}.\n\
             - **Wall AU** leaves nothing out: the compute time that was asked for in all steps over \
             the epoch's time by the clock, from an empty pipeline to the last barrier.\n\n\
             The two differ when a step outside the window waits longer than the others, as the \
             first does while the pipeline fills (the fewer steps an epoch has, the more it weighs), \
             and when sleeps take longer than asked, which AU counts as computing and wall AU as \
             lost.\n\n\
             Means and standard deviations (σ, population) are over epochs. NP is the number of \
             simulated accelerators. KiB, MiB and GiB are 2^10, 2^20 and 2^30 bytes; times are in \
             seconds (s) or milliseconds (ms).\n\n",
            percent(metric.au),
            left_out(metric.exclude_start_steps, metric.exclude_end_steps),
        )
    }

    fn results_section(&self) -> String {
        let title = if self.runs.len() == 1 { "Results" } else { "NP scaling results" };
        let mut text = format!("## {title}\n\n");
        let mut table = Table::new([
            "NP".to_owned(),
            "AU% (mean ± σ)".to_owned(),
            "Samples/s (mean ± σ)".to_owned(),
            "I/O MiB/s (mean ± σ)".to_owned(),
            "Wall (s)".to_owned(),
            format!("AU ≥ {}%?", percent(self.workload.metric.au)),
        ]);
        for run in &self.runs {
            let figures = &run.figures;
            table.row([
                run.np.to_string(),
                figures.au_in_words(),
                figures.samples_in_words(),
                figures.io_in_words(),
                fixed(run.wall_seconds.map(|wall| wall.0), 1),
                match run.failed {
                    Some(_) => "failed (see Warnings)".to_owned(),
                    None => pass(figures.au_met).to_owned(),
                },
            ]);
        }
        text += &table.markdown();
        let steps = match self.workload.compat {
            Compat::None | Compat::Mlcommons => "steps of the metric window",
            Compat::Upstream => "all steps of a block but two",
        };
        let _ = writeln!(
            text,
            "- **Samples/s** is DLIO's: {steps} × batch size over the window's time, summed over the \
             accelerators."
        );
        text += "- **I/O MiB/s** is samples/s × the nominal record length.\n\
                 - **Wall** is the whole run from the start of its process to its exit: listing, all \
                 epochs and writing results.\n\n\
                 The same by the wall clock of the epochs, no step left out, with the bytes that \
                 arrived:\n\n";
        let mut table = Table::new([
            "NP",
            "Wall AU%",
            "Samples/s",
            "MiB/s that arrived",
            "First step done after (s)",
        ]);
        for run in &self.runs {
            let figures = &run.figures;
            table.row([
                run.np.to_string(),
                fixed(figures.wall_au_percent_mean, 2),
                rate(figures.wall_samples_per_second_mean, None),
                rate(figures.wall_mib_per_second_mean, None),
                fixed(figures.time_to_first_step_seconds.map(|first| first.0), 2),
            ]);
        }
        text += &table.markdown();
        text += &self.per_epoch();
        text
    }

    /// What the evaluations behind the epochs measured; empty where there was none.
    fn evaluation_section(&self) -> String {
        let evaluated: Vec<_> = (self.runs.iter())
            .filter_map(|run| Some((run.np, run.figures.evaluation.as_ref()?)))
            .collect();
        if evaluated.is_empty() {
            return String::new();
        }
        let mut table = Table::new([
            "NP".to_owned(),
            "Evaluations".to_owned(),
            "Steps each".to_owned(),
            "AU% (mean ± σ)".to_owned(),
            "Samples/s (mean ± σ)".to_owned(),
            "I/O MiB/s (mean ± σ)".to_owned(),
            format!("AU ≥ {}%?", percent(self.workload.metric.au)),
        ]);
        for (np, figures) in evaluated {
            let [au, samples, io] = figures.each_in_words();
            table.row([
                np.to_string(),
                figures.evaluations_finished.to_string(),
                grouped(figures.steps),
                au,
                samples,
                io,
                pass(figures.au_met).to_owned(),
            ]);
        }
        let over_ranks = match self.workload.compat {
            Compat::None => "summed over the accelerators",
            Compat::Mlcommons | Compat::Upstream => {
                "of one accelerator; its AU is divided by their number, as in DLIO's lists"
            }
        };
        format!(
            "## Evaluation\n\n{}An evaluation follows the training of an epoch and is in none of its \
             figures; its steps have no barrier. AU is that of the metric window as above, samples/s \
             are all steps × batch size over the evaluation's time, {over_ranks}.\n\n",
            table.markdown()
        )
    }

    fn per_epoch(&self) -> String {
        let header = self.runs.iter().map(|run| format!("NP={}", run.np));
        let mut table = Table::new(std::iter::once("Epoch".to_owned()).chain(header));
        for epoch in 0..self.epochs as usize {
            let cells = self.runs.iter().map(|run| {
                fixed(run.figures.au_percent_per_epoch.get(epoch).copied().flatten(), 2)
            });
            table.row(std::iter::once((epoch + 1).to_string()).chain(cells));
        }
        let mut text = format!("### AU% of each epoch\n\n{}", table.markdown());
        let spreads =
            self.runs.iter().filter_map(|run| Some((run.figures.au_percent_stdev?, run.np)));
        if let Some((stdev, np)) = spreads.max_by(|a, b| a.0.total_cmp(&b.0))
            && self.epochs > 1
        {
            let _ = writeln!(text, "The largest σ over epochs is {stdev:.2} points, at NP {np}.\n");
        }
        text
    }

    fn warnings_section(&self) -> String {
        let warnings = self.warnings();
        if warnings.is_empty() {
            return String::new();
        }
        let mut text = "## Warnings\n\n".to_owned();
        for warning in warnings {
            let _ = writeln!(text, "- {}", warning.replace('\n', "\n  "));
        }
        text + "\n"
    }

    fn efficiency_section(&self) -> String {
        let mut text = "### Throughput scaling efficiency\n\n".to_owned();
        let known: Vec<(&SweepRun, f64)> = self
            .runs
            .iter()
            .filter_map(|run| Some((run, run.figures.samples_per_second_mean?)))
            .collect();
        let Some(((base, base_rate), others)) = known.split_first() else {
            return text + "No run has a throughput.\n\n";
        };
        let mut table = Table::new(["Transition", "Samples/s", "Ideal", "Efficiency"]);
        for (run, rate) in others {
            table.row([
                format!("NP={} → NP={}", base.np, run.np),
                format!("{base_rate:.1} → {rate:.1}"),
                format!("{:.1}", base_rate * f64::from(run.np) / f64::from(base.np)),
                format!("{}%", fixed(run.scaling_efficiency_percent, 1)),
            ]);
        }
        text += &table.markdown();
        if let Some((run, _)) = others.last()
            && let Some(efficiency) = run.scaling_efficiency_percent
        {
            let _ = writeln!(
                text,
                "{} accelerators get {efficiency:.1} % of {} × what {} got.\n",
                run.np,
                short(f64::from(run.np) / f64::from(base.np)),
                base.np,
            );
        }
        text
    }

    fn throughput_section(&self) -> String {
        let mut table = Table::new(["NP", "I/O MiB/s", "Per-accelerator MiB/s"]);
        let each = |run: &SweepRun| Some(run.figures.io_mib_per_second_mean? / f64::from(run.np));
        for run in &self.runs {
            table.row([
                run.np.to_string(),
                rate(run.figures.io_mib_per_second_mean, None),
                rate(each(run), None),
            ]);
        }
        let mut text = format!("### I/O throughput per accelerator\n\n{}", table.markdown());
        let rates: Vec<f64> = self.runs.iter().filter_map(each).collect();
        let highest = rates.iter().copied().fold(0.0, f64::max);
        let lowest = rates.iter().copied().fold(highest, f64::min);
        if rates.len() > 1 && highest > 0.0 {
            let _ = writeln!(
                text,
                "Between the NPs, what one accelerator gets differs by {:.1} %.\n",
                100.0 * (highest - lowest) / highest
            );
        }
        text
    }

    fn time_section(&self) -> String {
        let mut table = Table::new([
            "NP",
            "Compute %",
            "Waiting for data %",
            "Barrier %",
            "Sleeping too long %",
            "Other %",
            "Wait per step (ms)",
        ]);
        let mut verdicts = String::new();
        let mut shares_in_words = "";
        for run in &self.runs {
            let share = |share: fn(&crate::Breakdown) -> f64| {
                fixed(run.figures.breakdown.as_ref().map(share), 2)
            };
            table.row([
                run.np.to_string(),
                share(|breakdown| breakdown.compute_percent),
                share(|breakdown| breakdown.wait_percent),
                share(|breakdown| breakdown.barrier_percent),
                share(|breakdown| breakdown.overshoot_percent),
                share(|breakdown| breakdown.other_percent),
                share(|breakdown| breakdown.wait_ms_per_step),
            ]);
            let words = run.figures.verdict_in_words();
            let _ = writeln!(verdicts, "- NP {} waited for {words}.", run.np);
            if let Some(waits) = run.figures.waits_in_words() {
                shares_in_words = WAIT_SHARES;
                let _ = writeln!(verdicts, "  Of the time that accelerators waited, {waits}.");
            }
        }
        format!(
            "### What the accelerators waited for\n\n\
             Shares of the time of all accelerators in all epochs. Compute is what was asked for; \
             waiting for data runs from asking for a batch to holding it; barrier is waiting for the \
             other accelerators behind a step; other is between the steps:\n\n{}{verdicts}\n\
             {shares_in_words}",
            table.markdown()
        )
    }

    /// Which ranks the others waited for; empty where all are alike.
    fn ranks_section(&self) -> String {
        let mut table = Table::new([
            "NP",
            "Slowest rank",
            "Its steps (s)",
            "Slowest in epochs",
            "Fastest rank",
            "Its steps (s)",
            "Fastest in epochs",
        ]);
        for run in &self.runs {
            let figures = &run.figures;
            if let (Some(slowest), Some(fastest)) = (&figures.slowest_rank, &figures.fastest_rank) {
                let cells = [slowest, fastest].map(|rank| {
                    [
                        format!("{} on {}", rank.rank, rank.host),
                        fixed(Some(rank.seconds.0), 2),
                        format!("{} of {}", rank.epochs, figures.epochs_finished),
                    ]
                });
                table.row([vec![run.np.to_string()], cells.concat()].concat());
            }
        }
        if table.is_empty() {
            return String::new();
        }
        format!(
            "### Slowest and fastest accelerator\n\n{}A rank is the number of an accelerator. Its steps \
             are what it needed by itself in the trainings of all epochs, waiting for data and \
             computing, without the barriers at which it waited for others. A rank that is the slowest \
             in all epochs is so by its host or its share of the data; by chance it would change.\n\n",
            table.markdown()
        )
    }

    fn latency_section(&self) -> String {
        let mut table = Table::new([
            "NP",
            "GETs",
            "First byte p50 / p90 / p99 / max (ms)",
            "Last byte p50 / p90 / p99 / max (ms)",
            "Retries",
        ]);
        for run in &self.runs {
            let figures = &run.figures;
            table.row([
                run.np.to_string(),
                figures.gets.map_or(UNKNOWN.to_owned(), grouped),
                in_a_row(&figures.get_first_byte_ms),
                in_a_row(&figures.get_latency_ms),
                figures.retries_in_words(),
            ]);
        }
        format!(
            "### GET latency and retries\n\n{}Times run from sending the request of the attempt that \
             succeeded to the first and to the last byte of its body, over all epochs; retries are \
             attempts that failed and were repeated, by kind.\n\n",
            table.markdown()
        )
    }

    /// What each endpoint did; empty unless there are several.
    fn endpoints_section(&self) -> String {
        if self.runs.iter().all(|run| run.figures.endpoints.len() < 2) {
            return String::new();
        }
        let mut table = Table::new(["NP", "Endpoint", "GETs", "Share of GETs", "Read", "Retries"]);
        for run in &self.runs {
            let all: u64 = run.figures.endpoints.values().map(|counts| counts.gets).sum();
            for (url, counts) in &run.figures.endpoints {
                let share = (all > 0).then(|| 100.0 * counts.gets as f64 / all as f64);
                table.row([
                    run.np.to_string(),
                    url.clone(),
                    grouped(counts.gets),
                    format!("{} %", fixed(share, 1)),
                    counts.bytes.to_string(),
                    grouped(counts.retries),
                ]);
            }
        }
        format!(
            "### Endpoints\n\n{}GETs and bytes are of attempts that succeeded at the endpoint; retries \
             failed there and were repeated, there or at another.\n\n",
            table.markdown()
        )
    }

    fn cost_section(&self) -> String {
        let mut table = Table::new([
            "NP",
            "Read",
            "Client CPU-s",
            "Client CPU-s/GiB",
            "Server CPU-s",
            "Server CPU-s/GiB",
            "Client peak memory",
        ]);
        for run in &self.runs {
            let figures = &run.figures;
            let bytes = |count: Option<ByteCount>| {
                count.map_or(UNKNOWN.to_owned(), |count| count.to_string())
            };
            let seconds =
                |cpu: Option<feedrate_metrics::units::Seconds>| fixed(cpu.map(|cpu| cpu.0), 2);
            table.row([
                run.np.to_string(),
                bytes(figures.bytes_read),
                seconds(figures.client_cpu_seconds),
                fixed(figures.client_cpu_seconds_per_gib, 3),
                seconds(run.server_cpu_seconds),
                fixed(per_gib(run.server_cpu_seconds, figures.bytes_read), 3),
                bytes(figures.client_peak_rss_bytes),
            ]);
        }
        let phases = |run: &SweepRun| (run.np, run.figures.client_cpu_seconds_by_phase);
        let server = if self.environment.store.embedded {
            "The server is feedrate's own, a process beside the client."
        } else {
            "The server's CPU time is known only for feedrate's own server."
        };
        format!(
            "### CPU and memory\n\n{}Read is what GETs brought in all epochs. Client CPU is the user \
             and system time of a run's processes from their start to their end, peak memory the most \
             that each had resident at once, added up. {server}\n\n{}",
            table.markdown(),
            phases_section(&self.runs.iter().map(phases).collect::<Vec<_>>()),
        )
    }

    /// What the nodes have and what was used there; empty unless a run was on several.
    fn nodes_section(&self) -> String {
        if self.environment.hosts.is_empty() {
            return String::new();
        }
        let mut table = Table::new([
            "NP",
            "Node",
            "Ranks",
            "Processes",
            "CPUs",
            "Memory",
            "Client CPU-s",
            "Client peak memory",
        ]);
        for run in &self.runs {
            for node in &run.figures.per_node {
                table.row([
                    run.np.to_string(),
                    node.host.clone(),
                    numbers(&node.ranks),
                    node.processes.to_string(),
                    node.logical_cpus.to_string(),
                    node.memory_bytes.to_string(),
                    fixed(node.client_cpu_seconds.map(|cpu| cpu.0), 2),
                    node.client_peak_rss_bytes.map_or(UNKNOWN.to_owned(), |most| most.to_string()),
                ]);
            }
        }
        format!("### Nodes\n\n{}", table.markdown())
    }

    fn loading_section(&self) -> String {
        let Workload { reader, .. } = &self.workload;
        let budgets = self.runs.iter().filter_map(|run| run.figures.byte_budget_bytes);
        let budget = budgets.max().map_or(String::new(), |budget| {
            format!(" Batches in memory are bounded to {budget} in each process.")
        });
        let how = if reader.read_threads == 0 {
            "Each accelerator's own thread reads its batch, one file at a time; nothing is read while \
             it computes."
                .to_owned()
        } else {
            format!(
                "Each accelerator has {}; each of them has a share of the epoch's files to itself \
                 and reads while the accelerator computes. {}",
                counted(u64::from(reader.read_threads), "reader"),
                reading_ahead(&self.workload),
            )
        };
        let landed = match reader.payload {
            Payload::Land => "every byte of a batch is in memory when it is taken",
            Payload::Discard => {
                "every byte of a batch has arrived, and was dropped, when it is taken"
            }
        };
        format!(
            "## How the data is loaded\n\n{how} Batches are made for each accelerator and delivered \
             in order; {landed}. The epoch's clock starts behind a barrier with an empty pipeline, \
             and after each step the accelerators meet at a barrier.{budget}\n\n"
        )
    }

    fn raw_section(&self, folder: &Path) -> String {
        let mut files: Vec<String> = Vec::new();
        for run in &self.runs {
            if run.folder.is_empty() {
                files.extend(["summary.json", crate::run::FILE_NAME].map(ToOwned::to_owned));
            } else {
                // A run that failed in its first epoch has written its log alone.
                let log = &self.workload.output.log_file;
                let finished = run.figures.epochs_finished > 0;
                files.push(format!(
                    "{}/{}",
                    run.folder,
                    if finished { "summary.json" } else { log }
                ));
            }
        }
        if self.runs.iter().all(|run| !run.folder.is_empty()) {
            files.extend([super::FILE_NAME, super::TABLE_NAME].map(ToOwned::to_owned));
        }
        let last = files.len().saturating_sub(1);
        let mut tree = format!("{}/\n", folder.display());
        for (number, file) in files.iter().enumerate() {
            let _ = writeln!(tree, "{} {file}", if number == last { "└──" } else { "├──" });
        }
        format!("## Raw results\n\n```text\n{tree}```\n")
    }
}

fn loader_in_words(workload: &Workload) -> String {
    let reader = &workload.reader;
    let name = match reader.data_loader {
        DataLoader::Pytorch => "pytorch",
        DataLoader::Tensorflow => "tensorflow",
        DataLoader::Synthetic => "synthetic",
    };
    let order = |shuffle: Shuffle| match shuffle {
        Shuffle::Off => "in order",
        Shuffle::Seed => "shuffled by seed",
        Shuffle::Random => "shuffled at random",
    };
    format!(
        "feedrate's own, in the place of {name}'s; files {}, samples {}",
        order(reader.file_shuffle),
        order(reader.sample_shuffle)
    )
}

fn pipeline_in_words(workload: &Workload) -> String {
    let (reader, storage) = (&workload.reader, &workload.storage);
    if reader.read_threads == 0 {
        return "none: no readers, nothing is read ahead".to_owned();
    }
    match reader.pipeline {
        Pipeline::Sliding => format!(
            "sliding, window of {} files for each reader, {}",
            storage.prefetch_window,
            match reader.window {
                Window::Auto => "filled as far as is needed (reader.window: auto)",
                Window::Fixed => "filled at once (reader.window: fixed)",
            }
        ),
        Pipeline::Chunked => format!(
            "chunked, {} files a chunk, at most {} GETs in flight for each reader, {}",
            storage.prefetch_window,
            workload.storage.prefetch_window.min(CHUNKED_GETS_IN_FLIGHT),
            if storage.stagger_workers {
                "readers start staggered"
            } else {
                "readers start together"
            },
        ),
    }
}

fn payload_in_words(payload: Payload) -> &'static str {
    match payload {
        Payload::Land => "land: every byte of a batch is in memory when it is taken",
        Payload::Discard => "discard: received, counted and dropped; nothing lands in memory",
    }
}

/// How a reader reads ahead.
fn reading_ahead(workload: &Workload) -> String {
    let storage = &workload.storage;
    let window = storage.prefetch_window;
    match workload.reader.pipeline {
        Pipeline::Sliding => format!(
            "It keeps up to {window} of them in flight or ready: a file that is used makes room for \
             the next. GETs are sent in the order in which batches need them{}",
            match workload.reader.window {
                Window::Auto => {
                    ", over all accelerators of a process, and only as many as keep the next batches \
                     ready."
                }
                Window::Fixed => ", as soon as there is room.",
            }
        ),
        Pipeline::Chunked => {
            let stagger = if storage.stagger_workers {
                let pause = short(workload.train.computation_time.mean());
                format!(
                    " Reader k of an accelerator starts k × {pause} s (the mean computation time) \
                     later, k from 0."
                )
            } else {
                String::new()
            };
            format!(
                "It takes them in chunks of {window}: the next chunk is fetched in the background \
                 while one is used, with at most {} GETs in flight for each reader.{stagger}",
                workload.storage.prefetch_window.min(CHUNKED_GETS_IN_FLIGHT)
            )
        }
    }
}

/// Which of an epoch's steps DLIO's figures leave out.
fn left_out(start: u64, end: u64) -> String {
    match (start, end) {
        (0, 0) => "holds all steps of an epoch".to_owned(),
        (start, 0) => format!("leaves out the first {} of an epoch", counted(start, "step")),
        (0, end) => format!("leaves out the last {} of an epoch", counted(end, "step")),
        (start, end) => format!(
            "leaves out the first {} and the last {} of an epoch",
            counted(start, "step"),
            counted(end, "step")
        ),
    }
}

/// A number of bytes that is nearly always whole.
fn bytes(length: f64) -> String {
    if length.fract() == 0.0 { grouped(length as u64) } else { short(length) }
}

fn in_a_row(percentiles: &Percentiles) -> String {
    let Percentiles { p50, p90, p99, max } = *percentiles;
    [p50, p90, p99, max].map(|value| fixed(value, 2)).join(" / ")
}

#[cfg(test)]
mod tests {
    use feedrate_metrics::requests::EndpointCounts;
    use feedrate_workload::GetEngine;

    use super::*;
    use crate::{ProcessFacts, Skipped, Store, fixtures};

    fn page(sweep: &Sweep) -> String {
        let folder = Path::new("results/retinanet_np_sweep/20260512_173956");
        // The zone of the machine that runs the test decides the hour.
        sweep.to_markdown(folder).replace(&fixtures::stamp().minute(), "2026-05-12 17:39")
    }

    #[test]
    fn the_page_of_a_sweep() {
        insta::assert_snapshot!(page(&fixtures::sweep()));
    }

    #[test]
    fn the_page_of_a_run_alone() {
        let report = fixtures::known_delays();
        let page = report.to_markdown(Path::new("results/training/t0/run/20260512_173956"));
        insta::assert_snapshot!(page.replace(&fixtures::stamp().minute(), "2026-05-12 17:39"));
    }

    #[test]
    fn the_page_of_a_run_on_two_nodes_names_them_and_the_slowest_rank() {
        let mut report = fixtures::two_nodes();
        let text = report.to_markdown(Path::new("x"));
        for part in [
            "| First host | a: 2 CPUs",
            "| Hosts | a, b |",
            "(http://127.0.0.1:9000, on the first host) |",
            "| 3 | 1 on b | 1.58 | 2 of 2 | 0 on a | 0.98 | 2 of 2 |",
            "| 3 | a | 0, 2 | 2 | 2 | 24.0 GiB | 2.50 | 300.0 MiB |",
            "| 3 | b | 1 | 1 | 4 | 64.0 MiB | 1.00 | 200.0 MiB |",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        report.store = Store::folder("/data");
        let text = report.to_markdown(Path::new("x"));
        assert!(text.contains("| a file system of the hosts |"), "{text}");
        assert!(text.contains("fits into the hosts' memory (24.1 GiB)"), "{text}");

        let alone = page(&fixtures::sweep());
        for part in ["### Nodes", "### Slowest", "| Hosts |", "first host"] {
            assert!(!alone.contains(part), "{part} is in {alone}");
        }
    }

    #[test]
    fn a_failed_run_keeps_its_row_and_says_why() {
        let mut sweep = fixtures::sweep();
        let why = "GET data/img_3.jpeg failed after 4 attempts: 503 SlowDown";
        sweep.add(SweepRun::failed(8, None, "NP8", ProcessFacts::default(), why));
        let page = page(&sweep);
        assert!(page.contains("| 8 | – | – | – | – | – |"), "{page}");
        assert!(page.contains(&format!("NP 8 ended early, after 0 of 3 epochs: {why}")), "{page}");
        assert!(page.contains("├── NP8/dlio.log\n"), "{page}");
    }

    #[test]
    fn that_the_client_was_the_limit_is_the_first_warning() {
        let mut sweep = fixtures::sweep();
        sweep.runs[1].figures.verdict = Some(Verdict::ClientBound);
        sweep.runs[2].figures.window_share_of_epoch = Some(0.9);
        assert!(sweep.warnings()[0].starts_with("NP 2 is client-bound"), "{:?}", sweep.warnings());
    }

    #[test]
    fn windows_that_hold_much_of_an_epoch_are_warned_about() {
        let mut sweep = fixtures::sweep();
        assert_eq!(sweep.warnings(), [""; 0]);
        sweep.runs[0].figures.window_share_of_epoch = Some(0.4);
        assert!(sweep.warnings()[0].contains("40 % of an epoch"));
    }

    #[test]
    fn samples_of_another_size_than_the_workload_says_are_warned_about() {
        let mut sweep = fixtures::sweep();
        sweep.record_length_bytes *= 1.25;
        let [warning] = &sweep.warnings()[..] else { panic!("{:?}", sweep.warnings()) };
        assert!(warning.contains("on average, but dataset.record_length_bytes is"), "{warning}");
        sweep.workload.dataset.record_length_bytes_stdev = 100.0;
        assert_eq!(sweep.warnings(), [""; 0]);
    }

    #[test]
    fn a_data_set_in_the_page_cache_is_warned_about_on_local_files_only() {
        let mut sweep = fixtures::sweep();
        sweep.environment.store = Store::folder("/data");
        assert!(sweep.warnings()[0].contains("page cache"));
        sweep.environment.memory_bytes = ByteCount(1);
        assert_eq!(sweep.warnings(), [""; 0]);
    }

    #[test]
    fn a_page_cache_that_was_dropped_before_each_epoch_is_told_and_not_warned_about() {
        let mut sweep = fixtures::evaluated_sweep();
        for run in &mut sweep.runs {
            run.figures.cache_drops.dropped = 2;
        }
        assert_eq!(sweep.warnings(), [""; 0]);
        let row = "| Page cache before each epoch | dropped 2 times |";
        assert!(page(&sweep).contains(row), "{}", page(&sweep));

        let drops = &mut sweep.runs[2].figures.cache_drops;
        (drops.dropped, drops.not_dropped) = (0, Some("no permission".to_owned()));
        let text = page(&sweep);
        let row = "| NP 1, 2: dropped 2 times; NP 4: not dropped: no permission |";
        assert!(text.contains(row), "{text}");
        assert!(sweep.warnings()[0].contains("page cache"));
        assert!(!page(&fixtures::sweep()).contains("Page cache"));
    }

    #[test]
    fn evaluations_have_a_section_of_their_own() {
        let text = page(&fixtures::evaluated_sweep());
        let row = "| 4 | 2 | 5 | 50.00 ± 0.00 | 40.0 ± 0.0 | 2.500 ± 0.000 | FAIL |";
        assert!(text.contains("## Evaluation\n") && text.contains(row), "{text}");
        assert!(!page(&fixtures::sweep()).contains("Evaluation"));
    }

    #[test]
    fn skipped_checkpoints_and_borrowed_formulas_are_said() {
        let mut sweep = fixtures::sweep();
        let before = page(&sweep);
        assert!(!before.contains("Checkpoint") && !before.contains("Compatibility"), "{before}");
        sweep.workload.compat = Compat::Upstream;
        sweep.runs[0].figures.checkpoint = Some(Skipped::Skipped);
        let text = page(&sweep);
        assert!(text.contains("| Checkpoint | skipped |"), "{text}");
        assert!(text.contains("| Compatibility | upstream: "), "{text}");
        assert!(text.contains("is DLIO's: all steps of a block but two × batch size"), "{text}");
        assert!(sweep.warnings()[0].starts_with("checkpoint: skipped"));
    }

    #[test]
    fn gets_that_another_client_made_are_said_to_be_its_own() {
        let mut sweep = fixtures::sweep();
        assert!(!page(&sweep).contains("GETs made by"));
        sweep.workload.storage.get_engine = GetEngine::ObjectStore;
        assert!(page(&sweep).contains("| GETs made by | object_store's own S3 client"));
        let mut run = fixtures::one_step();
        assert!(!run.to_string().contains("GETs made by"));
        run.workload.storage.get_engine = GetEngine::ObjectStore;
        assert!(run.to_string().contains("GETs made by   object_store's own S3 client"));
    }

    #[test]
    fn what_cannot_be_measured_is_a_dash_and_a_warning() {
        let page = fixtures::one_step().to_markdown(Path::new("x"));
        assert!(page.contains("AU at NP 1 is not measurable: the metric window is 0 steps"));
        assert!(page.contains("| 1 | – | – | – | 10.0 | – |"), "{page}");
    }

    #[test]
    fn storage_elsewhere_has_no_note_about_one_host() {
        let mut sweep = fixtures::sweep();
        assert!(page(&sweep).contains("on one host"));
        sweep.environment.store.co_located = false;
        assert!(!page(&sweep).contains("on one host"));
    }

    #[test]
    fn the_chunked_pipeline_is_described_with_its_numbers() {
        let mut sweep = fixtures::chunked_sweep();
        let text = page(&sweep);
        assert!(
            text.contains("| Pipeline | chunked, 256 files a chunk, at most 64 GETs in flight")
        );
        assert!(text.contains("Reader k of an accelerator starts k × 0.04755 s"), "{text}");
        sweep.workload.storage.prefetch_window = 10;
        sweep.workload.storage.stagger_workers = false;
        let text = page(&sweep);
        assert!(text.contains("chunks of 10") && text.contains("at most 10 GETs"), "{text}");
        assert!(text.contains("readers start together") && !text.contains("Reader k"), "{text}");
    }

    #[test]
    fn bytes_that_are_dropped_are_said_to_be_wherever_they_matter() {
        let mut sweep = fixtures::sweep();
        assert!(page(&sweep).contains("every byte of a batch is in memory when it is taken"));
        assert!(!sweep.console_table().contains("discard"));
        sweep.workload.reader.payload = Payload::Discard;
        let text = page(&sweep);
        assert!(text.contains("**Nothing lands in memory.**"), "{text}");
        assert!(!text.contains("is in memory when it is taken"), "{text}");
        assert!(sweep.console_table().contains("nothing lands in memory"));
    }

    #[test]
    fn several_endpoints_are_told_apart() {
        let mut sweep = fixtures::sweep();
        assert!(!page(&sweep).contains("### Endpoints"));
        let counts = |gets, retries| EndpointCounts {
            gets,
            retries,
            bytes: ByteCount(gets << 20),
            ..EndpointCounts::default()
        };
        let endpoints = [("http://a", counts(300, 0)), ("http://b", counts(100, 2))];
        sweep.runs[0].figures.endpoints =
            endpoints.map(|(url, counts)| (url.to_owned(), counts)).into();
        let text = page(&sweep);
        assert!(text.contains("| 1 | http://a | 300 | 75.0 % | 300.0 MiB | 0 |"), "{text}");
        assert!(text.contains("| 1 | http://b | 100 | 25.0 % | 100.0 MiB | 2 |"), "{text}");
    }

    #[test]
    fn no_readers_are_described_as_no_overlap() {
        let mut sweep = fixtures::sweep();
        sweep.workload.reader.read_threads = 0;
        assert!(page(&sweep).contains("nothing is read while it computes"));
    }
}
