//! JPEG images by construction: the scan is random bits that are always valid code, so no encoder
//! runs, and an image is made as fast as its bytes.
//!
//! One grey component, with a Huffman table of our own for both DC and AC: the codes 0, 10, 110 and
//! 1110 stand for "no zeros before, then a value of s, s-1, s-2, s-3 bits". Code and value together
//! have g = s + 1 bits whichever code it is, so a block's 64 coefficients are 64 groups of g bits:
//! 8 g bytes. Any bits are a valid scan but for two things: a group that starts with 1111, which is
//! no code, and a byte 0xFF, which would start a marker. Both are mended by clearing one bit, the
//! group's or the byte's first. Clearing creates neither of the two elsewhere, so one pass does.
//!
//! The coefficients being noise, so are the pixels. Format: ITU-T T.81, JFIF 1.01.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use feedrate_workload::Format;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::files::{Files, Length, Undecodable};
use super::image::ImageLengths;
use super::out::{Out, Stopped};
use super::{FormatError, Ingredients};
use crate::content::{Content, PIECE, Scratch};

/// Bytes of a file besides scan and comments: start of image, JFIF header, quantization table, frame
/// header, two Huffman tables, scan header, end of image.
const FRAMING: u64 = 2 + 18 + 69 + 13 + 2 * 25 + 10 + 2;

/// Group sizes in bits. A value has at most 10 bits in a baseline scan, and the shortest at least 1.
const GROUPS: RangeInclusive<u64> = 5..=11;

/// Blocks of 8 x 8 pixels along a side of 256 pixels.
const FULL_SIDE: u64 = 32;

/// Bytes of a comment segment: marker and length at least, and all that the length can say.
const SEGMENT: RangeInclusive<u64> = 4..=2 + 65_535;

/// The smallest file: one block of the shortest groups and an empty comment.
const SMALLEST: u64 = FRAMING + 8 * *GROUPS.start() + *SEGMENT.start();

/// The largest file: readers count its bytes in 32 bits.
const LARGEST: u64 = u32::MAX as u64;

/// Pixels that a byte of a file can stand for at most: the shortest code of a block of 64 pixels has a
/// bit, where an image of one colour is stored progressively.
const MOST_PIXELS: u64 = 8 * 64;

/// Blocks that are made at a time, so that a piece of any group size fits where pieces are made and
/// is a multiple of every vector's length.
const PIECE_BLOCKS: u64 = 64;

const _: () = assert!(PIECE_BLOCKS * 8 * *GROUPS.end() <= PIECE as u64);

/// The JPEG files of a set.
#[derive(Clone)]
pub(super) struct Jpeg {
    content: Content,
    lengths: ImageLengths,
    /// For each of [`GROUPS`]: the bits of a piece of scan at which a group starts.
    starts: Arc<[Vec<u64>]>,
}

impl fmt::Debug for Jpeg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jpeg").finish_non_exhaustive()
    }
}

impl Jpeg {
    pub(super) fn new(made_from: Ingredients<'_>) -> Result<Self, FormatError> {
        let Ingredients { dataset, content, sizes, .. } = made_from;
        let lengths = ImageLengths::new(Format::Jpeg, dataset, sizes)?;
        Ok(Self { content, lengths, starts: GROUPS.map(group_starts).collect() })
    }

    /// The scan, made piece by piece.
    fn write_scan(&self, file: u64, geometry: Geometry, out: &mut dyn Out) -> Result<(), Stopped> {
        let starts = &self.starts[(geometry.group - GROUPS.start()) as usize];
        let mut stream = self.content.stream(file, 0);
        let mut scratch = Scratch::new();
        let (len, step) = (geometry.scan(), 8 * starts.len() as u64);
        for offset in (0..len).step_by(step as usize) {
            let bytes = scratch.piece(step.min(len - offset));
            stream.fill(bytes);
            mend(bytes, starts);
            out.content(bytes)?;
        }
        Ok(())
    }

