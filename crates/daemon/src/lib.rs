//! `wirespeedd`: observe, decide, apply. A dry run is the default.
