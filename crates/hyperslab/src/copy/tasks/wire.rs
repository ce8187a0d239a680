//! The text of plans, which journals hold.
//!
//! Equal passes and reasons are written once, and documents are compressed: a plan of ten million
//! arrays stays small.

use super::plan::{PlanFacts, TaskArray, TaskPass};
use crate::copy::Prices;
use crate::{Error, Json, Result};
use hyperslab_codec::{Codec, Scratch, Zstd};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// The version of the format.
const VERSION: u32 = 4;

/// Maximum bytes of the documents of a plan that is text: enough for ten million arrays.
const MOST_TEXT: u64 = 1 << 33;

/// Documents shrink at most to one of this many bytes: Zstandard's limit is near that for repetitions.
const MOST_RATIO: u64 = 1 << 15;

#[derive(Serialize, Deserialize)]
struct WirePrices {
    put: f64,
    get: f64,
    storage: f64,
    egress: f64,
    worker: f64,
}

/// An array, with the numbers of its passes and reasons.
#[derive(Serialize, Deserialize)]
struct WireArray {
    path: String,
    bytes: u64,
    from_start: Vec<u64>,
    to_start: Vec<u64>,
    shape: Vec<u64>,
    why: usize,
    advice: usize,
    passes: Vec<usize>,
    compare: usize,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(rename = "hyperslab copy plan")]
    version: u32,
    source: String,
    destination: String,
    groups: u64,
    task_bytes: u64,
    options: String,
    notes: Vec<String>,
    skipped: Vec<(String, String)>,
    differs: Vec<String>,
    overwrite: bool,
    is_into: bool,
    source_format: Option<u8>,
    workers: u64,
    prices: WirePrices,
    sources: Vec<String>,
    concat: Option<String>,
    lengths: Vec<u64>,
    arrays: Vec<WireArray>,
    passes: Vec<TaskPass>,
    reasons: Vec<String>,
    /// Bytes of the documents' text.
    documents_bytes: u64,
    documents: String,
}

