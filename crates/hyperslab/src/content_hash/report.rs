//! Hashes as JSON, to be read again.

use super::{ArrayHash, ContentHash, Digest, Hashed, NodeHash, Tree, VERSION};
use crate::Json;

impl ContentHash {
    /// The node at a path below the root; `""`: the root.
    pub fn node(&self, path: &str) -> Option<&NodeHash> {
        self.nodes.iter().find(|node| node.path == path)
    }

    /// Everything that [`ContentHash::from_json`] reads.
    pub fn to_json(&self) -> Json {
        Json::from([
            ("version", VERSION.into()),
            ("hash", self.digest.to_string().as_str().into()),
            ("nodes", Json::Array(self.nodes.iter().map(NodeHash::to_json).collect())),
        ])
    }

    /// Reads what [`ContentHash::to_json`] has made. The error is a text.
    pub fn from_json(json: &Json) -> Result<ContentHash, String> {
        match json.get("version").and_then(Json::as_integer) {
            Some(VERSION) => {}
            Some(other) => {
                return Err(format!("a hash of version {other}; this program has version {VERSION}"));
            }
            None => return Err("no content hash: it has no \"version\"".into()),
        }
        let nodes = json.get("nodes").and_then(Json::as_array).ok_or("it has no list of \"nodes\"")?;
        let mut nodes = nodes.iter().map(NodeHash::from_json).collect::<Result<Vec<_>, _>>()?;
        nodes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(ContentHash { digest: digest(json, "hash")?, nodes })
    }
}

fn digest(json: &Json, name: &str) -> Result<Digest, String> {
    let text = json.get(name).and_then(Json::as_str).ok_or_else(|| format!("it has no text {name:?}"))?;
    text.parse()
}

fn integer(json: &Json, name: &str) -> Result<u64, String> {
    json.get(name).and_then(Json::as_integer).ok_or_else(|| format!("it has no number {name:?}"))
}

impl NodeHash {
    /// "array" or "group".
    pub fn kind(&self) -> &'static str {
        if self.array.is_some() { "array" } else { "group" }
    }

    fn to_json(&self) -> Json {
        let mut members = vec![
            ("path".to_owned(), self.path.as_str().into()),
            ("kind".to_owned(), self.kind().into()),
            ("hash".to_owned(), self.digest.to_string().as_str().into()),
        ];
        if let Some(array) = &self.array {
            members.push(("dtype".to_owned(), array.dtype.clone()));
            members.push(("shape".to_owned(), array.shape.as_deref().map_or(Json::Null, Json::from)));
            if let Some(values) = &array.values {
                let peaks = values.whole.peaks().iter().map(|peak| peak.to_string().as_str().into());
                members.push(("values".to_owned(), values.root.to_string().as_str().into()));
                members.push(("slab_rows".to_owned(), values.slab.into()));
                members.push(("slabs".to_owned(), values.whole.count().into()));
                members.push(("peaks".to_owned(), Json::Array(peaks.collect())));
            }
        }
        if !self.unreadable.is_empty() {
            let names = self.unreadable.iter().map(|name| name.as_str().into()).collect();
            members.push(("unreadable".to_owned(), Json::Array(names)));
        }
        Json::Object(members)
    }

    fn from_json(json: &Json) -> Result<NodeHash, String> {
        let text = |name: &str| json.get(name).and_then(Json::as_str).map(str::to_owned);
        let list = |name: &str| json.get(name).and_then(Json::as_array).unwrap_or_default();
        let array = match text("kind").as_deref() {
            Some("group") => None,
            Some("array") => Some(ArrayHash {
                shape: json
                    .get("shape")
                    .and_then(Json::as_array)
                    .map(|shape| shape.iter().map(Json::as_integer).collect::<Option<Vec<u64>>>())
                    .map(|shape| shape.ok_or("a \"shape\" is not a list of lengths"))
                    .transpose()?,
                dtype: json.get("dtype").cloned().unwrap_or(Json::Null),
                values: match json.get("values") {
                    None => None,
                    Some(_) => {
                        let peaks =
                            list("peaks").iter().map(|peak| peak.as_str().unwrap_or_default().parse());
                        let peaks = peaks.collect::<Result<Vec<Digest>, String>>()?;
                        let whole = Tree::of(integer(json, "slabs")?, peaks);
                        Some(Hashed {
                            root: digest(json, "values")?,
                            slab: integer(json, "slab_rows")?,
                            whole: whole.ok_or("\"slabs\" and \"peaks\" do not belong together")?,
                        })
                    }
                },
            }),
            _ => return Err("a node is neither \"array\" nor \"group\"".into()),
        };
        let unreadable = list("unreadable").iter().filter_map(Json::as_str).map(str::to_owned).collect();
        Ok(NodeHash {
            path: text("path").ok_or("a node has no \"path\"")?,
            digest: digest(json, "hash")?,
            array,
            unreadable,
        })
    }
}
