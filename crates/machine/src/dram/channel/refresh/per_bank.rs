//! A bank at a time, round robin over the channel, while others work.

use super::{Round, Units};
use crate::dram::channel::timing::TimingTable;
use crate::dram::standard::DramCommand;

pub(super) struct PerBank;

impl Units for PerBank {
    const COMMANDS: (DramCommand, DramCommand) = (DramCommand::Pre, DramCommand::RefBank);

    fn count<const G: usize>(_: &TimingTable<G>) -> usize {
        1
    }

    fn banks<const G: usize>(_: &TimingTable<G>, _: usize, turn: usize) -> u64 {
        1 << turn
    }

    fn unit_of<const G: usize>(_: &TimingTable<G>, _: usize) -> usize {
        0
    }

    fn turns<const G: usize>(timing: &TimingTable<G>) -> usize {
        timing.banks
    }

    fn round<const G: usize>(timing: &TimingTable<G>, interval: u64) -> Round {
        let banks = timing.banks as u64;
        Round { of_banks: banks, ..Round::of(interval * banks, banks) }
    }
}
