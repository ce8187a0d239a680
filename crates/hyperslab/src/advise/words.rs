//! Advice as JSON, and the commands that follow it.

use super::{Access, Advice, Advised, Counts, DISK, OBJECTS};
use crate::look::chunk_names;
use crate::{Array, Json, Result};

impl Advised {
    /// The command that makes a copy in these chunks. `location`: where the array is. `None`: the layout
    /// has no chunks.
    pub fn command(&self, array: &Array, location: &str) -> Result<Option<String>> {
        let Some(chunks) = &self.layout.chunks else { return Ok(None) };
        let mut line =
            format!("hyperslab copy {} NEW.zarr --chunks {}", quoted(location), chunk_names(array, chunks)?);
        if let Some(shards) = &self.layout.shards {
            let lens: Vec<String> = shards.iter().map(u64::to_string).collect();
            line.push_str(&format!(" --shards {}", lens.join(",")));
        }
        Ok(Some(line))
    }
}

impl Advice {
    /// The layouts by name, with the costs of each way to read. New layouts have the command that makes
    /// a copy: `copy`.
    pub fn to_json(&self, array: &Array, location: &str) -> Result<Json> {
        let shape = |shape: &Option<Vec<u64>>| shape.as_deref().map_or(Json::Null, Json::from);
        let mut all = Json::object();
        for advised in &self.layouts {
            let costs = self.access.iter().zip(&advised.counts).map(|pair| self.cost(advised, pair));
            let mut members = Json::from([
                ("chunks", shape(&advised.layout.chunks)),
                ("shards", shape(&advised.layout.shards)),
                ("objects", Json::float(advised.objects)),
                ("access", Json::Array(costs.collect())),
            ]);
            if advised.name != "now"
                && let Some(command) = advised.command(array, location)?
            {
                members.set("copy", command.as_str().into());
            }
            all.set(advised.name, members);
        }
        Ok(all)
    }

    fn cost(&self, advised: &Advised, (access, counts): (&Access, &Counts)) -> Json {
        let far = self.subject.counts(&advised.layout, access, &OBJECTS);
        Json::from([
            ("access", access.name.as_str().into()),
            ("chunks", Json::float(counts.chunks)),
            ("objects", Json::float(counts.objects)),
            ("requests", Json::float(counts.requests)),
            ("bytes_read", Json::float(counts.bytes_read)),
            ("bytes_decoded", Json::float(counts.bytes_decoded)),
            ("bytes_wanted", Json::float(access.elements() * self.subject.element as f64)),
            ("seconds_disk", Json::float(DISK.seconds(counts))),
            ("seconds_object_store", Json::float(OBJECTS.seconds(&far))),
        ])
    }
}

/// A word for the shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, MemoryStore, zarr};
    use std::sync::Arc;

    #[test]
    fn layouts_have_costs_and_commands() {
        let mut spec = ArraySpec::new(zarr::Format::V3, &[1000, 1000], "<f8".parse().unwrap());
        spec.chunks = Some([1000, 10].as_slice().into());
        let array: Array = zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false).unwrap().into();
        let access = Access::parse("[0, :]", array.shape(), None).unwrap();
        let json = super::super::advise(&array, vec![access], None).unwrap().to_json(&array, "a b").unwrap();
        let now = json.get("now").unwrap();
        assert!(now.get("copy").is_none());
        let chunks = now.get("access").unwrap().as_array().unwrap()[0].get("chunks").unwrap();
        assert_eq!(chunks.to_text(None), "100.0");
        let copy = json.get("chunks").unwrap().get("copy").unwrap().as_str().unwrap();
        assert!(copy.starts_with("hyperslab copy 'a b' NEW.zarr --chunks "), "{copy}");
    }
}
