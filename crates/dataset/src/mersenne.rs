//! The random stream that file sizes are drawn from: MT19937 with its standard initialiser, and
//! normal values by the polar method (spec/dlio.md, appendix B). The original's sizes come from
//! this very stream, so sets made by either program agree.

const WORDS: usize = 624;
const SHIFT: usize = 397;

/// MT19937 (Matsumoto and Nishimura, 1998) and the normal values made from it.
pub(crate) struct Mersenne {
    state: [u32; WORDS],
    next: usize,
    /// The second value of the last accepted pair.
    kept: Option<f64>,
}

impl Mersenne {
    /// Seeds the state from one 32-bit number.
    pub(crate) fn new(seed: u32) -> Self {
        let mut state = [seed; WORDS];
        for i in 1..WORDS {
            let before = state[i - 1];
            state[i] = (before ^ (before >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self { state, next: WORDS, kept: None }
    }

    /// The next 32 bits.
    fn word(&mut self) -> u32 {
        if self.next == WORDS {
            self.renew();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    fn renew(&mut self) {
        for i in 0..WORDS {
            let mixed = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % WORDS] & 0x7fff_ffff);
            let twist = if mixed & 1 == 0 { 0 } else { 0x9908_b0df };
            self.state[i] = self.state[(i + SHIFT) % WORDS] ^ (mixed >> 1) ^ twist;
        }
        self.next = 0;
    }

    /// Uniform in [0, 1) with 53 random bits.
    fn real(&mut self) -> f64 {
        let high = f64::from(self.word() >> 5);
        let low = f64::from(self.word() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// A standard normal value: Marsaglia's polar method, two values a pair, the second of them kept
    /// for the next call.
    fn standard_normal(&mut self) -> f64 {
        if let Some(kept) = self.kept.take() {
            return kept;
        }
        loop {
            let x1 = 2.0 * self.real() - 1.0;
            let x2 = 2.0 * self.real() - 1.0;
            let r = x1 * x1 + x2 * x2;
            if r > 0.0 && r < 1.0 {
                let t = (-2.0 * r.ln() / r).sqrt();
                self.kept = Some(t * x1);
                return t * x2;
            }
        }
    }

    /// A normal value.
    pub(crate) fn normal(&mut self, mean: f64, stdev: f64) -> f64 {
        mean + stdev * self.standard_normal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_normals(seed: u32, expected: &[f64]) {
        let mut stream = Mersenne::new(seed);
        for &value in expected {
            let drawn = stream.normal(1000.0, 100.0);
            assert!((drawn - value).abs() < 1e-8, "{drawn} is not {value}");
        }
    }

    #[test]
    fn the_stream_is_that_of_the_original() {
        assert_normals(
            10,
            &[
                1_133.158_650_41,
                1_071.527_897_44,
                845.459_970_79,
                999.161_615_01,
                1_062.133_597_39,
                927.991_443_93,
            ],
        );
        assert_normals(11, &[1_174.945_474_13, 971.392_700_32, 951.543_486_78]);
    }

    #[test]
    fn the_ten_thousandth_word_is_that_of_the_paper() {
        // The check value which the C++ standard gives for `mt19937` with its default seed.
        let mut stream = Mersenne::new(5489);
        let last = (0..10_000).map(|_| stream.word()).last();
        assert_eq!(last, Some(4_123_659_995));
    }
}
