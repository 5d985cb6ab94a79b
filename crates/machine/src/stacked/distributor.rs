//! Which channel serves a request: the state table of the distributor.

/// A bank: its channel, and its number there, which is that of the partial table it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackedBank {
    /// The channel.
    pub channel: u8,
    /// The bank in the channel.
    pub bank: u8,
}

/// A bank that was given to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The bank.
    pub place: StackedBank,
    /// How many banks of its channel are busy now, this one with them.
    pub interleaved: u8,
}

/// Knows of each channel which banks are busy; one bit a channel, so that a choice is a few instructions.
///
/// Of channels with equally few busy banks the lowest is taken: all have the same content, so it makes no difference.
#[derive(Clone, Debug)]
pub struct Distributor {
    /// By bank: the channels whose bank of that number is idle.
    idle: Vec<u64>,
    /// By number of busy banks: the channels that have so many.
    with_busy: Vec<u64>,
    /// By channel: how many banks are busy.
    busy: [u8; 64],
}

impl Distributor {
    /// All banks idle. `channels` is 1 to 64, `banks` 1 to 16 (what [`super::StackedSpec::resolve`] lets through).
    pub fn new(channels: u32, banks: u32) -> Distributor {
        let all = u64::MAX >> (64 - channels.clamp(1, 64));
        let mut with_busy = vec![0; banks as usize + 1];
        with_busy[0] = all;
        Distributor { idle: vec![all; banks as usize], with_busy, busy: [0; 64] }
    }

    /// Takes an idle bank with partial table `bank`, of a channel with as few busy banks as possible; [`None`] where all
    /// are busy.
    #[inline]
    pub fn claim(&mut self, bank: u8) -> Option<Grant> {
        let idle = self.idle[usize::from(bank)];
        for n in 0..self.with_busy.len() - 1 {
            let here = idle & self.with_busy[n];
            if here != 0 {
                let channel = here.trailing_zeros() as u8;
                let bit = 1u64 << channel;
                self.idle[usize::from(bank)] &= !bit;
                self.with_busy[n] &= !bit;
                self.with_busy[n + 1] |= bit;
                self.busy[usize::from(channel)] = n as u8 + 1;
                return Some(Grant { place: StackedBank { channel, bank }, interleaved: n as u8 + 1 });
            }
        }
        None
    }

    /// The bank is idle again. Returns how many banks of the channel are busy still.
    #[inline]
    pub fn release(&mut self, place: StackedBank) -> u8 {
        let bit = 1u64 << place.channel;
        self.idle[usize::from(place.bank)] |= bit;
        let n = &mut self.busy[usize::from(place.channel)];
        self.with_busy[usize::from(*n)] &= !bit;
        *n -= 1;
        self.with_busy[usize::from(*n)] |= bit;
        *n
    }

    /// Whether the bank is idle.
    #[inline]
    pub fn is_idle(&self, place: StackedBank) -> bool {
        self.idle[usize::from(place.bank)] >> place.channel & 1 == 1
    }

    /// How many banks of the channel are busy.
    #[inline]
    pub fn busy(&self, channel: u8) -> u8 {
        self.busy[usize::from(channel)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every bank looked at.
    struct Naive(Vec<Vec<bool>>);

    impl Naive {
        fn claim(&mut self, bank: u8) -> Option<Grant> {
            let count = |channel: &Vec<bool>| channel.iter().filter(|busy| **busy).count();
            let idle = (0..self.0.len()).filter(|c| !self.0[*c][usize::from(bank)]);
            let channel = idle.min_by_key(|c| (count(&self.0[*c]), *c))?;
            self.0[channel][usize::from(bank)] = true;
            let interleaved = count(&self.0[channel]) as u8;
            Some(Grant { place: StackedBank { channel: channel as u8, bank }, interleaved })
        }
    }

    proptest! {
        #[test]
        fn distributor_matches_naive(
            channels in 1u32..=64, banks in 1u32..=4, steps in prop::collection::vec((any::<bool>(), any::<u16>()), 1..400)
        ) {
            let mut fast = Distributor::new(channels, banks);
            let mut naive = Naive(vec![vec![false; banks as usize]; channels as usize]);
            let mut held: Vec<StackedBank> = Vec::new();
            for (claims, which) in steps {
                if claims || held.is_empty() {
                    let bank = (u32::from(which) % banks) as u8;
                    let (ours, theirs) = (fast.claim(bank), naive.claim(bank));
                    prop_assert_eq!(ours, theirs);
                    held.extend(ours.map(|grant| grant.place));
                } else {
                    let place = held.swap_remove(usize::from(which) % held.len());
                    naive.0[usize::from(place.channel)][usize::from(place.bank)] = false;
                    let left = naive.0[usize::from(place.channel)].iter().filter(|busy| **busy).count();
                    prop_assert_eq!(usize::from(fast.release(place)), left);
                    prop_assert_eq!(usize::from(fast.busy(place.channel)), left);
                }
            }
        }
    }

    #[test]
    fn no_bank_is_interleaved_while_a_channel_is_idle() {
        let mut table = Distributor::new(32, 2);
        let grants: Vec<u8> = (0..64).filter_map(|i| table.claim(i % 2)).map(|grant| grant.interleaved).collect();
        assert_eq!(grants[..32], [1; 32]);
        assert_eq!(grants[32..], [2; 32]);
        assert_eq!(table.claim(0), None);
    }
}
