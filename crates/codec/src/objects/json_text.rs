//! Checks JSON text value by value and lays it out anew, without building values.
//!
//! The text is what Python's `json` reads and writes, including `NaN`, `Infinity` and `-Infinity`,
//! which `serde_json` refuses. The spelling of strings and numbers stays unchanged.

/// The layout of text: `separators` and `indent` in Python's `JSONEncoder`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// Between items: a comma, with white space.
    pub(crate) item: String,
    /// Between a key and its value: a colon, with white space.
    pub(crate) key: String,
    /// The indent of one level. With `None` there are no line breaks.
    pub(crate) indent: Option<String>,
}

impl Style {
    /// Without white space.
    pub(crate) fn compact() -> Self {
        Style { item: ",".into(), key: ":".into(), indent: None }
    }

    /// Begins a line at this depth.
    pub(crate) fn line(&self, depth: usize, to: &mut Vec<u8>) {
        if let Some(indent) = &self.indent {
            to.push(b'\n');
            (0..depth).for_each(|_| to.extend_from_slice(indent.as_bytes()));
        }
    }
}

/// The deepest nesting of a value. Python's reader gives up at about this depth.
pub(crate) const MOST_DEPTH: usize = 1000;

/// Reads a text from start to end.
pub(crate) struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// `true` if strings must not hold control characters.
    strict: bool,
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `text`.
    pub(crate) fn new(text: &'a str, strict: bool) -> Self {
        Reader { text: text.as_bytes(), at: 0, strict }
    }

    /// The error for unexpected text at the reader's position.
    fn wrong(&self, expected: &str) -> String {
        match self.text.get(self.at..).and_then(|rest| rest.utf8_chunks().next()?.valid().chars().next()) {
            Some(found) => format!("byte {}: expected {expected}, found {found:?}", self.at),
            None => format!("it ends at byte {}: expected {expected}", self.at),
        }
    }

    /// The next byte after white space, without consuming it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let rest = self.text.get(self.at..)?;
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.text.get(self.at).copied()
    }

    /// Consumes this byte and white space before it.
    pub(crate) fn take(&mut self, byte: u8) -> Result<(), String> {
        if self.peek() != Some(byte) {
            return Err(self.wrong(&format!("{:?}", char::from(byte))));
        }
        self.at += 1;
        Ok(())
    }

    /// Fails if anything but white space is left.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        if self.peek().is_some() { Err(self.wrong("the end")) } else { Ok(()) }
    }

    /// Copies a value, laid out in `style`. `depth` is the depth of the value.
    pub(crate) fn value(&mut self, style: &Style, depth: usize, to: &mut Vec<u8>) -> Result<(), String> {
        // The closing bracket of each enclosing list and object.
        let mut open: Vec<u8> = Vec::new();
        loop {
            // A value begins here.
            let close = match self.peek() {
                Some(b'[') => Some(b']'),
                Some(b'{') => Some(b'}'),
                _ => None,
            };
            match close {
                None => to.extend_from_slice(self.scalar()?),
                Some(close) => {
                    if open.len() == MOST_DEPTH {
                        return Err(format!(
                            "byte {}: values are nested more than {MOST_DEPTH} deep",
                            self.at
                        ));
                    }
                    to.push(if close == b']' { b'[' } else { b'{' });
                    self.at += 1;
                    if self.peek() == Some(close) {
                        self.at += 1;
                        to.push(close);
                    } else {
                        open.push(close);
                        style.line(depth + open.len(), to);
                        self.key_before(close, style, to)?;
                        continue;
                    }
                }
            }
            // The value ends here, and the enclosing lists and objects may end too.
            loop {
                let Some(close) = open.last().copied() else { return Ok(()) };
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        to.extend_from_slice(style.item.as_bytes());
                        style.line(depth + open.len(), to);
                        self.key_before(close, style, to)?;
                        break;
                    }
                    Some(byte) if byte == close => {
                        self.at += 1;
                        open.pop();
                        style.line(depth + open.len(), to);
                        to.push(close);
                    }
                    _ => return Err(self.wrong(&format!("',' or {:?}", char::from(close)))),
                }
            }
        }
    }

    /// Copies the key of the next value if the enclosing brackets are an object's.
    fn key_before(&mut self, close: u8, style: &Style, to: &mut Vec<u8>) -> Result<(), String> {
        if close == b']' {
            return Ok(());
        }
        if self.peek() != Some(b'"') {
            return Err(self.wrong("a key in quotes"));
        }
        to.extend_from_slice(self.string()?);
        self.take(b':')?;
        to.extend_from_slice(style.key.as_bytes());
        Ok(())
    }

    /// A string, number or name.
    fn scalar(&mut self) -> Result<&'a [u8], String> {
        match self.peek() {
            Some(b'"') => return self.string(),
            Some(b'-' | b'0'..=b'9') if !self.rest().starts_with(b"-Infinity") => return self.number(),
            _ => {}
        }
        for name in ["null", "true", "false", "NaN", "Infinity", "-Infinity"] {
            if self.rest().starts_with(name.as_bytes()) {
                self.at += name.len();
                return Ok(self.since(self.at - name.len()));
            }
        }
        Err(self.wrong("a value"))
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn since(&self, start: usize) -> &'a [u8] {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Reads a string with its quotes.
    fn string(&mut self) -> Result<&'a [u8], String> {
        let start = self.at;
        self.at += 1;
        loop {
            let strict = self.strict;
            let stops = |byte: &u8| matches!(byte, b'"' | b'\\') || (strict && *byte < b' ');
            let Some(len) = self.rest().iter().position(stops) else {
                self.at = self.text.len();
                return Err(self.wrong("the end of a string"));
            };
            self.at += len;
            match self.rest() {
                [b'"', ..] => {
                    self.at += 1;
                    return Ok(self.since(start));
                }
                [b'\\', b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|byte| byte.is_ascii_hexdigit()) => {
                    self.at += 6;
                }
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => self.at += 2,
                [b'\\', ..] => {
                    return Err(format!("byte {}: a string has an unknown escape sequence", self.at));
                }
                _ => return Err(self.wrong("no control character in a string")),
            }
        }
    }

    fn number(&mut self) -> Result<&'a [u8], String> {
        let start = self.at;
        self.skip(b"-");
        if !self.skip(b"0") {
            self.digits()?;
        }
        if self.skip(b".") {
            self.digits()?;
        }
        if self.skip(b"e") || self.skip(b"E") {
            let _ = self.skip(b"+") || self.skip(b"-");
            self.digits()?;
        }
        Ok(self.since(start))
    }

    fn skip(&mut self, what: &[u8]) -> bool {
        let found = self.rest().starts_with(what);
        self.at += if found { what.len() } else { 0 };
        found
    }

    fn digits(&mut self) -> Result<(), String> {
        let len = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += len;
        if len == 0 { Err(self.wrong("a digit")) } else { Ok(()) }
    }
}

