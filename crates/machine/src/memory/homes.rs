//! The homes that there are, before DRAM, and how they come into a memory system.

use std::ops::Range;

use engine::Seed;
use serde::{Deserialize, Serialize};
use stats::Path;
use units::{Line, Ps};

use super::Hierarchy;
use super::fabric::Fabric;
use super::home::Home;
use super::nic_window::NicWindow;
use super::tables_in_stack::{StackedCounters, StackedTablesSpec, TablesInStack};
use crate::MachineError;

macro_rules! homes {
    ($($(#[$doc:meta])* $name:ident($home:ty),)*) => {
        /// The homes that there are.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub(super) enum AnyHome {
            $($(#[$doc])* $name(Box<$home>),)*
        }

        impl Home for AnyHome {
            fn has(&self, line: Line) -> bool {
                match self { $(AnyHome::$name(home) => home.has(line),)* }
            }
            fn read(&mut self, line: Line, at: Ps, fabric: &mut Fabric, path: &mut Path) -> Ps {
                match self { $(AnyHome::$name(home) => home.read(line, at, fabric, path),)* }
            }
            fn write(&mut self, line: Line, at: Ps, fabric: &mut Fabric) -> Ps {
                match self { $(AnyHome::$name(home) => home.write(line, at, fabric),)* }
            }
            fn set_untimed(&mut self, untimed: bool) {
                match self { $(AnyHome::$name(home) => home.set_untimed(untimed),)* }
            }
        }
    };
}

homes! {
    /// Tables in a stacked DRAM, a copy at each socket.
    Stack(TablesInStack),
    /// A NIC's memory, through PCIe.
    Nic(NicWindow),
}

impl AnyHome {
    /// It, if it is tables in stacked DRAM.
    fn stack(&self) -> Option<&TablesInStack> {
        match self {
            AnyHome::Stack(stack) => Some(stack),
            AnyHome::Nic(_) => None,
        }
    }
}

impl Hierarchy {
    /// Puts the lines of `ranges` into a stacked DRAM. `path` is where the specification stands.
    ///
    /// # Errors
    /// A memory that cannot be or that nothing is in.
    pub fn put_into_stack(
        &mut self,
        spec: &StackedTablesSpec,
        ranges: Vec<Range<u64>>,
        seed: Seed,
        path: &str,
    ) -> Result<(), MachineError> {
        let tables = TablesInStack::new(spec, ranges, self.behind.fabric.sockets(), seed, path)?;
        // One that was there before is replaced.
        self.behind.homes.retain(|home| home.stack().is_none());
        self.behind.homes.push(AnyHome::Stack(Box::new(tables)));
        Ok(())
    }

    /// The NIC answers for the lines of `range`, each in `read`.
    pub fn put_into_nic(&mut self, range: Range<u64>, read: Ps) {
        self.behind.homes.push(AnyHome::Nic(Box::new(NicWindow::new(range, read))));
    }

    /// What the stacked DRAM has done; [`None`] without one.
    pub fn stack_counters(&self) -> Option<StackedCounters> {
        self.stack().map(TablesInStack::counters)
    }

    pub(super) fn stack(&self) -> Option<&TablesInStack> {
        self.behind.homes.iter().find_map(AnyHome::stack)
    }
}
