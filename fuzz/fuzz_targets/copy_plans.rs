//! The plan of a copy, and a range of its tasks: what the journal of a copy holds, and what workers get.
//!
//! What is read must be equal after it is written and read again.

#![no_main]

use hyperslab::copy::tasks::{TaskPlan, TaskRange};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(range) = TaskRange::from_bytes(bytes) {
        let again = range.to_bytes().and_then(|bytes| TaskRange::from_bytes(&bytes));
        assert_eq!(again.ok().as_ref(), Some(&range));
        for number in [range.first, range.end, 0, u64::MAX] {
            assert!(range.task(number).iter().all(|part| part.first <= part.end || part.first > 0));
        }
    }
    let Some(plan) = std::str::from_utf8(bytes).ok().and_then(|text| TaskPlan::from_json(text).ok()) else {
        return;
    };
    for stage in plan.stages() {
        for number in [0, stage.len() / 2, stage.len().saturating_sub(1)] {
            let _ = stage.task(number);
        }
        assert!(stage.elements(&plan, 0, stage.len()) >= 0.0);
    }
    let again = plan.to_json().and_then(|text| TaskPlan::from_json(&text));
    let again = again.expect("a plan that was read can be written and read");
    assert_eq!(again.id(), plan.id());
});
