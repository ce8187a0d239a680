//! Colours of numbers. Equal steps of a number look like equal steps of colour.

use std::str::FromStr;

/// A colour: red, green, blue.
pub type Color = [u8; 3];

/// Colours from the smallest to the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ColorMap {
    /// Violet, green, yellow.
    #[default]
    Viridis,
    /// Blue, grey, yellow: for readers who do not tell red and green apart.
    Cividis,
    /// Black, red, yellow, white.
    Magma,
    /// Black to white.
    Gray,
    /// Blue, white, red: for numbers on both sides of zero.
    BlueRed,
}

/// Viridis: from the smallest to the largest number.
pub(crate) const VIRIDIS: [Color; 11] = [
    [68, 1, 84],
    [72, 36, 117],
    [65, 68, 135],
    [53, 95, 141],
    [42, 120, 142],
    [33, 145, 140],
    [34, 168, 132],
    [68, 191, 112],
    [122, 209, 81],
    [189, 223, 38],
    [253, 231, 37],
];

/// ColorBrewer's RdBu, reversed: from negative to positive.
pub(crate) const BLUE_RED: [Color; 11] = [
    [5, 48, 97],
    [33, 102, 172],
    [67, 147, 195],
    [146, 197, 222],
    [209, 229, 240],
    [247, 247, 247],
    [253, 219, 199],
    [244, 165, 130],
    [214, 96, 77],
    [178, 24, 43],
    [103, 0, 31],
];

const CIVIDIS: [Color; 11] = [
    [0, 34, 78],
    [8, 51, 112],
    [53, 69, 108],
    [79, 87, 108],
    [102, 105, 112],
    [125, 124, 120],
    [148, 142, 119],
    [174, 163, 113],
    [200, 184, 102],
    [229, 207, 82],
    [254, 232, 56],
];

const MAGMA: [Color; 11] = [
    [0, 0, 4],
    [20, 14, 54],
    [59, 15, 112],
    [100, 26, 128],
    [140, 41, 129],
    [183, 55, 121],
    [222, 73, 104],
    [247, 112, 92],
    [254, 159, 109],
    [254, 207, 146],
    [252, 253, 191],
];

const GRAY: [Color; 11] =
    [[0; 3], [26; 3], [51; 3], [77; 3], [102; 3], [128; 3], [153; 3], [179; 3], [204; 3], [230; 3], [255; 3]];

impl ColorMap {
    /// The names for [`ColorMap::from_str`].
    pub const NAMES: [&str; 5] = ["viridis", "cividis", "magma", "gray", "blue-red"];

    fn colors(self) -> &'static [Color; 11] {
        match self {
            ColorMap::Viridis => &VIRIDIS,
            ColorMap::Cividis => &CIVIDIS,
            ColorMap::Magma => &MAGMA,
            ColorMap::Gray => &GRAY,
            ColorMap::BlueRed => &BLUE_RED,
        }
    }

    /// The colour of a number between `low` and `high`. Numbers beyond have the colour of the end.
    pub fn color(self, value: f64, low: f64, high: f64) -> Color {
        color_of(value, low, high, self.colors())
    }
}

impl FromStr for ColorMap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [ColorMap::Viridis, ColorMap::Cividis, ColorMap::Magma, ColorMap::Gray, ColorMap::BlueRed];
        let found = Self::NAMES.iter().zip(all).find(|(name, _)| **name == text);
        found
            .map(|(_, map)| map)
            .ok_or_else(|| format!("there are no colours {text:?}; there are {}", Self::NAMES.join(", ")))
    }
}

/// The colour of a number between `low` and `high`, between its two neighbours in `colors`.
pub(crate) fn color_of(value: f64, low: f64, high: f64, colors: &[Color; 11]) -> Color {
    let share = if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 };
    let at = share * (colors.len() - 1) as f64;
    let first = (at.floor() as usize).min(colors.len() - 2);
    let rest = at - first as f64;
    std::array::from_fn(|part| {
        let (one, other) = (f64::from(colors[first][part]), f64::from(colors[first + 1][part]));
        (one + (other - one) * rest).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_lie_between_their_neighbours() {
        assert_eq!(color_of(0.0, 0.0, 1.0, &VIRIDIS), VIRIDIS[0]);
        assert_eq!(color_of(1.0, 0.0, 1.0, &VIRIDIS), VIRIDIS[10]);
        assert_eq!(color_of(0.0, -2.0, 2.0, &BLUE_RED), [247; 3]);
        assert_eq!(color_of(0.05, 0.0, 1.0, &VIRIDIS), [70, 19, 101]);
        assert_eq!(color_of(f64::INFINITY, 0.0, 1.0, &VIRIDIS), VIRIDIS[10]);
        // All numbers are equal.
        assert_eq!(color_of(3.0, 3.0, 3.0, &VIRIDIS), VIRIDIS[5]);
    }

    #[test]
    fn names_of_colors() {
        let parsed: Vec<ColorMap> = ColorMap::NAMES.iter().map(|name| name.parse().unwrap()).collect();
        assert_eq!(parsed[1].color(1.0, 0.0, 1.0), CIVIDIS[10]);
        assert_eq!(parsed[3].color(0.1, 0.0, 1.0), [26; 3]);
        assert!("jet".parse::<ColorMap>().unwrap_err().contains("there are viridis, cividis"));
    }
}
