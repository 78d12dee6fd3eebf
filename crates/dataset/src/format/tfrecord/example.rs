//! The payload of a record: a `tf.train.Example` of two features, `image`, which is one value of bytes,
//! and `size`, which is their number.
//!
//! Protocol buffers nest messages by length, so all that surrounds an image depends on its length alone:
//! a constant [`Wrapping`]. What is read may have been written by other programs: fields in any order,
//! others between them, numbers packed or not.
//!
//! Messages (tensorflow/core/example/{example,feature}.proto), all by number:
//!
//! ```text
//! Example   { 1: Features }
//! Features  { 1: repeated entry { 1: key, 2: Feature } }
//! Feature   { 1: BytesList | 2: FloatList | 3: Int64List }
//! BytesList { 1: repeated bytes }
//! Int64List { 1: repeated varint, packed or not }
//! ```

const IMAGE: &[u8] = b"image";
const SIZE: &[u8] = b"size";

/// Field numbers as above.
const FEATURES: u64 = 1;
const ENTRY: u64 = 1;
const KEY: u64 = 1;
const VALUE: u64 = 2;
const BYTES_LIST: u64 = 1;
const INT64_LIST: u64 = 3;
const ITEM: u64 = 1;

/// Bits of a tag that are its wire type, and those used here.
const WIRE_BITS: u32 = 3;
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;
const FIXED_32: u64 = 5;

/// Bits of a varint's byte that count; the one above says that more follow.
const VARINT_BITS: u32 = 7;

/// What surrounds an image in its Example.
#[derive(Debug)]
pub(super) struct Wrapping {
    pub(super) prefix: Vec<u8>,
    pub(super) suffix: Vec<u8>,
    image: u64,
}

impl Wrapping {
    /// That of an image of `image` bytes, less than 2 GiB of them.
    pub(super) fn new(image: u64) -> Self {
        let mut this = Self { prefix: Vec::new(), suffix: Vec::new(), image };
        this.enclose(ITEM);
        this.enclose(BYTES_LIST);
        this.enclose(VALUE);
        this.prefix.splice(..0, key(IMAGE));
        this.enclose(ENTRY);
        this.suffix = size_entry(image);
        this.enclose(FEATURES);
        this
    }

    /// Makes what there is the `field` of a message.
    fn enclose(&mut self, field: u64) {
        let len = self.prefix.len() as u64 + self.image + self.suffix.len() as u64;
        let mut head = Vec::new();
        push_head(field, len, &mut head);
        self.prefix.splice(..0, head);
    }
}

/// Bytes of the Example around an image of `image` bytes, wrapping included; [`u64::MAX`] if there are
/// more.
pub(super) fn payload_len(image: u64) -> u64 {
    // A tag of one byte, a length, and the bytes.
    let enclosed = |len: u64| len.saturating_add(1 + varint_len(len));
    let image_entry =
        enclosed(IMAGE.len() as u64).saturating_add(enclosed(enclosed(enclosed(image))));
    // Varint, packed list, Feature, value of the entry.
    let size_entry = enclosed(SIZE.len() as u64) + enclosed(enclosed(enclosed(varint_len(image))));
    enclosed(enclosed(image_entry).saturating_add(enclosed(size_entry)))
}

/// Bytes of `number` as a varint.
fn varint_len(number: u64) -> u64 {
    u64::from(number.checked_ilog2().unwrap_or(0) / VARINT_BITS) + 1
}

/// The entry of the map that says `size`.
fn size_entry(size: u64) -> Vec<u8> {
    let mut item = Vec::new();
    push_varint(size, &mut item);
    let list = field(ITEM, &item);
    let value = field(VALUE, &field(INT64_LIST, &list));
    field(ENTRY, &[key(SIZE), value].concat())
}

fn key(name: &[u8]) -> Vec<u8> {
    field(KEY, name)
}

fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    push_head(number, bytes.len() as u64, &mut field);
    field.extend_from_slice(bytes);
    field
}

fn push_head(field: u64, len: u64, out: &mut Vec<u8>) {
    push_varint(field << WIRE_BITS | LENGTH_DELIMITED, out);
    push_varint(len, out);
}

fn push_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 1 << VARINT_BITS {
        out.push(number as u8 | 1 << VARINT_BITS);
        number >>= VARINT_BITS;
    }
    out.push(number as u8);
}

/// Why bytes are not an Example of an image and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("it is no tf.train.Example: a field is longer than the message that it is in")]
    Short,
    #[error("it is no tf.train.Example: a number has more than 64 bits")]
    Varint,
    #[error("it is no tf.train.Example: no field has the tag {0:#x}")]
    Tag(u64),
    #[error("its Example has no feature `image` of one value of bytes")]
    Image,
    #[error("its Example has no feature `size` of one integer")]
    Size,
    #[error("its `size` is {size}, but its `image` has {image} bytes")]
    OtherSize { size: i64, image: u64 },
}

