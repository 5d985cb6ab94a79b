//! The bank of one index in every bank group of a rank at a time, while those of other indices work; ranks take turns.

use super::{Round, Units};
use crate::dram::channel::timing::TimingTable;
use crate::dram::standard::DramCommand;

pub(super) struct SameBank;

impl Units for SameBank {
    const COMMANDS: (DramCommand, DramCommand) = (DramCommand::PreSame, DramCommand::RefSame);

    fn count<const G: usize>(timing: &TimingTable<G>) -> usize {
        timing.ranks
    }

    fn banks<const G: usize>(timing: &TimingTable<G>, unit: usize, turn: usize) -> u64 {
        timing.those(|b| usize::from(timing.rank_of[b]) == unit && b % timing.group_banks == turn)
    }

    fn unit_of<const G: usize>(timing: &TimingTable<G>, bank: usize) -> usize {
        usize::from(timing.rank_of[bank])
    }

    fn turns<const G: usize>(timing: &TimingTable<G>) -> usize {
        timing.group_banks
    }

    fn round<const G: usize>(timing: &TimingTable<G>, interval: u64) -> Round {
        let (ranks, turns) = (timing.ranks as u64, timing.group_banks as u64);
        Round { of_same_banks: ranks * turns, ..Round::of(interval * turns, ranks * turns) }
    }
}
