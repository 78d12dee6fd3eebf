//! How the rows of a file are cut into row groups (spec/dlio.md 4.3).

use std::ops::Range;

/// The row groups of a file, by arithmetic: rows come in batches, each is cut into row groups, and a
/// batch always begins a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Groups {
    /// Rows of the file.
    rows: u64,
    /// Rows of a batch but the last, at least 1.
    batch: u64,
    /// Rows of a row group but the last of a batch, at least 1.
    group: u64,
}

impl Groups {
    /// Of a file of `rows`, in batches of `batch` rows (0: those of a row group) and row groups of
    /// `group` rows.
    pub(super) fn new(rows: u64, batch: u64, group: u64) -> Self {
        let group = group.max(1);
        Self { rows, batch: if batch == 0 { group } else { batch }, group }
    }

    /// Rows of the file.
    pub(super) fn rows(self) -> u64 {
        self.rows
    }

    /// Number of row groups.
    pub(super) fn len(self) -> u64 {
        let last = self.rows % self.batch;
        (self.rows / self.batch).saturating_mul(self.per_batch()) + last.div_ceil(self.group)
    }

    fn per_batch(self) -> u64 {
        self.batch.div_ceil(self.group)
    }

    /// The rows of a row group, counted in the file.
    pub(super) fn get(self, group: u64) -> Range<u64> {
        let (batch, inside) = (group / self.per_batch(), group % self.per_batch());
        let batch_end = self.rows.min((batch + 1).saturating_mul(self.batch));
        let start = batch * self.batch + inside * self.group;
        start..batch_end.min(start.saturating_add(self.group))
    }

    /// All row groups, in order.
    pub(super) fn iter(self) -> impl Iterator<Item = Range<u64>> {
        (0..self.len()).map(move |group| self.get(group))
    }

    /// The numbers of rows that row groups have: four at most.
    pub(super) fn sizes(self) -> Vec<u64> {
        let mut sizes = Vec::new();
        let full = self.rows / self.batch;
        for rows in [if full > 0 { self.batch } else { 0 }, self.rows % self.batch] {
            sizes.extend((rows >= self.group).then_some(self.group));
            sizes.extend(Some(rows % self.group).filter(|&rest| rest > 0));
        }
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(groups: Groups) -> Vec<u64> {
        groups.iter().map(|rows| rows.end - rows.start).collect()
    }

    #[test]
    fn a_batch_begins_a_row_group() {
        assert_eq!(rows(Groups::new(2500, 1200, 1000)), [1000, 200, 1000, 200, 100]);
        assert_eq!(rows(Groups::new(2500, 0, 1000)), [1000, 1000, 500]);
        assert_eq!(rows(Groups::new(250, 100, 1000)), [100, 100, 50]);
        assert_eq!(rows(Groups::new(3, u64::MAX, u64::MAX)), [3]);
        assert_eq!(rows(Groups::new(0, 10, 10)), [0; 0]);
        assert_eq!(Groups::new(4_718_592, 0, 6144).len(), 768);
    }

    proptest! {
        #[test]
        fn row_groups_are_all_rows_in_order(
            all in 0_u64..2000, batch in 0_u64..300, group in 1_u64..300,
        ) {
            let groups = Groups::new(all, batch, group);
            let mut next = 0;
            let mut sizes = Vec::new();
            for rows in groups.iter() {
                prop_assert_eq!(rows.start, next);
                prop_assert!(rows.start < rows.end);
                sizes.push(rows.end - rows.start);
                next = rows.end;
            }
            prop_assert_eq!(next, all);
            sizes.sort_unstable();
            sizes.dedup();
            prop_assert_eq!(groups.sizes(), sizes);
        }
    }
}
