//! PNG images by construction: noise does not compress, so a deflate stream that only stores is what
//! an encoder would come to as well, and an image is made as fast as its bytes.
//!
//! 8-bit grey; each line is a filter byte of 0, which means none, and its pixels. The lines are cut
//! into blocks that deflate stores, each in an IDAT chunk of its own. What the best image leaves over
//! of the file is a chunk of random bytes before it, of a private type that readers skip.
//!
//! Formats: PNG (ISO/IEC 15948), RFC 1950 (zlib), RFC 1951 (deflate).

use std::fmt;
use std::io::Cursor;
use std::ops::{Range, RangeInclusive};

use crc32fast::Hasher;
use feedrate_workload::Format;
use png::{DecodeOptions, Decoder, DecodingError, Limits};
use simd_adler32::Adler32;

use super::files::{Files, Length, Undecodable};
use super::image::ImageLengths;
use super::out::{Out, Stopped, pour};
use super::{FormatError, Ingredients};
use crate::content::{Content, PIECE, Scratch};

const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// Bytes of a chunk besides its data: length, type, checksum.
const CHUNK: u64 = 12;

/// Bytes of a file besides image data and filler: signature, IHDR, IEND.
const FRAMING: u64 = 8 + (CHUNK + 13) + CHUNK;

/// Ancillary, private, safe to copy; its third letter has to be upper case.
const FILLER: [u8; 4] = *b"fdRt";

/// Deflate with a window of 32 KiB, no dictionary, the fastest level.
const ZLIB: [u8; 2] = [0x78, 0x01];

/// Bytes of the zlib stream besides its blocks: header and checksum.
const ZLIB_FRAMING: u64 = 2 + 4;

/// Bytes of lines in a stored block: the most whole pieces that its 16-bit length can tell.
const BLOCK: u64 = (u16::MAX as usize / PIECE * PIECE) as u64;

/// Bytes of a block besides its lines: its chunk, whether it is the last, its length twice.
const BLOCK_FRAMING: u64 = CHUNK + 1 + 4;

/// The smallest file: one pixel and an empty filler, so that all larger files can be filled.
const SMALLEST: u64 = FRAMING + image_data(2) + CHUNK;

/// The largest file: readers count its bytes in 32 bits.
const LARGEST: u64 = u32::MAX as u64;

/// Bytes that a byte of deflate can stand for at most: a match of 258 bytes takes two bits.
const MOST_EXPANSION: u64 = 1032;

/// The PNG files of a set.
#[derive(Clone)]
pub(super) struct Png {
    content: Content,
    lengths: ImageLengths,
}

impl fmt::Debug for Png {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Png").field("lengths", &self.lengths).finish_non_exhaustive()
    }
}

impl Png {
    pub(super) fn new(made_from: Ingredients<'_>) -> Result<Self, FormatError> {
        let Ingredients { dataset, content, sizes, .. } = made_from;
        let lengths = ImageLengths::new(Format::Png, dataset, sizes)?;
        Ok(Self { content, lengths })
    }

    /// The filler, whose bytes are those of the file's content that follow the image's.
    fn write_filler(
        &self,
        file: u64,
        geometry: Geometry,
        out: &mut dyn Out,
    ) -> Result<(), Stopped> {
        let Some(len) = geometry.filler.checked_sub(CHUNK) else { return Ok(()) };
        let mut crc = begin_chunk(FILLER, len, out)?;
        let stream = self.content.stream(file, geometry.lines());
        pour(stream, len, out, |piece| crc.update(piece))?;
        out.framing(&crc.finalize().to_be_bytes())
    }

