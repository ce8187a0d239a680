//! Parses text. The grammar is RFC 8259's plus `NaN`, `Infinity` and `-Infinity`.

use super::{Field, Json, JsonError, MAX_DEPTH, MAX_VALUES, Members, Value};
use std::collections::HashMap;

/// Parses a whole text.
pub(super) fn parse(text: &[u8]) -> Result<Json, JsonError> {
    whole(text, |parser| parser.value())
}

/// Parses a whole text, and gives the members of the object at `path` to `members`.
///
/// In the result this object is empty.
pub(super) fn parse_apart(text: &[u8], path: &[&str], members: &mut dyn Members) -> Result<Json, JsonError> {
    whole(text, |parser| parser.value_apart(path, members))
}

fn whole(
    text: &[u8],
    value: impl FnOnce(&mut Parser<'_>) -> Result<Json, JsonError>,
) -> Result<Json, JsonError> {
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
    let parsed = value(&mut parser).and_then(|value| parser.end().map(|()| value));
    parsed.map_err(|error| JsonError { offset: error.offset + skipped, ..error })
}

/// How many different values are compared with the next one. Documents of arrays often are equal,
/// or differ from their neighbours and not from others.
const RECENT: usize = 4;

/// An object that may occur again.
#[derive(Clone, Copy, Default)]
struct Recent<'a> {
    text: &'a str,
    /// How many values it has.
    values: usize,
    number: usize,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    values: usize,
}

