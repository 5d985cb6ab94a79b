//! Why a state was not written or not taken.

/// Why a state was not written or not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The bytes begin as no state does.
    #[error("the state begins with {came}: allowed is what wirespeed has written as a state (give that file)")]
    NoState {
        /// The first bytes.
        came: String,
    },
    /// The bytes are not those that were written.
    #[error(
        "the state is damaged, {bytes} bytes have another hash than it says: allowed is a whole one (write it again)"
    )]
    Damaged {
        /// How many there are.
        bytes: usize,
    },
    /// Another version of the program has written it.
    #[error("the state is of version {came}: allowed is {allowed} (write it again with this version)")]
    Version {
        /// Which.
        came: String,
        /// This one.
        allowed: String,
    },
    /// It belongs to something else.
    #[error(
        "the state is of {came}: allowed is one of {allowed} (give the scenario that it was written for, or write another)"
    )]
    Another {
        /// To what.
        came: String,
        /// Who reads.
        allowed: String,
    },
    /// It belongs to something that was built otherwise.
    #[error(
        "the state has {came} for the {what} of {of}: allowed is {allowed} (give what it was written for, built alike)"
    )]
    BuiltOtherwise {
        /// What of it.
        what: &'static str,
        /// Of which type.
        of: &'static str,
        /// As written.
        came: u64,
        /// As built.
        allowed: u64,
    },
    /// Bytes that mean nothing.
    #[error("the state has no {of} where one is due: {why} (write it again)")]
    Unreadable {
        /// The type.
        of: &'static str,
        /// What is the matter.
        why: String,
    },
    /// A value that has no such form.
    #[error("a {of} cannot be written: {why}")]
    Unwritable {
        /// The type.
        of: &'static str,
        /// What is the matter.
        why: String,
    },
}
