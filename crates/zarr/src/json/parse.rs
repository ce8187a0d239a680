//! Parses text. The grammar is RFC 8259's plus `NaN`, `Infinity` and `-Infinity`.

use super::{Json, JsonError, MAX_DEPTH, MAX_VALUES};
use std::collections::HashMap;

/// Parses a whole text.
pub(super) fn parse(text: &[u8]) -> Result<Json, JsonError> {
    let (skipped, text) = match text.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => (3, rest),
        None => (0, text),
    };
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            return Err(JsonError { offset: skipped + error.valid_up_to(), why: "it is not UTF-8".into() });
        }
    };
    let mut parser = Parser { text, at: 0, depth: 0, values: 0 };
    let parsed = parser.document();
    parsed.map_err(|error| JsonError { offset: error.offset + skipped, ..error })
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    values: usize,
}

impl Parser<'_> {
    fn document(&mut self) -> Result<Json, JsonError> {
        let value = self.value()?;
        self.space();
        match self.peek() {
            None => Ok(value),
            Some(_) => self.fail("expected the end of the document, found more text"),
        }
    }

    fn fail<T>(&self, why: impl Into<String>) -> Result<T, JsonError> {
        Err(JsonError { offset: self.at, why: why.into() })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Skips `word` if it is next.
    fn eat(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn value(&mut self) -> Result<Json, JsonError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return self.fail(format!("it has more than {MAX_VALUES} values"));
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            None => self.fail("expected a value, but the text ends"),
            Some(_) => {
                for (word, value) in [
                    ("null", Json::Null),
                    ("true", Json::Bool(true)),
                    ("false", Json::Bool(false)),
                    ("NaN", Json::Number("NaN".into())),
                    ("Infinity", Json::Number("Infinity".into())),
                ] {
                    if self.eat(word) {
                        return Ok(value);
                    }
                }
                self.fail("expected a value")
            }
        }
    }

    /// Bounds the recursion: a thread's stack must survive any text.
    fn nested(&mut self, inner: fn(&mut Self) -> Result<Json, JsonError>) -> Result<Json, JsonError> {
        if self.depth == MAX_DEPTH {
            return self.fail(format!("it is nested more than {MAX_DEPTH} deep"));
        }
        self.depth += 1;
        self.at += 1;
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Json, JsonError> {
        let mut items = Vec::new();
        self.space();
        if self.eat("]") {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.space();
            if self.eat("]") {
                return Ok(Json::Array(items));
            }
            if !self.eat(",") {
                return self.fail("expected ',' or ']'");
            }
        }
    }

    fn object(&mut self) -> Result<Json, JsonError> {
        let mut members = Vec::new();
        self.space();
        if self.eat("}") {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return self.fail("expected a member's name in double quotes");
            }
            let name = self.string()?;
            self.space();
            if !self.eat(":") {
                return self.fail("expected ':'");
            }
            let value = self.value()?;
            members.push((name, value));
            self.space();
            if self.eat("}") {
                return Ok(Json::Object(unique(members)));
            }
            if !self.eat(",") {
                return self.fail("expected ',' or '}'");
            }
        }
    }

    fn number(&mut self) -> Result<Json, JsonError> {
        let start = self.at;
        if self.eat("-Infinity") {
            return Ok(Json::Number("-Infinity".into()));
        }
        self.eat("-");
        let leading = self.peek();
        let whole = self.digits();
        if whole == 0 || (leading == Some(b'0') && whole > 1) {
            return self
                .fail("expected a number with at least one digit before the point and no leading zeros");
        }
        if self.eat(".") && self.digits() == 0 {
            return self.fail("expected a digit after the point");
        }
        if self.eat("e") || self.eat("E") {
            let _ = self.eat("+") || self.eat("-");
            if self.digits() == 0 {
                return self.fail("expected a digit in the exponent");
            }
        }
        Ok(Json::Number(self.text.get(start..self.at).unwrap_or_default().into()))
    }

    fn digits(&mut self) -> usize {
        let count = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        self.at += count;
        count
    }

    /// Reads the string whose opening quote is next.
    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let plain = self.rest().bytes().take_while(|b| !matches!(b, b'"' | b'\\' | 0..=0x1f)).count();
            // `plain` ends before an ASCII byte or at the end, so this is a character boundary.
            text.push_str(self.rest().get(..plain).unwrap_or_default());
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    let c = self.escape()?;
                    text.push(c);
                }
                Some(_) => return self.fail("a control character in a string must be escaped"),
                None => return self.fail("the text ends within a string"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        self.at += 1;
        let Some(code) = self.peek() else { return self.fail("the text ends within a string") };
        let plain = match code {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return self.fail("unknown escape sequence"),
        };
        self.at += 1;
        Ok(plain)
    }

    /// Reads `uXXXX`, and the second half of a surrogate pair.
    fn unicode(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        self.at += 1;
        let mut code = self.hex4()?;
        if (0xd800..0xdc00).contains(&code) && self.eat("\\u") {
            let low = self.hex4()?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            }
        }
        char::from_u32(code)
            .ok_or_else(|| JsonError { offset: start, why: "a lone surrogate is not a character".into() })
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let digits = self.rest().get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.fail("expected four hexadecimal digits"),
        }
    }
}

