//! Several payloads in one buffer: each with its length, 8 bytes, little end first, before it.

/// Puts `payloads` into one buffer.
pub(crate) fn join(payloads: &[Vec<u8>]) -> Vec<u8> {
    let bytes = payloads.iter().map(|payload| payload.len() + size_of::<u64>()).sum();
    let mut joined = Vec::with_capacity(bytes);
    for payload in payloads {
        joined.extend((payload.len() as u64).to_le_bytes());
        joined.extend(payload);
    }
    joined
}

/// Takes them out again; `None` when the buffer does not end with the end of one.
pub(crate) fn split(mut joined: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut payloads = Vec::new();
    while !joined.is_empty() {
        let (length, rest) = joined.split_first_chunk()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (payload, rest) = rest.split_at_checked(length)?;
        payloads.push(payload.to_vec());
        joined = rest;
    }
    Some(payloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_come_out_as_they_went_in() {
        for payloads in [vec![], vec![vec![]], vec![vec![1, 2, 3], vec![], vec![9; 300]]] {
            assert_eq!(split(&join(&payloads)), Some(payloads));
        }
    }

    #[test]
    fn a_buffer_that_was_cut_is_refused() {
        let joined = join(&[vec![1, 2, 3], vec![4]]);
        for length in (1..joined.len()).filter(|length| *length != 11) {
            assert_eq!(split(&joined[..length]), None, "{length} bytes");
        }
    }
}
