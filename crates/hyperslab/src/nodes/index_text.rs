//! Parses indices from text, in NumPy's notation between brackets.

use crate::Index;

/// Parses indices such as `0, 1:9, ::-1, ...`, with or without brackets. Empty text is everything.
pub fn parse_indices(text: &str) -> Result<Vec<Index<'static>>, String> {
    let text = text.trim();
    let inner = match (text.strip_prefix('['), text.strip_suffix(']')) {
        (Some(_), Some(_)) if text.len() >= 2 => text.get(1..text.len() - 1).unwrap_or_default(),
        (None, None) => text,
        _ => return Err(format!("selection {text:?}: a bracket is missing")),
    };
    // Python allows a trailing comma.
    let inner = inner.trim();
    let inner = inner.strip_suffix(',').unwrap_or(inner);
    if inner.trim().is_empty() {
        return Ok(Vec::new());
    }
    inner.split(',').map(|item| index(item.trim())).collect()
}

fn index(item: &str) -> Result<Index<'static>, String> {
    if item == "..." {
        return Ok(Index::Ellipsis);
    }
    let number = |part: &str| {
        part.trim()
            .parse::<i64>()
            .map_err(|_| format!("selection: {item:?} is neither an integer, a slice nor '...'"))
    };
    let bound = |part: Option<&str>| match part.map(str::trim) {
        None | Some("") => Ok(None),
        Some(part) => number(part).map(Some),
    };
    let mut parts = item.split(':');
    let first = parts.next();
    let Some(second) = parts.next() else { return number(item).map(Index::At) };
    let step = parts.next();
    if parts.next().is_some() {
        return Err(format!("selection: {item:?} has more than two colons"));
    }
    Ok(Index::Slice { start: bound(first)?, stop: bound(Some(second))?, step: bound(step)?.unwrap_or(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(start: Option<i64>, stop: Option<i64>, step: i64) -> Index<'static> {
        Index::Slice { start, stop, step }
    }

    #[test]
    fn as_in_numpy() {
        for (text, indices) in [
            ("", vec![]),
            ("[]", vec![]),
            ("...", vec![Index::Ellipsis]),
            ("5", vec![Index::At(5)]),
            ("[-1]", vec![Index::At(-1)]),
            ("[0, :, ::2]", vec![Index::At(0), Index::ALL, slice(None, None, 2)]),
            (" 1 : 9 , ::-1,", vec![slice(Some(1), Some(9), 1), slice(None, None, -1)]),
            ("-5:,:-1", vec![slice(Some(-5), None, 1), slice(None, Some(-1), 1)]),
        ] {
            assert_eq!(parse_indices(text), Ok(indices), "{text}");
        }
        for text in ["[", "1]", "a", "1:2:3:4", "1,,2", "1.5", "1:x", "99999999999999999999"] {
            assert!(parse_indices(text).is_err(), "{text}");
        }
    }
}
