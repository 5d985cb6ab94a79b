//! A home: what answers for some lines in place of DRAM.

use stats::Path;
use units::{Line, Ps};

use super::fabric::Fabric;

/// Answers for some lines in place of the DRAM that they are homed at.
///
/// It is asked for what no cache of the asking socket has, by the one way down; `fabric` says who asks and takes lines to
/// other sockets. A home of another kind is a file with this, and a row in [`super::homes`].
pub(super) trait Home {
    /// Whether it answers for `line`.
    fn has(&self, line: Line) -> bool;
    /// Reads `line`, asked for at `at`: when it is with the asking LLC. `path` is told what for, to the sum.
    fn read(&mut self, line: Line, at: Ps, fabric: &mut Fabric, path: &mut Path) -> Ps;
    /// Writes `line`, which leaves at `at`: when it is on its way, and nobody waits any more.
    fn write(&mut self, line: Line, at: Ps, fabric: &mut Fabric) -> Ps;
    /// Whether it answers at once from now on and takes up no time of its own: see [`super::warm`].
    fn set_untimed(&mut self, untimed: bool);
}
