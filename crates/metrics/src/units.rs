//! Units as types: one place owns each divisor and suffix.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// 2^20 bytes.
pub const MIB: f64 = 1_048_576.0;
/// 2^30 bytes.
pub const GIB: f64 = 1_073_741_824.0;

/// A number of bytes. Displayed in binary units with one decimal (`315.4 KiB`).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ByteCount(pub u64);

impl ByteCount {
    /// The count in MiB (2^20 bytes).
    pub fn mib(self) -> f64 {
        self.0 as f64 / MIB
    }

    /// The count in GiB (2^30 bytes).
    pub fn gib(self) -> f64 {
        self.0 as f64 / GIB
    }
}

impl Add for ByteCount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for ByteCount {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, f64); 4] =
            [("TiB", 1024.0 * GIB), ("GiB", GIB), ("MiB", MIB), ("KiB", 1024.0)];
        for (suffix, divisor) in UNITS {
            if self.0 as f64 >= divisor {
                return write!(f, "{:.1} {suffix}", self.0 as f64 / divisor);
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// Seconds as a decimal number: how records, configurations and result files speak of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub f64);

impl Seconds {
    /// Whether it is no time at all.
    pub fn is_zero(&self) -> bool {
        self.0 == 0.0
    }

    /// The same time in milliseconds.
    pub fn millis(self) -> f64 {
        self.0 * 1e3
    }
}

impl From<Duration> for Seconds {
    fn from(duration: Duration) -> Self {
        Self(duration.as_secs_f64())
    }
}

impl Add for Seconds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Seconds {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Seconds {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl std::iter::Sum for Seconds {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        Self(iter.map(|seconds| seconds.0).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_show_binary_units() {
        assert_eq!(ByteCount(0).to_string(), "0 B");
        assert_eq!(ByteCount(1023).to_string(), "1023 B");
        assert_eq!(ByteCount(322_957).to_string(), "315.4 KiB");
        assert_eq!(ByteCount(1 << 20).to_string(), "1.0 MiB");
        assert_eq!(ByteCount(3 << 30).to_string(), "3.0 GiB");
    }
}