    /// All that comes before the scan. The comments' text is random too: the bytes of the file's
    /// content that follow the scan's.
    fn push_head(&self, file: u64, geometry: Geometry, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0xff, 0xd8]);
        // JFIF 1.01, square pixels, no thumbnail.
        push_segment(0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0", out);
        // Quantization table 0 of 8 bits: all ones.
        let mut ones = [1; 65];
        ones[0] = 0;
        push_segment(0xdb, &ones, out);
        // Baseline, 8 bits, one component without subsampling.
        let [height, width] = [geometry.rows, geometry.columns].map(|blocks| blocks as u16 * 8);
        let ([h1, h0], [w1, w0]) = (height.to_be_bytes(), width.to_be_bytes());
        push_segment(0xc0, &[8, h1, h0, w1, w0, 1, 1, 0x11, 0], out);
        // Tables 0 for DC and AC: a code each of 1, 2, 3 and 4 bits, for values of s bits and less.
        let longest = geometry.group as u8 - 1;
        for class in [0x00, 0x10] {
            let mut table = [0; 21];
            table[0] = class;
            table[1..5].fill(1);
            for (code, length) in table[17..].iter_mut().zip(0..) {
                *code = longest - length;
            }
            push_segment(0xc4, &table, out);
        }
        self.push_comments(file, geometry, out);
        // One component, all 64 coefficients, no successive approximation.
        push_segment(0xda, &[1, 1, 0, 0, 63, 0], out);
    }

    fn push_comments(&self, file: u64, geometry: Geometry, out: &mut Vec<u8>) {
        let mut stream = self.content.stream(file, geometry.scan());
        let mut left = geometry.comment;
        while left > 0 {
            let segment = match left {
                _ if left <= *SEGMENT.end() => left,
                // What stays must make another segment.
                _ => (*SEGMENT.end()).min(left - SEGMENT.start()),
            };
            left -= segment;
            let text = (segment - SEGMENT.start()) as usize;
            push_marker(0xfe, text, out);
            let start = out.len();
            out.resize(start + text, 0);
            stream.fill(&mut out[start..]);
        }
    }
}

impl Files for Jpeg {
    fn length(&self, file: u64) -> Length {
        Length::Exact(self.lengths.of(file))
    }

    fn lengths(&self) -> RangeInclusive<u64> {
        SMALLEST..=LARGEST
    }

    fn write(&self, file: u64, _: Range<u64>, out: &mut dyn Out) -> Result<(), Stopped> {
        let geometry = Geometry::new(self.lengths.of(file));
        let mut head = Vec::new();
        self.push_head(file, geometry, &mut head);
        out.framing(&head)?;
        self.write_scan(file, geometry, out)?;
        out.framing(&END_OF_IMAGE)
    }

    fn sample_at(&self, _: u64, _: u64) -> Option<u64> {
        Some(0)
    }

    fn decode(&self, _: u64, _: Range<u64>, found: &[u8]) -> Result<(), Undecodable> {
        let undecodable =
            |error: DecodeErrors| Undecodable::file(format_args!("it is no JPEG image: {error:?}"));
        let most_side = usize::from(u16::MAX);
        let options = DecoderOptions::default()
            .set_strict_mode(true)
            .set_max_width(most_side)
            .set_max_height(most_side);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(found), options);
        decoder.decode_headers().map_err(undecodable)?;
        let (width, height) = decoder.dimensions().unwrap_or_default();
        if (width * height) as u64 > MOST_PIXELS * found.len() as u64 {
            return Err(Undecodable::file(format_args!(
                "it is no JPEG image: {} bytes cannot hold the {width} x {height} pixels that its \
                 header names",
                found.len()
            )));
        }
        decoder.decode().map_err(undecodable)?;
        // The decoder does without it when the last bits of the scan are enough.
        if !found.windows(2).rev().any(|marker| marker == END_OF_IMAGE) {
            return Err(Undecodable::file("it is a JPEG image that is cut off"));
        }
        Ok(())
    }
}

const END_OF_IMAGE: [u8; 2] = [0xff, 0xd9];

fn push_marker(marker: u8, payload: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0xff, marker]);
    out.extend_from_slice(&(payload as u16 + 2).to_be_bytes());
}

fn push_segment(marker: u8, payload: &[u8], out: &mut Vec<u8>) {
    push_marker(marker, payload.len(), out);
    out.extend_from_slice(payload);
}

/// The bits at which groups of `group` bits start, in a piece of scan: the first is the highest.
fn group_starts(group: u64) -> Vec<u64> {
    let mut starts = vec![0; (PIECE_BLOCKS * group) as usize];
    for bit in (0..starts.len() * 64).step_by(group as usize) {
        starts[bit / 64] |= 1 << 63 >> (bit % 64);
    }
    starts
}

