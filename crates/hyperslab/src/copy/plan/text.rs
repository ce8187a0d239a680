//! Formats plans as text.

use super::{CopyPlan, Pass};
use std::fmt::{self, Display, Formatter};

impl Display for CopyPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let more = self.passes.len().saturating_sub(1);
        match more {
            0 => writeln!(f, "copy {} in one pass", bytes(self.bytes))?,
            1 => writeln!(
                f,
                "copy {} in two passes, through a temporary array of {}",
                bytes(self.bytes),
                bytes(self.temporary_bytes())
            )?,
            _ => writeln!(
                f,
                "copy {} in {} passes, through {more} temporary arrays of {} at a time",
                bytes(self.bytes),
                more + 1,
                bytes(self.temporary_bytes())
            )?,
        }
        for (n, pass) in self.passes.iter().enumerate() {
            if more > 0 {
                writeln!(f, "pass {}:", n + 1)?;
            }
            write!(f, "{pass}")?;
        }
        writeln!(f, "  memory   {}", bytes(self.memory()))?;
        writeln!(f, "  time     about {} by the costs assumed", duration(self.seconds()))?;
        let (gets, puts) = self.passes.iter().fold((0u64, 0u64), |(gets, puts), pass| {
            (gets.saturating_add(pass.gets), puts.saturating_add(pass.puts))
        });
        if gets > 0 || puts > 0 {
            writeln!(f, "  requests {gets} reads and {puts} writes, about {}", money(self.dollars()))?;
        }
        write!(f, "  why      {}", self.why)
    }
}

impl Display for Pass {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let chunks = match self.target_chunk == self.target_object {
            true => format!("chunks {:?}", self.target_chunk),
            false => format!("chunks {:?} in shards {:?}", self.target_chunk, self.target_object),
        };
        writeln!(f, "  from     chunks {:?}", self.source_chunk)?;
        writeln!(f, "  to       {chunks}, {} objects", self.objects)?;
        write!(f, "  blocks   {} of {:?}", self.blocks, self.block)?;
        if self.in_parts() {
            write!(
                f,
                ", each shard in {} parts",
                self.parts.iter().fold(1u64, |n, parts| n.saturating_mul(*parts))
            )?;
        }
        match self.decoded == self.chunks {
            true => writeln!(f, "\n  decodes  {} chunks once", self.chunks)?,
            false => {
                let times = format_decimal(self.times());
                writeln!(
                    f,
                    "\n  decodes  {} chunks {times} times on average: {}",
                    self.chunks, self.decoded
                )?;
            }
        }
        writeln!(f, "  reads    {}", bytes(self.read))?;
        writeln!(f, "  writes   {}", bytes(self.written))
    }
}

/// Formats a number with one decimal, without a trailing ".0".
pub(super) fn format_decimal(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Formats what passes take: time, and money if there is a server.
pub(super) fn effort(passes: &[Pass]) -> String {
    let (time, price) = (duration(super::seconds(passes)), super::dollars(passes));
    if price > 0.0 { format!("{time} and {}", money(price)) } else { time }
}

pub(super) fn money(dollars: f64) -> String {
    if dollars < 10.0 { format!("${dollars:.2}") } else { format!("${dollars:.0}") }
}

pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        ..1.0 => format!("{seconds:.2} s"),
        ..10.0 => format!("{seconds:.1} s"),
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3600.0),
    }
}

pub(in crate::copy) fn bytes(n: u64) -> String {
    const UNITS: [&str; 7] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut value, mut unit) = (n as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}
