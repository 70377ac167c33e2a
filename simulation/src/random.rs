//! Random numbers from a seed.

use std::ops::Range;

/// A SplitMix64 generator. Each part of a run (the network, the faults, ...) has its own generator.
/// So a change of one part does not change the random choices of the other parts.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Makes the generator for a part of the run.
    pub fn of_part(seed: u64, part: u64) -> Random {
        let mut random = Random(seed ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Random(random.draw())
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in the range.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.draw() % (range.end - range.start)
    }

    /// Returns true with a probability of `percent` percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.within(0..100) < percent
    }

    /// Returns one of the items.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.within(0..items.len() as u64) as usize]
    }
}
