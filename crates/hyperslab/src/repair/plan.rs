//! Plans: the actions of a repair, their reasons, and the losses.

use crate::Json;
use crate::content_hash::Digest;

/// Hexadecimal digits of the hash of a plan.
const DIGITS: usize = 12;

/// The kind of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ActionKind {
    /// Bytes of the superblock of an HDF5 file are replaced: flags of an open file, the end of the file.
    Superblock,
    /// A file gets the length that its superblock says.
    Length,
    /// Everything that is left of an HDF5 file is copied to a new file.
    Salvage,
    /// A leftover of a killed writer is removed.
    Leftover,
    /// Consolidated metadata is written again.
    Consolidate,
    /// A shard is written without the space that nothing refers to.
    DeadSpace,
    /// A damaged chunk, or a damaged shard without a good chunk, becomes absent.
    Absent,
    /// A damaged shard is written again, from the chunks that still decode.
    Shard,
    /// A damaged chunk is written again, with the fill value.
    Fill,
}

impl ActionKind {
    /// The name in plans: words with hyphens. It never changes.
    pub fn name(self) -> &'static str {
        match self {
            ActionKind::Superblock => "superblock",
            ActionKind::Length => "length",
            ActionKind::Salvage => "salvage",
            ActionKind::Leftover => "leftover",
            ActionKind::Consolidate => "consolidate",
            ActionKind::DeadSpace => "dead-space",
            ActionKind::Absent => "absent",
            ActionKind::Shard => "shard",
            ActionKind::Fill => "fill",
        }
    }
}

/// A thing that a repair does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The kind.
    pub kind: ActionKind,
    /// Path of the node, with a leading `/`.
    pub path: String,
    /// Key of the object that is replaced or removed.
    pub key: Option<String>,
    /// The reason.
    pub why: String,
    /// The effect of the action, in words.
    pub does: String,
}

/// Something that is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Path of the node, with a leading `/`.
    pub path: String,
    /// Index of the chunk along each axis.
    pub chunk: Option<Vec<u64>>,
    /// The elements of the chunk: the first one, and the one behind the last, along each axis.
    pub region: Option<(Vec<u64>, Vec<u64>)>,
    /// First byte at fault.
    pub offset: Option<u64>,
    /// The loss and its reason.
    pub why: String,
}

/// The actions and losses of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The location, as it was given.
    pub location: String,
    /// The actions, in their order. Empty: there is nothing to do.
    pub actions: Vec<Action>,
    /// The losses.
    pub lost: Vec<Lost>,
    /// Number of losses that are not listed.
    pub more_lost: u64,
    /// Nodes that may have wrong values. They stay as they are.
    pub doubtful: Vec<Lost>,
    /// Faults that no action mends.
    pub left: Vec<String>,
    /// Objects of an HDF5 file that nothing leads to, which get names in `/lost+found`.
    pub adopted: u64,
    /// `true` if the repair makes a new file, whose path has to be given.
    pub needs_target: bool,
    /// The state of the bytes that the plan is about.
    pub(super) state: String,
}

impl Plan {
    /// The hash of the plan. A repair runs only if the plan is still the same.
    pub fn hash(&self) -> String {
        let mut text = self.contents().to_text(None);
        text.push_str(&self.state);
        Digest::of(text.as_bytes()).to_string().chars().take(DIGITS).collect()
    }

    fn contents(&self) -> Json {
        let text = |text: &Option<String>| text.as_deref().map_or(Json::Null, Json::from);
        let numbers = |numbers: &Option<Vec<u64>>| numbers.as_deref().map_or(Json::Null, Json::from);
        let action = |action: &Action| {
            Json::from([
                ("kind", action.kind.name().into()),
                ("path", action.path.as_str().into()),
                ("key", text(&action.key)),
                ("why", action.why.as_str().into()),
                ("does", action.does.as_str().into()),
            ])
        };
        let lost = |lost: &Lost| {
            let region = lost.region.as_ref().map_or(Json::Null, |(start, stop)| {
                Json::from([("start", start.as_slice().into()), ("stop", stop.as_slice().into())])
            });
            Json::from([
                ("path", lost.path.as_str().into()),
                ("chunk", numbers(&lost.chunk)),
                ("region", region),
                ("offset", lost.offset.map_or(Json::Null, Json::from)),
                ("why", lost.why.as_str().into()),
            ])
        };
        Json::from([
            ("location", self.location.as_str().into()),
            ("actions", Json::Array(self.actions.iter().map(action).collect())),
            ("lost", Json::Array(self.lost.iter().map(lost).collect())),
            ("more_lost", self.more_lost.into()),
            ("doubtful", Json::Array(self.doubtful.iter().map(lost).collect())),
            ("left", Json::Array(self.left.iter().map(|left| left.as_str().into()).collect())),
            ("adopted", self.adopted.into()),
            ("needs_target", self.needs_target.into()),
        ])
    }

    /// The plan as a JSON object.
    pub fn to_json(&self) -> Json {
        let mut json = self.contents();
        json.set("hash", self.hash().as_str().into());
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_one_of_everything() {
        let plan = Plan { location: "a".into(), ..Plan::default() };
        let other = |change: &dyn Fn(&mut Plan)| {
            let mut other = plan.clone();
            change(&mut other);
            other.hash()
        };
        assert_eq!(plan.hash().len(), DIGITS);
        assert_eq!(plan.hash(), other(&|_| {}));
        assert_ne!(plan.hash(), other(&|plan| plan.state = "1".into()));
        assert_ne!(plan.hash(), other(&|plan| plan.left = vec!["x".into()]));
        assert_eq!(plan.to_json().get("hash").and_then(Json::as_str), Some(&*plan.hash()));
    }
}