    fn write_image(&self, file: u64, geometry: Geometry, out: &mut dyn Out) -> Result<(), Stopped> {
        let lines = geometry.lines();
        let mut stream = self.content.stream(file, 0);
        let mut adler = Adler32::new();
        let mut scratch = Scratch::new();
        for start in (0..lines).step_by(BLOCK as usize) {
            let end = lines.min(start + BLOCK);
            let is_last = end == lines;
            let mut head = Vec::new();
            if start == 0 {
                head.extend_from_slice(&ZLIB);
            }
            let len = (end - start) as u16;
            head.push(u8::from(is_last));
            head.extend_from_slice(&len.to_le_bytes());
            head.extend_from_slice(&(!len).to_le_bytes());
            let tail = if is_last { 4 } else { 0 };
            let mut crc = begin_chunk(*b"IDAT", head.len() as u64 + u64::from(len) + tail, out)?;
            crc.update(&head);
            out.framing(&head)?;
            for at in (start..end).step_by(PIECE) {
                let piece = scratch.piece(end - at);
                stream.fill(piece);
                clear_filters(piece, at, geometry.line);
                adler.write(piece);
                crc.update(piece);
                out.content(piece)?;
            }
            if is_last {
                let adler = adler.finish().to_be_bytes();
                crc.update(&adler);
                out.framing(&adler)?;
            }
            out.framing(&crc.finalize().to_be_bytes())?;
        }
        Ok(())
    }
}

impl Files for Png {
    fn length(&self, file: u64) -> Length {
        Length::Exact(self.lengths.of(file))
    }

    fn lengths(&self) -> RangeInclusive<u64> {
        SMALLEST..=LARGEST
    }

    fn write(&self, file: u64, _: Range<u64>, out: &mut dyn Out) -> Result<(), Stopped> {
        let geometry = Geometry::new(self.lengths.of(file));
        out.framing(&SIGNATURE)?;
        let [width, height] =
            [geometry.line - 1, geometry.rows].map(|side| (side as u32).to_be_bytes());
        // 8 bits, grey, deflate, the usual filters, not interlaced.
        let header = [&width[..], &height, &[8, 0, 0, 0, 0]].concat();
        write_chunk(*b"IHDR", &header, out)?;
        self.write_filler(file, geometry, out)?;
        self.write_image(file, geometry, out)?;
        write_chunk(*b"IEND", &[], out)
    }

    fn sample_at(&self, _: u64, _: u64) -> Option<u64> {
        Some(0)
    }

    /// Decodes line by line, so that memory is bounded by a line's, and that by the file's length.
    fn decode(&self, _: u64, _: Range<u64>, found: &[u8]) -> Result<(), Undecodable> {
        let undecodable =
            |error: DecodingError| Undecodable::file(format_args!("it is no PNG image: {error}"));
        let mut options = DecodeOptions::default();
        options.set_ignore_checksums(false);
        options.set_skip_ancillary_crc_failures(false);
        // Nothing in compressed texts and profiles is part of the sample.
        options.set_ignore_text_chunk(true);
        options.set_ignore_iccp_chunk(true);
        let mut decoder = Decoder::new_with_options(Cursor::new(found), options);
        let most = MOST_EXPANSION * found.len() as u64;
        decoder.set_limits(Limits { bytes: most as usize });
        let info = decoder.read_header_info().map_err(undecodable)?;
        let (width, height) = (info.width, info.height);
        let line = u64::from(width) * info.bits_per_pixel() as u64 / 8;
        if line.saturating_mul(height.into()) > most {
            return Err(Undecodable::file(format_args!(
                "it is no PNG image: {} bytes cannot hold the {width} x {height} pixels that its \
                 header names",
                found.len()
            )));
        }
        let mut reader = decoder.read_info().map_err(undecodable)?;
        while reader.next_row().map_err(undecodable)?.is_some() {}
        reader.finish().map_err(undecodable)
    }
}

/// Writes the length and the type of a chunk, and begins its checksum.
fn begin_chunk(kind: [u8; 4], len: u64, out: &mut dyn Out) -> Result<Hasher, Stopped> {
    out.framing(&(len as u32).to_be_bytes())?;
    out.framing(&kind)?;
    let mut crc = Hasher::new();
    crc.update(&kind);
    Ok(crc)
}

fn write_chunk(kind: [u8; 4], data: &[u8], out: &mut dyn Out) -> Result<(), Stopped> {
    let mut crc = begin_chunk(kind, data.len() as u64, out)?;
    crc.update(data);
    out.framing(data)?;
    out.framing(&crc.finalize().to_be_bytes())
}

/// Sets the first byte of each line of `line` bytes to 0, in a piece that begins `at` bytes behind the
/// start of the first.
fn clear_filters(piece: &mut [u8], at: u64, line: u64) {
    let first = at.next_multiple_of(line) - at;
    for filter in (first as usize..piece.len()).step_by(line as usize) {
        piece[filter] = 0;
    }
}