/// Returns one value without white space, as elements of `json2` are in memory.
///
/// ```
/// assert_eq!(hyperslab_codec::compact_json(r#" {"a": [1.0, NaN]} "#)?, r#"{"a":[1.0,NaN]}"#);
/// assert!(hyperslab_codec::compact_json("[1, 2").is_err());
/// # Ok::<(), String>(())
/// ```
pub fn compact_json(text: &str) -> Result<String, String> {
    let mut reader = Reader::new(text, true);
    let mut compact = Vec::with_capacity(text.len());
    reader.value(&Style::compact(), 0, &mut compact)?;
    reader.end()?;
    String::from_utf8(compact).map_err(|error| error.to_string())
}

/// Calls `each` with every item of a list, without white space.
///
/// ```
/// let mut items = Vec::new();
/// hyperslab_codec::json_items(r#"[{"a": 1}, "b,c"]"#, |item| items.push(item.to_vec()))?;
/// assert_eq!(items, [&br#"{"a":1}"#[..], br#""b,c""#]);
/// # Ok::<(), String>(())
/// ```
pub fn json_items(text: &str, mut each: impl FnMut(&[u8])) -> Result<(), String> {
    let mut reader = Reader::new(text, true);
    let mut item = Vec::new();
    reader.take(b'[')?;
    if reader.peek() != Some(b']') {
        loop {
            item.clear();
            reader.value(&Style::compact(), 0, &mut item)?;
            each(&item);
            if reader.peek() != Some(b',') {
                break;
            }
            reader.take(b',')?;
        }
    }
    reader.take(b']')?;
    reader.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every value, including Python's own spelling of values outside JSON.
    fn text() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            prop::sample::select(vec![
                "null",
                "true",
                "NaN",
                "-Infinity",
                "Infinity",
                "-0",
                "1e5",
                "-2.50E-7"
            ])
            .prop_map(str::to_owned),
            any::<f64>()
                .prop_filter("a number", |number| number.is_finite())
                .prop_map(|number| format!("{number:?}")),
            "\\PC{0,6}".prop_map(|text| serde_json::to_string(&text).unwrap()),
            Just(r#""\ud800\u00E9\/""#.to_owned()),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec((0..9u8, inner), 0..4).prop_map(|members| {
                    let members: Vec<String> =
                        members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }

    fn styled(text: &str, style: &Style) -> String {
        let mut to = Vec::new();
        Reader::new(text, true).value(style, 0, &mut to).unwrap();
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn lines_are_those_of_python() {
        let style = Style { item: ", ".into(), key: ": ".into(), indent: Some(" ".into()) };
        // json.dumps(…, indent=1, separators=(", ", ": "))
        let expected = "[\n 1, \n [], \n {}, \n {\n  \"a\": [\n   null\n  ], \n  \"b\": \"x y\"\n }\n]";
        assert_eq!(styled(r#"[1,[],{ } ,{"a":[null],"b":"x y"}]"#, &style), expected);
        let spaced = Style { indent: None, ..style };
        assert_eq!(styled(r#"{"a":[1,2]}"#, &spaced), r#"{"a": [1, 2]}"#);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for (text, why) in [
            ("", "it ends at byte 0: expected a value"),
            ("[1, 2", "it ends at byte 5: expected ',' or ']'"),
            ("[1 2]", "byte 3: expected ',' or ']', found '2'"),
            ("[1,]", "byte 3: expected a value, found ']'"),
            ("[1}", "expected ',' or ']', found '}'"),
            ("{1: 2}", "expected a key in quotes, found '1'"),
            ("{\"a\" 2}", "expected ':', found '2'"),
            ("{\"a\": 2,}", "expected a key in quotes"),
            ("\"a", "expected the end of a string"),
            ("\"a\nb\"", "no control character"),
            (r#""\x""#, "unknown escape sequence"),
            (r#""\u12""#, "unknown escape sequence"),
            ("01", "byte 1: expected the end"),
            ("-", "expected a digit"),
            ("1.", "expected a digit"),
            ("1e", "expected a digit"),
            ("+1", "expected a value"),
            ("nul", "expected a value"),
            ("é", "found 'é'"),
            ("1 2", "expected the end"),
        ] {
            let error = compact_json(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Reader::new("\"a\nb\"", false).value(&Style::compact(), 0, &mut Vec::new()).is_ok());
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(compact_json(&deep(MOST_DEPTH)).is_ok());
        assert!(compact_json(&deep(MOST_DEPTH + 1)).unwrap_err().contains("more than 1000 deep"));
        assert!(compact_json(&"[".repeat(1 << 20)).unwrap_err().contains("more than 1000 deep"));
    }

    #[test]
    fn items_of_lists() {
        let items = |text: &str| {
            let mut items = Vec::new();
            json_items(text, |item| items.push(String::from_utf8(item.to_vec()).unwrap())).map(|()| items)
        };
        assert_eq!(items("[]").unwrap(), Vec::<String>::new());
        assert_eq!(items(" [1 , [2, 3] ,\"]\"] ").unwrap(), ["1", "[2,3]", "\"]\""]);
        for wrong in ["", "1", "[1", "[1,]", "[,]", "[1] 2", "[1}"] {
            assert!(items(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_layout_leads_back(
            text in text(),
            item in prop::sample::select(vec![",", " , ", ", "]),
            indent in prop::sample::select(vec![None, Some(""), Some("\t"), Some("  ")]),
        ) {
            let style = Style { item: item.into(), key: " : ".into(), indent: indent.map(str::to_owned) };
            prop_assert_eq!(compact_json(&styled(&text, &style)).unwrap(), text);
        }

        #[test]
        fn damage_is_an_error_or_other_json(text in text(), at in any::<prop::sample::Index>(), byte in "[\\[\\]{}\",:0-9a ]") {
            let mut damaged: Vec<char> = text.chars().collect();
            let at = at.index(damaged.len());
            damaged[at] = byte.chars().next().unwrap();
            let damaged: String = damaged.into_iter().collect();
            if let Ok(compact) = compact_json(&damaged) {
                prop_assert_eq!(compact_json(&compact).unwrap(), compact);
            }
        }
    }
}
