//! Changes of attributes.

use super::object::{Object, attribute_name};
use super::{Editing, committed};
use crate::error::{BuildError, Built};
use crate::messages::attribute;
use crate::new_file::NewAttribute;
use crate::{File, Hdf5Error, Result};

impl Editing {
    /// Makes an attribute, or replaces the one of its name, which keeps its place in the order.
    pub fn set_attribute(&self, object: u64, new: &NewAttribute) -> Result<()> {
        self.set_attribute_of_type(object, new, None)
    }

    /// Sets attributes, and removes the others that `drops` chooses by name, in one change: after an
    /// error, all are as before.
    pub fn replace_attributes(
        &self,
        object: u64,
        new: &[NewAttribute],
        drops: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let mut places = self.places();
        let built = new.iter().map(|new| new.message(&mut places, self.libver())).collect::<Built<Vec<_>>>();
        places.finish()?;
        let built = built.map_err(|why| self.unstorable(object, why))?;
        let unused = self.change(object, |object| {
            let mut unused = Vec::new();
            for (new, message) in new.iter().zip(built) {
                let at = object.find_attribute(&new.name);
                unused.extend(at.and_then(|at| object.messages.get(at)).and_then(committed::type_of));
                object.put_attribute(at, message.data)?;
            }
            object.messages.retain(|message| {
                let is_dropped = message.kind == attribute::KIND
                    && attribute_name(message)
                        .is_ok_and(|name| drops(&name) && !new.iter().any(|new| new.name == name));
                if is_dropped {
                    unused.extend(committed::type_of(message));
                }
                !is_dropped
            });
            Ok(if object.links_to > 0 { unused } else { Vec::new() })
        })?;
        unused.into_iter().try_for_each(|committed| self.count_links(committed, -1))?;
        self.flush_if_due()
    }

    /// Gives an attribute another name. Fails with [`Hdf5Error::NotFound`] or
    /// [`Hdf5Error::Exists`].
    pub fn rename_attribute(&self, object: u64, from: &str, to: &str) -> Result<()> {
        let found = self.with(object, |object| (object.find_attribute(from), object.find_attribute(to)))?;
        match found {
            (None, _) => return Err(self.no_attribute(from)),
            (Some(_), Some(_)) => {
                let (file, group) = (self.file().source().name(), "the attributes".into());
                return Err(Hdf5Error::Exists { file, group, name: to.to_owned() });
            }
            (Some(_), None) => {}
        }
        let libver = self.libver();
        self.change(object, |object| {
            let Some(at) = object.find_attribute(from) else { return Ok(()) };
            let Some(message) = object.messages.get_mut(at) else { return Ok(()) };
            message.data = attribute::renamed(&message.data, to, libver)?.into();
            Ok(())
        })?;
        self.flush_if_due()
    }

    /// Removes an attribute. Fails with [`Hdf5Error::NotFound`].
    pub fn delete_attribute(&self, object: u64, name: &str) -> Result<()> {
        let removed = self.change(object, |object| {
            let removed = object.find_attribute(name).map(|at| object.messages.remove(at));
            Ok(removed.map(|message| committed::type_of(&message).filter(|_| object.links_to > 0)))
        })?;
        let committed = removed.ok_or_else(|| self.no_attribute(name))?;
        self.count_type(committed, -1)?;
        self.flush_if_due()
    }

    fn no_attribute(&self, name: &str) -> Hdf5Error {
        let why = Some("the object has no such attribute".into());
        Hdf5Error::NotFound { file: self.file().source().name(), path: name.to_owned(), why }
    }

    pub(super) fn unstorable(&self, object: u64, why: BuildError) -> Hdf5Error {
        Hdf5Error::Unstorable { object: format!("address {object}"), why: why.0 }
    }
}

/// Takes the attributes of an object from wherever they are to messages of its header.
pub(super) fn load(file: &File, object: &mut Object) -> Result<()> {
    let found = crate::attribute::read_messages(file, &object.shown())?;
    object.messages.retain(|message| !matches!(message.kind, attribute::KIND | attribute::INFO_KIND));
    if let Some(last) = found.iter().filter_map(|message| message.creation).max() {
        object.next_attribute = object.next_attribute.max(last.saturating_add(1));
    }
    for message in &found {
        attribute_name(message).map_err(|why| file.source().invalid(why.0))?;
    }
    object.messages.extend(found);
    Ok(())
}
