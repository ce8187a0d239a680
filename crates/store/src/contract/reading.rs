//! Read-only stores of one object.

use super::{Make, assert_missing, key, pattern, reads};
use crate::{Entry, Operation, Store, StoreError};
use std::io::ErrorKind;

pub(super) fn one_object(make: Make<'_>) {
    reads::exact_reads(make);
    reads::whole_reads(make);
    reads::range_reads(make);
    reads::range_errors(make);
    for (n, len) in [0, 1, 70_001].into_iter().enumerate() {
        let name = format!("object {n}");
        let store = make(&name, &pattern(len));
        for other in ["other", "object", "object 0/x"] {
            assert_missing(&*store, other);
            assert!(store.open(key(other), None).unwrap().is_none());
            assert_eq!(store.stamp(key(other)).unwrap(), None);
        }
        assert_eq!(store.list(None).unwrap(), [name.as_str()]);
        assert_eq!(store.list_dir(None).unwrap(), [Entry { name: name.clone(), is_prefix: false }]);
        assert!(store.list(Some(key(&name))).unwrap().is_empty());
        refusals(&*store, &name);
    }
}

/// All writes are refused.
fn refusals(store: &dyn Store, name: &str) {
    let refused = |error: StoreError, on: Operation| {
        let said = error.to_string();
        assert!(said.contains("reading only"), "{said}");
        assert!(matches!(&error, StoreError::Io { operation, source, .. }
            if *operation == on && source.kind() == ErrorKind::PermissionDenied));
    };
    for at in [name, "new"] {
        refused(store.write(key(at), &[b"x"]).unwrap_err(), Operation::Write);
        refused(store.replace(key(at)).unwrap_err(), Operation::Write);
    }
    refused(store.delete(key(name)).unwrap_err(), Operation::Delete);
    refused(store.delete_prefix(None).unwrap_err(), Operation::Delete);
    store.delete_prefix(Some(key(name))).unwrap();
    assert!(store.exists(key(name)).unwrap());
}