/// Bytes of all IDAT chunks that hold `lines` bytes of lines.
const fn image_data(lines: u64) -> u64 {
    ZLIB_FRAMING + lines + lines.div_ceil(BLOCK) * BLOCK_FRAMING
}

/// The most bytes of lines that IDAT chunks of `space` bytes together hold.
fn most_lines(space: u64) -> u64 {
    let blocks = space.saturating_sub(ZLIB_FRAMING);
    let (full, rest) = (blocks / (BLOCK + BLOCK_FRAMING), blocks % (BLOCK + BLOCK_FRAMING));
    full * BLOCK + rest.saturating_sub(BLOCK_FRAMING)
}

/// The shape of an image and of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Geometry {
    /// Bytes of a line: its filter and a pixel each.
    line: u64,
    /// Lines.
    rows: u64,
    /// Bytes of the filler, its framing included; 0 if there is none.
    filler: u64,
}

impl Geometry {
    /// The near-square image that fills a file of `len` bytes, at least [`SMALLEST`], best: up to 5:4
    /// as far as whole lines allow it.
    fn new(len: u64) -> Self {
        let space = len - FRAMING;
        // With a filler and without.
        let spaces = [space - CHUNK, space].map(most_lines);
        let root = spaces[1].isqrt();
        // A line of 2 bytes is a pixel.
        let narrowest = (root * 7 / 8).max(2);
        let shapes = (narrowest..=root).flat_map(|line| {
            let tallest = (line * 5 / 4).max(line + 1);
            spaces.map(|most| {
                let rows = (most / line).min(tallest);
                Self { line, rows, filler: space - image_data(line * rows) }
            })
        });
        let fits = |shape: &Self| shape.rows > 0 && (shape.filler == 0 || shape.filler >= CHUNK);
        let fullest = shapes.filter(fits).max_by_key(|shape| (shape.lines(), shape.line));
        fullest.unwrap_or(Self { line: 2, rows: 1, filler: space - image_data(2) })
    }

    /// Bytes of all lines.
    fn lines(&self) -> u64 {
        self.line * self.rows
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use feedrate_workload::{Dataset, Split};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::dataset;
    use crate::{FileFormat, Mismatch};

    fn format(len: u64) -> FileFormat {
        let set = dataset(Format::Png, 1000, len as f64);
        FileFormat::new(&set, Split::Train).expect("large enough")
    }

    fn image(len: u64, file: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        format(len).write(file, &mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<(), Undecodable> {
        format(1000).decode(0, 0..1, bytes)
    }

    /// The image's width, height and pixels, by a reader with nothing set.
    fn pixels(bytes: &[u8]) -> (u32, u32, Vec<u8>) {
        let mut reader = Decoder::new(Cursor::new(bytes)).read_info().expect("it has headers");
        let mut pixels = vec![0; reader.output_buffer_size().expect("it fits into memory")];
        let info = reader.next_frame(&mut pixels).expect("it is an image");
        assert_eq!(
            (info.color_type, info.bit_depth),
            (png::ColorType::Grayscale, png::BitDepth::Eight)
        );
        reader.finish().expect("it ends as it should");
        (info.width, info.height, pixels)
    }

    /// Types and data of the chunks.
    fn chunks(bytes: &[u8]) -> Vec<([u8; 4], &[u8])> {
        let mut rest = bytes.strip_prefix(&SIGNATURE).expect("the signature");
        let mut chunks = Vec::new();
        while let Some((len, behind)) = rest.split_first_chunk() {
            let (kind, behind) = behind.split_first_chunk().expect("a type");
            let (data, behind) = behind.split_at(u32::from_be_bytes(*len) as usize);
            let (crc, behind) = behind.split_first_chunk().expect("a checksum");
            assert_eq!(crc32fast::hash(&[kind, data].concat()), u32::from_be_bytes(*crc));
            chunks.push((*kind, data));
            rest = behind;
        }
        chunks
    }

    /// An image of another writer.
    fn encoded(
        width: u32,
        height: u32,
        color: png::ColorType,
        depth: png::BitDepth,
        data: &[u8],
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(color);
        encoder.set_depth(depth);
        encoder.set_palette(vec![0x55; 3 * 4]);
        encoder.write_header().unwrap().write_image_data(data).unwrap();
        bytes
    }

    #[test]
    fn other_readers_find_noise_of_the_size_that_the_header_names() {
        for len in [82, 83, 100, 1000, 57_400, 57_500, 115_000, 322_957, 5_000_000] {
            let bytes = image(len, 3);
            assert_eq!(bytes.len() as u64, len);
            let geometry = Geometry::new(len);
            let (width, height, pixels) = pixels(&bytes);
            assert_eq!((u64::from(width) + 1, u64::from(height)), (geometry.line, geometry.rows));
            if len >= 57_400 {
                let mut counts = [0_u32; 256];
                for pixel in &pixels {
                    counts[usize::from(*pixel)] += 1;
                }
                let mean = pixels.len() as f64 / 256.0;
                assert!(counts.iter().all(|&count| (f64::from(count) / mean - 1.0).abs() < 0.5));
            }
        }
    }

    #[test]
    fn the_stream_is_what_a_zlib_reader_reads() {
        let bytes = image(322_957, 1);
        let chunks = chunks(&bytes);
        let kinds: Vec<_> = chunks.iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds.first(), Some(&b"IHDR"));
        assert_eq!(kinds.last(), Some(&b"IEND"));
        assert_eq!(kinds.iter().filter(|&&kind| kind == b"IDAT").count(), 6);
        let is_image = |chunk: &&([u8; 4], &[u8])| chunk.0 == *b"IDAT";
        let stream: Vec<u8> =
            chunks.iter().filter(is_image).flat_map(|chunk| chunk.1).copied().collect();
        let mut lines = Vec::new();
        // Reading to the end checks the checksum.
        std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&stream[..]), &mut lines)
            .unwrap();
        let geometry = Geometry::new(322_957);
        assert_eq!(lines.len() as u64, geometry.lines());
        assert!(lines.chunks(geometry.line as usize).all(|line| line[0] == 0));
    }

