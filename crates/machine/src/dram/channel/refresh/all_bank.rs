//! A rank at a time; ranks take turns.

use super::{Round, Units};
use crate::dram::channel::timing::TimingTable;
use crate::dram::standard::DramCommand;

pub(super) struct AllBank;

impl Units for AllBank {
    const COMMANDS: (DramCommand, DramCommand) = (DramCommand::PreAll, DramCommand::Ref);

    fn count<const G: usize>(timing: &TimingTable<G>) -> usize {
        timing.ranks
    }

    fn banks<const G: usize>(timing: &TimingTable<G>, unit: usize, _: usize) -> u64 {
        timing.those(|b| usize::from(timing.rank_of[b]) == unit)
    }

    fn unit_of<const G: usize>(timing: &TimingTable<G>, bank: usize) -> usize {
        usize::from(timing.rank_of[bank])
    }

    fn turns<const G: usize>(_: &TimingTable<G>) -> usize {
        1
    }

    fn round<const G: usize>(timing: &TimingTable<G>, interval: u64) -> Round {
        Round::of(interval, timing.ranks as u64)
    }
}
