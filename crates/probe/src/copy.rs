//! A copy as a core without a copy engine makes it.

use units::LINE_BYTES;

use crate::{Access, Ref};

/// A copy as a core without a copy engine makes it: pairs of a load and the store that depends on
/// it, each pair up to the next line boundary of either side.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct CopyLoop {
    src: Ref,
    dst: Ref,
    done: u64,
}

impl CopyLoop {
    /// The loop that copies `dst.bytes` bytes from `src` to `dst`.
    #[inline]
    pub const fn new(src: Ref, dst: Ref) -> CopyLoop {
        CopyLoop { src, dst, done: 0 }
    }
}

impl Iterator for CopyLoop {
    type Item = (Ref, Ref);

    #[inline]
    fn next(&mut self) -> Option<(Ref, Ref)> {
        let CopyLoop { src, dst, done } = *self;
        let left = u64::from(dst.bytes).checked_sub(done).filter(|&left| left > 0)?;
        let to_boundary = |r: &Ref| LINE_BYTES - (r.offset + done) % LINE_BYTES;
        let bytes = to_boundary(&src).min(to_boundary(&dst)).min(left) as u16;
        self.done += u64::from(bytes);
        let load = Ref { offset: src.offset + done, bytes, access: Access::Load, ..src };
        let store = Ref { offset: dst.offset + done, bytes, access: Access::Store, dep: 1, ..dst };
        Some((load, store))
    }
}
