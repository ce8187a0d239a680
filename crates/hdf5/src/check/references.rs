//! References in attributes and in elements of datasets: each must lead to something.
//!
//! A reference leads nowhere if there is no object at its address, or if the object has lost its name. A
//! region must be inside its dataset. An attribute must exist.

use super::{Check, Fault, FaultKind};
use crate::element::{Element, ElementKind};
use crate::reference::{self, Reference, ReferencedPart};
use crate::selection::Selection;
use crate::{Attribute, Dataset, File, Hdf5Error, Node, Result, vlen};
use hyperslab_array::{ReadOptions, Selection as Elements, in_batches};
use std::collections::{BTreeMap, HashMap};

/// Elements of a dataset that are in memory together. Elements have some dozens of bytes.
const BATCH: usize = 64 << 10;

/// References that lead nowhere.
#[derive(Debug)]
struct Wrong {
    count: u64,
    /// The number of the first one's element in C order, its address, and the fault.
    first: (u64, u64, String),
}

/// All that is known about references so far.
#[derive(Debug, Default)]
pub(super) struct References {
    /// By the path of the object and the attribute.
    wrong: BTreeMap<(String, Option<String>), Wrong>,
    /// References to valid headers that the check has not reached: owner, element.
    waiting: BTreeMap<(u64, String, Option<String>), u64>,
    /// Why a header is no object, or the shape of a dataset.
    targets: HashMap<u64, Result<Option<Vec<u64>>, String>>,
    /// Committed datatypes that objects use. They may have no name.
    types: Vec<u64>,
}

