//! Allocation of single cells from a stack.

/// A stack of cells: no fragmentation, and after a while no order.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Cells {
    cells: u32,
    free: Vec<u32>,
}

impl Cells {
    pub(super) fn new(cells: u32) -> Cells {
        Cells { cells, free: (0..cells).rev().collect() }
    }

    pub(super) fn free_mut(&mut self) -> &mut [u32] {
        &mut self.free
    }

    pub(super) fn allocate(&mut self, count: u32, cells: &mut Vec<u32>) -> bool {
        let Some(rest) = self.free.len().checked_sub(count as usize) else { return false };
        cells.extend(self.free.drain(rest..).rev());
        true
    }

    pub(super) fn free(&mut self, base: u32, cells: &[u32]) {
        self.free.extend(cells.iter().map(|cell| cell - base));
    }

    pub(super) fn taken_cells(&self) -> u64 {
        u64::from(self.cells - self.free.len() as u32)
    }
}
