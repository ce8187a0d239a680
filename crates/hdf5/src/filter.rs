//! Filter pipelines (specification IV.A.2.l).

/// One filter of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Its registered number.
    pub id: u16,
    /// Its name, if stored.
    pub name: Option<String>,
    /// Whether writers may leave it out of a chunk.
    pub optional: bool,
    /// Its parameters.
    pub client_data: Vec<u32>,
}
