//! Attributes: small values attached to objects.
//!
//! Attributes are messages in the object's header. If there are many, or if they are large, they
//! are in a fractal heap instead, and a version 2 B-tree indexes the hashes of their names. One
//! attribute is found by its name's hash, without the others.

use crate::checksum::lookup3;
use crate::dataspace::Dataspace;
use crate::datatype::Datatype;
use crate::element::Element;
use crate::heaps::ALL_BLOCKS;
use crate::messages::attribute::{AttributeInfo, AttributeParts, NameRecord};
use crate::messages::shared::Shared;
use crate::messages::{self, Message};
use crate::object_header::ObjectHeader;
use crate::trees::btree2;
use crate::{Bytes, Cursor, File, Hdf5Error, ParseError, Result};
use hyperslab_codec::Scratch;
use std::sync::Arc;

/// An attribute of a group, dataset or committed datatype.
#[derive(Clone, Debug)]
pub struct Attribute {
    /// The file that contains the attribute.
    pub file: File,
    /// Its name.
    pub name: String,
    /// The stored type of the elements.
    pub datatype: Arc<Datatype>,
    /// Header of the committed type that the attribute refers to. `None`: the type is its own.
    pub committed: Option<u64>,
    /// Shape of the attribute.
    pub dataspace: Dataspace,
    /// The elements as stored.
    pub data: Bytes,
}

impl Attribute {
    /// Returns the type of the elements in memory.
    pub fn element(&self) -> Result<Element> {
        Element::of(&self.datatype, self.file.sizes()).map_err(|why| self.attribute_error(why))
    }

    /// Returns the elements in memory, in C order. Heap ids are left for [`crate::vlen::resolve`].
    pub fn values(&self) -> Result<Vec<u8>> {
        let element = self.element()?;
        let mut values = Vec::new();
        let Some(conversion) = element.conversion(&self.datatype) else {
            let no_memory = |_| self.invalid(format!("no memory for {} bytes", self.data.len()));
            values.try_reserve_exact(self.data.len()).map_err(no_memory)?;
            values.extend_from_slice(&self.data);
            return Ok(values);
        };
        // There are at most as many elements as stored bytes.
        let count = self.dataspace.count().and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
        let len = count.checked_mul(element.size).filter(|len| values.try_reserve_exact(*len).is_ok());
        let len = len.ok_or_else(|| self.invalid(format!("no memory for {count} elements")))?;
        values.resize(len, 0);
        let decoded = conversion.decode(&self.data, &mut values, &mut Scratch::default());
        match decoded {
            Ok(decoded) if decoded == len => Ok(values),
            Ok(decoded) => {
                Err(self.invalid(format!("expected {len} bytes after decoding, found {decoded} bytes")))
            }
            Err(error) => Err(self.invalid(error.to_string())),
        }
    }

    fn invalid(&self, why: String) -> Hdf5Error {
        self.file.source().invalid(format!("attribute '{}': {why}", self.name))
    }

    fn attribute_error(&self, why: ParseError) -> Hdf5Error {
        match why {
            ParseError::Unsupported(what) => {
                self.file.source().unsupported(format!("{what} (attribute '{}')", self.name))
            }
            why => self.invalid(why.to_string()),
        }
    }

    /// Parses the attribute in a message.
    fn of(file: &File, message: &Message) -> Result<Attribute> {
        let message = &file.unshare(message)?;
        let wrong = |why| file.source().structure_error("attribute message", message.address, why);
        let mut cursor = file.source().cursor(&message.data, message.address);
        let parts = AttributeParts::parse(&mut cursor).map_err(wrong)?;
        let part = |kind, mut part: Cursor<'_>, shared: bool| Message {
            kind,
            flags: if shared { 2 } else { 0 },
            creation: None,
            address: part.address(),
            data: Bytes::from(part.take_rest().to_vec()),
        };
        let datatype = part(crate::datatype::KIND, parts.datatype, parts.datatype_shared);
        let committed = datatype.committed_type();
        let datatype = Arc::new(file.parse(&datatype, Datatype::parse)?);
        let dataspace = part(messages::dataspace::KIND, parts.dataspace, parts.dataspace_shared);
        let dataspace = file.parse(&dataspace, Dataspace::parse)?;
        let stored = message.data.slice(parts.data);
        let bytes = dataspace.count().and_then(|count| count.checked_mul(datatype.size.into()));
        let data = bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes <= stored.len());
        let data = data.map(|bytes| stored.slice(0..bytes)).ok_or_else(|| {
            let (shape, size) = (dataspace.shape(), datatype.size);
            let why = format!(
                "attribute '{}': expected elements of {size} bytes in shape {shape:?}, found {} bytes for \
                 all of them",
                parts.name,
                stored.len()
            );
            wrong(ParseError::Corrupt { at: message.address, why })
        })?;
        Ok(Attribute { file: file.clone(), name: parts.name, datatype, committed, dataspace, data })
    }
}

/// Returns all attributes in h5py's order: by creation order if the object keeps it, else by name.
pub(crate) fn read_attributes(file: &File, header: &ObjectHeader) -> Result<Vec<Attribute>> {
    let mut found: Vec<(u32, Attribute)> = Vec::new();
    // Parts of a message may be shared and stored elsewhere. Fetch the parts of all messages
    // together.
    let messages = || header.messages(messages::attribute::KIND);
    file.source().foresee(|| messages().for_each(|message| drop(Attribute::of(file, message))))?;
    for message in messages() {
        found.push((message.creation.unwrap_or_default().into(), Attribute::of(file, message)?));
    }
    if let Some((heap, names)) = dense_storage(file, header)? {
        dense(file, heap, names, &mut found)?;
    }
    // Some writers give all attributes the same creation order. The stable sort then keeps the
    // header's order.
    match header.tracks_attributes {
        true => found.sort_by_key(|(created, _)| *created),
        false => found.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name)),
    }
    Ok(found.into_iter().map(|(_, attribute)| attribute).collect())
}

