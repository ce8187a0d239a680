//! Attributes of new objects.

use super::value::{self, Part};
use crate::Libver;
use crate::dataspace::Dataspace;
use crate::datatype::Datatype;
use crate::error::{BuildError, Built};
use crate::heaps::HeapWriter;
use crate::messages::attribute;
use crate::object_header::NewMessage;

/// An attribute of a new object.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAttribute {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub datatype: Datatype,
    /// Its shape.
    pub dataspace: Dataspace,
    /// The bytes of its elements.
    pub value: Vec<Part>,
}

impl NewAttribute {
    /// Builds the message.
    pub(super) fn message(
        &self,
        addresses: &[u64],
        heap: &mut HeapWriter,
        libver: Libver,
    ) -> Built<NewMessage> {
        let name = &self.name;
        let refuse = |why: &str| BuildError(format!("attribute {name:?}: {why}"));
        if name.is_empty() || name.contains('\0') {
            return Err(refuse("a name has at least one character, and no NUL"));
        }
        let found = self.value.iter().fold(0, |len: u64, part| len.saturating_add(part.len()));
        let expected = self.dataspace.count().and_then(|count| count.checked_mul(self.datatype.size.into()));
        if expected != Some(found) {
            let expected = expected.map_or("more than 2⁶⁴".into(), |bytes| bytes.to_string());
            return Err(refuse(&format!("expected {expected} bytes of elements, found {found}")));
        }
        let datatype = self.datatype.build(libver).map_err(|why| refuse(&why.to_string()))?;
        let dataspace = self.dataspace.build(libver)?;
        let data = value::bytes(&self.value, addresses, heap)?;
        let data = attribute::build(name, &datatype, &dataspace, &data, libver)?;
        Ok(NewMessage { kind: attribute::KIND, constant: false, data })
    }
}
