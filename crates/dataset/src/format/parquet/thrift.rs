//! Structs in Thrift's compact protocol, which Parquet's page headers and footers are made of. They are
//! written and [`read`] here, since that can be done piece by piece, without a tree of what is in a
//! footer, which would be far larger than the footer.

pub(super) mod read;

/// Types of fields, by their numbers.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum Type {
    True = 1,
    False = 2,
    Byte = 3,
    I32 = 5,
    I64 = 6,
    Binary = 8,
    List = 9,
    Struct = 12,
}

/// A struct that is being written; its fields come in the order of their numbers.
#[derive(Debug)]
#[must_use]
pub(super) struct Struct<'a> {
    out: &'a mut Vec<u8>,
    /// The number of the field before.
    last: u8,
}

impl<'a> Struct<'a> {
    /// A struct at the end of `out`.
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self::after(0, out)
    }

    /// The rest of a struct whose fields up to `last` are in `out` already.
    pub(super) fn after(last: u8, out: &'a mut Vec<u8>) -> Self {
        Self { out, last }
    }

    fn field(&mut self, number: u8, kind: Type) {
        // The fields of all structs are less than 16 apart, so that none needs the long form.
        self.out.push((number - self.last) << 4 | kind as u8);
        self.last = number;
    }

    pub(super) fn bool(mut self, number: u8, value: bool) -> Self {
        self.field(number, if value { Type::True } else { Type::False });
        self
    }

    pub(super) fn byte(mut self, number: u8, value: u8) -> Self {
        self.field(number, Type::Byte);
        self.out.push(value);
        self
    }

    /// A number of 32 bits, or the value of an enum.
    pub(super) fn i32(mut self, number: u8, value: i32) -> Self {
        self.field(number, Type::I32);
        zigzag(value.into(), self.out);
        self
    }

    pub(super) fn i64(mut self, number: u8, value: u64) -> Self {
        self.field(number, Type::I64);
        zigzag(value.cast_signed(), self.out);
        self
    }

    pub(super) fn binary(mut self, number: u8, value: &[u8]) -> Self {
        self.field(number, Type::Binary);
        binary(value, self.out);
        self
    }

    /// A list of `len` elements, which `elements` writes.
    pub(super) fn list(
        mut self,
        number: u8,
        of: Type,
        len: usize,
        elements: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        self.field(number, Type::List);
        list(of, len, self.out);
        elements(self.out);
        self
    }

    /// A struct in the struct, which `fields` writes.
    pub(super) fn nested(
        mut self,
        number: u8,
        fields: impl FnOnce(Struct<'_>) -> Struct<'_>,
    ) -> Self {
        self.field(number, Type::Struct);
        fields(Struct::new(self.out)).end();
        self
    }

    pub(super) fn end(self) {
        self.out.push(0);
    }

    /// Leaves the rest of the fields to [`after`](Self::after), which is to be told the number of the last
    /// one: this.
    pub(super) fn pause(self) -> u8 {
        self.last
    }
}

/// The beginning of a list.
pub(super) fn list(of: Type, len: usize, out: &mut Vec<u8>) {
    if len < 15 {
        out.push((len as u8) << 4 | of as u8);
    } else {
        out.push(0xf0 | of as u8);
        varint(len as u64, out);
    }
}

/// Bytes behind their number.
pub(super) fn binary(value: &[u8], out: &mut Vec<u8>) {
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// A signed number, as its elements of lists are.
pub(super) fn zigzag(value: i64, out: &mut Vec<u8>) {
    varint((value << 1 ^ value >> 63) as u64, out);
}

/// An unsigned number, 7 bits a byte, the lowest first.
pub(super) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
