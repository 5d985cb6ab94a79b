//! Not at all: units are ranks, and none falls due.

use super::all_bank::AllBank;
use super::{Round, Units};
use crate::dram::channel::timing::TimingTable;
use crate::dram::standard::DramCommand;

pub(super) struct Off;

impl Units for Off {
    const COMMANDS: (DramCommand, DramCommand) = AllBank::COMMANDS;

    fn count<const G: usize>(_: &TimingTable<G>) -> usize {
        0
    }

    fn banks<const G: usize>(timing: &TimingTable<G>, unit: usize, turn: usize) -> u64 {
        AllBank::banks(timing, unit, turn)
    }

    fn unit_of<const G: usize>(timing: &TimingTable<G>, bank: usize) -> usize {
        AllBank::unit_of(timing, bank)
    }

    fn turns<const G: usize>(timing: &TimingTable<G>) -> usize {
        AllBank::turns(timing)
    }

    fn round<const G: usize>(_: &TimingTable<G>, _: u64) -> Round {
        Round::of(1, 0)
    }
}
