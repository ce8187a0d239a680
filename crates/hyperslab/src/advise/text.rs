//! Formats advice as a table.

use super::{Advice, Advised, DISK, Layout, OBJECTS};
use std::fmt;

/// The columns: the layout, and the cost of a read with it.
const HEADINGS: [&str; 8] = ["", "access", "requests", "read", "decoded", "wanted", "disk", "object store"];

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.chunks, &self.shards) {
            (None, _) => f.write_str("no chunks"),
            (Some(chunks), None) => write!(f, "chunks {}", shape(chunks)),
            (Some(chunks), Some(shards)) => write!(f, "chunks {} in shards {}", shape(chunks), shape(shards)),
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<[String; 8]> = vec![HEADINGS.map(str::to_owned)];
        for advised in &self.layouts {
            for (n, (access, counts)) in self.access.iter().zip(&advised.counts).enumerate() {
                let far = self.subject.counts(&advised.layout, access, &OBJECTS);
                rows.push([
                    if n == 0 { advised.name.to_owned() } else { String::new() },
                    access.name.clone(),
                    number(counts.requests),
                    size(counts.bytes_read),
                    size(counts.bytes_decoded),
                    size(access.elements() * self.subject.element as f64),
                    time(DISK.seconds(counts)),
                    time(OBJECTS.seconds(&far)),
                ]);
            }
        }
        for Advised { name, layout, objects, .. } in &self.layouts {
            writeln!(f, "{name:<6}  {layout}: {} objects", number(*objects))?;
        }
        let width = |column: usize| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
        for row in &rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, full))| match column {
                0 | 1 => format!("{cell:<full$}"),
                _ => format!("{cell:>full$}"),
            });
            write!(f, "\n{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

fn shape(shape: &[u64]) -> String {
    let numbers: Vec<String> = shape.iter().map(u64::to_string).collect();
    if shape.len() == 1 { format!("({},)", numbers.join("")) } else { format!("({})", numbers.join(", ")) }
}

/// Formats a count, with one decimal for averages below 1000.
fn number(n: f64) -> String {
    if n.fract().abs() < 0.05 || n >= 1000.0 { format!("{n:.0}") } else { format!("{n:.1}") }
}

fn size(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024.0 {
        return format!("{bytes:.0} B");
    }
    let (mut value, mut unit) = (bytes, "");
    for next in UNITS {
        if value < 1023.95 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    format!("{value:.1} {unit}")
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!([number(3.0), number(1.25), number(12345.6)], ["3", "1.2", "12346"]);
        assert_eq!([size(5.0), size(1536.0), size(3e9)], ["5 B", "1.5 KiB", "2.8 GiB"]);
        assert_eq!(
            [time(5e-5), time(0.03), time(7.0), time(600.0), time(7200.0)],
            ["50 µs", "30.0 ms", "7.0 s", "10 min", "2.0 h"]
        );
    }
}
