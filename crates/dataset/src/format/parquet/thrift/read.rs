//! Reads Thrift's compact protocol from bytes that may lie.
//!
//! Nothing is allocated, and no length is believed that the rest of the bytes could not hold.

/// Structs and lists in each other that are skipped, far more than Parquet has.
const DEEPEST: u32 = 32;

/// What has not been read yet.
#[derive(Debug, Clone)]
pub(in super::super) struct Reader<'a> {
    rest: &'a [u8],
}

/// Why bytes are no such struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum Malformed {
    #[error("it ends in the middle of a value")]
    Ends,
    #[error("a number has too many digits")]
    Number,
    #[error("a list is said to be longer than what follows")]
    List,
    #[error("a field has a type that does not exist, or not there")]
    Type,
    #[error("structs are too deep in each other")]
    Deep,
}

/// Type of a field or an element, by its number.
pub(in super::super) type Kind = u8;

pub(in super::super) const I32: Kind = 5;
pub(in super::super) const I64: Kind = 6;
pub(in super::super) const BINARY: Kind = 8;
pub(in super::super) const LIST: Kind = 9;
pub(in super::super) const STRUCT: Kind = 12;

impl<'a> Reader<'a> {
    pub(in super::super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes that have not been read yet.
    pub(in super::super) fn left(&self) -> usize {
        self.rest.len()
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let (&byte, rest) = self.rest.split_first().ok_or(Malformed::Ends)?;
        self.rest = rest;
        Ok(byte)
    }

    fn bytes(&mut self, len: u64) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(len).map_err(|_| Malformed::Ends)?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Malformed::Ends)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Number)
    }

    /// A signed number of any width.
    pub(in super::super) fn number(&mut self) -> Result<i64, Malformed> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Bytes behind their number.
    pub(in super::super) fn binary(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.varint()?;
        self.bytes(len)
    }

    /// Reads a list: `each` reads an element, by its index.
    pub(in super::super) fn list<E: From<Malformed>>(
        &mut self,
        of: Kind,
        mut each: impl FnMut(usize, &mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let (kind, len) = self.list_header()?;
        if kind != of && len > 0 {
            return Err(Malformed::Type.into());
        }
        (0..len).try_for_each(|index| each(index, self))
    }

    fn list_header(&mut self) -> Result<(Kind, usize), Malformed> {
        let header = self.byte()?;
        let len = match header >> 4 {
            15 => self.varint()?,
            short => short.into(),
        };
        // An element has one byte at least.
        match usize::try_from(len) {
            Ok(len) if len <= self.rest.len() => Ok((header & 15, len)),
            _ => Err(Malformed::List),
        }
    }

    /// Reads a struct: `each` is told the number and the type of each field, and reads it and says so, or
    /// leaves it.
    pub(in super::super) fn fields<E: From<Malformed>>(
        &mut self,
        mut each: impl FnMut(i64, Kind, &mut Self) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut number = 0_i64;
        loop {
            let header = self.byte()?;
            let kind = header & 15;
            if kind == 0 {
                return Ok(());
            }
            number = match header >> 4 {
                0 => self.number()?,
                step => number.saturating_add(step.into()),
            };
            if !each(number, kind, self)? {
                self.skip(kind, DEEPEST)?;
            }
        }
    }

    fn skip(&mut self, kind: Kind, deepest: u32) -> Result<(), Malformed> {
        let deepest = deepest.checked_sub(1).ok_or(Malformed::Deep)?;
        match kind {
            // True and false are their own values.
            1 | 2 => {}
            3 => drop(self.byte()?),
            4..=6 => drop(self.varint()?),
            7 => drop(self.bytes(8)?),
            8 => drop(self.binary()?),
            9 | 10 => {
                let (kind, len) = self.list_header()?;
                for _ in 0..len {
                    self.skip_element(kind, deepest)?;
                }
            }
            11 => {
                let len = self.varint()?;
                if len > 0 {
                    let kinds = self.byte()?;
                    for _ in 0..len {
                        self.skip_element(kinds >> 4, deepest)?;
                        self.skip_element(kinds & 15, deepest)?;
                    }
                }
            }
            12 => loop {
                let header = self.byte()?;
                let kind = header & 15;
                if kind == 0 {
                    break;
                }
                if header >> 4 == 0 {
                    self.varint()?;
                }
                self.skip(kind, deepest)?;
            },
            13 => drop(self.bytes(16)?),
            _ => return Err(Malformed::Type),
        }
        Ok(())
    }

    /// Truth values have a byte of their own in lists.
    fn skip_element(&mut self, kind: Kind, deepest: u32) -> Result<(), Malformed> {
        self.skip(if matches!(kind, 1 | 2) { 3 } else { kind }, deepest)
    }

    /// Reads a number if the field is one, else is an error.
    pub(in super::super) fn number_of(&mut self, kind: Kind) -> Result<i64, Malformed> {
        match kind {
            4 | I32 | I64 => self.number(),
            _ => Err(Malformed::Type),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Struct, Type};
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_rest_skipped() {
        let mut bytes = Vec::new();
        Struct::new(&mut bytes)
            .i32(1, -3)
            .bool(2, true)
            .byte(3, 7)
            .binary(5, b"text")
            .list(6, Type::I32, 20, |out| {
                (0..20).for_each(|value| super::super::zigzag(value, out));
            })
            .nested(7, |inner| inner.i64(1, u64::MAX >> 1).bool(9, false))
            .i64(8, 1 << 40)
            .end();
        let mut seen = Vec::new();
        let mut reader = Reader::new(&bytes);
        let outcome: Result<(), Malformed> = reader.fields(|number, kind, reader| {
            match number {
                1 | 8 => seen.push(reader.number_of(kind)?),
                6 => reader.list::<Malformed>(I32, |index, reader| {
                    assert_eq!(usize::try_from(reader.number()?), Ok(index));
                    Ok(())
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        assert_eq!((outcome, reader.left()), (Ok(()), 0));
        assert_eq!(seen, [-3, 1 << 40]);
        for len in 0..bytes.len() {
            let outcome: Result<(), Malformed> =
                Reader::new(&bytes[..len]).fields(|_, _, _| Ok(false));
            assert!(outcome.is_err(), "{len}");
        }
    }

    #[test]
    fn lies_are_told() {
        let skip = |bytes: &[u8]| Reader::new(bytes).fields(|_, _, _| Ok::<_, Malformed>(false));
        // A list of 2^35 truth values, of which none follows.
        assert_eq!(skip(&[0x19, 0xf1, 0x80, 0x80, 0x80, 0x80, 0x7f]), Err(Malformed::List));
        assert_eq!(skip(&[0x18, 0xff, 0xff, 0xff, 0xff, 0x0f, 1]), Err(Malformed::Ends));
        assert_eq!(skip(&[0x16; 12]), Err(Malformed::Ends));
        assert_eq!(skip(&[[0x16].as_slice(), &[0xff; 11]].concat()), Err(Malformed::Number));
        assert_eq!(skip(&[0x1c; 100]), Err(Malformed::Deep));
        assert_eq!(skip(&[0x1e, 0]), Err(Malformed::Type));
    }
}
