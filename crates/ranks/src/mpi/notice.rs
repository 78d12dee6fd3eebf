//! What processes tell each other beside the ranks' collectives.

use super::frames;
use crate::Aborted;

/// Longest cause that travels, in bytes: the whole notice must be short enough that every library
/// sends it at once, without waiting for the receiver.
const LONGEST_CAUSE: usize = 2000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The sender is there.
    Alive,
    /// The sender wants to know who is there: the answer is `Alive`.
    RollCall,
    /// A rank has failed.
    Failed(Aborted),
    /// The sender has nothing more to do. To process 0.
    Leaving,
    /// Nobody has. From process 0, which sends nothing after it.
    AllLeave,
    /// The answer to `AllLeave`; the sender sends nothing after it.
    Gone,
}

impl Notice {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Alive => vec![0],
            Self::RollCall => vec![1],
            Self::Leaving => vec![2],
            Self::AllLeave => vec![3],
            Self::Gone => vec![4],
            Self::Failed(Aborted { rank, host, cause }) => {
                let cause = &cause.as_bytes()[..cause.floor_char_boundary(LONGEST_CAUSE)];
                let always = [rank.to_le_bytes().to_vec(), cause.to_vec()];
                let host = host.as_ref().map(|host| host.clone().into_bytes());
                let parts = frames::join(&always.into_iter().chain(host).collect::<Vec<_>>());
                [vec![5], parts].concat()
            }
        }
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        Some(match kind {
            0 => Self::Alive,
            1 => Self::RollCall,
            2 => Self::Leaving,
            3 => Self::AllLeave,
            4 => Self::Gone,
            5 => {
                let mut parts = frames::split(rest)?.into_iter();
                let rank = u32::from_le_bytes(parts.next()?.try_into().ok()?);
                let cause = String::from_utf8(parts.next()?).ok()?;
                let host = parts.next().map(String::from_utf8).transpose().ok()?;
                Self::Failed(Aborted { rank, host, cause })
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(host: Option<&str>, cause: String) -> Notice {
        Notice::Failed(Aborted { rank: 70_000, host: host.map(str::to_owned), cause })
    }

    #[test]
    fn notices_travel() {
        let plain =
            [Notice::Alive, Notice::RollCall, Notice::Leaving, Notice::AllLeave, Notice::Gone];
        let failures = [failed(None, String::new()), failed(Some("b"), "disk on fire".to_owned())];
        for notice in plain.into_iter().chain(failures) {
            assert_eq!(Notice::from_bytes(&notice.to_bytes()), Some(notice));
        }
        assert_eq!(Notice::from_bytes(&[]), None);
        assert_eq!(Notice::from_bytes(&[9]), None);
    }

    #[test]
    fn a_long_cause_is_cut_between_characters() {
        let bytes = failed(None, format!("a{}", "ü".repeat(5000))).to_bytes();
        let expected = failed(None, format!("a{}", "ü".repeat(LONGEST_CAUSE / 2 - 1)));
        assert_eq!(Notice::from_bytes(&bytes), Some(expected));
    }
}
