//! Generates many references by rules: the member `gen` of documents.

use super::refs::Builder;
use super::template::{Scope, Value, excerpt};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

/// The most references that a document may generate.
/// Otherwise a few bytes could use up all memory. Larger documents write their references out.
const MOST: u64 = 1 << 22;

/// Generates a reference for each combination of its dimensions' values.
#[derive(Deserialize)]
pub(super) struct Generator {
    key: String,
    url: String,
    offset: Option<Json>,
    length: Option<Json>,
    dimensions: Map<String, Json>,
}

/// The values of a dimension.
enum Dimension {
    List(Vec<Value>),
    Range { start: i64, step: i64, len: u64 },
}

impl Dimension {
    fn new(json: &Json) -> Result<Dimension, String> {
        let unknown = || {
            format!("a dimension is {}: expected a list or start, stop and step", excerpt(&json.to_string()))
        };
        match json {
            Json::Array(values) => {
                let value = |json: &Json| match json {
                    Json::String(text) => Some(Value::Text(text.clone())),
                    json => json.as_i64().map(Value::Number),
                };
                values.iter().map(value).collect::<Option<_>>().map(Dimension::List).ok_or_else(unknown)
            }
            Json::Object(range) => {
                let member = |name: &str, absent: Option<i64>| match range.get(name) {
                    None => absent,
                    Some(value) => value.as_i64(),
                };
                let found = (member("start", Some(0)), member("stop", None), member("step", Some(1)));
                let (Some(start), Some(stop), Some(step)) = found else { return Err(unknown()) };
                let ahead = if step > 0 {
                    i128::from(stop) - i128::from(start)
                } else {
                    i128::from(start) - i128::from(stop)
                };
                if step == 0 {
                    return Err(unknown());
                }
                let len = u64::try_from(ahead.max(0)).unwrap_or(u64::MAX).div_ceil(step.unsigned_abs());
                Ok(Dimension::Range { start, step, len })
            }
            _ => Err(unknown()),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Dimension::List(values) => values.len() as u64,
            Dimension::Range { len, .. } => *len,
        }
    }

    /// The value with number `n`, which must be less than the number of values.
    fn value(&self, n: u64) -> Option<Value> {
        match self {
            Dimension::List(values) => values.get(usize::try_from(n).ok()?).cloned(),
            Dimension::Range { start, step, .. } => {
                let value = i128::from(*start) + i128::from(*step) * i128::from(n);
                i64::try_from(value).ok().map(Value::Number)
            }
        }
    }
}

/// Adds the references of all generators.
pub(super) fn generate(
    refs: &mut Builder,
    generators: &[Generator],
    templates: &Scope,
) -> Result<(), String> {
    let mut left = MOST;
    for generator in generators {
        let mut scope = templates.clone();
        let within = |why: String| format!("in 'gen', of the keys {:?}: {why}", excerpt(&generator.key));
        let dimensions: Result<Vec<_>, _> = generator
            .dimensions
            .iter()
            .map(|(name, json)| Dimension::new(json).map(|dimension| (name, dimension)))
            .collect();
        let dimensions = dimensions.map_err(within)?;
        let count = match dimensions.iter().any(|(_, dimension)| dimension.len() == 0) {
            true => Some(0),
            false => {
                dimensions.iter().try_fold(1u64, |count, (_, dimension)| count.checked_mul(dimension.len()))
            }
        };
        left = count.and_then(|count| left.checked_sub(count)).ok_or_else(|| {
            within(format!("more than {MOST} references in all are not generated: write them out"))
        })?;
        for number in 0..count.unwrap_or_default() {
            let mut rest = number;
            for (name, dimension) in dimensions.iter().rev() {
                let value = dimension
                    .value(rest % dimension.len())
                    .ok_or_else(|| within("a value is too large".into()))?;
                rest /= dimension.len();
                scope.values.insert((*name).clone(), value);
            }
            generator.add(refs, &scope).map_err(within)?;
        }
    }
    Ok(())
}

