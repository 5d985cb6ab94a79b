//! What the page gives: ears for progress and for what went wrong. Natively nobody listens, and files are files.

#[cfg(target_family = "wasm")]
mod of_page {
    #[link(wasm_import_module = "page")]
    unsafe extern "C" {
        /// What a simulation has done, of how much, and whether it warms up.
        pub(super) safe fn heard(done: f64, total: f64, warming: u32);
        /// What begins now.
        pub(super) fn begins(words: *const u8, len: usize);
        /// A bug, in words.
        pub(super) fn failed(words: *const u8, len: usize);
    }
}

/// Tells what a simulation has done, of how much, and whether it warms up.
pub(crate) fn heard(done: u64, total: u64, warming: bool) {
    #[cfg(target_family = "wasm")]
    of_page::heard(done as f64, total as f64, u32::from(warming));
    #[cfg(not(target_family = "wasm"))]
    let _ = (done, total, warming);
}

/// Tells what begins now.
pub(crate) fn begins(words: &str) {
    #[cfg(target_family = "wasm")]
    // SAFETY: the page reads these bytes before it returns.
    unsafe {
        of_page::begins(words.as_ptr(), words.len());
    }
    #[cfg(not(target_family = "wasm"))]
    let _ = words;
}

/// Lets the page know what a panic says: the module ends there.
pub(crate) fn tell_panics() {
    #[cfg(target_family = "wasm")]
    std::panic::set_hook(Box::new(|panic| {
        let words = panic.to_string();
        // SAFETY: the page reads these bytes before it returns.
        unsafe { of_page::failed(words.as_ptr(), words.len()) };
    }));
}

/// Keeps a file by its name.
pub(crate) fn keep(name: &str, bytes: &[u8]) {
    #[cfg(target_family = "wasm")]
    traffic::keep(name, bytes);
    #[cfg(not(target_family = "wasm"))]
    let _ = (name, bytes);
}