/// If members share a name, keeps the last value at the place of the first, like Python's `dict`.
fn unique(members: Vec<(String, Json)>) -> Vec<(String, Json)> {
    let mut places: HashMap<&str, usize> = HashMap::with_capacity(members.len());
    if members.iter().enumerate().all(|(at, (name, _))| places.insert(name, at).is_none()) {
        return members;
    }
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut kept: Vec<(String, Json)> = Vec::new();
    for (name, value) in members {
        match places.get(&name).and_then(|at| kept.get_mut(*at)) {
            Some((_, old)) => *old = value,
            None => {
                places.insert(name.clone(), kept.len());
                kept.push((name, value));
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let parse = |text: &str| Json::parse(text.as_bytes()).unwrap();
        assert_eq!(parse(" null "), Json::Null);
        assert_eq!(parse("-0.10E+05"), Json::Number("-0.10E+05".into()));
        assert_eq!(
            parse("[NaN,Infinity , -Infinity]"),
            Json::Array(["NaN", "Infinity", "-Infinity"].map(|token| Json::Number(token.into())).into())
        );
        assert_eq!(parse(r#""a\n\u00e9\ud83d\ude00\/é\u0000""#), Json::String("a\né😀/é\0".into()));
        assert_eq!(Json::parse(b"\xef\xbb\xbf{}"), Ok(Json::object()));
        assert_eq!(
            parse(r#"{"a": 1, "b": 2, "a": 3, "c": {"a": [], "a": {}}}"#).to_text(None),
            r#"{"a": 3, "b": 2, "c": {"a": {}}}"#
        );
    }

    #[test]
    fn texts_that_are_refused() {
        for (text, offset, why) in [
            (&b""[..], 0, "the text ends"),
            (b"{", 1, "name in double quotes"),
            (b"[1,]", 3, "expected a value"),
            (b"{\"a\" 1}", 5, "':'"),
            (b"{\"a\":1,}", 7, "name in double quotes"),
            (b"[1 2]", 3, "',' or ']'"),
            (b"01", 2, "leading zeros"),
            (b"-", 1, "at least one digit"),
            (b"+1", 0, "expected a value"),
            (b"1.", 2, "after the point"),
            (b"1e", 2, "exponent"),
            (b"nan", 0, "expected a value"),
            (b"1 1", 2, "found more text"),
            (b"\"a", 2, "within a string"),
            (b"\"\n\"", 1, "control character"),
            (b"\"\\x\"", 2, "escape"),
            (b"\"\\u12g4\"", 3, "hexadecimal"),
            (b"\"\\ud800\"", 2, "lone surrogate"),
            (b"\"\\ud800\\u0041\"", 2, "lone surrogate"),
            (b"\"\\udc00\"", 2, "lone surrogate"),
            (b"\"\\u00e\xc3\xa9\"", 3, "hexadecimal"),
            (b"[\"\xff\"]", 2, "UTF-8"),
            (b"\xef\xbb\xbfx", 3, "expected a value"),
        ] {
            let error = Json::parse(text).unwrap_err();
            assert_eq!(error.offset, offset, "{text:?}: {error}");
            assert!(error.why.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        let error = Json::parse(nested(MAX_DEPTH + 1).as_bytes()).unwrap_err();
        assert!(error.why.contains("nested"), "{error}");
        assert!(Json::parse("{\"a\":".repeat(1_000_000).as_bytes()).is_err());
    }
}
