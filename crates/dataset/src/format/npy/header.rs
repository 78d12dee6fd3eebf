//! The header of an NPY array: written for every array that is made, and read from any that was found.
//!
//! Magic, version, length, and a description as a Python literal, padded with blanks to a multiple of
//! 64 bytes: `{'descr': '<f4', 'fortran_order': False, 'shape': (31, 31, 2), }`.
//!
//! Source: `numpy.lib.format`.

use std::fmt::Write;
use std::io::{self, Read};

use feedrate_workload::ElementType;

/// The least that a header takes here, and [`ALIGNMENT`] of larger ones: those of shapes with many
/// dimensions.
pub(in crate::format) const LEAST: u64 = 128;
const ALIGNMENT: usize = 64;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Magic, version 1.0 and the length of the description.
const START: usize = MAGIC.len() + 4;

/// The longest description that is read. `NumPy` refuses longer ones too.
const LONGEST: usize = 10_000;

/// The header of an array of this shape in C order.
pub(in crate::format) fn written(
    element: ElementType,
    shape: impl Iterator<Item = u64>,
) -> Vec<u8> {
    let mut dims = String::new();
    let mut count = 0;
    for dim in shape {
        let separator = if count == 0 { "" } else { ", " };
        let _ = write!(dims, "{separator}{dim}");
        count += 1;
    }
    if count == 1 {
        // Without it, Python reads a number in brackets.
        dims.push(',');
    }
    let description =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({dims}), }}", descr(element));
    let len = (START + description.len() + 1).next_multiple_of(ALIGNMENT).max(LEAST as usize);
    let mut header = Vec::with_capacity(len);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&[1, 0]);
    header.extend_from_slice(&((len - START) as u16).to_le_bytes());
    header.extend_from_slice(description.as_bytes());
    header.resize(len - 1, b' ');
    header.push(b'\n');
    header
}

/// What `NumPy` calls an element type, little-endian.
fn descr(element: ElementType) -> &'static str {
    match element {
        ElementType::Uint8 => "|u1",
        ElementType::Uint16 => "<u2",
        ElementType::Uint32 => "<u4",
        ElementType::Uint64 => "<u8",
        ElementType::Int8 => "|i1",
        ElementType::Int16 => "<i2",
        ElementType::Int32 => "<i4",
        ElementType::Int64 => "<i8",
        ElementType::Float16 => "<f2",
        ElementType::Float32 => "<f4",
        ElementType::Float64 => "<f8",
    }
}

/// What a header says, whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of an element.
    pub(super) element_size: u64,
    /// Elements in each dimension, the outermost first.
    pub(super) shape: Vec<u64>,
}

