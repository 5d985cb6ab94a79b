//! Bits that are spread.

/// A bijection of 32 bits in which each input bit turns half of the output bits (the finalizer of
/// MurmurHash3: Appleby, 2011, public domain).
#[inline(always)]
pub(super) fn mix(mut x: u32) -> u32 {
    x = (x ^ x >> 16).wrapping_mul(0x85eb_ca6b);
    x = (x ^ x >> 13).wrapping_mul(0xc2b2_ae35);
    x ^ x >> 16
}
