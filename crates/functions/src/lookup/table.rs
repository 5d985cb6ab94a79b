//! A long array on pages of its own, on huge pages where it is long enough.

use std::ptr::NonNull;
use std::slice;

use crate::FunctionError;

/// A fixed-length array of integers on pages of its own, all zero at first.
///
/// Memory is reserved, not touched: the system gives a page at the first write. Where it is at
/// least a huge page long it starts at a huge page's boundary and asks for huge pages, as DPDK's
/// tables have them.
pub(crate) struct PagedArray<T> {
    entries: NonNull<T>,
    len: usize,
    mapping: Mapping,
}

/// Which pages a table asks the system for. Measurements set this; everything else takes `Huge`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Transparent huge pages (2 MiB on x86-64), where the system grants them.
    #[default]
    Huge,
    /// The system's base pages (4 KiB on x86-64).
    Base,
}

#[cfg(unix)]
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// An integer for which all bits zero is a value and every bit pattern is valid.
///
/// # Safety
/// Implementors must be plain integers.
pub(crate) unsafe trait PlainInteger: Copy {}
// SAFETY: a plain integer.
unsafe impl PlainInteger for u16 {}
// SAFETY: a plain integer.
unsafe impl PlainInteger for u32 {}

// SAFETY: the table owns its memory exclusively, like a Box<[T]>.
unsafe impl<T: Send> Send for PagedArray<T> {}
// SAFETY: shared references to the table give shared references to entries only.
unsafe impl<T: Sync> Sync for PagedArray<T> {}

impl<T: PlainInteger> PagedArray<T> {
    /// `len` zeros; `name` is for the error.
    ///
    /// # Errors
    /// [`FunctionError::Memory`] when the system refuses.
    pub(crate) fn zeroed(len: usize, pages: Pages, name: &'static str) -> Result<PagedArray<T>, FunctionError> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|&b| b <= isize::MAX as usize / 2);
        let refused = FunctionError::Memory { table: name, bytes: bytes.unwrap_or(usize::MAX) };
        let mapping = Mapping::zeroed(bytes.ok_or(refused.clone())?.max(1), pages).ok_or(refused)?;
        Ok(PagedArray { entries: mapping.start.cast(), len, mapping })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Entry `at`.
    ///
    /// # Safety
    /// `at` must be less than the length.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, at: usize) -> T {
        debug_assert!(at < self.len);
        // SAFETY: in bounds as the caller promises; the mapping lives as long as `self`.
        unsafe { self.entries.as_ptr().add(at).read() }
    }

    /// The address of entry `at`, which need not exist: for prefetches.
    #[inline(always)]
    pub(crate) fn address(&self, at: usize) -> *const T {
        self.entries.as_ptr().wrapping_add(at)
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: `len` initialised (zeroed) entries, borrowed with `self`.
        unsafe { slice::from_raw_parts(self.entries.as_ptr(), self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: `len` initialised (zeroed) entries, borrowed exclusively with `self`.
        unsafe { slice::from_raw_parts_mut(self.entries.as_ptr(), self.len) }
    }
}

impl<T> Drop for PagedArray<T> {
    fn drop(&mut self) {
        self.mapping.release();
    }
}

/// Zeroed memory from the system, aligned to a huge page where it is at least that long.
struct Mapping {
    start: NonNull<u8>,
    base: NonNull<u8>,
    bytes: usize,
}

#[cfg(unix)]
impl Mapping {
    fn zeroed(bytes: usize, pages: Pages) -> Option<Mapping> {
        let huge = bytes >= HUGE_PAGE_BYTES;
        // Twice a huge page more: to start and to end at a boundary.
        let mapped = if huge { bytes + 2 * HUGE_PAGE_BYTES } else { bytes };
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping aliases nothing.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), mapped, access, kind | libc::MAP_NORESERVE, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        let base = NonNull::new(base.cast::<u8>())?;
        let skip = if huge { base.as_ptr().align_offset(HUGE_PAGE_BYTES) } else { 0 };
        // SAFETY: `skip` is less than a huge page, which the mapping is longer by.
        let start = unsafe { base.add(skip) };
        #[cfg(target_os = "linux")]
        if huge {
            let advice = if pages == Pages::Huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
            // A refusal costs speed, not correctness.
            // SAFETY: the range lies in the mapping, which ends more than a huge page after `start + bytes`.
            unsafe { libc::madvise(start.as_ptr().cast(), bytes.next_multiple_of(HUGE_PAGE_BYTES), advice) };
        }
        let _ = pages;
        Some(Mapping { start, base, bytes: mapped })
    }

    fn release(&mut self) {
        // SAFETY: exactly what `zeroed` mapped, and released once, by the table's drop.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(not(unix))]
impl Mapping {
    fn zeroed(bytes: usize, _: Pages) -> Option<Mapping> {
        let layout = std::alloc::Layout::from_size_align(bytes, 64).ok()?;
        // SAFETY: `bytes` is at least 1.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Mapping { start, base: start, bytes })
    }

    fn release(&mut self) {
        if let Ok(layout) = std::alloc::Layout::from_size_align(self.bytes, 64) {
            // SAFETY: allocated with this layout, released once.
            unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_starts_zeroed_at_a_huge_page_and_keeps_what_is_written() {
        for pages in [Pages::Huge, Pages::Base] {
            let mut table = PagedArray::<u16>::zeroed((2 << 20) + 3, pages, "t").unwrap();
            assert_eq!(table.address(0) as usize % HUGE_PAGE_BYTES, 0);
            assert_eq!(table.len(), (2 << 20) + 3);
            assert!(table.as_slice().iter().all(|&e| e == 0));
            table.as_mut_slice()[(2 << 20) + 2] = 7;
            // SAFETY: less than the length.
            assert_eq!(unsafe { table.get((2 << 20) + 2) }, 7);
        }
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        let error = PagedArray::<u32>::zeroed(usize::MAX / 4, Pages::Huge, "tbl8").err();
        assert!(matches!(error, Some(FunctionError::Memory { table: "tbl8", .. })), "{error:?}");
    }
}