impl Header {
    /// Reads the header that `array` begins with, and nothing behind it.
    pub(super) fn read(array: &mut impl Read) -> Result<Self, String> {
        let mut start = [0; MAGIC.len() + 2];
        fill(array, &mut start)?;
        let (magic, version) = start.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err("it does not begin as an NPY array does".to_owned());
        }
        let len = match version {
            [1, 0] => {
                let mut len = [0; 2];
                fill(array, &mut len)?;
                usize::from(u16::from_le_bytes(len))
            }
            [2 | 3, 0] => {
                let mut len = [0; 4];
                fill(array, &mut len)?;
                u32::from_le_bytes(len) as usize
            }
            _ => return Err(format!("NPY version {}.{} is unknown", version[0], version[1])),
        };
        if len > LONGEST {
            return Err(format!(
                "its header claims {len} bytes, but NumPy reads at most {LONGEST}"
            ));
        }
        let mut description = vec![0; len];
        fill(array, &mut description)?;
        let text = str::from_utf8(&description).map_err(|_| "its header is no text")?;
        Self::parse(text).map_err(|what| format!("its header {:?} {what}", text.trim_end()))
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        const DICTIONARY: &str = "is no dictionary of descr, fortran_order and shape";
        let mut rest = Literal(text);
        let (mut element_size, mut order, mut shape) = (None, None, None);
        rest.expect("{").ok_or(DICTIONARY)?;
        while rest.expect("}").is_none() {
            let key = rest.string().ok_or(DICTIONARY)?;
            rest.expect(":").ok_or(DICTIONARY)?;
            let new = match key {
                "descr" => {
                    let descr = rest.string().ok_or("has a descr that is no plain type")?;
                    let size = size_of_element(descr).ok_or("has an unknown element type")?;
                    element_size.replace(size).is_none()
                }
                "fortran_order" => {
                    // Which axis runs fastest changes nothing in what is checked.
                    let flag = rest.expect("True").or_else(|| rest.expect("False"));
                    order
                        .replace(flag.ok_or("has a fortran_order that is no truth value")?)
                        .is_none()
                }
                "shape" => {
                    let dims = rest.tuple().ok_or("has a shape that is no tuple of sizes")?;
                    shape.replace(dims).is_none()
                }
                _ => return Err("has an unknown key"),
            };
            if !new {
                return Err("has a key twice");
            }
            if rest.expect(",").is_none() && !rest.blank().starts_with('}') {
                return Err(DICTIONARY);
            }
        }
        if !rest.blank().is_empty() {
            return Err("goes on behind the dictionary");
        }
        match (element_size, order, shape) {
            (Some(element_size), Some(()), Some(shape)) => Ok(Self { element_size, shape }),
            _ => Err("lacks one of descr, fortran_order and shape"),
        }
    }

    /// Bytes of the data, if they can be counted.
    pub(super) fn data_len(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.element_size, |len, &dim| len.checked_mul(dim))
    }
}

/// Fills `bytes` of a header.
fn fill(array: &mut impl Read, bytes: &mut [u8]) -> Result<(), String> {
    array.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ends within its header".to_owned(),
        _ => error.to_string(),
    })
}

/// Bytes of an element of a type that is a number: `<f4`, `>i8`, `|u1`, `|b1`, `<c16`.
fn size_of_element(descr: &str) -> Option<u64> {
    let number = descr.strip_prefix(['<', '>', '|', '='])?;
    match number {
        "b1" | "u1" | "i1" => Some(1),
        "u2" | "i2" | "f2" => Some(2),
        "u4" | "i4" | "f4" => Some(4),
        "u8" | "i8" | "f8" | "c8" => Some(8),
        "f16" | "c16" => Some(16),
        _ => None,
    }
}

