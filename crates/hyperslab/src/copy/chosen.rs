//! The parts of a hierarchy that a user chooses: variables, and chunks by the names of dimensions.

use super::CopyOptions;
use crate::meaning::{Meaning, Variable, needed_variables};
use crate::{Array, Error, Node, Result};
use std::collections::BTreeSet;

impl CopyOptions<'_> {
    /// The chunk shape that was asked for an array. `None`: as in the source.
    ///
    /// Named lengths count for arrays that have such an axis. Along their other axes chunks stay, or
    /// are as long as the axis if there were none. A coordinate of its only dimension keeps its chunks.
    pub(super) fn chunks_for(
        &self,
        array: &Array,
        path: &str,
        names: Option<&[Option<String>]>,
        shape: &[u64],
    ) -> Option<Vec<u64>> {
        if let Some(chunks) = self.chunks.as_ref().filter(|chunks| chunks.len() == shape.len()) {
            // An axis without elements still needs a chunk length of at least one.
            let full = |(chunk, n): (&Option<u64>, &u64)| chunk.unwrap_or(*n).max(1);
            return Some(chunks.iter().zip(shape).map(full).collect());
        }
        let (given, names) = (self.named_chunks.as_ref()?, names?);
        let own = path.rsplit('/').next().unwrap_or(path);
        if let [Some(only)] = names
            && only == own
        {
            return None;
        }
        let asked = |name: &Option<String>| given.iter().find(|(given, _)| Some(given) == name.as_ref());
        if names.len() != shape.len() || !names.iter().any(|name| asked(name).is_some()) {
            return None;
        }
        let stored = array.has_chunks().then(|| array.chunk_shape());
        let axes = names.iter().zip(shape).enumerate().map(|(axis, (name, n))| {
            let kept = stored.and_then(|chunks| chunks.get(axis)).copied();
            asked(name).map_or(kept, |(_, len)| *len).unwrap_or(*n).max(1)
        });
        Some(axes.collect())
    }

    /// Refuses named chunks of a dimension that no array has. `names`: the names of the axes of each array.
    pub(super) fn check_chunk_names<'n>(
        &self,
        names: impl Iterator<Item = Option<&'n [Option<String>]>>,
    ) -> Result<()> {
        let mut unknown: Vec<&str> =
            self.named_chunks.iter().flatten().map(|(name, _)| name.as_str()).collect();
        let mut known = BTreeSet::new();
        for name in names.flatten().flatten().flatten() {
            unknown.retain(|asked| asked != name);
            known.insert(name.as_str());
        }
        match unknown.first() {
            None => Ok(()),
            Some(name) => {
                let known = known.into_iter().collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() {
                    "axes have no names".to_owned()
                } else {
                    format!("there are {known}")
                };
                Err(Error::Options(format!("chunks: no array has a dimension named {name:?}; {known}")))
            }
        }
    }

    /// Refuses variables of a source that is an array.
    pub(super) fn check_source(&self, source: &Node) -> Result<()> {
        match (source, &self.variables) {
            (Node::Array(_), Some(_)) => {
                Err(Error::Options("variables: the source is an array; leave them out".into()))
            }
            _ => Ok(()),
        }
    }

    /// Removes everything from the nodes of a hierarchy but the chosen variables, the variables that
    /// describe them, and the groups above them. Paths lead to stored arrays.
    pub(super) fn keep_chosen(&self, meaning: &Meaning, nodes: &mut Vec<(String, Node)>) -> Result<()> {
        let Some(kept) = self.chosen(meaning, nodes)? else { return Ok(()) };
        nodes.retain(|(path, _)| kept.contains(path));
        Ok(())
    }

    /// The paths of the nodes that [`CopyOptions::keep_chosen`] keeps. `None`: all.
    pub(super) fn chosen(
        &self,
        meaning: &Meaning,
        nodes: &[(String, Node)],
    ) -> Result<Option<BTreeSet<String>>> {
        let Some(wanted) = &self.variables else { return Ok(None) };
        let mut variables: Vec<(String, Variable)> = Vec::new();
        // Datasets of files that only stand for a dimension.
        let mut dimensions = Vec::new();
        let mut stored = Vec::new();
        for (path, node) in nodes {
            let Node::Array(array) = node else { continue };
            if array.has_no_shape() {
                continue;
            }
            match meaning.variable(array)? {
                Some(variable) => {
                    stored.push((meaning.path(path), path.clone()));
                    variables.push((meaning.path(path), variable));
                }
                None => dimensions.push(path.clone()),
            }
        }
        let needed = needed_variables(variables.iter().map(|(path, found)| (path.as_str(), found)), wanted)?;
        let mut kept: BTreeSet<String> =
            stored.into_iter().filter(|(path, _)| needed.contains(path)).map(|(_, stored)| stored).collect();
        let names: BTreeSet<&str> = variables
            .iter()
            .filter(|(path, _)| needed.contains(path))
            .flat_map(|(_, variable)| variable.dimension_names.iter().flatten().flatten().map(String::as_str))
            .collect();
        kept.extend(
            dimensions.into_iter().filter(|path| names.contains(path.rsplit('/').next().unwrap_or(path))),
        );
        let mut above = BTreeSet::from([String::new()]);
        for path in &kept {
            above.extend(path.match_indices('/').filter_map(|(at, _)| path.get(..at)).map(str::to_owned));
        }
        kept.extend(above);
        Ok(Some(kept))
    }
}