/// Clears the first bit of each group that starts with 1111 and of each byte 0xFF.
///
/// `bytes` are whole blocks. Bits run from a byte's highest to its lowest and on into the next byte.
fn mend(bytes: &mut [u8], starts: &[u64]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512bw,avx512vl")]
        fn mend_wide(bytes: &mut [u8], starts: &[u64]) {
            mend_words(bytes, starts);
        }
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the processor has the features.
            return unsafe { mend_wide(bytes, starts) };
        }
    }
    mend_words(bytes, starts);
}

/// As vectors of the caller's kind.
#[expect(clippy::inline_always, reason = "the caller's instructions are used only inside of it")]
#[inline(always)]
fn mend_words(bytes: &mut [u8], starts: &[u64]) {
    let (words, rest) = bytes.as_chunks_mut();
    debug_assert!(rest.is_empty());
    let Some(last) = words.len().checked_sub(1) else { return };
    let starts = &starts[..words.len()];
    // The next word is looked at as it was before it is mended itself, which is one way to be
    // definite; either way would do.
    for at in 0..last {
        words[at] = mended(words[at], words[at + 1], starts[at]);
    }
    // A block's last group starts 5 bits before its end or earlier: what follows does not matter.
    words[last] = mended(words[last], [0; 8], starts[last]);
}

#[inline]
fn mended(word: [u8; 8], next: [u8; 8], starts: u64) -> [u8; 8] {
    const HIGHEST: u64 = u64::from_ne_bytes([0x80; 8]);
    const LOWEST: u64 = u64::from_ne_bytes([0x01; 8]);
    let [word, next] = [word, next].map(u64::from_be_bytes);
    // Bits that are one and followed by a one; then by three.
    let two = word & (word << 1 | next >> 63);
    let two_next = next & next << 1;
    let four = two & (two << 2 | two_next >> 62);
    // The highest bit of each byte in which the others carry over into it, and which has it set.
    let full = ((word & !HIGHEST) + LOWEST) & word & HIGHEST;
    (word & !(four & starts | full)).to_be_bytes()
}

/// The shape of an image and of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Geometry {
    /// Bits of a coefficient's code and value.
    group: u64,
    /// Blocks of 8 x 8 pixels across.
    columns: u64,
    /// Blocks of 8 x 8 pixels down.
    rows: u64,
    /// Bytes of all comment segments, their markers included.
    comment: u64,
}

impl Geometry {
    /// The near-square image that fills a file of `len` bytes, at least [`SMALLEST`], best: with the
    /// longest groups that leave it 256 x 256 pixels, or with the shortest when none do.
    fn new(len: u64) -> Self {
        let space = len - FRAMING;
        let full = GROUPS.rev().find_map(|group| Self::fullest(space, group, FULL_SIDE));
        let shortest = *GROUPS.start();
        full.or_else(|| Self::fullest(space, shortest, 1)).unwrap_or(Self {
            group: shortest,
            columns: 1,
            rows: 1,
            comment: space - 8 * shortest,
        })
    }

    /// The shape with the most blocks, and of several the squarest, of at least `side` blocks on
    /// either side. The rest must be nothing or a comment segment.
    fn fullest(space: u64, group: u64, side: u64) -> Option<Self> {
        let blocks = space / (8 * group);
        let root = blocks.isqrt();
        // Up to 5:4 as far as whole blocks allow it.
        let narrowest = side.max(root * 7 / 8);
        let shapes = (narrowest..=root).flat_map(|columns| {
            let tallest = (blocks / columns).min((columns * 5 / 4).max(columns + 1));
            [tallest, tallest - 1].map(|rows| Self {
                group,
                columns,
                rows,
                comment: space - columns * rows * 8 * group,
            })
        });
        let fits = |shape: &Self| {
            shape.rows >= side && (shape.comment == 0 || shape.comment >= *SEGMENT.start())
        };
        shapes.filter(fits).max_by_key(|shape| (shape.scan(), shape.columns))
    }

    /// Bytes of the scan's data.
    fn scan(&self) -> u64 {
        self.columns * self.rows * 8 * self.group
    }
}

#[cfg(test)]
mod tests {
    use feedrate_workload::{Format, Split};
    use proptest::prelude::*;

    use super::*;
    use crate::FileFormat;
    use crate::sizes::Sizes;
    use crate::testing::dataset;

    fn image(len: u64, file: u64) -> Vec<u8> {
        let set = dataset(Format::Jpeg, 1000, len as f64);
        let format = FileFormat::new(&set, Split::Train).expect("large enough");
        let mut bytes = Vec::new();
        format.write(file, &mut bytes);
        bytes
    }

