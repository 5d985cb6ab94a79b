//! Options of IPv4 headers, for whoever tests what becomes of them in fragments.

use proptest::prelude::*;

/// Options of all kinds, some of them broken, in words.
pub fn options() -> impl Strategy<Value = Vec<u8>> {
    let option = prop_oneof![
        Just(vec![1u8]),
        Just(vec![0u8]),
        (any::<u8>(), 0usize..7).prop_map(|(kind, more)| {
            let mut bytes = vec![kind.max(2), more as u8 + 2];
            bytes.extend((0..more).map(|i| kind ^ i as u8));
            bytes
        }),
        any::<u8>().prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(option, 0..8).prop_map(|options| {
        let mut all = options.concat();
        all.truncate(40);
        all.resize(all.len().next_multiple_of(4), 0);
        all
    })
}