impl Check<'_> {
    /// Notes a committed datatype that an object uses.
    pub(super) fn uses_type(&mut self, address: Option<u64>) {
        self.references.types.extend(address);
    }

    /// Follows the references in an attribute.
    pub(super) fn attribute_references(&mut self, attribute: &Attribute, path: &str) -> Result<()> {
        let Ok(element) = attribute.element() else { return Ok(()) };
        if !refers(&element) {
            return Ok(());
        }
        let Ok(memory) = attribute.values() else { return Ok(()) };
        let count = memory.len() / element.size.max(1);
        let batch = StridedElements { memory: &memory, offset: 0, stride: element.size, count };
        let mut found = Vec::new();
        // A heap that cannot be read has been named with the attribute's value.
        match gather(self.file, &element, batch, &|n| n, &mut |n, target| found.push((n, target))) {
            Err(error @ Hdf5Error::Interrupted { .. }) => return Err(error),
            Err(_) => return Ok(()),
            Ok(()) => {}
        }
        self.follow(&found, path, Some(&attribute.name))
    }

    /// Follows the references in the elements of a dataset.
    pub(super) fn dataset_references(&mut self, dataset: &Dataset, path: &str) -> Result<()> {
        if !refers(dataset.element()) {
            return Ok(());
        }
        // Chunks that cannot be decoded are found by decoding, not here.
        let Ok(layout) = dataset.layout() else { return Ok(()) };
        let all = Elements::all(layout.shape());
        let file = self.file;
        let size = dataset.element().size;
        let outcome = in_batches(&layout, &all, ReadOptions::default(), BATCH, &mut |read| {
            file.source().go_on()?;
            let batch = StridedElements { memory: read.memory, offset: 0, stride: size, count: read.count };
            let mut found = Vec::new();
            let number = |n: u64| n.saturating_add(read.first as u64);
            gather(file, dataset.element(), batch, &number, &mut |n, target| found.push((n, target)))?;
            self.follow(&found, path, None)
        });
        match outcome {
            Err(error @ Hdf5Error::Interrupted { .. }) => Err(error),
            Err(Hdf5Error::Array(_)) | Ok(()) => Ok(()),
            Err(error) => self.fail(path, error),
        }
    }

    fn follow(&mut self, found: &[(u64, Reference)], path: &str, attribute: Option<&str>) -> Result<()> {
        for (number, target) in found.iter().filter(|(_, target)| target.file.is_none()) {
            let owner = || (path.to_owned(), attribute.map(str::to_owned));
            match self.fault_of(target)? {
                Some(why) => self.references.add(owner(), *number, target.address, why),
                None if self.seen.contains(&target.address) => {}
                None => {
                    let (path, attribute) = owner();
                    self.references.waiting.entry((target.address, path, attribute)).or_insert(*number);
                }
            }
        }
        Ok(())
    }

    /// The reason why a reference leads nowhere.
    fn fault_of(&mut self, target: &Reference) -> Result<Option<String>> {
        if !self.references.targets.contains_key(&target.address) {
            let object = match self.file.header(target.address) {
                Ok(header) if header.links() == 0 => Err("the object was deleted".to_owned()),
                Ok(_) => match self.file.object_at(target.address, "") {
                    Ok(Node::Dataset(dataset)) => Ok(Some(dataset.dataspace().shape().to_vec())),
                    Err(error @ Hdf5Error::Interrupted { .. }) => return Err(error),
                    // A damaged object is named at its own path.
                    Ok(_) | Err(_) => Ok(None),
                },
                Err(error @ Hdf5Error::Interrupted { .. }) => return Err(error),
                Err(error) => Err(error.to_string()),
            };
            self.references.targets.insert(target.address, object);
        }
        let shape = match self.references.targets.get(&target.address) {
            Some(Err(why)) => return Ok(Some(why.clone())),
            Some(Ok(shape)) => shape,
            None => return Ok(None),
        };
        Ok(match &target.part {
            ReferencedPart::Whole => None,
            ReferencedPart::Region(region) => shape.as_ref().and_then(|shape| outside(region, shape)),
            ReferencedPart::Attribute(name) => match self.file.has_attribute(target.address, name) {
                Ok(true) => None,
                Ok(false) => Some(format!("the object has no attribute '{name}'")),
                Err(error @ Hdf5Error::Interrupted { .. }) => return Err(error),
                Err(_) => None,
            },
        })
    }

    /// Reports references that lead nowhere. `whole`: all objects that have a name were reached.
    pub(super) fn dangling_references(&mut self, whole: bool) {
        let mut references = std::mem::take(&mut self.references);
        let waiting = std::mem::take(&mut references.waiting);
        if whole {
            for ((address, path, attribute), number) in waiting {
                if !self.seen.contains(&address) && !references.types.contains(&address) {
                    references.add((path, attribute), number, address, "the object has no name".to_owned());
                }
            }
        }
        for ((path, attribute), Wrong { count, first: (number, address, why) }) in references.wrong {
            let place = attribute.map(|name| format!(" in attribute '{name}'")).unwrap_or_default();
            let why = match count {
                1 => format!("a reference{place} (element {number}) leads nowhere: {why}"),
                _ => format!("{count} references{place} lead nowhere; the first is element {number}: {why}"),
            };
            let kind = FaultKind::DanglingReference;
            self.found.faults.push(Fault { kind, path, chunk: None, address: Some(address), why });
        }
    }
}

impl References {
    fn add(&mut self, owner: (String, Option<String>), number: u64, address: u64, why: String) {
        let wrong = self.wrong.entry(owner).or_insert(Wrong { count: 0, first: (number, address, why) });
        wrong.count += 1;
    }
}

/// Returns `true` if an element is a reference, or has some within.
fn refers(element: &Element) -> bool {
    match &element.kind {
        ElementKind::ObjectReference | ElementKind::RegionReference | ElementKind::AnyReference => true,
        ElementKind::Struct(fields) => fields.iter().any(|field| refers(&field.element)),
        ElementKind::Array { element, .. } | ElementKind::Vlen { element, .. } => refers(element),
        _ => false,
    }
}

/// Elements in memory: `count`, `stride` bytes apart from `offset` on.
#[derive(Clone, Copy)]
struct StridedElements<'m> {
    memory: &'m [u8],
    offset: usize,
    stride: usize,
    count: usize,
}

