//! Philox 4×32-10, the counter-based generator behind every drawn value.
//!
//! Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The same
//! generator is implemented for tensors in `runner/python/warpsmith_worker/philox.py`; here it draws
//! seeds of cases and hidden shapes, so that one `--seed` replays a whole check.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: u32 = 10;

/// The four words of one counter under one key.
pub(super) fn block(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let mut words = counter;
    let mut key = key;
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let low = u64::from(MULTIPLIERS[0]) * u64::from(words[0]);
        let high = u64::from(MULTIPLIERS[1]) * u64::from(words[2]);
        words = [
            (high >> 32) as u32 ^ words[1] ^ key[0],
            high as u32,
            (low >> 32) as u32 ^ words[3] ^ key[1],
            low as u32,
        ];
    }
    words
}

/// A stream of draws for one purpose under one seed. Different purposes never share draws.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    key: [u32; 2],
    purpose: [u32; 2],
    next: u32,
}

impl Draws {
    pub(super) fn new(seed: u64, purpose: &str) -> Self {
        let hash = blake3::hash(purpose.as_bytes());
        let bytes = hash.as_bytes();
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self { key: [seed as u32, (seed >> 32) as u32], purpose: [word(0), word(4)], next: 0 }
    }

    /// The next four words.
    pub(super) fn next_words(&mut self) -> [u32; 4] {
        let words = block([self.next, 0, self.purpose[0], self.purpose[1]], self.key);
        self.next = self.next.wrapping_add(1);
        words
    }

    pub(super) fn next_u64(&mut self) -> u64 {
        let words = self.next_words();
        u64::from(words[0]) | (u64::from(words[1]) << 32)
    }

    /// Uniform in `low..=high` (the bias of the multiply-shift is below 2⁻³² for the ranges used here).
    pub(super) fn in_range(&mut self, low: u64, high: u64) -> u64 {
        let span = u128::from(high.saturating_sub(low)) + 1;
        low + ((u128::from(self.next_u64()) * span) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors publish with Random123.
    #[test]
    fn known_answers() {
        assert_eq!(block([0; 4], [0; 2]), [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]);
        assert_eq!(block([u32::MAX; 4], [u32::MAX; 2]), [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]);
        assert_eq!(
            block([0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344], [0xA409_3822, 0x299F_31D0]),
            [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1]
        );
    }

    #[test]
    fn draws_depend_on_seed_and_purpose_and_stay_in_range() {
        let draw = |seed, purpose| Draws::new(seed, purpose).next_u64();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        let mut draws = Draws::new(3, "range");
        let values: Vec<u64> = (0..200).map(|_| draws.in_range(5, 8)).collect();
        assert!(values.iter().all(|value| (5..=8).contains(value)));
        assert!((5..=8).all(|wanted| values.contains(&wanted)));
        assert_eq!(draws.in_range(7, 7), 7);
    }
}
