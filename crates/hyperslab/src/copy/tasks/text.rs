//! The text of plans.

use super::plan::{TaskArray, TaskPlan};
use crate::stores::takes_options;
use std::fmt::{self, Display, Formatter};

/// A size as text, like `1.5 GiB`.
pub fn bytes_text(n: u64) -> String {
    crate::copy::plan::bytes_text(n)
}

/// A number with commas between groups of three digits.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count as text, like `3 tasks`.
pub fn count_text(n: u64, noun: &str) -> String {
    let number = grouped(n);
    if n == 1 { format!("{number} {noun}") } else { format!("{number} {noun}s") }
}

fn hours_text(hours: f64) -> String {
    match hours * 3600.0 {
        seconds if seconds < 120.0 => format!("{seconds:.1} s"),
        _ if hours < 2.0 => format!("{:.0} min", hours * 60.0),
        _ => format!("{} h", grouped(hours.round() as u64)),
    }
}

fn dollars_text(dollars: f64) -> String {
    let cents = (dollars * 100.0).round() as u64;
    format!("${}.{:02}", grouped(cents / 100), cents % 100)
}

fn region_text(array: &TaskArray, is_into: bool) -> String {
    let ends = array.from_start.iter().zip(&array.shape);
    let part: Vec<String> = ends.map(|(start, len)| format!("{start}:{}", start + len)).collect();
    let place: Vec<String> = array.to_start.iter().map(|start| format!("{start}:")).collect();
    let to = if is_into { format!(" to [{}]", place.join(", ")) } else { String::new() };
    format!("  region   /{}[{}]{to}", array.path, part.join(", "))
}

/// Arrays or reasons that are shown.
const SHOWN: usize = 5;

/// Paths or advice that are shown.
const FEW: usize = 3;

impl Display for TaskPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        let tasks: Vec<String> = self.stages().iter().map(|stage| count_text(stage.len(), "task")).collect();
        let tasks = if tasks.is_empty() { "no tasks".to_owned() } else { tasks.join(", then ") };
        if let Some(concat) = &self.concat {
            lines.push(format!("join {} along {concat}", count_text(self.sources.len() as u64, "source")));
        }
        let to = if self.is_into { "into" } else { "to" };
        lines.push(format!("copy {} {to} {}", self.source, self.destination));
        let is_part =
            |array: &&TaskArray| array.from_start.iter().chain(&array.to_start).any(|start| *start > 0);
        let parts = self.arrays.iter().filter(is_part).take(SHOWN);
        lines.extend(parts.map(|array| region_text(array, self.is_into)));
        let groups = count_text(self.groups, "group");
        let all = bytes_text(self.bytes());
        lines.push(format!("  arrays   {} in {groups}, {all} in memory", self.arrays.len()));
        lines.push(format!("  tasks    {tasks}; then metadata"));
        lines.push(format!("  reads    at most {}", bytes_text(self.bytes_read())));
        lines.push(format!("  writes   at most {}", bytes_text(self.bytes_written())));
        let (chunks, decoded) = (self.chunks(), self.chunks_decoded());
        if chunks > 0 {
            let times = match decoded == chunks {
                true => "once".to_owned(),
                false => format!("{:.1} times on average", decoded as f64 / chunks as f64),
            };
            lines.push(format!(
                "  decodes  {} chunks: each of {} {times}",
                grouped(decoded),
                grouped(chunks)
            ));
        }
        lines.push(format!("  memory   at most {} a task", bytes_text(self.memory())));
        if self.temporary_bytes() > 0 {
            let place =
                if takes_options(&self.destination) { "on its server" } else { "beside the destination" };
            lines.push(format!(
                "  through  temporary arrays of {} {place}",
                bytes_text(self.temporary_bytes())
            ));
        }
        let (gets, puts) = (self.gets(), self.puts());
        if gets > 0 || puts > 0 {
            let price = dollars_text(self.dollars());
            lines.push(format!(
                "  requests about {} reads and {} writes: {price}",
                grouped(gets),
                grouped(puts)
            ));
        }
        let workers = count_text(self.workers, "worker");
        lines.push(format!("  takes    about {} with {workers}", hours_text(self.hours())));
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for array in &self.arrays {
            let path = format!("/{}", array.path);
            match reasons.iter_mut().find(|(why, _)| *why == &*array.why) {
                Some((_, paths)) => paths.push(path),
                None => {
                    // More reasons are not shown.
                    if reasons.len() < SHOWN {
                        reasons.push((&array.why, vec![path]));
                    }
                }
            }
        }
        for (why, paths) in reasons {
            let more = paths.len().saturating_sub(FEW);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let shown: Vec<&str> = paths.iter().take(FEW).map(String::as_str).collect();
            lines.push(format!("  why      {}{more}: {why}", shown.join(", ")));
        }
        let advised = self.arrays.iter().filter(|array| !array.advice.is_empty()).take(FEW);
        lines.extend(advised.map(|array| format!("  advice   /{}: {}", array.path, array.advice)));
        lines.extend(self.notes.iter().map(|note| format!("  note     {note}")));
        lines.extend(self.skipped.iter().map(|(path, why)| format!("  leaves out {path}: {why}")));
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_text() {
        assert_eq!([grouped(0), grouped(999), grouped(1000)], ["0", "999", "1,000"]);
        assert_eq!(grouped(12_345_678), "12,345,678");
        assert_eq!([count_text(1, "task"), count_text(2000, "task")], ["1 task", "2,000 tasks"]);
        assert_eq!([hours_text(0.01), hours_text(0.5), hours_text(2500.0)], ["36.0 s", "30 min", "2,500 h"]);
        assert_eq!([dollars_text(0.0), dollars_text(1234.567)], ["$0.00", "$1,234.57"]);
    }
}