    proptest! {
        #[test]
        fn any_length_gives_a_file_of_that_length_that_decodes(
            len in prop_oneof![SMALLEST..1000, SMALLEST..300_000],
            file in 0_u64..1000,
        ) {
            let bytes = image(len, file);
            prop_assert_eq!(bytes.len() as u64, len);
            prop_assert_eq!(decode(&bytes), Ok(()));
            chunks(&bytes);
        }

        #[test]
        fn the_image_is_near_square_and_fills_the_file(len in 10_000..=LARGEST) {
            let geometry = Geometry::new(len);
            prop_assert!(geometry.filler * 50 <= len, "{geometry:?}");
            prop_assert!(geometry.rows * 4 <= geometry.line * 5, "{geometry:?}");
            prop_assert!(geometry.line * 4 <= geometry.rows * 5, "{geometry:?}");
        }

        #[test]
        fn no_damage_panics_or_passes(
            len in SMALLEST..3000,
            damage in proptest::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let good = image(len, 1);
            let mut bad = good.clone();
            for (at, bits) in damage {
                bad[at.index(good.len())] ^= bits;
            }
            prop_assume!(bad != good);
            prop_assert!(decode(&bad).is_err());
            let _ = decode(&bad[..cut.index(bad.len())]);
            prop_assert!(decode(&good[..cut.index(good.len())]).is_err());
        }
    }

    #[test]
    fn every_length_near_a_border_has_a_shape() {
        let borders = [BLOCK, 2 * BLOCK, 5 * BLOCK].map(|border| border - 100..border + 300);
        for len in (SMALLEST..5000).chain(borders.into_iter().flatten()) {
            let geometry = Geometry::new(len);
            let Geometry { line, rows, filler } = geometry;
            assert_eq!(FRAMING + filler + image_data(line * rows), len);
            assert!(filler == 0 || filler >= CHUNK, "{geometry:?}");
            assert!(line >= 2 && rows >= 1 && rows <= line * 2, "{geometry:?}");
        }
    }