/// The identifier of a copy.
pub(super) fn id(facts: &PlanFacts) -> String {
    let texts = |list: &[String]| Json::Array(list.iter().map(|text| text.as_str().into()).collect());
    let said = Json::Array(vec![
        VERSION.into(),
        facts.source.as_str().into(),
        facts.destination.as_str().into(),
        facts.task_bytes.into(),
        facts.options.as_str().into(),
        facts.concat.as_deref().map_or(Json::Null, Json::from),
        texts(&facts.sources),
        Json::Array(facts.lengths.iter().map(|len| (*len).into()).collect()),
    ]);
    let mut hash = blake3::Hasher::new();
    hash.update(said.to_text(None).as_bytes());
    for text in facts.documents.iter().flat_map(|(key, text)| [key, text]) {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    hash.finalize().to_hex().to_string()
}

/// Values with numbers. Equal keys have one number.
struct Numbered<K, V> {
    numbers: HashMap<K, usize>,
    values: Vec<V>,
}

impl<K: std::hash::Hash + Eq, V> Numbered<K, V> {
    fn new() -> Self {
        Numbered { numbers: HashMap::new(), values: Vec::new() }
    }

    fn number(&mut self, key: K, value: impl FnOnce() -> V) -> usize {
        let values = &mut self.values;
        *self.numbers.entry(key).or_insert_with(|| {
            values.push(value());
            values.len() - 1
        })
    }
}

pub(super) fn write(facts: &PlanFacts) -> Result<String> {
    let (mut passes, mut reasons) = (Numbered::new(), Numbered::new());
    let mut arrays = Vec::with_capacity(facts.arrays.len());
    for array in &facts.arrays {
        // Plans are made with one object for equal passes.
        let mut pass = |pass: &Arc<TaskPass>| passes.number(Arc::as_ptr(pass), || (**pass).clone());
        let mut reason = |text: &Arc<str>| reasons.number(text.clone(), || text.to_string());
        arrays.push(WireArray {
            path: array.path.clone(),
            bytes: array.bytes,
            from_start: array.from_start.clone(),
            to_start: array.to_start.clone(),
            shape: array.shape.clone(),
            why: reason(&array.why),
            advice: reason(&array.advice),
            passes: array.passes.iter().map(&mut pass).collect(),
            compare: pass(&array.compare),
        });
    }
    let text = serde_json::to_vec(&facts.documents).map_err(refuse)?;
    let Prices { put, get, storage, egress, worker } = facts.prices;
    let wire = Wire {
        version: VERSION,
        source: facts.source.clone(),
        destination: facts.destination.clone(),
        groups: facts.groups,
        task_bytes: facts.task_bytes,
        options: facts.options.clone(),
        notes: facts.notes.clone(),
        skipped: facts.skipped.clone(),
        differs: facts.differs.clone(),
        overwrite: facts.overwrite,
        is_into: facts.is_into,
        source_format: facts.source_format,
        workers: facts.workers,
        prices: WirePrices { put, get, storage, egress, worker },
        sources: facts.sources.clone(),
        concat: facts.concat.clone(),
        lengths: facts.lengths.clone(),
        arrays,
        passes: passes.values,
        reasons: reasons.values,
        documents_bytes: text.len() as u64,
        documents: hyperslab_zarr::base64(&compress(&text)?),
    };
    serde_json::to_string(&wire).map_err(refuse)
}

fn refuse(why: impl std::fmt::Display) -> Error {
    Error::Options(format!("no plan of a copy: {why}"))
}

pub(super) fn read(text: &str) -> Result<PlanFacts> {
    #[derive(Deserialize)]
    struct Versioned {
        #[serde(rename = "hyperslab copy plan")]
        version: Option<u32>,
    }
    let Versioned { version } = serde_json::from_str(text).map_err(refuse)?;
    if version != Some(VERSION) {
        let found = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        return Err(Error::Options(format!(
            "no plan of a copy that this version knows: expected version {VERSION}, found {found}"
        )));
    }
    let wire: Wire = serde_json::from_str(text).map_err(refuse)?;
    let passes: Vec<Arc<TaskPass>> = wire.passes.into_iter().map(Arc::new).collect();
    let reasons: Vec<Arc<str>> = wire.reasons.into_iter().map(Arc::from).collect();
    let pass = |number: usize| {
        passes.get(number).cloned().ok_or_else(|| refuse(format_args!("there is no pass {number}")))
    };
    let reason = |number: usize| {
        reasons.get(number).cloned().ok_or_else(|| refuse(format_args!("there is no reason {number}")))
    };
    let array = |wire: WireArray| {
        if wire.passes.is_empty() {
            return Err(refuse(format_args!("array {:?} has no pass", wire.path)));
        }
        Ok(TaskArray {
            why: reason(wire.why)?,
            advice: reason(wire.advice)?,
            passes: wire.passes.into_iter().map(pass).collect::<Result<_>>()?,
            compare: pass(wire.compare)?,
            path: wire.path,
            bytes: wire.bytes,
            from_start: wire.from_start,
            to_start: wire.to_start,
            shape: wire.shape,
        })
    };
    let arrays = wire.arrays.into_iter().map(array).collect::<Result<Vec<_>>>()?;
    let WirePrices { put, get, storage, egress, worker } = wire.prices;
    let prices = Prices { put, get, storage, egress, worker };
    prices.check()?;
    let documents = expand(&wire.documents, wire.documents_bytes)?;
    Ok(PlanFacts {
        documents: serde_json::from_slice(&documents).map_err(refuse)?,
        source: wire.source,
        destination: wire.destination,
        arrays,
        groups: wire.groups,
        task_bytes: wire.task_bytes,
        options: wire.options,
        notes: wire.notes,
        skipped: wire.skipped,
        differs: wire.differs,
        overwrite: wire.overwrite,
        is_into: wire.is_into,
        source_format: wire.source_format,
        workers: wire.workers,
        prices,
        sources: wire.sources,
        concat: wire.concat,
        lengths: wire.lengths,
    })
}

fn compress(text: &[u8]) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    let zstd = Zstd { level: 3, checksum: true };
    zstd.encode(text, &mut packed, &mut Scratch::default()).map_err(refuse)?;
    Ok(packed)
}

/// The text of the documents. `len`: its bytes, as the plan says.
fn expand(packed: &str, len: u64) -> Result<Vec<u8>> {
    let packed =
        hyperslab_zarr::from_base64(packed).ok_or_else(|| refuse("the documents are not base 64"))?;
    let most = (packed.len() as u64).saturating_mul(MOST_RATIO).min(MOST_TEXT);
    let size = usize::try_from(len).ok().filter(|_| len <= most);
    let size =
        size.ok_or_else(|| refuse(format_args!("the documents have {len} bytes, at most {most} fit")))?;
    let mut text = Vec::new();
    text.try_reserve_exact(size).map_err(refuse)?;
    text.resize(size, 0);
    let zstd = Zstd { level: 3, checksum: true };
    let found = zstd.decode(&packed, &mut text, &mut Scratch::default()).map_err(refuse)?;
    if found != size {
        return Err(refuse(format_args!("the documents have {found} bytes, not {len}")));
    }
    Ok(text)
}
