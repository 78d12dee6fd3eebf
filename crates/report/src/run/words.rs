//! What a run's facts are called where people read them.

use feedrate_metrics::record::CacheDrops;
use feedrate_workload::{Compat, GetEngine};

/// What became of the page cache.
pub(crate) fn cache_drops_in_words(drops: &CacheDrops) -> String {
    let CacheDrops { dropped, timed_out, not_dropped } = drops;
    let times = |count: u32| if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let mut parts = Vec::new();
    if *dropped > 0 {
        parts.push(format!("dropped {}", times(*dropped)));
    }
    if *timed_out > 0 {
        parts.push(format!("dropping it took too long {}", times(*timed_out)));
    }
    match not_dropped {
        Some(why) => parts.push(format!("not dropped: {why}")),
        None if parts.is_empty() => parts.push("not dropped".to_owned()),
        None => {}
    }
    parts.join("; ")
}

/// Whose numbers a run has, when they are not ours.
pub(crate) fn compat_in_words(compat: Compat) -> Option<&'static str> {
    match compat {
        Compat::None => None,
        Compat::Mlcommons => Some("mlcommons: figures by the formulas of DLIO's MLCommons fork"),
        Compat::Upstream => Some("upstream: figures by the formulas of the original DLIO"),
    }
}

/// Whose client made the GETs, when it is not ours.
pub(crate) fn get_engine_in_words(engine: GetEngine) -> Option<&'static str> {
    match engine {
        GetEngine::Feedrate => None,
        GetEngine::ObjectStore => Some("object_store's own S3 client, as a reference"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_of_dropping_the_page_cache_is_told() {
        let words = |dropped, timed_out, why: Option<&str>| {
            let not_dropped = why.map(str::to_owned);
            cache_drops_in_words(&CacheDrops { dropped, timed_out, not_dropped })
        };
        assert_eq!(words(5, 0, None), "dropped 5 times");
        assert_eq!(words(1, 2, None), "dropped once; dropping it took too long 2 times");
        assert_eq!(words(0, 0, Some("no permission")), "not dropped: no permission");
        assert_eq!(words(0, 0, None), "not dropped");
    }
}