    #[test]
    fn drawn_sides_give_the_length() {
        let set =
            Dataset { record_length_bytes_stdev: 16_384.0, ..dataset(Format::Png, 4, 65_536.0) };
        let format = FileFormat::new(&set, Split::Train).unwrap();
        assert_eq!(format.file_len(1), 206 * 255);
        let mut bytes = Vec::new();
        format.write(1, &mut bytes);
        assert_eq!(bytes.len(), 206 * 255);
        assert_eq!(format.decode(1, 0..1, &bytes), Ok(()));
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        let new = |set: Dataset| FileFormat::new(&set, Split::Train).map(|format| format.files());
        let several = Dataset { num_samples_per_file: 2, ..dataset(Format::Png, 3, 60_000.0) };
        assert_eq!(new(several), Err(FormatError::SamplesPerFile { format: "png", configured: 2 }));
        let small = new(dataset(Format::Png, 3, 81.0));
        assert!(matches!(small, Err(FormatError::TooSmall { bytes: 81, least: 82, .. })));
        assert!(matches!(new(dataset(Format::Png, 3, 5e9)), Err(FormatError::TooLarge { .. })));
    }

    #[test]
    fn lines_and_files_differ() {
        let (width, _, pixels) = pixels(&image(60_000, 0));
        assert!(pixels.chunks_exact(width as usize).is_sorted_by(|line, next| line != next));
        let mut seen = HashSet::new();
        for file in 0..100 {
            for block in image(60_000, file).chunks_exact(4096) {
                assert!(seen.insert(block[2000..2016].to_vec()), "file {file}");
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_found_and_does_not_decode_wherever_it_is() {
        let format = format(60_000);
        let good = image(60_000, 1);
        for offset in
            (0..120).chain((120..good.len()).step_by(997)).chain(good.len() - 40..good.len())
        {
            let mut bad = good.clone();
            bad[offset] ^= 0x10;
            let found = format.verify(1, 0..1, &bad);
            assert_eq!(found, Err(Mismatch::Content { offset: offset as u64, sample: Some(0) }));
            assert!(format.decode(1, 0..1, &bad).is_err(), "{offset}");
        }
    }

    #[test]
    fn a_wrong_checksum_of_the_pixels_is_told_though_all_chunks_are_right() {
        let mut bytes = image(1000, 1);
        // The checksum of the pixels is followed by that of its chunk and the last chunk.
        let adler = bytes.len() - 12 - 4 - 4;
        bytes[adler] ^= 1;
        let data = bytes.windows(4).position(|kind| kind == b"IDAT").expect("image data");
        let crc = crc32fast::hash(&bytes[data..adler + 4]);
        bytes[adler + 4..adler + 8].copy_from_slice(&crc.to_be_bytes());
        chunks(&bytes);
        let error = decode(&bytes).expect_err("the checksum is wrong").to_string();
        assert!(error.starts_with("it is no PNG image: "), "{error}");
    }

    #[test]
    fn images_of_other_writers_decode() {
        use png::{BitDepth, ColorType};
        for (color, depth, bytes) in [
            (ColorType::Grayscale, BitDepth::One, 1),
            (ColorType::Grayscale, BitDepth::Eight, 8),
            (ColorType::Grayscale, BitDepth::Sixteen, 16),
            (ColorType::Rgb, BitDepth::Eight, 24),
            (ColorType::Rgba, BitDepth::Sixteen, 64),
            (ColorType::Indexed, BitDepth::Two, 2),
        ] {
            // An image of one colour is where the bound by the file's length is nearest.
            for side in [8, 200, 4000] {
                let data = vec![0x55; side * side * bytes / 8];
                let image = encoded(side as u32, side as u32, color, depth, &data);
                assert_eq!(decode(&image), Ok(()), "{color:?} {depth:?} {side}");
            }
        }
        let mut trailing = image(1000, 1);
        trailing.extend([0; 100]);
        assert_eq!(decode(&trailing), Ok(()));
    }

    #[test]
    fn a_header_that_names_more_than_a_file_can_hold_is_refused() {
        for (width, height) in
            [(0x7fff_ffff_u32, 0x7fff_ffff_u32), (1 << 20, 1), (1, 1 << 31), (0, 1)]
        {
            let mut bytes = image(1000, 1);
            bytes[16..20].copy_from_slice(&width.to_be_bytes());
            bytes[20..24].copy_from_slice(&height.to_be_bytes());
            let crc = crc32fast::hash(&bytes[12..29]);
            bytes[29..33].copy_from_slice(&crc.to_be_bytes());
            assert!(decode(&bytes).is_err(), "{width} x {height}");
        }
        for found in [&b""[..], &SIGNATURE, b"no image", &[0; 1000]] {
            assert!(decode(found).is_err());
        }
    }
}
