//! What the CPU time of this process was used for: read where one phase of the run ends and the next
//! begins, by the first of its ranks.

use feedrate_metrics::process::{CpuByPhase, CpuTime, own_cpu_time};

/// What a run does at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Everything until the first epoch.
    Start,
    Training,
    Evaluation,
    /// Behind an epoch.
    Between,
}

/// Gives each stage the CPU time that passes in it.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    stage: Stage,
    /// What was given to stages until now.
    given: CpuTime,
    used: CpuByPhase,
}

impl CpuMeter {
    /// Everything that this process used until now belongs to the start.
    pub(crate) fn new() -> Self {
        Self { stage: Stage::Start, given: CpuTime::default(), used: CpuByPhase::default() }
    }

    /// The stage that ran is over, and `next` begins.
    pub(crate) fn enter(&mut self, next: Stage) {
        self.settle();
        self.stage = next;
    }

    /// What was used until now.
    pub(crate) fn used(&mut self) -> CpuByPhase {
        self.settle();
        self.used
    }

    fn settle(&mut self) {
        // Where the kernel does not tell, the next stage gets this one's.
        let Ok(now) = own_cpu_time() else { return };
        self.add(now);
    }

    fn add(&mut self, now: CpuTime) {
        let stage = match self.stage {
            Stage::Start => &mut self.used.start,
            Stage::Training => &mut self.used.training,
            Stage::Evaluation => &mut self.used.evaluation,
            Stage::Between => &mut self.used.between,
        };
        *stage = *stage + (now - self.given);
        self.given = now;
    }
}

#[cfg(test)]
mod tests {
    use feedrate_metrics::units::Seconds;

    use super::*;

    #[test]
    fn each_stage_has_what_passed_in_it() {
        let time = |user, system| CpuTime { user: Seconds(user), system: Seconds(system) };
        let mut meter = CpuMeter::new();
        let stages = [
            (time(1.0, 0.5), Stage::Training),
            (time(3.0, 1.5), Stage::Evaluation),
            (time(3.5, 1.5), Stage::Between),
            (time(4.5, 2.0), Stage::Training),
            (time(8.5, 2.0), Stage::Between),
        ];
        for (now, next) in stages {
            meter.add(now);
            meter.stage = next;
        }
        let expected = CpuByPhase {
            start: time(1.0, 0.5),
            training: time(6.0, 1.0),
            evaluation: time(0.5, 0.0),
            between: time(1.0, 0.5),
        };
        assert_eq!(meter.used, expected);
        assert_eq!(meter.used.sum(), time(8.5, 2.0));
    }

    #[test]
    fn work_counts_in_the_stage_that_it_is_done_in() {
        let mut meter = CpuMeter::new();
        meter.enter(Stage::Evaluation);
        let before = own_cpu_time().unwrap().sum();
        while (own_cpu_time().unwrap().sum() - before).0 < 0.05 {}
        meter.enter(Stage::Between);
        let used = meter.used();
        assert!(used.evaluation.sum().0 >= 0.05, "{used:?}");
        assert_eq!(used.training, CpuTime::default());
    }
}
