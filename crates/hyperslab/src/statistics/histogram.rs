//! The bins of a histogram.

/// Histogram bins. All but the last exclude their upper edge, as in NumPy.
#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    edges: Vec<f64>,
    /// Bins per unit, if all bins have about the same width.
    scale: Option<f64>,
}

impl Bins {
    /// Makes bins from two or more edges that are finite and ascend.
    /// Otherwise the error gives the reason.
    pub fn new(edges: Vec<f64>) -> Result<Self, String> {
        let ascends = edges.iter().zip(edges.iter().skip(1)).all(|(a, b)| a <= b);
        if edges.len() < 2 || !ascends || !edges.iter().all(|edge| edge.is_finite()) {
            return Err(format!(
                "bins: expected two or more finite edges that ascend, found {}",
                edges.len()
            ));
        }
        let (first, last) = (edges.first().copied().unwrap_or(0.0), edges.last().copied().unwrap_or(0.0));
        let width = (last - first) / (edges.len() - 1) as f64;
        let even = edges.iter().zip(0u32..).all(|(edge, n)| {
            let expected = first + width * f64::from(n);
            (edge - expected).abs() <= width * 1e-6
        });
        let scale = Some(1.0 / width).filter(|scale| even && scale.is_finite());
        Ok(Bins { edges, scale })
    }

    /// Equally wide bins.
    pub fn even(low: f64, high: f64, count: u32) -> Result<Self, String> {
        let width = (high - low) / f64::from(count.max(1));
        let edge = |n| if n == count { high } else { low + width * f64::from(n) };
        Bins::new((0..=count).map(edge).collect())
    }

    /// Number of bins.
    pub(super) fn len(&self) -> usize {
        self.edges.len() - 1
    }

    /// The edges.
    pub fn edges(&self) -> &[f64] {
        &self.edges
    }

    /// Counts a value, if it is in a bin.
    pub(crate) fn count(&self, value: f64, counts: &mut [u64]) {
        let (Some(first), Some(last)) = (self.edges.first(), self.edges.last()) else { return };
        if !(value >= *first && value <= *last) {
            return;
        }
        let most = counts.len() - 1;
        let edge = |n: usize| self.edges.get(n).copied().unwrap_or(f64::INFINITY);
        let mut bin = match self.scale {
            Some(scale) => (((value - first) * scale) as usize).min(most),
            None => self.edges.partition_point(|edge| *edge <= value).saturating_sub(1).min(most),
        };
        // The division was rounded, so compare with the edges.
        while bin > 0 && value < edge(bin) {
            bin -= 1;
        }
        while bin < most && value >= edge(bin + 1) {
            bin += 1;
        }
        if let Some(count) = counts.get_mut(bin) {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_those_of_numpy() {
        for bins in [Bins::even(0.0, 1.0, 10).unwrap(), Bins::new(vec![0.0, 0.1, 0.5, 1.0]).unwrap()] {
            let mut counts = vec![0; bins.len()];
            let values = [-0.1, 0.0, 0.1, 0.3, 0.5, 0.999, 1.0, 1.1, f64::NAN];
            values.iter().for_each(|value| bins.count(*value, &mut counts));
            let expected = |n: usize| {
                let inside = |value: &&f64| {
                    let upper =
                        if n + 1 == bins.len() { **value <= 1.0 } else { **value < bins.edges()[n + 1] };
                    **value >= bins.edges()[n] && upper
                };
                values.iter().filter(inside).count() as u64
            };
            assert_eq!(counts, (0..bins.len()).map(expected).collect::<Vec<_>>());
        }
        assert!(Bins::new(vec![1.0]).is_err() && Bins::new(vec![1.0, 0.0]).is_err());
        assert!(Bins::new(vec![0.0, f64::NAN]).is_err());
    }
}
