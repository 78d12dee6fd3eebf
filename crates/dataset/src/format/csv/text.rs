//! Elements as decimal text, and back.
//!
//! Floats are as short as they can be while no other float is nearer, and all numbers are such that
//! `NumPy` and pandas read them. Types of at most two bytes have few enough values for a table.

use std::io::{self, Read};
use std::sync::Arc;

use feedrate_workload::ElementType;

use crate::format::files::Undecodable;

/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;

/// The longest text of a value that is read: that of the smallest double in full has 1,077 bytes.
const LONGEST: usize = 2048;

/// What is nearer to 2^16 than to the largest 16-bit float, 65,504, is infinite.
const HALF_INFINITY: f64 = 65_520.0;

/// The texts of an element type.
#[derive(Clone)]
pub(super) struct Text {
    element: ElementType,
    /// By the bits of a value, if the type has at most two bytes.
    table: Arc<[Entry]>,
}

/// A value's text with a comma behind it, and their length.
#[derive(Clone, Copy)]
struct Entry {
    text: [u8; 15],
    len: u8,
}

impl Entry {
    fn new(text: &str) -> Self {
        let mut entry = Self { text: [b','; 15], len: text.len() as u8 + 1 };
        entry.text[..text.len()].copy_from_slice(text.as_bytes());
        entry
    }

    fn push(&self, out: &mut Vec<u8>) {
        // Copying all of it, which takes no loop, and going back is faster than copying a part.
        let end = out.len() + usize::from(self.len);
        out.extend_from_slice(&self.text);
        out.truncate(end);
    }
}

impl Text {
    pub(super) fn new(element: ElementType) -> Self {
        let mut integer = itoa::Buffer::new();
        let mut float = zmij::Buffer::new();
        let table = match element {
            ElementType::Uint8 => {
                (0..=u8::MAX).map(|value| Entry::new(integer.format(value))).collect()
            }
            ElementType::Int8 => {
                (0..=u8::MAX).map(|bits| Entry::new(integer.format(bits.cast_signed()))).collect()
            }
            ElementType::Uint16 => {
                (0..=u16::MAX).map(|value| Entry::new(integer.format(value))).collect()
            }
            ElementType::Int16 => {
                (0..=u16::MAX).map(|bits| Entry::new(integer.format(bits.cast_signed()))).collect()
            }
            ElementType::Float16 => (0..=u16::MAX)
                .map(|bits| Entry::new(float.format_finite(shortest_half(bits))))
                .collect(),
            _ => Arc::default(),
        };
        Self { element, table }
    }

    /// Appends the texts of little-endian `elements`, each with a comma behind it.
    pub(super) fn push(&self, elements: &[u8], out: &mut Vec<u8>) {
        macro_rules! push {
            ($type:ty, $push:expr) => {{
                let (elements, _) = elements.as_chunks::<{ size_of::<$type>() }>();
                out.reserve(elements.len() * size_of::<Entry>());
                for element in elements {
                    $push(<$type>::from_le_bytes(*element));
                }
            }};
            ($type:ty, $format:ident of $buffer:ty) => {{
                let mut buffer = <$buffer>::new();
                push!($type, |value| {
                    out.extend_from_slice(buffer.$format(value).as_bytes());
                    out.push(b',');
                })
            }};
        }
        match self.element {
            ElementType::Uint8 | ElementType::Int8 => {
                push!(u8, |bits: u8| self.table[usize::from(bits)].push(out));
            }
            ElementType::Uint16 | ElementType::Int16 | ElementType::Float16 => {
                push!(u16, |bits: u16| self.table[usize::from(bits)].push(out));
            }
            ElementType::Uint32 => push!(u32, format of itoa::Buffer),
            ElementType::Int32 => push!(i32, format of itoa::Buffer),
            ElementType::Float32 => push!(f32, format_finite of zmij::Buffer),
            ElementType::Uint64 => push!(u64, format of itoa::Buffer),
            ElementType::Int64 => push!(i64, format of itoa::Buffer),
            ElementType::Float64 => push!(f64, format_finite of zmij::Buffer),
        }
    }
}

/// The magnitude of a 16-bit float, and of what would follow the largest (IEEE 754, binary16).
fn half_magnitude(bits: u16) -> f64 {
    let (exponent, mantissa) = (bits >> 10, bits & 0x3ff);
    match exponent {
        0 => f64::from(mantissa) * 2_f64.powi(-24),
        _ => f64::from(1024 + mantissa) * 2_f64.powi(i32::from(exponent) - 25),
    }
}

/// The number with the fewest digits that is nearer to a 16-bit float than to any other.
fn shortest_half(bits: u16) -> f64 {
    let magnitude = bits & 0x7fff;
    let sign = if bits == magnitude { 1.0 } else { -1.0 };
    let value = half_magnitude(magnitude);
    let middle = |other: u16| f64::midpoint(value, half_magnitude(other));
    let own = middle(magnitude.saturating_sub(1))..middle(magnitude + 1);
    let rounded = |digits: usize| format!("{value:.digits$e}").parse().unwrap_or(value);
    let shortest = (0..5).map(rounded).find(|near| own.start < *near && *near < own.end);
    sign * shortest.unwrap_or(value)
}

