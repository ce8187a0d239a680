//! The report as text that a person reads.

use super::report::{ArrayDifference, Aspect, Difference, Element, Finding};
use crate::Json;

/// Most characters of a value.
const LONGEST: usize = 60;

impl Difference {
    /// The report as lines. `names`: what to call the two sides.
    ///
    /// Names and values from files may contain any character; control characters are replaced.
    pub fn lines(&self, names: [&str; 2]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut paths: Vec<&str> = self.findings.iter().map(|finding| finding.path.as_str()).collect();
        paths.extend(self.arrays.iter().map(|array| array.path.as_str()));
        paths.sort_unstable();
        paths.dedup();
        for path in paths {
            for finding in self.findings.iter().filter(|finding| finding.path == path) {
                lines.push(finding.line(names));
            }
            for array in self.arrays.iter().filter(|array| array.path == path) {
                array.lines(names, &mut lines);
            }
        }
        for (path, why) in &self.failures {
            lines.push(format!("{}: not compared: {why}", shown(path)));
        }
        if self.stopped {
            lines.push("stopped at the first difference".into());
        }
        lines.iter().map(|line| sanitize(line)).collect()
    }
}

/// A path for people.
fn shown(path: &str) -> String {
    if path.is_empty() { "/".into() } else { path.into() }
}

fn sanitize(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A value on one line. Null is an element that is missing.
fn value(json: &Json) -> String {
    let text = match json {
        Json::Null => "missing".into(),
        Json::String(text) => format!("\"{text}\""),
        Json::Number(text) => text.to_string(),
        other => other.to_text(None),
    };
    match text.char_indices().nth(LONGEST) {
        Some(_) => text.chars().take(LONGEST - 1).chain(['…']).collect(),
        None => text,
    }
}

/// A date needs no quotes.
fn coordinate(json: &Json) -> String {
    json.as_str().map_or_else(|| value(json), str::to_owned)
}

/// A shape or an index as Python writes it.
fn tuple(numbers: &[u64]) -> String {
    let text: Vec<String> = numbers.iter().map(u64::to_string).collect();
    if numbers.len() == 1 { format!("({},)", text.join("")) } else { format!("({})", text.join(", ")) }
}

/// A number with six digits.
fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-4..1e6).contains(&size) {
        let digits = if size >= 1.0 { 5 - (size.log10().floor() as usize).min(5) } else { 6 };
        let text = format!("{value:.digits$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    if value.is_finite() { format!("{value:.5e}") } else { value.to_string().to_lowercase() }
}

impl Finding {
    fn line(&self, [a, b]: [&str; 2]) -> String {
        let path = shown(&self.path);
        let side = |side: &Option<Json>| side.as_ref().map_or_else(|| "none".to_owned(), json);
        let what = match (self.aspect, &self.name) {
            (Aspect::Member, _) => {
                let (here, kind) = match (&self.a, &self.b) {
                    (Some(kind), _) => (a, kind),
                    (None, kind) => (b, kind.as_ref().unwrap_or(&Json::Null)),
                };
                return format!("{path}: only in {here} ({})", coordinate(kind));
            }
            (Aspect::Attribute, Some(name)) => format!("attribute {name}"),
            (Aspect::Layout, Some(name)) => name.clone(),
            (Aspect::DataType, _) => "data type".into(),
            (Aspect::FillValue, _) => "fill value".into(),
            (other, _) => other.name().into(),
        };
        format!("{path}: {what}: {} | {}", side(&self.a), side(&self.b))
    }
}

/// A value of metadata, where null is null.
fn json(found: &Json) -> String {
    if *found == Json::Null { "null".into() } else { value(found) }
}

impl ArrayDifference {
    fn lines(&self, [a, b]: [&str; 2], lines: &mut Vec<String>) {
        let share = 100.0 * self.different as f64 / self.compared.max(1) as f64;
        let path = shown(&self.path);
        let noun = if self.compared == 1 { "element" } else { "elements" };
        let percent = if share < 0.01 { "less than 0.01".to_owned() } else { format!("{share:.2}") };
        lines.push(format!(
            "{path}: {} of {} {noun} {} ({percent} %)",
            self.different,
            self.compared,
            if self.different == 1 { "differs" } else { "differ" },
        ));
        for (count, name) in self.missing.iter().zip([a, b]) {
            if *count > 0 {
                lines.push(format!("  {count} of them missing in {name} only"));
            }
        }
        let unit = self.unit.as_ref().map_or_else(String::new, |unit| format!(" {unit}"));
        if let Some(most) = &self.largest_absolute {
            let value = number(most.value);
            lines.push(format!("  largest difference  {value}{unit} at {}", self.place(&most.at)));
        }
        if let Some(most) = &self.largest_relative {
            lines.push(format!("  largest relative    {} at {}", number(most.value), self.place(&most.at)));
        }
        if let Some(rms) = self.rms {
            lines.push(format!("  RMS                 {}{unit}", number(rms)));
        }
        let only = match &self.largest_absolute {
            Some(most) => self.different == 1 && self.first == [most.at.clone()],
            None => false,
        };
        if !only {
            lines.extend(self.first.iter().map(|one| format!("  {}", self.place(one))));
            if (self.first.len() as u64) < self.different && !self.first.is_empty() {
                lines.push(format!("  and {} more", self.different - self.first.len() as u64));
            }
        }
    }

    fn place(&self, at: &Element) -> String {
        let coordinates: Vec<String> =
            at.coordinates.iter().map(|(name, value)| format!("{name}={}", coordinate(value))).collect();
        let coordinates =
            if coordinates.is_empty() { String::new() } else { format!(" [{}]", coordinates.join(", ")) };
        format!("{}{coordinates}: {} | {}", tuple(&at.index), value(&at.a), value(&at.b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::report::Largest;

    #[test]
    fn reports_name_both_sides() {
        let at = Element {
            index: vec![3, 4],
            coordinates: vec![("time".into(), "2000-01-04".into()), ("x".into(), Json::float(0.5))],
            a: Json::float(1.5),
            b: Json::Null,
        };
        let array = ArrayDifference {
            path: "sst".into(),
            compared: 200,
            different: 2,
            missing: [0, 1],
            largest_absolute: Some(Largest { value: 0.25, at: at.clone() }),
            largest_relative: None,
            rms: Some(0.25),
            unit: None,
            dimensions: Vec::new(),
            first: vec![at],
        };
        let finding = |aspect, name: Option<&str>, a: Option<Json>, b: Option<Json>| Finding {
            path: String::new(),
            aspect,
            name: name.map(str::to_owned),
            a,
            b,
        };
        let found = Difference {
            findings: vec![
                finding(Aspect::Attribute, Some("ti\ntle"), Some("a".into()), None),
                finding(Aspect::Member, None, None, Some("group".into())),
            ],
            arrays: vec![array],
            failures: vec![("wind".into(), "damaged".into())],
            ..Difference::default()
        };
        assert_eq!(
            found.lines(["A", "B"]),
            [
                "/: attribute ti\u{fffd}tle: \"a\" | none",
                "/: only in B (group)",
                "sst: 2 of 200 elements differ (1.00 %)",
                "  1 of them missing in B only",
                "  largest difference  0.25 at (3, 4) [time=2000-01-04, x=0.5]: 1.5 | missing",
                "  RMS                 0.25",
                "  (3, 4) [time=2000-01-04, x=0.5]: 1.5 | missing",
                "  and 1 more",
                "wind: not compared: damaged",
            ]
        );
    }
}
