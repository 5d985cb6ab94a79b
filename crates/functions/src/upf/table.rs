//! A hash table of buckets that are one cache line each: session numbers by tunnel endpoint
//! identifier or UE address.
//!
//! **Computes** the value of a key. A bucket holds four keys of 8 bytes and their values; a key that
//! finds its bucket full goes to the next one, and each bucket counts how many keys went on from it, so
//! that a search ends where none did.
//!
//! **References per lookup**: for each bucket a load of 32 bytes (the keys), then one of 4 (the value)
//! where the key was found and one of 4 (the count) where it was not. Best 2, worst 2 a bucket.
//!
//! **Source**: the bucket is that of VPP's `bihash_8_8` (`vppinfra/bihash_8_8.h`) with keys and values
//! apart; overflow counts are those of F14 (Bronson, Shi, Facebook, 2019).

/// Bytes of a bucket.
pub(super) const BUCKET_BYTES: u64 = size_of::<HashBucket>() as u64;
pub(super) const VALUE_OFFSET: u64 = 32;
pub(super) const PASSED_OFFSET: u64 = 48;
/// No key of ours: identifiers and IPv4 addresses have 32 bits, and no UE has the prefix ffff:….
const EMPTY: u64 = u64::MAX;
const SLOTS: usize = 4;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct HashBucket {
    keys: [u64; SLOTS],
    values: [u32; SLOTS],
    /// Keys that went past this bucket because it was full.
    passed: u32,
}

/// What a bucket says about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BucketLookup {
    /// The slot, and the value in it.
    Here(usize, u32),
    /// The key may be in the next bucket.
    GoOn,
    Nowhere,
}

#[derive(Clone, Debug)]
pub(super) struct BucketTable {
    buckets: Vec<HashBucket>,
    len: usize,
}

impl BucketTable {
    /// For up to `capacity` keys, with at least half of the slots empty then.
    pub(super) fn new(capacity: u32) -> BucketTable {
        let buckets = (capacity as usize * 2).div_ceil(SLOTS).next_power_of_two();
        BucketTable {
            buckets: vec![HashBucket { keys: [EMPTY; SLOTS], values: [0; SLOTS], passed: 0 }; buckets],
            len: 0,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.buckets.len() as u64 * BUCKET_BYTES
    }

    /// The bucket that a key belongs to: the finaliser of MurmurHash3.
    #[inline(always)]
    pub(super) fn home(&self, key: u64) -> usize {
        let mut x = key;
        x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        (x ^ (x >> 33)) as usize & (self.buckets.len() - 1)
    }

    #[inline(always)]
    pub(super) fn next(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    /// Where a bucket lies in the host's memory, to prefetch it.
    #[inline(always)]
    pub(super) fn address(&self, bucket: usize) -> *const u8 {
        self.buckets.as_ptr().wrapping_add(bucket).cast()
    }

    /// Looks for `key` in one bucket.
    #[inline(always)]
    pub(super) fn look(&self, bucket: usize, key: u64) -> BucketLookup {
        let Some(b) = self.buckets.get(bucket) else { return BucketLookup::Nowhere };
        for (slot, (&k, &value)) in b.keys.iter().zip(&b.values).enumerate() {
            if k == key {
                return BucketLookup::Here(slot, value);
            }
        }
        if b.passed > 0 { BucketLookup::GoOn } else { BucketLookup::Nowhere }
    }

    pub(super) fn get(&self, key: u64) -> Option<u32> {
        let mut bucket = self.home(key);
        for _ in 0..self.buckets.len() {
            match self.look(bucket, key) {
                BucketLookup::Here(_, value) => return Some(value),
                BucketLookup::GoOn => bucket = self.next(bucket),
                BucketLookup::Nowhere => return None,
            }
        }
        None
    }

    /// Adds a key that is not there; `false` if it is, or if the table is full.
    pub(super) fn insert(&mut self, key: u64, value: u32) -> bool {
        if key == EMPTY || self.get(key).is_some() || self.len == self.buckets.len() * SLOTS {
            return false;
        }
        let mut bucket = self.home(key);
        loop {
            let b = &mut self.buckets[bucket];
            if let Some(slot) = b.keys.iter().position(|&k| k == EMPTY) {
                (b.keys[slot], b.values[slot]) = (key, value);
                self.len += 1;
                return true;
            }
            b.passed += 1;
            bucket = self.next(bucket);
        }
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<u32> {
        self.get(key)?;
        let mut bucket = self.home(key);
        loop {
            match self.look(bucket, key) {
                BucketLookup::Here(slot, value) => {
                    self.buckets[bucket].keys[slot] = EMPTY;
                    self.len -= 1;
                    return Some(value);
                }
                _ => {
                    self.buckets[bucket].passed -= 1;
                    bucket = self.next(bucket);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bucket_is_a_line() {
        assert_eq!((size_of::<HashBucket>(), align_of::<HashBucket>()), (64, 64));
        assert_eq!(std::mem::offset_of!(HashBucket, values) as u64, VALUE_OFFSET);
        assert_eq!(std::mem::offset_of!(HashBucket, passed) as u64, PASSED_OFFSET);
    }

    proptest! {
        /// Few buckets, so that they overflow and wrap.
        #[test]
        fn table_matches_naive(ops in prop::collection::vec((any::<bool>(), 0u64..40, any::<u32>()), 0..300)) {
            let mut table = BucketTable::new(8);
            let slots = table.buckets.len() * SLOTS;
            let mut naive = HashMap::new();
            for (add, key, value) in ops {
                if add {
                    let fits = !naive.contains_key(&key) && naive.len() < slots;
                    prop_assert_eq!(table.insert(key, value), fits);
                    if fits {
                        naive.insert(key, value);
                    }
                } else {
                    prop_assert_eq!(table.remove(key), naive.remove(&key));
                }
                for key in 0..40 {
                    prop_assert_eq!(table.get(key), naive.get(&key).copied());
                }
            }
        }
    }
}