/// Reads `text` to the end: `samples` rows of as many numbers each, all of which `element` can hold.
/// `unreadable` says what an error of `text` means.
pub(super) fn read(
    text: &mut dyn Read,
    element: ElementType,
    samples: u64,
    unreadable: impl Fn(io::Error) -> Undecodable,
) -> Result<(), Undecodable> {
    let mut rows = Rows { element, samples, row: 0, column: 0, columns: None };
    let mut buffer = vec![0; CHUNK];
    // Bytes at the buffer's beginning that belong to a value which has not ended.
    let mut begun = 0;
    loop {
        let new = match text.read(&mut buffer[begun..]) {
            Ok(0) => break,
            Ok(new) => new,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(error)),
        };
        let filled = begun + new;
        let mut start = 0;
        for at in begun..filled {
            match buffer[at] {
                b',' => rows.value(&buffer[start..at])?,
                b'\n' => rows.last_value(&buffer[start..at])?,
                _ => continue,
            }
            start = at + 1;
        }
        begun = filled - start;
        if begun > LONGEST {
            let what = format!("value {} is longer than {LONGEST} bytes", rows.column);
            return Err(Undecodable::sample(rows.row, what));
        }
        buffer.copy_within(start..filled, 0);
    }
    if begun > 0 || rows.column > 0 {
        rows.last_value(&buffer[..begun])?;
    }
    if rows.row < samples {
        let what = format!("{} samples stored, {samples} configured", rows.row);
        return Err(Undecodable::file(what));
    }
    Ok(())
}

/// Where in the rows reading has come.
struct Rows {
    element: ElementType,
    samples: u64,
    /// The row of the next value, and its place there.
    row: u64,
    column: u64,
    /// Values of each row, once a row has ended.
    columns: Option<u64>,
}

impl Rows {
    fn value(&mut self, text: &[u8]) -> Result<(), Undecodable> {
        if self.row == self.samples {
            let what = format!("more than {0} samples stored, {0} configured", self.samples);
            return Err(Undecodable::file(what));
        }
        if !is_number(text, self.element) {
            let shown = String::from_utf8_lossy(&text[..text.len().min(40)]);
            let what = format!(
                "value {} is {shown:?}, no number that dataset.record_element_type holds",
                self.column
            );
            return Err(Undecodable::sample(self.row, what));
        }
        self.column += 1;
        Ok(())
    }

    fn last_value(&mut self, text: &[u8]) -> Result<(), Undecodable> {
        self.value(text.strip_suffix(b"\r").unwrap_or(text))?;
        let columns = *self.columns.get_or_insert(self.column);
        if self.column != columns {
            let what = format!("it has {} values, but those before have {columns}", self.column);
            return Err(Undecodable::sample(self.row, what));
        }
        (self.row, self.column) = (self.row + 1, 0);
        Ok(())
    }
}