/// Returns the attribute with this name.
pub(crate) fn read_attribute(file: &File, header: &ObjectHeader, name: &str) -> Result<Option<Attribute>> {
    let message = find_message(file, header, name)?;
    message.map(|message| Attribute::of(file, &message)).transpose()
}

/// Returns `true` if there is an attribute with this name, even if its value cannot be read.
pub(crate) fn has_attribute(file: &File, header: &ObjectHeader, name: &str) -> Result<bool> {
    find_message(file, header, name).map(|message| message.is_some())
}

fn find_message(file: &File, header: &ObjectHeader, name: &str) -> Result<Option<Message>> {
    for message in header.messages(messages::attribute::KIND) {
        let message = file.unshare(message)?;
        if has_name(file, &message, name)? {
            return Ok(Some(message));
        }
    }
    let Some((heap, names)) = dense_storage(file, header)? else { return Ok(None) };
    let source = file.source();
    // The stored name may not be UTF-8. Then the hash of `name` is not the hash of its bytes.
    let hash = (!name.contains("\\x")).then(|| lookup3(name.as_bytes()));
    let find = || {
        let mut records = Vec::new();
        let mut compare = |record: &mut Cursor<'_>| Ok(NameRecord::hash(record)?.cmp(&hash.unwrap_or(0)));
        let mut keep = |record: &mut Cursor<'_>| NameRecord::parse(record).map(|record| records.push(record));
        match hash {
            Some(_) => btree2::find(source, names, NameRecord::KIND, &mut compare, &mut keep)?,
            None => btree2::records(source, names, NameRecord::KIND, &mut keep)?,
        }
        Ok::<_, Hdf5Error>(records)
    };
    for record in find()? {
        source.go_on()?;
        let message = dense_message(file, heap, &record)?;
        if has_name(file, &message, name)? {
            return Ok(Some(message));
        }
    }
    Ok(None)
}

/// Returns the messages of all attributes, from the header and from the heap, in creation order if
/// the object keeps it. None of them is shared.
pub(crate) fn read_messages(file: &File, header: &ObjectHeader) -> Result<Vec<Message>> {
    let mut found = Vec::new();
    for message in header.messages(messages::attribute::KIND) {
        found.push(Message { creation: message.creation, ..file.unshare(message)? });
    }
    if let Some((heap, names)) = dense_storage(file, header)? {
        let mut records = Vec::new();
        btree2::records(file.source(), names, NameRecord::KIND, &mut |record| {
            records.push(NameRecord::parse(record)?);
            Ok(())
        })?;
        for record in &records {
            let creation = u16::try_from(record.creation).ok().filter(|_| header.tracks_attributes);
            found.push(Message { creation, ..dense_message(file, heap, record)? });
        }
    }
    if header.tracks_attributes {
        found.sort_by_key(|message| message.creation);
    }
    Ok(found)
}

/// Returns `true` if a message has the attribute with this name.
fn has_name(file: &File, message: &Message, name: &str) -> Result<bool> {
    let mut cursor = file.source().cursor(&message.data, message.address);
    let parts = AttributeParts::parse(&mut cursor)
        .map_err(|why| file.source().structure_error("attribute message", message.address, why))?;
    Ok(parts.name == name)
}

/// Returns the addresses of the fractal heap and of the B-tree of names, if the object has them.
fn dense_storage(file: &File, header: &ObjectHeader) -> Result<Option<(u64, u64)>> {
    let info = file.message(header, messages::attribute::INFO_KIND, AttributeInfo::parse)?;
    Ok(info.and_then(|info| info.heap.zip(info.names)))
}

/// Reads the message of an attribute in the fractal heap at `heap`.
fn dense_message(file: &File, heap: u64, record: &NameRecord) -> Result<Message> {
    let kind = messages::attribute::KIND;
    if record.shared {
        return file.read_shared_message(kind, &Shared::Heap(record.id.to_vec()));
    }
    let data = file.heap(heap)?.get(file.source(), &record.id)?;
    Ok(Message { kind, flags: 0, creation: None, address: heap, data })
}

/// Adds the attributes in the fractal heap at `heap`, with their creation orders.
fn dense(file: &File, heap: u64, names: u64, found: &mut Vec<(u32, Attribute)>) -> Result<()> {
    let source = file.source();
    let read_names = || {
        let mut records = Vec::new();
        btree2::records(source, names, NameRecord::KIND, &mut |record| {
            records.push(NameRecord::parse(record)?);
            Ok(())
        })?;
        Ok::<_, Hdf5Error>(records)
    };
    // The heap and the B-tree do not depend on each other. Fetch both together.
    source.foresee(|| {
        drop(file.heap(heap).map(|heap| heap.visit(source, ALL_BLOCKS)));
        drop(read_names());
    })?;
    let records = read_names()?;
    let read = |record: &NameRecord| Attribute::of(file, &dense_message(file, heap, record)?);
    source.foresee(|| records.iter().for_each(|record| drop(read(record))))?;
    for record in &records {
        found.push((record.creation, read(record)?));
    }
    Ok(())
}
