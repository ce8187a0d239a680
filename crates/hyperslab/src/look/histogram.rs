//! The distribution of numbers: counts per bin, percentiles, mean.

use super::numbers::{NumberReader, Part};
use super::thin::{Coarseness, thin};
use super::window::Window;
use crate::statistics::Bins;
use crate::{Array, Error, Json, Result};

/// Most elements to read. Reading and sorting them takes about 0.2 s.
const MOST_ELEMENTS: u64 = 4 << 20;
/// Most bins. A screen has fewer columns.
const MOST_BINS: u32 = 4096;
/// The percentiles that are told.
const PERCENTILES: [u32; 7] = [1, 2, 5, 50, 95, 98, 99];

/// Options of [`Histogram::of`].
#[derive(Clone, Debug)]
pub struct HistogramOptions {
    /// Number of bins.
    pub bins: u32,
    /// The lower edge of the first bin. `None`: the smallest finite number.
    pub low: Option<f64>,
    /// The upper edge of the last bin. `None`: the largest finite number.
    pub high: Option<f64>,
    /// The part of complex numbers.
    pub part: Part,
}

impl Default for HistogramOptions {
    fn default() -> Self {
        HistogramOptions { bins: 64, low: None, high: None, part: Part::Abs }
    }
}

/// The distribution of the numbers of a window.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Histogram {
    /// Numbers.
    pub count: u64,
    /// Elements that are NaN: missing, or not a number.
    pub missing: u64,
    /// The smallest number. NaN: there is none.
    pub min: f64,
    /// The largest number.
    pub max: f64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation, divided by the count.
    pub std: f64,
    /// The lower edge of the first bin.
    pub low: f64,
    /// The upper edge of the last bin.
    pub high: f64,
    /// Numbers in each bin. All but the last exclude their upper edge.
    pub counts: Vec<u64>,
    /// Percentages with their percentiles, computed as NumPy does.
    pub percentiles: Vec<(u32, f64)>,
    /// Not all elements were read.
    pub sampled: bool,
}

impl Histogram {
    /// Reads the numbers of a window, or evenly spaced ones if there are more than 4 million.
    ///
    /// Fails with [`Error::Options`] if elements are no numbers, or if the bins make no sense.
    pub fn of(
        array: &Array,
        window: &Window,
        options: &HistogramOptions,
        stop: &dyn Fn() -> bool,
    ) -> Result<Histogram> {
        let reader = NumberReader::of(array, options.part)?;
        let wanted = vec![Coarseness::AtMost(u64::MAX); window.axes.len()];
        let read = thin(array, window, &wanted, MOST_ELEMENTS)?;
        let numbers = reader.doubles(&read.selection(array)?, stop)?;
        let mut found = Histogram::of_numbers(numbers, options).map_err(Error::Options)?;
        found.sampled = read.count() < window.count();
        Ok(found)
    }

    fn of_numbers(mut numbers: Vec<f64>, options: &HistogramOptions) -> Result<Histogram, String> {
        let all = numbers.len();
        numbers.retain(|number| !number.is_nan());
        let finite = || numbers.iter().copied().filter(|number| number.is_finite());
        let least = finite().fold(f64::INFINITY, f64::min);
        let most = finite().fold(f64::NEG_INFINITY, f64::max);
        let (least, most) = if least <= most { (least, most) } else { (0.0, 1.0) };
        let (low, high) = (options.low.unwrap_or(least), options.high.unwrap_or(most));
        if options.bins == 0 || options.bins > MOST_BINS {
            return Err(format!("bins: expected 1 to {MOST_BINS}, found {}", options.bins));
        }
        let bins = Bins::even(low, high, options.bins)
            .map_err(|_| format!("low, high: expected finite numbers that ascend, found {low} and {high}"))?;
        let mut counts = vec![0; bins.edges().len() - 1];
        numbers.iter().for_each(|number| bins.count(*number, &mut counts));
        numbers.sort_unstable_by(f64::total_cmp);
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        Ok(Histogram {
            count: numbers.len() as u64,
            missing: (all - numbers.len()) as u64,
            min: numbers.first().copied().unwrap_or(f64::NAN),
            max: numbers.last().copied().unwrap_or(f64::NAN),
            mean,
            std: (squares / count).sqrt(),
            low,
            high,
            counts,
            percentiles: PERCENTILES
                .iter()
                .map(|percent| (*percent, percentile(&numbers, *percent)))
                .collect(),
            sampled: false,
        })
    }