impl Generator {
    /// Adds one reference.
    fn add(&self, refs: &mut Builder, scope: &Scope) -> Result<(), String> {
        let number = |json: &Json| {
            let text = match json {
                Json::String(template) => scope.render(template)?,
                json => json.to_string(),
            };
            text.trim().parse::<u64>().map_err(|_| format!("{:?} is no offset and no length", excerpt(&text)))
        };
        let range = match (&self.offset, &self.length) {
            (Some(offset), Some(length)) => Some((number(offset)?, number(length)?)),
            (None, None) => None,
            _ => return Err("offset and length come together".into()),
        };
        refs.target(&scope.render(&self.key)?, &scope.render(&self.url)?, range)
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::{Failure, parse};
    use super::super::refs::Ref;

    #[test]
    fn dimensions() {
        let document = r#"{"version": 1, "templates": {"u": "s3://b"}, "gen": [
            {"key": "{{a}}/{{j}}.{{i}}", "url": "{{u}}/{{a}}-{{j}}", "offset": "{{ (i - 4) * 10 }}", "length": 7,
             "dimensions": {"a": ["x", "y"], "j": [3, -1], "i": {"start": 4, "stop": 9, "step": 2}}},
            {"key": "none", "url": "none", "dimensions": {"i": {"stop": -5}, "j": {"stop": 9000000000000000000}}},
            {"key": "down {{i}}", "url": "x", "dimensions": {"i": {"start": 3, "stop": 0, "step": -2}}},
            {"key": "one", "url": "whole", "dimensions": {}}
        ]}"#;
        let refs = parse(document.as_bytes()).unwrap().unwrap();
        let keys: Vec<&str> = refs.beginning("").collect();
        assert_eq!(keys.len(), 12 + 2 + 1);
        assert!(keys.contains(&"down 3") && keys.contains(&"down 1"), "{keys:?}");
        for (key, url, range) in [
            ("x/3.4", "s3://b/x-3", Some((0, 7))),
            ("y/-1.8", "s3://b/y--1", Some((40, 7))),
            ("one", "whole", None),
        ] {
            match (refs.get(key).unwrap(), range) {
                (Ref::Part(target, offset, len), Some(range)) => {
                    assert_eq!((refs.url(target), (offset, len)), (url, range))
                }
                (Ref::Whole(target), None) => assert_eq!(refs.url(target), url),
                other => panic!("{key}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_is_not_generated() {
        let one = |more: &str, dimensions: &str| {
            format!(
                r#"{{"version": 1, "gen": [{{"key": "{{{{i}}}}", "url": "x", {more} "dimensions": {dimensions}}}]}}"#
            )
        };
        let huge = r#"{"i": {"stop": 100000}, "j": {"stop": 100000}, "k": {"stop": 100000}, "l": {"stop": 9000000000000000000}}"#;
        for (document, why) in [
            (one("", r#"{"i": {"stop": 5000000}}"#), "not generated"),
            (one("", huge), "not generated"),
            (
                one("", r#"{"i": {"start": -9223372036854775808, "stop": 9223372036854775807}}"#),
                "not generated",
            ),
            (one("", r#"{"i": {}}"#), "expected a list"),
            (one("", r#"{"i": {"stop": 5, "step": 0}}"#), "expected a list"),
            (one("", r#"{"i": [1.5]}"#), "expected a list"),
            (one("", r#"{"i": 3}"#), "expected a list"),
            (one(r#""offset": 1,"#, r#"{"i": [1]}"#), "come together"),
            (one(r#""offset": "{{i - 2}}", "length": 1,"#, r#"{"i": [1]}"#), "\"-1\" is no offset"),
            (one(r#""offset": [], "length": 1,"#, r#"{"i": [1]}"#), "is no offset"),
            (one("", r#"{"j": [1]}"#), "there is no 'i'"),
            (r#"{"version": 1, "gen": [{"key": "x"}]}"#.to_owned(), "missing field `url`"),
        ] {
            let Err(Failure::Wrong(error)) = parse(document.as_bytes()) else { panic!("{document}") };
            assert!(error.contains(why), "{document}: {error}");
        }
    }
}