/// Passes all references to `each`, with the numbers of their elements.
fn gather(
    file: &File,
    element: &Element,
    batch: StridedElements<'_>,
    number: &dyn Fn(u64) -> u64,
    each: &mut dyn FnMut(u64, Reference),
) -> Result<()> {
    let StridedElements { memory, offset, stride, count } = batch;
    match &element.kind {
        ElementKind::ObjectReference | ElementKind::RegionReference | ElementKind::AnyReference => {
            let found = reference::resolve(file, element, memory, offset, stride, count)?;
            for (n, target) in found.into_iter().enumerate() {
                target.into_iter().for_each(|target| each(number(n as u64), target));
            }
        }
        ElementKind::Struct(fields) => {
            for field in fields.iter().filter(|field| refers(&field.element)) {
                let batch = StridedElements { offset: offset.saturating_add(field.offset), ..batch };
                gather(file, &field.element, batch, number, each)?;
            }
        }
        ElementKind::Array { element: item, .. } if refers(item) => {
            for at in (0..element.size).step_by(item.size.max(1)) {
                gather(
                    file,
                    item,
                    StridedElements { offset: offset.saturating_add(at), ..batch },
                    number,
                    each,
                )?;
            }
        }
        ElementKind::Vlen { element: item, .. } if refers(item) => {
            let found = vlen::resolve(file, element, memory, offset, stride, count)?;
            let values = found.values.as_slice();
            let count = values.len() / item.size.max(1);
            let of = |n: u64| {
                let ends = found.offsets.partition_point(|end| u64::try_from(*end).is_ok_and(|end| end <= n));
                number(ends.saturating_sub(1) as u64)
            };
            let batch = StridedElements { memory: values, offset: 0, stride: item.size, count };
            gather(file, item, batch, &of, each)?;
        }
        _ => {}
    }
    Ok(())
}

/// Describes how a region reaches beyond a shape. `None`: it does not.
fn outside(region: &Selection, shape: &[u64]) -> Option<String> {
    if let Some(rank) = region.rank().filter(|rank| *rank != shape.len()) {
        return Some(format!("its region has {rank} axes, and the dataset has {}", shape.len()));
    }
    // The end of the region along each axis.
    let mut ends = vec![0_u64; shape.len()];
    let mut reach = |axis: usize, end: u64| {
        if let Some(most) = ends.get_mut(axis) {
            *most = end.max(*most);
        }
    };
    match region {
        Selection::None | Selection::All => {}
        Selection::Points { .. } => region.points().for_each(|point| {
            point.iter().enumerate().for_each(|(axis, at)| reach(axis, at.saturating_add(1)))
        }),
        Selection::Blocks { .. } => region.blocks().for_each(|(_, last)| {
            last.iter().enumerate().for_each(|(axis, at)| reach(axis, at.saturating_add(1)))
        }),
        Selection::Regular(slabs) => {
            for (axis, slab) in slabs.iter().enumerate() {
                let blocks = slab.count.unwrap_or(1).saturating_sub(1).saturating_mul(slab.stride);
                reach(axis, slab.start.saturating_add(blocks).saturating_add(slab.block.unwrap_or(0)));
            }
        }
    }
    ends.iter()
        .zip(shape)
        .any(|(end, len)| end > len)
        .then(|| format!("its region ends at {ends:?}, and the dataset has shape {shape:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::Slab;

    #[test]
    fn regions_outside_are_told() {
        let slab = Slab { start: 1, stride: 3, count: Some(2), block: Some(2) };
        let regular = Selection::Regular(vec![slab]);
        assert_eq!(outside(&regular, &[6]), None);
        assert!(outside(&regular, &[5]).unwrap().contains("ends at [6]"));
        assert!(outside(&regular, &[6, 6]).unwrap().contains("has 1 axes, and the dataset has 2"));
        let open = Selection::Regular(vec![Slab { count: None, ..slab }]);
        assert_eq!(outside(&open, &[3]), None);
        let points = Selection::Points { rank: 2, coordinates: vec![1, 2, 3, 0] };
        assert_eq!(outside(&points, &[4, 3]), None);
        assert!(outside(&points, &[3, 3]).is_some());
        let blocks = Selection::Blocks { rank: 1, corners: vec![0, 4] };
        assert_eq!((outside(&blocks, &[5]), outside(&blocks, &[4]).is_some()), (None, true));
        assert_eq!((outside(&Selection::All, &[]), outside(&Selection::None, &[3])), (None, None));
    }
}