    /// The histogram as JSON.
    pub fn to_json(&self) -> Json {
        let float = |number: f64| if self.count == 0 { Json::Null } else { Json::float(number) };
        let percentile = |(percent, number): &(u32, f64)| (percent.to_string(), float(*number));
        Json::from([
            ("count", self.count.into()),
            ("missing", self.missing.into()),
            ("min", float(self.min)),
            ("max", float(self.max)),
            ("mean", float(self.mean)),
            ("std", float(self.std)),
            ("low", Json::float(self.low)),
            ("high", Json::float(self.high)),
            ("counts", self.counts.as_slice().into()),
            ("percentiles", Json::Object(self.percentiles.iter().map(percentile).collect())),
            ("sampled", self.sampled.into()),
        ])
    }
}

/// A percentile of sorted numbers. NaN: there are no numbers.
fn percentile(sorted: &[f64], percent: u32) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = last as f64 * f64::from(percent) / 100.0;
    let (below, rest) = (place.floor() as usize, place.fract());
    match (sorted.get(below), sorted.get(below + 1)) {
        (Some(low), Some(high)) if rest > 0.0 => low + (high - low) * rest,
        (Some(low), _) => *low,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[f64], options: HistogramOptions) -> Result<Histogram, String> {
        Histogram::of_numbers(numbers.to_vec(), &options)
    }

    #[test]
    fn counts_and_percentiles() {
        let mut numbers: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        numbers.push(f64::NAN);
        let found = of(&numbers, HistogramOptions { bins: 10, ..Default::default() }).unwrap();
        assert_eq!((found.count, found.missing, found.min, found.max), (101, 1, 0.0, 100.0));
        assert_eq!(found.counts, [10, 10, 10, 10, 10, 10, 10, 10, 10, 11]);
        assert_eq!(found.percentiles, PERCENTILES.map(|percent| (percent, f64::from(percent))));
        assert_eq!((found.mean, found.std), (50.0, 850_f64.sqrt()));
        let part = HistogramOptions { bins: 2, low: Some(10.0), high: Some(12.0), ..Default::default() };
        assert_eq!(of(&numbers, part).unwrap().counts, [1, 2]);
        assert_eq!(percentile(&[1.0, 2.0], 5), 1.05);
    }

    #[test]
    fn odd_numbers() {
        let none = of(&[f64::NAN], HistogramOptions::default()).unwrap();
        assert_eq!((none.count, none.counts.len(), none.low, none.high), (0, 64, 0.0, 1.0));
        assert_eq!(none.to_json().get("min"), Some(&Json::Null));
        let endless = of(&[1.0, f64::INFINITY], HistogramOptions::default()).unwrap();
        assert_eq!((endless.max, endless.low, endless.high), (f64::INFINITY, 1.0, 1.0));
        let equal = of(&[2.0, 2.0], HistogramOptions::default()).unwrap();
        assert_eq!(equal.counts.iter().sum::<u64>(), 2);
        for bad in [
            HistogramOptions { bins: 0, ..Default::default() },
            HistogramOptions { low: Some(2.0), high: Some(1.0), ..Default::default() },
            HistogramOptions { high: Some(f64::NAN), ..Default::default() },
        ] {
            assert!(of(&[1.0], bad).is_err());
        }
    }
}
