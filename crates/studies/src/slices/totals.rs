//! Running totals of a run; a batch is the difference of two.

macro_rules! totals {
    ($($(#[$doc:meta])* $field:ident),* $(,)?) => {
        /// What was done for an application. Times in ps.
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct Totals { $($(#[$doc])* pub(super) $field: u64),* }

        impl Totals {
            /// Member by member.
            pub(super) fn since(&self, before: &Totals) -> Totals {
                Totals { $($field: self.$field - before.$field),* }
            }

            /// Member by member.
            pub(super) fn and(&self, other: &Totals) -> Totals {
                Totals { $($field: self.$field + other.$field),* }
            }
        }
    };
}

totals! {
    arrived,
    blocked,
    begun,
    done,
    /// In a core's queue.
    waited,
    sojourn,
    held,
    /// At the packet buffer, waits with it.
    header,
    l1,
    l2,
    slice_wait,
    bank_wait,
    dram,
    link,
    lookups,
    l1_hits,
    l2_hits,
    llc_lookups,
    llc_hits,
    skipped,
    /// Lookups that found a slice's queue full.
    full,
    dram_requests,
    interleaved,
    changes,
}

/// All that is counted, at an instant or between two.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) now: u64,
    pub(super) applications: Vec<Totals>,
    /// By slice: how long it was busy.
    pub(super) slices: Vec<u64>,
    /// By partial table: how long its banks were busy, those of all channels together.
    pub(super) banks: Vec<u64>,
}

impl Snapshot {
    pub(super) fn since(&self, before: &Snapshot) -> Snapshot {
        let less = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| a - b).collect();
        Snapshot {
            now: self.now - before.now,
            applications: self.applications.iter().zip(&before.applications).map(|(a, b)| a.since(b)).collect(),
            slices: less(&self.slices, &before.slices),
            banks: less(&self.banks, &before.banks),
        }
    }

    /// Of two runs of the same setting.
    pub(super) fn and(&self, other: &Snapshot) -> Snapshot {
        let both = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| a + b).collect();
        Snapshot {
            now: self.now + other.now,
            applications: self.applications.iter().zip(&other.applications).map(|(a, b)| a.and(b)).collect(),
            slices: both(&self.slices, &other.slices),
            banks: both(&self.banks, &other.banks),
        }
    }

    /// Of all applications together.
    pub(super) fn all(&self) -> Totals {
        self.applications.iter().fold(Totals::default(), |sum, one| sum.and(one))
    }
}
