//! The simulator as a WebAssembly module: JSON in, JSON out, over a few functions of C's calling convention.
//!
//! A page opens a [`Desk`], writes a question into memory that it asked for, and takes the answer from where it is told. What the
//! page has to give is in [`page`]; what can be asked, in [`Question`].

mod page;
mod question;

use std::slice;

use crate::question::{Desk, answer};

/// An answer, until it is freed: its length in bytes as 32 bits, lowest first, then itself as JSON.
type Answer = *mut u8;

/// Where a page keeps what it asked for: profiles, warm machines, tables. Freed with the module's memory.
#[unsafe(no_mangle)]
pub extern "C" fn wirespeed_open() -> *mut Desk {
    page::tell_panics();
    Box::into_raw(Box::default())
}

/// `len` bytes that the page writes to.
#[unsafe(no_mangle)]
pub extern "C" fn wirespeed_alloc(len: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; len].into_boxed_slice()).cast()
}

/// Gives back what [`wirespeed_alloc`] gave, of the same length.
///
/// # Safety
/// `bytes` is what [`wirespeed_alloc`] gave for `len`, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirespeed_free(bytes: *mut u8, len: usize) {
    // SAFETY: a boxed slice of this length was made of it, as the caller promises.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes, len)) });
}

/// Answers a question of `len` bytes of JSON.
///
/// # Safety
/// `desk` is of [`wirespeed_open`], and nobody else uses it meanwhile; `bytes` are `len` bytes that can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirespeed_ask(desk: *mut Desk, bytes: *const u8, len: usize) -> Answer {
    // SAFETY: as the caller promises.
    let (desk, question) = unsafe { (&mut *desk, slice::from_raw_parts(bytes, len)) };
    let told = answer(desk, question).to_string();
    let mut whole = (told.len() as u32).to_le_bytes().to_vec();
    whole.extend(told.into_bytes());
    Box::into_raw(whole.into_boxed_slice()).cast()
}

/// Keeps a file of the page, to be read by its name.
///
/// # Safety
/// Both are as many bytes as they say, and can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirespeed_keep(name: *const u8, name_len: usize, bytes: *const u8, len: usize) {
    // SAFETY: as the caller promises.
    let (name, bytes) = unsafe { (slice::from_raw_parts(name, name_len), slice::from_raw_parts(bytes, len)) };
    page::keep(&String::from_utf8_lossy(name), bytes);
}
