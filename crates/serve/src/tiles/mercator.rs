//! Web Mercator (EPSG:3857): tiles, and the degrees of their pixels.
//!
//! Source: <https://docs.ogc.org/is/17-083r4/17-083r4.html>, `WebMercatorQuad`

use std::f64::consts::PI;

/// The deepest zoom. Its pixels are 0.1 mm wide at the equator.
pub(super) const DEEPEST: u32 = 30;

/// The northern edge of the map, in degrees.
pub(super) const NORTH: f64 = 85.051_128_779_806_59;

/// A tile, and its pixels along each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) z: u32,
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) size: u32,
}

impl Tile {
    /// Parses the last parts of a path: `Z`, `X`, `Y.png` or `Y@2x.png`. `None`: there is no such tile.
    pub(super) fn parse(z: &str, x: &str, y: &str) -> Option<Tile> {
        let y = y.strip_suffix(".png")?;
        let (y, size) = y.strip_suffix("@2x").map_or((y, 256), |y| (y, 512));
        let number = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten()
        };
        let (z, x, y) = (number(z)?, number(x)?, number(y)?);
        (z <= DEEPEST && x >> z == 0 && y >> z == 0).then_some(Tile { z, x, y, size })
    }

    /// The degrees east of the centres of the columns of pixels.
    pub(super) fn longitudes(self) -> Vec<f64> {
        (0..self.size).map(|at| self.share(self.x, at) * 360.0 - 180.0).collect()
    }

    /// The degrees north of the centres of the rows of pixels, from north to south.
    pub(super) fn latitudes(self) -> Vec<f64> {
        let degrees = |at| (PI * (1.0 - 2.0 * self.share(self.y, at))).sinh().atan().to_degrees();
        (0..self.size).map(degrees).collect()
    }

    /// The centre of a pixel as a share of the world.
    fn share(self, tile: u32, pixel: u32) -> f64 {
        (f64::from(tile) + (f64::from(pixel) + 0.5) / f64::from(self.size)) / f64::from(1_u32 << self.z)
    }
}

/// The zoom whose pixels are as fine as elements of some degrees.
pub(super) fn zoom_for(degrees: f64) -> u32 {
    let zoom = (360.0 / (256.0 * degrees)).log2().ceil();
    // Beyond, pixels only repeat.
    if zoom.is_finite() { zoom.clamp(0.0, 24.0) as u32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_of_tiles() {
        let world = Tile::parse("0", "0", "0.png").unwrap();
        assert_eq!(world.size, 256);
        let (east, north) = (world.longitudes(), world.latitudes());
        assert_eq!((east[0], east[128], east[255]), (-179.296875, 0.703125, 179.296875));
        assert!(
            (north[0] - 84.990_100_0).abs() < 1e-6 && (north[0] + north[255]).abs() < 1e-9,
            "{}",
            north[0]
        );
        let tile = Tile::parse("2", "3", "1@2x.png").unwrap();
        assert_eq!((tile.z, tile.x, tile.y, tile.size), (2, 3, 1, 512));
        assert!(tile.longitudes()[0] > 90.0 && tile.latitudes()[511] > 0.0);
        for (z, x, y) in [
            ("1", "2", "0.png"),
            ("1", "0", "2.png"),
            ("31", "0", "0.png"),
            ("0", "0", "0"),
            ("0", "-0", "0.png"),
            ("0", "", "0.png"),
        ] {
            assert_eq!(Tile::parse(z, x, y), None, "{z}/{x}/{y}");
        }
        assert_eq!((zoom_for(360.0 / 256.0), zoom_for(0.25), zoom_for(0.0)), (0, 3, 0));
    }
}
