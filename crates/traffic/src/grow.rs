//! Growth of long vectors by a quarter.

/// Adds to a long vector. One that doubles takes twice the memory that its content has; this takes a quarter more.
#[inline]
pub(crate) fn push<T>(to: &mut Vec<T>, one: T) {
    if to.len() == to.capacity() {
        to.reserve_exact(to.len() / 4 + 1024);
    }
    to.push(one);
}
