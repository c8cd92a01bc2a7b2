//! The schedule of an OWAMP session: RFC 4656 section 5. Both ends compute the same times from the session's
//! identifier, so the receiver knows when a lost packet should have been sent.

use aes::{
    Aes128,
    cipher::{BlockEncrypt, KeyInit},
};

use super::{Sid, Slot};

/// `Q[k]`, the sum of (ln 2)^i / i! for i from 1 to k, in units of 2^-32 (RFC 4656 section 5.1).
const Q: [u64; 11] = [
    0xB172_17F8,
    0xEEF1_93F7,
    0xFD27_1862,
    0xFF9D_6DD0,
    0xFFF4_CFD0,
    0xFFFE_E819,
    0xFFFF_E7FF,
    0xFFFF_FE2B,
    0xFFFF_FFE0,
    0xFFFF_FFFE,
    0xFFFF_FFFF,
];
const LN_2: u64 = Q[0];

/// The times between packets, without end, in NTP's format for intervals: units of 2^-32 s.
pub struct Schedule {
    slots: Vec<Slot>,
    next: usize,
    deviates: Deviates,
}

impl std::fmt::Debug for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schedule").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl Schedule {
    /// The schedule of a session. The slots repeat; without any, the times are 0.
    pub fn new(sid: &Sid, slots: Vec<Slot>) -> Self {
        Schedule { slots, next: 0, deviates: Deviates::new(sid) }
    }

    /// The mean time between two packets.
    pub fn mean(slots: &[Slot]) -> u64 {
        let sum: u128 = slots.iter().map(|slot| u128::from(slot.mean())).sum();
        (sum / slots.len().max(1) as u128) as u64
    }
}

impl Iterator for Schedule {
    type Item = u64;

    /// The time from the previous packet, or from the start, to the next packet.
    fn next(&mut self) -> Option<u64> {
        let slot = self.slots.get(self.next).copied();
        self.next = (self.next + 1) % self.slots.len().max(1);
        Some(match slot {
            None => 0,
            Some(Slot::Fixed(time)) => time,
            Some(Slot::Exponential(mean)) => multiply(self.deviates.exponential(), mean),
        })
    }
}

/// Pseudo-random deviates: AES in counter mode, with the session's identifier as its key.
struct Deviates {
    cipher: Aes128,
    /// Number of 32-bit deviates drawn: each block has four.
    drawn: u128,
    block: [u8; 16],
}

impl Deviates {
    fn new(sid: &Sid) -> Self {
        Deviates { cipher: Aes128::new(sid.into()), drawn: 0, block: [0; 16] }
    }

    /// Uniform in units of 2^-32. The counter increases with each deviate; an encrypted counter yields four
    /// deviates.
    fn uniform(&mut self) -> u64 {
        let part = (self.drawn % 4) as usize;
        if part == 0 {
            self.block = self.drawn.to_be_bytes();
            self.cipher.encrypt_block((&mut self.block).into());
        }
        self.drawn = self.drawn.wrapping_add(1);
        u64::from(u32::from_be_bytes(self.block.as_chunks().0[part]))
    }

    /// Exponential with the mean 1, in units of 2^-32: algorithm 3.4.1.S of Knuth, volume 2.
    fn exponential(&mut self) -> u64 {
        let uniform = self.uniform() as u32;
        // S1: the number of leading ones; they and the zero after them are shifted off.
        let ones = uniform.leading_ones();
        let rest = u64::from(uniform.checked_shl(ones + 1).unwrap_or(0));
        let whole = u64::from(ones) << 32;
        // S2
        if rest < LN_2 {
            return multiply(whole, LN_2) + rest;
        }
        // S3
        let k = (1..Q.len()).find(|&k| rest < Q[k]).unwrap_or(Q.len());
        let min = (0..=k).map(|_| self.uniform()).min().unwrap_or(0);
        // S4
        multiply(whole + min, LN_2)
    }
}

/// The product of two numbers in units of 2^-32, saturating.
fn multiply(a: u64, b: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)) >> 32).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Identifiers and the sums of a million deviates of mean 1 (RFC 4656 appendix B).
    const VECTORS: [(u128, u128); 4] = [
        (0x2872_9793_03ab_47ee_ac02_8dab_3829_dab2, 0x000f_4479_bd31_7381),
        (0x0102_0304_0506_0708_090a_0b0c_0d0e_0f00, 0x000f_4336_8646_6a62),
        (0xdead_beef_dead_beef_dead_beef_dead_beef, 0x000f_416c_8884_d2d3),
        (0xfeed_0fee_d1fe_ed2f_eed3_feed_4fee_d5ab, 0x000f_3f0b_4b41_6ec8),
    ];

    #[test]
    fn sums_of_deviates_match_the_rfc() {
        for (sid, sum) in VECTORS {
            let sid = u128::to_be_bytes(sid);
            let total: u128 =
                Schedule::new(&sid, vec![Slot::Exponential(1 << 32)]).take(1_000_000).map(u128::from).sum();
            assert_eq!(total, sum, "{sid:x?}");
        }
    }

    #[test]
    fn slots_repeat() {
        let slots = vec![Slot::Fixed(5), Slot::Fixed(7)];
        assert_eq!(Schedule::mean(&slots), 6);
        assert_eq!(Schedule::new(&[0; 16], slots).take(5).collect::<Vec<_>>(), [5, 7, 5, 7, 5]);
        assert_eq!(Schedule::new(&[0; 16], Vec::new()).next(), Some(0));
    }
}
