//! Dataspaces: shapes (specification IV.A.2.b).

/// The shape of a dataset or attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dataspace {
    /// One element.
    Scalar,
    /// No element, and no shape (h5py's `Empty`).
    Null,
    /// Any number of axes.
    Simple {
        /// Elements per axis.
        shape: Vec<u64>,
        /// The most there may be per axis; `None`: no limit.
        max_shape: Vec<Option<u64>>,
    },
}

impl Dataspace {
    /// Elements per axis; none for a scalar, and for nothing at all.
    pub fn shape(&self) -> &[u64] {
        match self {
            Dataspace::Simple { shape, .. } => shape,
            _ => &[],
        }
    }
}