/// Whether `text` is a number that `element` can hold. Floats may be infinite or none if they say so.
fn is_number(text: &[u8], element: ElementType) -> bool {
    let Ok(text) = str::from_utf8(text) else { return false };
    let float = |is_finite: fn(f64) -> bool| {
        let says_so = || !text.bytes().any(|byte| byte.is_ascii_digit());
        text.parse().is_ok_and(|value| is_finite(value) || says_so())
    };
    match element {
        ElementType::Uint8 => text.parse::<u8>().is_ok(),
        ElementType::Uint16 => text.parse::<u16>().is_ok(),
        ElementType::Uint32 => text.parse::<u32>().is_ok(),
        ElementType::Uint64 => text.parse::<u64>().is_ok(),
        ElementType::Int8 => text.parse::<i8>().is_ok(),
        ElementType::Int16 => text.parse::<i16>().is_ok(),
        ElementType::Int32 => text.parse::<i32>().is_ok(),
        ElementType::Int64 => text.parse::<i64>().is_ok(),
        ElementType::Float16 => float(|value| value.abs() < HALF_INFINITY),
        ElementType::Float32 => float(|value| (value as f32).is_finite()),
        ElementType::Float64 => float(f64::is_finite),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str, element: ElementType, samples: u64) -> Result<(), String> {
        let unreadable = |error: io::Error| Undecodable::file(error);
        read(&mut text.as_bytes(), element, samples, unreadable).map_err(|error| error.to_string())
    }

    fn written(element: ElementType, bytes: &[u8]) -> String {
        let mut text = Vec::new();
        Text::new(element).push(bytes, &mut text);
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn the_extremes_of_each_type_are_written_and_read() {
        macro_rules! check {
            ($element:ident, $($value:expr => $text:literal),*) => {$(
                let text = written(ElementType::$element, &$value.to_le_bytes());
                assert_eq!(text, concat!($text, ","));
                assert_eq!(decode($text, ElementType::$element, 1), Ok(()));
            )*};
        }
        check!(Uint8, u8::MIN => "0", u8::MAX => "255");
        check!(Int8, i8::MIN => "-128", i8::MAX => "127");
        check!(Uint16, u16::MAX => "65535");
        check!(Int16, i16::MIN => "-32768");
        check!(Uint32, u32::MAX => "4294967295");
        check!(Int32, i32::MIN => "-2147483648");
        check!(Uint64, u64::MAX => "18446744073709551615");
        check!(Int64, i64::MIN => "-9223372036854775808");
        check!(Float32, f32::MAX => "3.4028235e+38", -0.1_f32 => "-0.1", f32::from_bits(1) => "1e-45");
        check!(Float64, f64::MAX => "1.7976931348623157e+308", f64::from_bits(1) => "5e-324");
        check!(
            Float16,
            0x7bff_u16 => "65500.0", 0xfbff_u16 => "-65500.0", 0x2e66_u16 => "0.1", 1_u16 => "6e-8",
            0x3c00_u16 => "1.0", 0x0400_u16 => "0.00006104", 0_u16 => "0.0", 0x8000_u16 => "-0.0"
        );
    }

    #[test]
    fn every_finite_16_bit_float_is_nearest_to_its_text() {
        let finite: Vec<u16> = (0..0x7c00).collect();
        let bytes: Vec<u8> = finite.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let text = written(ElementType::Float16, &bytes);
        let values: Vec<f64> =
            text.trim_end_matches(',').split(',').map(|value| value.parse().unwrap()).collect();
        assert_eq!(values.len(), finite.len());
        for (&bits, &value) in finite.iter().zip(&values) {
            let distance = |other: u16| (value - half_magnitude(other)).abs();
            assert!(distance(bits) < distance(bits + 1), "{bits:#x} {value}");
            assert!(bits == 0 || distance(bits) < distance(bits - 1), "{bits:#x} {value}");
        }
        assert_eq!(half_magnitude(0x7bff).to_bits(), 65_504_f64.to_bits());
        assert_eq!(half_magnitude(0x3555).to_bits(), 0.333_251_953_125_f64.to_bits());
    }

    #[test]
    fn texts_of_other_writers_are_read() {
        for text in ["1,2\n3,4", "1,2\r\n3,4\r\n", "1,2\n3,4\n"] {
            assert_eq!(decode(text, ElementType::Uint8, 2), Ok(()), "{text:?}");
        }
        for text in ["1.000000000000000056e-01,1E5\n", "1.,.5\n", "nan,-inf\n", "NaN,Infinity\n"] {
            assert_eq!(
                decode(text, ElementType::Float16, 1).is_ok(),
                !text.contains("E5"),
                "{text:?}"
            );
            assert_eq!(decode(text, ElementType::Float32, 1), Ok(()), "{text:?}");
            assert_eq!(decode(text, ElementType::Float64, 1), Ok(()), "{text:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let decode =
            |text: &str, element, samples| decode(text, element, samples).expect_err("it is wrong");
        let wrong = |text: &str| decode(text, ElementType::Uint8, 2);
        let no_number = "no number that dataset.record_element_type holds";
        assert_eq!(wrong("1,2\n3,256\n"), format!("sample 1: value 1 is \"256\", {no_number}"));
        assert_eq!(wrong("1,,2\n"), format!("sample 0: value 1 is \"\", {no_number}"));
        assert_eq!(wrong("a,b\n1,2\n"), format!("sample 0: value 0 is \"a\", {no_number}"));
        assert_eq!(wrong("1,2\n\n"), format!("sample 1: value 0 is \"\", {no_number}"));
        assert_eq!(wrong("1,2\n3,"), format!("sample 1: value 1 is \"\", {no_number}"));
        assert_eq!(wrong("1,2\n3\n"), "sample 1: it has 1 values, but those before have 2");
        assert_eq!(wrong(""), "0 samples stored, 2 configured");
        assert_eq!(wrong("1\n"), "1 samples stored, 2 configured");
        assert_eq!(wrong("1\n2\n3\n"), "more than 2 samples stored, 2 configured");
        let endless = "1".repeat(1 << 20);
        assert!(wrong(&endless).contains("value 0 is longer than 2048 bytes"));
        for (text, element) in [
            ("65520", ElementType::Float16),
            ("4e38", ElementType::Float32),
            ("1e999", ElementType::Float64),
            ("1.0", ElementType::Int64),
            ("-1", ElementType::Uint64),
            ("0x10", ElementType::Float64),
        ] {
            assert!(decode(text, element, 1).ends_with(no_number), "{text} {element:?}");
        }
    }

    #[test]
    fn a_value_may_lie_in_two_reads() {
        /// Gives one byte at a time.
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let len = buffer.len().min(1);
                self.0.read(&mut buffer[..len])
            }
        }
        let text = b"123,45\n67,890\n";
        let read = |samples| read(&mut Slow(text), ElementType::Uint16, samples, Undecodable::file);
        assert_eq!(read(2), Ok(()));
        assert!(read(3).is_err());
    }
}