impl<'a> Parser<'a> {
    fn end(&mut self) -> Result<(), JsonError> {
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fail("expected the end of the document, found more text"),
        }
    }

    fn fail<T>(&self, why: impl Into<String>) -> Result<T, JsonError> {
        Err(JsonError { offset: self.at, why: why.into() })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The text from `start` to here.
    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Skips `word` if it is next.
    fn eat(&mut self, word: &str) -> bool {
        let found = self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes()));
        if found {
            self.at += word.len();
        }
        found
    }

    /// Counts a value and goes to its first character.
    fn begin(&mut self) -> Result<Option<u8>, JsonError> {
        self.count(1)?;
        self.space();
        Ok(self.peek())
    }

    fn count(&mut self, values: usize) -> Result<(), JsonError> {
        self.values += values;
        if self.values > MAX_VALUES {
            return self.fail(format!("it has more than {MAX_VALUES} values"));
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Json, JsonError> {
        match self.begin()? {
            Some(b'{') => self.nested(|parser| {
                let mut members = Vec::new();
                parser.members(|parser| {
                    members.push((parser.name()?, parser.value()?));
                    Ok(())
                })?;
                Ok(Json::Object(unique(members)))
            }),
            Some(b'[') => self.nested(|parser| {
                let mut items = Vec::new();
                parser.items(|parser| {
                    items.push(parser.value()?);
                    Ok(())
                })?;
                Ok(Json::Array(items))
            }),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => Ok(Json::Number(self.number()?.into())),
            None => self.fail("expected a value, but the text ends"),
            Some(_) => match self.word()? {
                "null" => Ok(Json::Null),
                "true" => Ok(Json::Bool(true)),
                "false" => Ok(Json::Bool(false)),
                number => Ok(Json::Number(number.into())),
            },
        }
    }

    /// Like [`Parser::value`], but the members of the object at `path` go to `apart`.
    fn value_apart(&mut self, path: &[&str], apart: &mut dyn Members) -> Result<Json, JsonError> {
        let here = self.at;
        if self.begin()? != Some(b'{') {
            self.at = here;
            self.values -= 1;
            return self.value();
        }
        let Some((first, path)) = path.split_first() else {
            apart.start();
            return self.nested(|parser| parser.members_apart(apart)).map(|()| Json::object());
        };
        self.nested(|parser| {
            let mut members = Vec::new();
            parser.members(|parser| {
                let name = parser.name()?;
                let is_it = name == *first;
                let value = if is_it { parser.value_apart(path, apart)? } else { parser.value()? };
                members.push((name, value));
                Ok(())
            })?;
            Ok(Json::Object(unique(members)))
        })
    }

    /// Gives the members of an object to `apart`. Its brace has been read.
    fn members_apart(&mut self, apart: &mut dyn Members) -> Result<(), JsonError> {
        let (mut compact, mut fields) = (String::new(), Vec::new());
        // The last different objects: their texts with white space, and how many values they have.
        let mut recent: [Recent<'a>; RECENT] = Default::default();
        let mut count = 0;
        self.members(|parser| {
            let name = parser.name()?;
            parser.space();
            // A text that begins with a whole object has no other value there.
            if let Some(same) = recent.iter().find(|it| !it.text.is_empty() && parser.eat(it.text)) {
                parser.count(same.values)?;
                apart.member(name, Value { number: same.number, text: "", fields: &[] });
                return Ok(());
            }
            let (start, values, number) = (parser.at, parser.values, count);
            compact.clear();
            fields.clear();
            parser.compact(&mut compact, Some(&mut fields))?;
            let (text, values) = (parser.since(start), parser.values - values);
            if let Some(oldest) = recent.get_mut(number % RECENT).filter(|_| text.starts_with('{')) {
                *oldest = Recent { text, values, number };
            }
            count += 1;
            apart.member(name, Value { number, text: &compact, fields: &fields });
            Ok(())
        })
    }

    /// Appends the next value to `out`, without white space. Adds the members of an object to
    /// `fields`.
    fn compact(&mut self, out: &mut String, mut fields: Option<&mut Vec<Field>>) -> Result<(), JsonError> {
        let first = self.begin()?;
        let start = self.at;
        match first {
            Some(b'{') => {
                out.push('{');
                let begun = out.len();
                self.nested(|parser| {
                    parser.members(|parser| {
                        if out.len() > begun {
                            out.push(',');
                        }
                        let (quote, name) = (parser.at, out.len());
                        parser.text(|_| {})?;
                        out.push_str(parser.since(quote));
                        parser.colon()?;
                        out.push(':');
                        let start = out.len();
                        parser.compact(out, None)?;
                        if let Some(fields) = &mut fields {
                            fields.push(Field { name, start, end: out.len() });
                        }
                        Ok(())
                    })
                })?;
                out.push('}');
                return Ok(());
            }
            Some(b'[') => {
                out.push('[');
                let begun = out.len();
                self.nested(|parser| {
                    parser.items(|parser| {
                        if out.len() > begun {
                            out.push(',');
                        }
                        parser.compact(out, None)
                    })
                })?;
                out.push(']');
                return Ok(());
            }
            Some(b'"') => self.text(|_| {})?,
            Some(b'-' | b'0'..=b'9') => drop(self.number()?),
            None => return self.fail("expected a value, but the text ends"),
            Some(_) => drop(self.word()?),
        }
        out.push_str(self.since(start));
        Ok(())
    }

    fn word(&mut self) -> Result<&'static str, JsonError> {
        let words = ["null", "true", "false", "NaN", "Infinity"];
        match words.into_iter().find(|word| self.eat(word)) {
            Some(word) => Ok(word),
            None => self.fail("expected a value"),
        }
    }

    /// Bounds the recursion: a thread's stack must survive any text.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, JsonError>) -> Result<T, JsonError> {
        if self.depth == MAX_DEPTH {
            return self.fail(format!("it is nested more than {MAX_DEPTH} deep"));
        }
        self.depth += 1;
        self.at += 1;
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// Calls `item` at each item of an array. Its bracket has been read.
    fn items(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), JsonError>) -> Result<(), JsonError> {
        self.space();
        if self.eat("]") {
            return Ok(());
        }
        loop {
            item(self)?;
            self.space();
            if self.eat("]") {
                return Ok(());
            }
            if !self.eat(",") {
                return self.fail("expected ',' or ']'");
            }
        }
    }

    /// Calls `member` at the name of each member of an object. Its brace has been read.
    fn members(
        &mut self,
        mut member: impl FnMut(&mut Self) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        self.space();
        if self.eat("}") {
            return Ok(());
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return self.fail("expected a member's name in double quotes");
            }
            member(self)?;
            self.space();
            if self.eat("}") {
                return Ok(());
            }
            if !self.eat(",") {
                return self.fail("expected ',' or '}'");
            }
        }
    }

    /// Reads a member's name, and the colon after it.
    fn name(&mut self) -> Result<String, JsonError> {
        let name = self.string()?;
        self.colon().map(|()| name)
    }

    fn colon(&mut self) -> Result<(), JsonError> {
        self.space();
        if self.eat(":") { Ok(()) } else { self.fail("expected ':'") }
    }

    /// Reads a number. Returns its text.
    fn number(&mut self) -> Result<&'a str, JsonError> {
        let start = self.at;
        if self.eat("-Infinity") {
            return Ok("-Infinity");
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
        Ok(self.since(start))
    }

    fn digits(&mut self) -> usize {
        let count = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        self.at += count;
        count
    }

    /// Reads the string whose opening quote is next.
    fn string(&mut self) -> Result<String, JsonError> {
        let mut string = String::new();
        self.text(|part| string.push_str(part))?;
        Ok(string)
    }

    /// Reads the string whose opening quote is next. Gives its parts to `part`.
    fn text(&mut self, mut part: impl FnMut(&str)) -> Result<(), JsonError> {
        self.at += 1;
        loop {
            let plain = self.rest().bytes().take_while(|b| !matches!(b, b'"' | b'\\' | 0..=0x1f)).count();
            // `plain` ends before an ASCII byte or at the end, so this is a character boundary.
            part(self.rest().get(..plain).unwrap_or_default());
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    let c = self.escape()?;
                    part(c.encode_utf8(&mut [0; 4]));
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
    /// Members in order. Texts of equal values are not repeated.
    #[derive(Default)]
    struct Listed {
        names: Vec<(String, usize)>,
        texts: Vec<String>,
        fields: Vec<Option<String>>,
    }

    impl Members for Listed {
        fn start(&mut self) {
            *self = Listed::default();
        }

        fn member(&mut self, name: String, value: Value<'_>) {
            if value.number == self.texts.len() {
                self.texts.push(value.text.to_owned());
                self.fields.push(value.field("\"k\"").map(str::to_owned));
            }
            self.names.push((name, value.number));
        }
    }

    /// Parses a text, takes the object at `path` apart, and puts it together again.
    fn apart_and_together(text: &[u8], path: &[&str]) -> Result<Json, JsonError> {
        let mut listed = Listed::default();
        let mut json = Json::parse_apart(text, path, &mut listed)?;
        let place = path.iter().try_fold(&mut json, |json, name| json.get_mut(name));
        if let Some(Json::Object(members)) = place {
            assert!(members.is_empty());
            let values = listed
                .names
                .into_iter()
                .map(|(name, number)| (name, Json::parse(listed.texts[number].as_bytes()).unwrap()));
            *members = unique(values.collect());
        }
        Ok(json)
    }

    #[test]
    fn objects_are_taken_apart() {
        for text in [
            r#"{"a": {"b": {"x": {"k": 1, "l": [1, {}]}, "y": {"k": 1, "l": [1, {}]}, "z": [], "x": 3}}, "c": 1}"#,
            r#"{"a": {"b": {}}, "a": 1}"#,
            r#"{"a": {"b": {"x": 1}}, "a": {"b": {"y": {} , "z":{ }}, "c": 2}}"#,
            r#"{"a": {"b": [1]}}"#,
            r#"{"b": {"a": 1}}"#,
            r#"{"a": {"b": {"\u0061\n": "\ud83d\ude00 \u0000", "e": -1.50e+3, "f": [NaN, null, true]}}}"#,
            " [ 1 ] ",
            "3",
        ] {
            for path in [&["a", "b"][..], &["a"], &[]] {
                let whole = Json::parse(text.as_bytes()).unwrap();
                let parts: Json = match apart_and_together(text.as_bytes(), path) {
                    Ok(parts) => parts,
                    Err(error) => panic!("{text}: {error}"),
                };
                assert_eq!(parts, whole, "{text}");
            }
        }
    }

    #[test]
    fn equal_values_have_one_number() {
        let text = r#"{"a": {"k": 1}, "b": {"k": 2}, "c": {"k": 1}, "d": { "k" : 2 }, "e": {"k": 2}, "f": 1,
            "g": {"k": 1, "k": [2]}, "h": {"\u006b": 1, "k": 1}}"#;
        let mut listed = Listed::default();
        Json::parse_apart(text.as_bytes(), &[], &mut listed).unwrap();
        let numbers: Vec<usize> = listed.names.iter().map(|(_, number)| *number).collect();
        // Texts are compared as they are: "d" has other white space.
        assert_eq!(numbers, [0, 1, 0, 2, 1, 3, 4, 5]);
        assert_eq!(listed.texts[..4], [r#"{"k":1}"#, r#"{"k":2}"#, r#"{"k":2}"#, "1"]);
        let fields: Vec<_> = listed.fields.iter().map(Option::as_deref).collect();
        assert_eq!(fields, [Some("1"), Some("2"), Some("2"), None, Some("[2]"), None]);
    }

    #[test]
    fn faults_in_objects_that_are_taken_apart() {
        let good = r#"{"a": {"b": {"x": {"k": [1, "\u00e9"]}, "y": {"k": [1, "\u00e9"]}}}}"#;
        for at in 0..good.len() {
            for with in [&b""[..], b"\"", b"{", b"]", b"\\", b",", b"0", b"\x01", b"\xff", b" "] {
                let text = [&good.as_bytes()[..at], with, &good.as_bytes()[at + 1..]].concat();
                let (whole, parts) =
                    (Json::parse(&text), Json::parse_apart(&text, &["a", "b"], &mut Listed::default()));
                assert_eq!(parts.map(drop), whole.map(drop), "{}", String::from_utf8_lossy(&text));
            }
            let text = &good.as_bytes()[..at];
            let parts = Json::parse_apart(text, &["a", "b"], &mut Listed::default());
            assert_eq!(parts.unwrap_err(), Json::parse(text).unwrap_err());
        }
    }
}
