//! Makes the plan of a copy in tasks.

use super::plan::{PlanFacts, TaskPlan, arrays_of};
use crate::copy::{CopyOptions, Crew, Order, Region, Shards, Site, joined_sources, outline, outline_into};
use crate::{Array, Error, Format, Json, Node, Result};

/// A copy in tasks that is wanted.
#[derive(Clone)]
pub struct Planned<'a> {
    /// Path or URL of the source, as other processes reach it.
    pub source: String,
    /// Path or URL of the destination.
    pub destination: String,
    /// The kind of the destination.
    pub site: Site<'a>,
    /// The workers.
    pub crew: Crew,
    /// The dimension along which the sources are joined.
    pub concat: Option<String>,
    /// The existing array, and its region to copy into.
    pub target: Option<(&'a Array, &'a Region)>,
    /// The options of the copy.
    pub options: &'a CopyOptions<'a>,
}

fn bounds((start, stop): (Option<i64>, Option<i64>)) -> Json {
    Json::Array([start, stop].map(|bound| bound.map_or(Json::Null, Json::from)).into())
}

fn region(region: Option<&Region>) -> Json {
    match region {
        None => Json::Null,
        Some(Region::Axes(axes)) => Json::Array(axes.iter().map(|axis| bounds(*axis)).collect()),
        Some(Region::Named(axes)) => Json::Array(
            axes.iter().map(|(name, axis)| Json::Array(vec![name.as_str().into(), bounds(*axis)])).collect(),
        ),
    }
}

fn lens(lens: &[Option<u64>]) -> Json {
    Json::Array(lens.iter().map(|len| len.map_or(Json::Null, Json::from)).collect())
}

/// The options that make two copies different, as JSON. Two runs of one copy may differ in threads.
pub fn options_text(options: &CopyOptions<'_>, target_region: Option<&Region>) -> String {
    let named = options.named_chunks.as_ref().map_or(Json::Null, |named| {
        let one = |(name, len): &(String, Option<u64>)| (name.clone(), len.map_or(Json::Null, Json::from));
        Json::Object(named.iter().map(one).collect())
    });
    let variables = options
        .variables
        .as_ref()
        .map_or(Json::Null, |names| Json::Array(names.iter().map(|name| name.as_str().into()).collect()));
    let shards = match &options.shards {
        Shards::Keep => "keep".into(),
        Shards::None => "none".into(),
        Shards::Auto => "auto".into(),
        Shards::Shape(shape) => lens(shape),
    };
    let order = options.order.map_or(Json::Null, |order| if order == Order::F { "F" } else { "C" }.into());
    let format = if options.format == Some(Format::ZarrV2) { 2u32 } else { 3 };
    let compressors =
        options.compressors.as_ref().map_or(Json::Null, |all| Json::Array(all.as_json().to_vec()));
    Json::from([
        ("chunks", options.chunks.as_deref().map_or(Json::Null, lens)),
        ("named_chunks", named),
        ("variables", variables),
        ("shards", shards),
        ("compressors", compressors),
        ("order", order),
        ("zarr_format", format.into()),
        ("max_memory", options.max_memory.into()),
        ("skip_unsupported", options.skip_unsupported.into()),
        ("consolidated", (!options.unconsolidated).into()),
        ("overwrite", options.overwrite.into()),
        ("region", region(options.region.as_ref())),
        ("target_region", region(target_region)),
    ])
    .to_text(None)
}

/// Plans a copy in tasks. Reads metadata only.
pub fn plan_tasks(node: &Node, wanted: &Planned<'_>) -> Result<TaskPlan> {
    let Planned { site, crew, options, .. } = *wanted;
    let outlined = match (wanted.target, node) {
        (None, node) => outline(node, site, crew, options)?,
        (Some((target, region)), Node::Array(array)) => {
            outline_into(array, target, region, site, crew, options)?
        }
        (Some(_), Node::Group(_)) => {
            let why = "source: with target_region it has to be an array, found a group";
            return Err(Error::Options(why.into()));
        }
    };
    let format = match node {
        Node::Array(array) => array.format(),
        Node::Group(group) => group.format(),
    };
    let source_format = match format {
        _ if wanted.concat.is_some() => None,
        Format::ZarrV2 => Some(2),
        Format::ZarrV3 => Some(3),
        _ => None,
    };
    let (sources, lengths) = joined_sources(node).into_iter().unzip();
    Ok(TaskPlan::new(PlanFacts {
        source: wanted.source.clone(),
        destination: wanted.destination.clone(),
        arrays: arrays_of(&outlined),
        groups: outlined.groups,
        documents: outlined.documents,
        task_bytes: crew.size,
        options: options_text(options, wanted.target.map(|(_, region)| region)),
        notes: outlined.notes,
        skipped: outlined.skipped,
        differs: outlined.differs,
        overwrite: options.overwrite,
        is_into: wanted.target.is_some(),
        source_format,
        workers: crew.workers,
        prices: crew.prices,
        sources,
        concat: wanted.concat.clone(),
        lengths,
    }))
}