/// Checks that `payload` is an Example whose `image` has the length that `size` says.
pub(super) fn check(payload: &[u8]) -> Result<(), Malformed> {
    let (mut image, mut size) = (None, None);
    for features in members(payload, FEATURES) {
        for entry in members(features?, ENTRY) {
            let (mut name, mut feature) = ([].as_slice(), [].as_slice());
            for field in Fields(entry?) {
                match field? {
                    (KEY, Value::Bytes(bytes)) => name = bytes,
                    (VALUE, Value::Bytes(bytes)) => feature = bytes,
                    _ => {}
                }
            }
            // Of entries of one key the last counts.
            match name {
                IMAGE => image = bytes_of(feature)?,
                SIZE => size = integer_of(feature)?,
                _ => {}
            }
        }
    }
    let image = image.ok_or(Malformed::Image)?.len() as u64;
    match size.ok_or(Malformed::Size)? {
        size if size == image => Ok(()),
        size => Err(Malformed::OtherSize { size: size.cast_signed(), image }),
    }
}

/// The value of a feature that is a list of one value of bytes.
fn bytes_of(feature: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    let mut only = Only::default();
    for list in members(feature, BYTES_LIST) {
        for bytes in members(list?, ITEM) {
            only.put(bytes?);
        }
    }
    Ok(only.value())
}

/// The value of a feature that is a list of one integer.
fn integer_of(feature: &[u8]) -> Result<Option<u64>, Malformed> {
    let mut only = Only::default();
    for list in members(feature, INT64_LIST) {
        for item in Fields(list?) {
            match item? {
                (ITEM, Value::Varint(number)) => only.put(number),
                (ITEM, Value::Bytes(packed)) => {
                    let mut packed = Fields(packed);
                    while !packed.0.is_empty() {
                        only.put(packed.varint()?);
                    }
                }
                _ => {}
            }
        }
    }
    Ok(only.value())
}

/// A value that there is only one of.
#[derive(Default)]
enum Only<T> {
    #[default]
    None,
    One(T),
    Several,
}

impl<T> Only<T> {
    fn put(&mut self, value: T) {
        *self = if let Self::None = self { Self::One(value) } else { Self::Several };
    }

    fn value(self) -> Option<T> {
        if let Self::One(value) = self { Some(value) } else { None }
    }
}

