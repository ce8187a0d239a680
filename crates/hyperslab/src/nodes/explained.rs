//! The plan of a read or a write as JSON.

use crate::{Explain, ExplainTask, Json};

/// Converts what `explain` found to JSON.
pub fn explained(explain: &Explain) -> Json {
    let task = |task: &ExplainTask| {
        let ranges = task.ranges.iter().map(|(offset, len)| Json::from([*offset, *len].as_slice())).collect();
        Json::from([
            ("chunk", task.chunk.as_slice().into()),
            ("key", task.key.as_str().into()),
            ("strategy", task.strategy.to_string().as_str().into()),
            ("ranges", Json::Array(ranges)),
            ("elements", task.elements.into()),
            ("bytes_read", task.bytes_read.into()),
            ("bytes_decoded", task.bytes_decoded.into()),
        ])
    };
    let strategies =
        explain.strategies.iter().map(|(strategy, n)| (strategy.to_string(), (*n).into())).collect();
    Json::from([
        ("array", explain.array.as_str().into()),
        ("write", explain.write.into()),
        ("shape", explain.shape.as_slice().into()),
        ("bytes", explain.bytes.into()),
        ("chunks", explain.chunks.into()),
        ("examined", explain.examined.into()),
        ("objects", explain.objects.into()),
        ("threads", explain.threads.into()),
        ("strategies", Json::Object(strategies)),
        ("bytes_read", explain.bytes_read.into()),
        ("bytes_decoded", explain.bytes_decoded.into()),
        ("tasks", Json::Array(explain.tasks.iter().map(task).collect())),
    ])
}