    /// Decodes an image and checks its size in pixels.
    fn assert_decodes(bytes: &[u8]) {
        let geometry = Geometry::new(bytes.len() as u64);
        let mut decoder = JpegDecoder::new(ZCursor::new(bytes));
        let pixels = decoder.decode().unwrap_or_else(|error| panic!("{geometry:?}: {error}"));
        let info = decoder.info().expect("a decoded image has headers");
        assert_eq!(u64::from(info.width), geometry.columns * 8);
        assert_eq!(u64::from(info.height), geometry.rows * 8);
        assert!(pixels.len() as u64 >= geometry.columns * geometry.rows * 64);
        assert!(pixels.iter().any(|&pixel| pixel != pixels[0]), "an image of one colour");
    }

    /// Walks the scan as a decoder does: every group must start with a code, no byte may be 0xFF.
    fn assert_valid_scan(bytes: &[u8]) {
        let geometry = Geometry::new(bytes.len() as u64);
        let end = bytes.len() - 2;
        let scan = &bytes[end - geometry.scan() as usize..end];
        assert!(scan.iter().all(|&byte| byte != 0xff), "{geometry:?}: a byte 0xFF");
        let bit = |at: usize| scan[at / 8] >> (7 - at % 8) & 1;
        for group in (0..scan.len() * 8).step_by(geometry.group as usize) {
            let ones = (group..group + 4).all(|at| bit(at) == 1);
            assert!(!ones, "{geometry:?}: no code at bit {group}");
        }
    }

    #[test]
    fn the_retinanet_record_is_nearly_all_scan() {
        let geometry = Geometry::new(322_957);
        assert_eq!((geometry.columns * 8, geometry.rows * 8), (480, 488));
        assert_eq!(geometry.scan(), 322_080);
    }

    #[test]
    fn images_of_many_sizes_decode() {
        for len in [208, 209, 300, 1000, 4096, 20_000, 41_124, 41_128, 50_000, 65_536, 90_280] {
            let bytes = image(len, len);
            assert_eq!(bytes.len() as u64, len);
            assert_valid_scan(&bytes);
            // The smallest images may be too small to have two shades.
            if len > 1000 {
                assert_decodes(&bytes);
            }
        }
        for file in 0..20 {
            assert_decodes(&image(322_957, file));
        }
        assert_decodes(&image(5_000_000, 1));
    }

    proptest! {
        #[test]
        fn any_length_gives_a_valid_file_of_that_length(len in SMALLEST..200_000, file: u64) {
            let bytes = image(len, file);
            prop_assert_eq!(bytes.len() as u64, len);
            assert_valid_scan(&bytes);
        }

        #[test]
        fn the_image_fills_the_file_from_the_size_on_where_it_can(len in 41_128_u64..400_000_000) {
            let geometry = Geometry::new(len);
            prop_assert!(geometry.scan() * 100 >= len * 95, "{geometry:?}");
            prop_assert!(geometry.columns.min(geometry.rows) >= FULL_SIDE, "{geometry:?}");
            prop_assert!(geometry.rows * 4 <= geometry.columns * 5, "{geometry:?}");
        }
    }

    #[test]
    fn every_length_near_a_border_has_a_shape() {
        for len in (SMALLEST..120_000).chain(322_000..323_000) {
            let geometry = Geometry::new(len);
            assert_eq!(FRAMING + geometry.comment + geometry.scan(), len);
            assert!(geometry.comment == 0 || geometry.comment >= *SEGMENT.start(), "{geometry:?}");
            assert!(geometry.rows >= 1 && geometry.rows <= geometry.columns * 2, "{geometry:?}");
            if len >= 41_128 {
                assert!(geometry.scan() * 100 >= len * 95, "{len}: {geometry:?}");
            }
        }
    }

    #[test]
    fn several_comments_add_up() {
        let set = dataset(Format::Jpeg, 1, 1000.0);
        let content = Content::new(10, "train");
        let [sizes, _] = Sizes::both(&set);
        let made_from = Ingredients { dataset: &set, content, sizes };
        let jpeg = Jpeg::new(made_from).expect("one sample a file");
        for comment in [4, 65_537, 65_538, 65_541, 131_074, 200_000] {
            let mut out = Vec::new();
            let geometry = Geometry { group: 11, columns: 1, rows: 1, comment };
            jpeg.push_comments(0, geometry, &mut out);
            assert_eq!(out.len() as u64, comment);
            let mut at = 0;
            while at < out.len() {
                assert_eq!(out[at..at + 2], [0xff, 0xfe]);
                at += 2 + usize::from(u16::from_be_bytes([out[at + 2], out[at + 3]]));
            }
            assert_eq!(at, out.len());
        }
    }

