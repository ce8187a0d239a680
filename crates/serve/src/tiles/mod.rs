//! `/tiles/…`: maps of arrays with latitude and longitude, in Web Mercator.
//!
//! | path | answer |
//! |---|---|
//! | `/tiles/NAME/PATH/{z}/{x}/{y}.png` | a tile of 256 × 256 pixels; `{y}@2x.png`: of 512 × 512 |
//! | `/tiles/NAME/PATH/tile.json` | TileJSON, which tells MapLibre and others where tiles are |
//!
//! In Web Mercator a column of pixels has one longitude, and a row one latitude. A tile
//! reads a list of rows and a list of columns, and nothing else.

mod line;
mod map;
mod mercator;

use crate::answer::Answer;
use crate::api::{Asked, Place};
use crate::body::Body;
use crate::path;
use crate::roots::{Found, Roots};
use hyper::header::{HOST, HeaderMap};
use hyperslab::look::{ColorMap, Reader, Window, encode_png};
use hyperslab::meaning::Pyramid;
use hyperslab::{Array, Error, Json, Node, Result};
use map::Map;
use mercator::{NORTH, Tile};

/// The parameters of a query.
struct Look {
    select: String,
    map: ColorMap,
    range: Option<(f64, f64)>,
    linear: bool,
}

impl Look {
    fn parse(query: &str) -> Result<Look> {
        let value = |name: &str| path::query(query, name).filter(|value| !value.is_empty());
        let map = value("map").unwrap_or_else(|| "viridis".into());
        let range = match value("range") {
            None => None,
            Some(text) => {
                let wrong = || Error::Options(format!("range: expected LOW,HIGH, found {text:?}"));
                let (low, high) = text.split_once(',').ok_or_else(wrong)?;
                let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
                Some((number(low).ok_or_else(wrong)?, number(high).ok_or_else(wrong)?))
            }
        };
        let linear = match value("method").as_deref() {
            None | Some("nearest") => false,
            Some("linear") => true,
            Some(other) => {
                return Err(Error::Options(format!("method: expected nearest or linear, found {other:?}")));
            }
        };
        let map = map.parse().map_err(|why| Error::Options(format!("map: {why}")))?;
        Ok(Look { select: value("select").unwrap_or_default(), map, range, linear })
    }
}

/// Answers a request below `/tiles`. `prefix`: the path before all routes. `token`: the server's.
pub(crate) fn answer(
    roots: &Roots,
    parts: &[String],
    asked: &Asked<'_>,
    prefix: &str,
    token: Option<&str>,
) -> Result<Answer> {
    let missing = |found: &str| {
        let advice =
            "ask for /tiles/NAME/PATH/tile.json or /tiles/NAME/PATH/{z}/{x}/{y}.png, with x and y below 2^z";
        Ok(Answer::problem(404, format!("/tiles/{}", parts.join("/")), found, advice))
    };
    let (place, tile) = match parts {
        [place @ .., last] if last == "tile.json" => (place, None),
        [place @ .., z, x, y] => match Tile::parse(z, x, y) {
            Some(tile) => (place, Some(tile)),
            None => return missing("no such tile"),
        },
        _ => return missing("no route"),
    };
    let Found::Inside(hierarchy, inside) = roots.find(place)? else { return missing("no array") };
    let Some(node @ Node::Array(_)) = hierarchy.node(&inside)? else { return missing("no array") };
    let own = Place { roots, parts: place, hierarchy, inside, node };
    let array = own.array()?;
    let look = Look::parse(asked.query)?;
    let window =
        Window::parse(&array, &look.select)?.map_err(|why| Error::Options(format!("select: {why}")))?;
    let pyramid = Pyramid::of(&array)?;
    let axes = own.axes(&array, pyramid.as_ref())?;
    let map = Map::new(&array, window, &axes, pyramid.as_ref().filter(|_| own.is_whole()), asked.ask)?;
    let Some(tile) = tile else {
        let range = range(&array, &map, &look, asked.ask)?;
        return Ok(Answer::json(&tile_json(place, &map, &look, range, asked, (prefix, token))));
    };
    let values = map.values(tile, look.linear, asked.ask)?;
    let (low, high) = match values.iter().any(|value| !value.is_nan()) {
        // Other tiles have the same colours.
        true => range(&array, &map, &look, asked.ask)?,
        false => (0.0, 1.0),
    };
    let color = |value: f64| match value.is_nan() {
        true => [0; 4],
        false => {
            let [red, green, blue] = look.map.color(value, low, high);
            [red, green, blue, u8::MAX]
        }
    };
    let pixels: Vec<[u8; 4]> = values.into_iter().map(color).collect();
    Ok(Answer::new(200, "image/png", Body::of(encode_png(tile.size as usize, &pixels)?)))
}

/// The values with the first and the last colour: of the query, or else of a sample of the array.
fn range(array: &Array, map: &Map, look: &Look, ask: &dyn Fn() -> bool) -> Result<(f64, f64)> {
    match look.range {
        Some(range) => Ok(range),
        None => map.sampled_range(&Reader::of(array, false)?, ask),
    }
}

fn tile_json(
    place: &[String],
    map: &Map,
    look: &Look,
    (low, high): (f64, f64),
    asked: &Asked<'_>,
    (prefix, token): (&str, Option<&str>),
) -> Json {
    let whole = place.join("/");
    let mut query = format!("range={low},{high}");
    for name in ["select", "map", "method", "token"] {
        // Maps send no header with requests for tiles.
        let value = match name {
            "token" => token.map(str::to_owned),
            _ => path::query(asked.query, name).filter(|value| !value.is_empty()),
        };
        if let Some(value) = value {
            query.push_str(&format!("&{name}={}", path::encoded(&value)));
        }
    }
    let origin = origin(asked.headers);
    let tiles = format!("{origin}{prefix}/tiles/{}/{{z}}/{{x}}/{{y}}.png?{query}", path::encoded(&whole));
    let (west, south, east, north) = map.bounds();
    let (south, north) = (south.max(-NORTH), north.min(NORTH));
    let float = |values: &[f64]| Json::Array(values.iter().map(|value| Json::float(*value)).collect());
    let name = if look.select.is_empty() { whole } else { format!("{whole}[{}]", look.select) };
    Json::from([
        ("tilejson", "3.0.0".into()),
        ("name", name.as_str().into()),
        ("scheme", "xyz".into()),
        ("tiles", Json::Array(vec![tiles.as_str().into()])),
        ("minzoom", 0_u64.into()),
        ("maxzoom", u64::from(map.zoom()).into()),
        ("bounds", float(&[west, south, east, north])),
        ("range", float(&[low, high])),
    ])
}

/// The address by which the client reached the server, or the proxy before the server.
fn origin(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text("x-forwarded-host").or_else(|| text(HOST.as_str())).unwrap_or_default();
    let scheme = text("x-forwarded-proto").filter(|scheme| matches!(*scheme, "http" | "https"));
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    match host.is_empty() || !host.chars().all(is_host) {
        // Relative to this server.
        true => String::new(),
        false => format!("{}://{host}", scheme.unwrap_or("http")),
    }
}
