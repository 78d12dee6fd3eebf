//! Fault rules: what the server does wrong on purpose.
//!
//! Each request is shown to every rule, in the order of the configuration. A rule that matches may
//! delay the answer, give it, or reset the connection: delays add up, the first answer or reset wins,
//! and comes after the delays. The rules are asked when a request has been counted, before its
//! signature is checked and before the store is touched.

mod pattern;
mod rule;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::request::Target;

pub(crate) use rule::Answer;
pub use rule::{FaultProblem, FaultRule, FaultRuleError};

/// What the rules do to one request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Injected {
    pub(crate) delay: Duration,
    pub(crate) answer: Option<Answer>,
}

/// The rules of a server, and how often each has matched. `POST /_feedrate/reset` does not touch
/// them.
#[derive(Debug)]
pub(crate) struct Faults {
    rules: Vec<FaultRule>,
    progress: Mutex<Vec<Progress>>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Requests for each (bucket, key) that the rule's method and pattern fit; kept when the rule has
    /// an `attempt`.
    attempts: HashMap<(String, String), u64>,
    /// Requests that also had the right attempt number.
    matched: u64,
    /// Requests to which the rule did something.
    applied: u64,
}

impl Faults {
    pub(crate) fn new(rules: Vec<FaultRule>) -> Self {
        let progress = rules.iter().map(|_| Progress::default()).collect();
        Self { rules, progress: Mutex::new(progress) }
    }

    /// Decides about one request, and remembers it.
    pub(crate) fn judge(&self, target: &Target) -> Injected {
        let mut injected = Injected::default();
        if self.rules.is_empty() {
            return injected;
        }
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        for (rule, progress) in self.rules.iter().zip(progress.iter_mut()) {
            if !progress.is_due(rule, target) {
                continue;
            }
            let answers = rule.answer.is_some() && injected.answer.is_none();
            // A rule that comes too late to answer keeps its `count` for another request.
            if !answers && rule.delay_first_byte.is_none() {
                continue;
            }
            progress.applied += 1;
            injected.delay += rule.delay_first_byte.unwrap_or_default();
            if answers {
                injected.answer.clone_from(&rule.answer);
            }
        }
        injected
    }
}

impl Progress {
    fn is_due(&mut self, rule: &FaultRule, target: &Target) -> bool {
        if !rule.fits(target) {
            return false;
        }
        if let Some(attempts) = &rule.attempts {
            let key = (target.bucket.clone(), target.key.clone());
            let attempt = self.attempts.entry(key).or_default();
            *attempt += 1;
            if !attempts.contains(*attempt) {
                return false;
            }
        }
        self.matched += 1;
        self.matched >= rule.from && rule.count.is_none_or(|count| self.applied < count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::RequestKind;

    fn faults(rules: &[&str]) -> Faults {
        Faults::new(rules.iter().map(|rule| rule.parse().unwrap()).collect())
    }

    fn get(key: &str) -> Target {
        Target { kind: RequestKind::Get, bucket: "b".into(), key: key.into() }
    }

    /// The status of each answer, 0 for none.
    fn statuses<'a>(faults: &Faults, keys: impl IntoIterator<Item = &'a str>) -> Vec<u16> {
        keys.into_iter()
            .map(|key| match faults.judge(&get(key)).answer {
                Some(Answer::Status { status, .. }) => status.as_u16(),
                Some(Answer::Reset) => 1,
                None => 0,
            })
            .collect()
    }

    #[test]
    fn attempts_are_counted_for_each_key() {
        let faults = faults(&["get attempt=1-2 status=503"]);
        assert_eq!(statuses(&faults, ["a", "b", "a", "a", "b", "b"]), [503, 503, 503, 0, 503, 0]);
    }

    #[test]
    fn an_open_range_of_attempts_spares_the_first() {
        let faults = faults(&["get attempt=2+ status=500"]);
        assert_eq!(statuses(&faults, ["a", "a", "b", "a"]), [0, 500, 0, 500]);
    }

    #[test]
    fn from_and_count_look_at_all_matching_requests() {
        let faults = faults(&["get key=x* status=403 from=2 count=2"]);
        assert_eq!(statuses(&faults, ["x1", "y", "x2", "x3", "x4"]), [0, 0, 403, 403, 0]);
    }

    #[test]
    fn delays_add_up_and_the_first_answer_wins() {
        let faults = faults(&[
            "any delay_first_byte=100ms",
            "get status=503 count=1",
            "get delay_first_byte=2s reset",
        ]);
        let first = faults.judge(&get("a"));
        assert_eq!(first.delay, Duration::from_millis(2100));
        assert_eq!(first.answer, "get status=503".parse::<FaultRule>().unwrap().answer);
        assert_eq!(faults.judge(&get("a")).answer, Some(Answer::Reset));
    }

    #[test]
    fn a_rule_that_comes_too_late_keeps_its_count_but_sees_the_attempt() {
        let by_count = faults(&["get status=503 count=2", "get status=500 count=2"]);
        assert_eq!(statuses(&by_count, ["a"; 5]), [503, 503, 500, 500, 0]);
        let by_attempt = faults(&["get attempt=1 status=503", "get attempt=2 reset"]);
        assert_eq!(statuses(&by_attempt, ["a"; 3]), [503, 1, 0]);
    }

    #[test]
    fn other_methods_are_left_alone() {
        let faults = faults(&["put status=403"]);
        assert_eq!(faults.judge(&get("a")), Injected::default());
    }
}