/// What is left to read of a Python literal. Each method takes what it names off the front, blanks
/// before it included, or gives `None`.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    /// Skips blanks and shows the rest.
    fn blank(&mut self) -> &'a str {
        self.0 = self.0.trim_ascii_start();
        self.0
    }

    fn expect(&mut self, word: &str) -> Option<()> {
        self.0 = self.blank().strip_prefix(word)?;
        Some(())
    }

    /// A string without escapes.
    fn string(&mut self) -> Option<&'a str> {
        let quote = self.blank().chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        let (text, rest) = self.0[1..].split_once(quote)?;
        self.0 = rest;
        Some(text)
    }

    /// A tuple of sizes.
    fn tuple(&mut self) -> Option<Vec<u64>> {
        let mut sizes = Vec::new();
        self.expect("(")?;
        while self.expect(")").is_none() {
            sizes.push(self.size()?);
            if self.expect(",").is_none() && !self.blank().starts_with(')') {
                return None;
            }
        }
        Some(sizes)
    }

    /// A whole number, which Python 2 wrote with an L behind it.
    fn size(&mut self) -> Option<u64> {
        let text = self.blank();
        let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (digits, rest) = text.split_at(end);
        self.0 = rest.strip_prefix('L').unwrap_or(rest);
        digits.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use npyz::NpyHeader;

    use super::*;
    use crate::testing::ELEMENT_TYPES;

    fn of_description(text: &str) -> Vec<u8> {
        let mut header = b"\x93NUMPY\x01\x00".to_vec();
        header.extend((text.len() as u16).to_le_bytes());
        header.extend(text.as_bytes());
        header
    }

    fn read(text: &str) -> Result<Header, String> {
        Header::read(&mut of_description(text).as_slice())
    }

    #[test]
    fn what_is_written_is_what_another_reader_and_ours_read() {
        for element in ELEMENT_TYPES {
            for shape in [vec![], vec![7], vec![31, 31, 2], vec![u64::MAX >> 4], vec![1; 32]] {
                let header = written(element, shape.iter().copied());
                assert_eq!(header.len() % 64, 0);
                assert!(header.len() >= 128);
                let theirs = NpyHeader::from_reader(&header[..]).unwrap();
                assert_eq!(theirs.shape(), shape);
                assert_eq!(theirs.dtype().descr(), format!("'{}'", descr(element)));
                let mut rest = &header[..];
                let ours = Header::read(&mut rest).unwrap();
                assert_eq!(ours, Header { element_size: element.size(), shape });
                assert!(rest.is_empty());
            }
        }
    }

    #[test]
    fn the_description_is_that_of_numpy() {
        let header = written(ElementType::Float32, [31, 31, 2].into_iter());
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (31, 31, 2), }";
        assert_eq!(header, of_description(&format!("{text:117}\n")));
    }

    #[test]
    fn other_writers_have_other_orders_quotes_blanks_and_versions() {
        let expected = Header { element_size: 8, shape: vec![3, 4] };
        for text in [
            r#"{"shape":(3,4),"descr":">c8","fortran_order":True}"#,
            " { 'fortran_order' : False , 'shape' : ( 3L , 4L , ) , 'descr' : '=i8' } \n",
        ] {
            assert_eq!(read(text), Ok(expected.clone()), "{text}");
            let mut later = b"\x93NUMPY\x02\x00".to_vec();
            later.extend((text.len() as u32).to_le_bytes());
            later.extend(text.as_bytes());
            assert_eq!(Header::read(&mut &later[..]), Ok(expected.clone()));
        }
    }

    #[test]
    fn what_is_no_header_is_told() {
        for (text, told) in [
            ("", "no dictionary"),
            ("{", "no dictionary"),
            ("[]", "no dictionary"),
            ("{}", "lacks one"),
            ("{'descr': '|u1', 'fortran_order': False}", "lacks one"),
            ("{'descr': '|u1' 'fortran_order': False}", "no dictionary"),
            ("{'descr': '|u1', 'descr': '|u1'}", "key twice"),
            ("{'descr': '|O'}", "unknown element type"),
            ("{'descr': [('a', '<f4')]}", "no plain type"),
            ("{'fortran_order': 0}", "no truth value"),
            ("{'shape': (3 4)}", "no tuple"),
            ("{'shape': (-3,)}", "no tuple"),
            ("{'shape': (18446744073709551616,)}", "no tuple"),
            ("{'shape': ((3,),)}", "no tuple"),
            ("{'éé': 3}", "unknown key"),
            ("{'shape': (), 'descr': '<f4', 'fortran_order': False} more", "goes on"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        let long = format!("{}{}", "{'shape': (", "1, ".repeat(4000));
        assert!(read(&long).unwrap_err().contains("claims 12011 bytes"));
        let lying = Header::read(&mut &b"\x93NUMPY\x02\x00\xff\xff\xff\xff{"[..]);
        assert!(lying.unwrap_err().contains("claims 4294967295 bytes"));
        let cut = Header::read(&mut &b"\x93NUMPY\x01\x00\x76\x00{'descr'"[..]);
        assert_eq!(cut, Err("it ends within its header".to_owned()));
        let other = Header::read(&mut &b"\x93NUMPY\x09\x00\x76\x00"[..]);
        assert_eq!(other, Err("NPY version 9.0 is unknown".to_owned()));
    }

    #[test]
    fn data_that_cannot_be_counted_have_no_length() {
        let header = |shape| Header { element_size: 4, shape };
        assert_eq!(header(vec![3, 5]).data_len(), Some(60));
        assert_eq!(header(vec![]).data_len(), Some(4));
        assert_eq!(header(vec![1 << 40, 1 << 40]).data_len(), None);
    }
}