/// The fields of a message that have a number and are bytes, which messages are too.
fn members(message: &[u8], number: u64) -> impl Iterator<Item = Result<&[u8], Malformed>> {
    Fields(message).filter_map(move |field| match field {
        Ok((found, Value::Bytes(bytes))) if found == number => Some(Ok(bytes)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

/// The value of a field.
enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// A number of fixed length, which nothing here has.
    Fixed,
}

/// The fields of a message with their numbers, in order; nothing follows an error.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, Value<'a>), Malformed> {
        let tag = self.varint()?;
        let number = tag >> WIRE_BITS;
        let value = match tag & ((1 << WIRE_BITS) - 1) {
            _ if number == 0 => return Err(Malformed::Tag(tag)),
            VARINT => Value::Varint(self.varint()?),
            LENGTH_DELIMITED => {
                let len = self.varint()?;
                Value::Bytes(self.take(len)?)
            }
            FIXED_32 => self.take(4).map(|_| Value::Fixed)?,
            FIXED_64 => self.take(8).map(|_| Value::Fixed)?,
            _ => return Err(Malformed::Tag(tag)),
        };
        Ok((number, value))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(VARINT_BITS as usize) {
            let (&byte, rest) = self.0.split_first().ok_or(Malformed::Short)?;
            self.0 = rest;
            let bits = u64::from(byte & !(1 << VARINT_BITS));
            if bits > u64::MAX >> shift {
                return Err(Malformed::Varint);
            }
            number |= bits << shift;
            if byte < 1 << VARINT_BITS {
                return Ok(number);
            }
        }
        Err(Malformed::Varint)
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(len).map_err(|_| Malformed::Short)?;
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use proptest::prelude::*;

    use super::*;

    fn example(image: &[u8]) -> Vec<u8> {
        let Wrapping { prefix, suffix, .. } = Wrapping::new(image.len() as u64);
        [&prefix, image, &suffix].concat()
    }

    fn feature(name: &[u8], kind: u64, list: &[u8]) -> Vec<u8> {
        field(ENTRY, &[key(name), field(VALUE, &field(kind, list))].concat())
    }

    fn image(bytes: &[u8]) -> Vec<u8> {
        feature(IMAGE, BYTES_LIST, &field(ITEM, bytes))
    }

    fn of(entries: &[Vec<u8>]) -> Result<(), Malformed> {
        check(&field(FEATURES, &entries.concat()))
    }

    #[test]
    fn the_bytes_are_those_of_tensorflow() {
        // As `tf.train.Example(...).SerializeToString(deterministic=True)` has them.
        let expected = b"\x0a\x21\
            \x0a\x10\x0a\x05image\x12\x07\x0a\x05\x0a\x03abc\
            \x0a\x0d\x0a\x04size\x12\x05\x1a\x03\x0a\x01\x03";
        assert_eq!(example(b"abc"), expected);
        assert_eq!(check(expected), Ok(()));
    }

    #[test]
    fn an_image_has_the_overhead_of_the_specification() {
        // Without the 16 bytes around the payload, and away from where a length gains a byte.
        for (image, overhead) in [(1000, 54), (114_244, 60), (2_828_486, 66)] {
            assert_eq!(payload_len(image) + 16, image + overhead);
        }
        assert_eq!(payload_len(u64::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn the_length_is_that_of_the_parts(bits in 0_u32..31, low: u64) {
            let near = (1_u64 << bits).wrapping_add(low % 128).wrapping_sub(64);
            for len in [near, low >> (64 - bits).min(63)] {
                let len = len & ((1 << 31) - 1);
                let Wrapping { prefix, suffix, .. } = Wrapping::new(len);
                prop_assert_eq!(payload_len(len), prefix.len() as u64 + len + suffix.len() as u64);
            }
        }

        #[test]
        fn what_is_written_is_read(image in prop::collection::vec(any::<u8>(), 0..70_000)) {
            let payload = example(&image);
            prop_assert_eq!(check(&payload), Ok(()));
            prop_assert_eq!(check(&payload[..payload.len() - 1]), Err(Malformed::Short));
        }

        #[test]
        fn garbage_never_panics(garbage in prop::collection::vec(any::<u8>(), 0..200)) {
            // Bytes that happen to be an Example would be a miracle.
            prop_assert!(check(&garbage).is_err());
        }

        #[test]
        fn mutations_never_panic(
            len in 0_usize..300,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        ) {
            let mut payload = example(&vec![0xff; len]);
            for (at, byte) in changes {
                let at = at.index(payload.len());
                payload[at] = byte;
            }
            let _ = check(&payload);
        }
    }

    #[test]
    fn order_packing_repetition_and_unknown_fields_do_not_matter() {
        let image = image(b"abc");
        let size = size_entry(3);
        let unpacked = feature(SIZE, INT64_LIST, &[0x08, 3]);
        let other = feature(b"label", INT64_LIST, &[0x08, 7]);
        let fixed = [vec![0x4d; 5], vec![0x49; 9], vec![0x48, 0xff, 0x01]].concat();
        assert_eq!(of(&[image.clone(), size.clone()]), Ok(()));
        assert_eq!(of(&[size.clone(), image.clone()]), Ok(()));
        assert_eq!(of(&[unpacked.clone(), image.clone()]), Ok(()));
        assert_eq!(of(&[other, unpacked, fixed, image.clone()]), Ok(()));
        // A number with more bytes than it needs.
        let long = feature(SIZE, INT64_LIST, &field(ITEM, &[0x83, 0x80, 0]));
        assert_eq!(of(&[long, image.clone()]), Ok(()));
        // The value before the key.
        let value = field(VALUE, &field(BYTES_LIST, &field(ITEM, b"abc")));
        let turned = field(ENTRY, &[value, key(IMAGE)].concat());
        assert_eq!(of(&[turned, size.clone()]), Ok(()));
        // The last entry of a key counts, and features in parts are one.
        assert_eq!(of(&[size_entry(9), image.clone(), size.clone()]), Ok(()));
        assert_eq!(check(&[field(FEATURES, &image), field(FEATURES, &size)].concat()), Ok(()));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let (image, size) = (image(b"abc"), size_entry(3));
        assert_eq!(check(b""), Err(Malformed::Image));
        assert_eq!(of(slice::from_ref(&size)), Err(Malformed::Image));
        assert_eq!(of(slice::from_ref(&image)), Err(Malformed::Size));
        let two = feature(IMAGE, BYTES_LIST, &[field(ITEM, b"a"), field(ITEM, b"bc")].concat());
        assert_eq!(of(&[two, size.clone()]), Err(Malformed::Image));
        let none = feature(IMAGE, BYTES_LIST, b"");
        assert_eq!(of(&[none, size]), Err(Malformed::Image));
        let two = feature(SIZE, INT64_LIST, &field(ITEM, &[3, 3]));
        assert_eq!(of(&[image.clone(), two]), Err(Malformed::Size));
        let other = Err(Malformed::OtherSize { size: -1, image: 3 });
        assert_eq!(of(&[image.clone(), size_entry(u64::MAX)]), other);
        assert_eq!(check(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Err(Malformed::Short));
        assert_eq!(check(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), Err(Malformed::Varint));
        assert_eq!(check(&[0xff; 11]), Err(Malformed::Varint));
        assert_eq!(check(&[0x0b]), Err(Malformed::Tag(0x0b)));
        assert_eq!(check(&[0x02, 0]), Err(Malformed::Tag(0x02)));
    }
}