    fn decode(bytes: &[u8]) -> Result<(), Undecodable> {
        let set = dataset(Format::Jpeg, 1, 1000.0);
        FileFormat::new(&set, Split::Train).expect("large enough").decode(0, 0..1, bytes)
    }

    /// 24 x 20 pixels each, made by Pillow.
    const FOREIGN: [&[u8]; 3] = [
        include_bytes!("jpeg/colour.jpeg"),
        include_bytes!("jpeg/progressive.jpeg"),
        include_bytes!("jpeg/cmyk.jpeg"),
    ];

    /// Where the header of a frame is, baseline or progressive: its marker.
    fn frame(image: &[u8]) -> usize {
        let is_frame = |bytes: &[u8]| matches!(bytes, [0xff, 0xc0 | 0xc2, 0, 11 | 17 | 20, 8]);
        image.windows(5).position(is_frame).expect("a frame")
    }

    #[test]
    fn images_of_all_sizes_and_of_other_writers_decode() {
        for len in [SMALLEST, 1000, 60_000, 322_957] {
            assert_eq!(decode(&image(len, 1)), Ok(()), "{len}");
        }
        for image in FOREIGN {
            assert_eq!(decode(image), Ok(()));
        }
    }

    #[test]
    fn what_follows_the_image_does_not_matter() {
        for image in FOREIGN.into_iter().chain([&image(1000, 1)[..]]) {
            assert_eq!(decode(&[image, &[0; 100], &[0xff; 100]].concat()), Ok(()));
        }
    }

    #[test]
    fn what_is_no_image_is_refused() {
        for found in [&b""[..], b"\xff", b"\xff\xd8", b"no image", &[0; 1000], &[0xff; 1000]] {
            let error = decode(found).expect_err("it is no image").to_string();
            assert!(error.starts_with("it is no JPEG image: "), "{error}");
        }
    }

    #[test]
    fn an_image_that_is_cut_off_is_refused() {
        for image in FOREIGN.into_iter().chain([&image(3000, 1)[..]]) {
            for cut in 0..image.len() {
                assert!(decode(&image[..cut]).is_err(), "{cut} of {}", image.len());
            }
        }
    }

    #[test]
    fn a_marker_that_is_none_is_refused() {
        for image in FOREIGN.into_iter().chain([&image(3000, 1)[..]]) {
            for marker in [0, frame(image)] {
                for offset in [marker, marker + 1] {
                    let mut bad = image.to_vec();
                    bad[offset] ^= 0x40;
                    assert!(decode(&bad).is_err(), "{offset}");
                }
            }
        }
    }

    #[test]
    fn a_header_that_names_more_than_a_file_can_hold_is_refused() {
        for image in FOREIGN.into_iter().chain([&image(3000, 1)[..]]) {
            let mut bad = image.to_vec();
            let size = frame(image) + 5;
            bad[size..size + 4].fill(0xff);
            let error = decode(&bad).expect_err("it is too small").to_string();
            assert!(error.contains("65535 x 65535 pixels"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_damage_panics(
            which in 0..=FOREIGN.len(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bad = FOREIGN.get(which).map_or_else(|| image(600, 1), |image| image.to_vec());
            let len = bad.len();
            for (at, bits) in damage {
                bad[at.index(len)] ^= bits;
            }
            let _ = decode(&bad);
            let _ = decode(&bad[..cut.index(len)]);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = decode(&bytes);
            let _ = decode(&[b"\xff\xd8\xff", &bytes[..]].concat());
        }
    }

    #[test]
    fn mending_changes_few_bits() {
        let random = {
            let mut bytes = vec![0; 88 * 64];
            Content::new(10, "train").stream(0, 0).fill(&mut bytes);
            bytes
        };
        let mut scan = random.clone();
        mend(&mut scan, &group_starts(11));
        let cleared: u32 = random.iter().zip(&scan).map(|(a, b)| (a ^ b).count_ones()).sum();
        // One group in 16 and one byte in 256.
        let expected = random.len() as f64 * (8.0 / 11.0 / 16.0 + 1.0 / 256.0);
        assert!((0.8..1.2).contains(&(f64::from(cleared) / expected)), "{cleared} bits");
        assert!(random.iter().zip(&scan).all(|(before, after)| before & after == *after));
    }
}
