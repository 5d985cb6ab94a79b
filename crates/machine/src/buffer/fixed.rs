//! Allocation of buffers of one page each from a stack.

/// A stack of buffers of one page each. A short packet leaves the rest of its buffer unused.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct FixedBuffers {
    cells_per_page: u32,
    pages: u32,
    free: Vec<u32>,
}

impl FixedBuffers {
    pub(super) fn new(pages: u32, cells_per_page: u32) -> FixedBuffers {
        FixedBuffers { cells_per_page, pages, free: (0..pages).rev().collect() }
    }

    pub(super) fn free_mut(&mut self) -> &mut [u32] {
        &mut self.free
    }

    pub(super) fn allocate(&mut self, count: u32, cells: &mut Vec<u32>) -> bool {
        let Some(page) = self.free.pop() else { return false };
        let first = page * self.cells_per_page;
        cells.extend(first..first + count);
        true
    }

    pub(super) fn free(&mut self, base: u32, cells: &[u32]) {
        if let Some(&first) = cells.first() {
            self.free.push((first - base) / self.cells_per_page);
        }
    }

    pub(super) fn taken_cells(&self) -> u64 {
        u64::from(self.pages - self.free.len() as u32) * u64::from(self.cells_per_page)
    }
}
