//! Templates in references: `{{name}}` is replaced by text or a number.
//!
//! kerchunk's specification calls them Jinja templates, which are a programming language. This
//! module supports what kerchunk's writers use: names, whole numbers with `+ - * // %` and
//! parentheses, quoted text, and calls of templates with arguments, `{{f(c='text')}}`. Everything
//! else is refused by name.

use std::collections::HashMap;
use std::fmt;

/// The longest text that a template may produce.
const LONGEST: usize = 1 << 16;

/// The deepest nesting of parentheses.
const DEEPEST: usize = 32;

/// The value of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(i64),
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Text(text) => text.fmt(f),
        }
    }
}

/// The names available in a template.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub(super) values: HashMap<String, Value>,
    /// Templates with arguments. They can use no other names.
    pub(super) functions: HashMap<String, String>,
}

impl Scope {
    /// Collects the templates of a document.
    pub(super) fn new(templates: impl IntoIterator<Item = (String, String)>) -> Scope {
        let mut scope = Scope::default();
        for (name, text) in templates {
            if text.contains("{{") {
                scope.functions.insert(name, text);
            } else {
                scope.values.insert(name, Value::Text(text));
            }
        }
        scope
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.functions.is_empty()
    }

    /// Renders a template.
    pub(super) fn render(&self, template: &str) -> Result<String, String> {
        let refused = |why: String| format!("template {:?}: {why}", excerpt(template));
        if template.contains("{%") || template.contains("{#") {
            return Err(refused("statements and comments of Jinja are not supported".into()));
        }
        let (mut made, mut rest) = (String::new(), template);
        while let Some((before, inside)) = rest.split_once("{{") {
            made.push_str(before);
            if inside.starts_with('-') {
                return Err(refused("'{{-' of Jinja is not supported".into()));
            }
            let mut parser = Parser { scope: self, rest: inside, depth: 0 };
            let value = parser.sum().and_then(|value| parser.end().map(|()| value)).map_err(refused)?;
            made.push_str(&value.to_string());
            rest = parser.rest;
            if made.len() > LONGEST {
                break;
            }
        }
        made.push_str(rest);
        match made.len() > LONGEST {
            true => Err(refused(format!("it makes a text of more than {LONGEST} bytes"))),
            false => Ok(made),
        }
    }
}

/// The start of a text, for messages.
pub(super) fn excerpt(text: &str) -> &str {
    text.char_indices().nth(100).map_or(text, |(end, _)| text.get(..end).unwrap_or_default())
}

/// Parses and evaluates one expression.
struct Parser<'t> {
    scope: &'t Scope,
    rest: &'t str,
    depth: usize,
}

impl<'t> Parser<'t> {
    /// Takes `token` if it comes next.
    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        let found = rest.strip_prefix(token);
        self.rest = found.unwrap_or(rest);
        found.is_some()
    }

    fn unexpected_token(&self) -> String {
        let next: String = self.rest.trim_start().chars().take(20).collect();
        format!(
            "cannot evaluate {next:?}: only names, whole numbers with + - * // % and calls with texts are supported"
        )
    }

    fn end(&mut self) -> Result<(), String> {
        if self.take("}}") { Ok(()) } else { Err(self.unexpected_token()) }
    }

    fn sum(&mut self) -> Result<Value, String> {
        let mut left = self.product()?;
        loop {
            left = if self.take("+") {
                compute(left, '+', self.product()?)?
            } else if self.take("-") {
                compute(left, '-', self.product()?)?
            } else {
                return Ok(left);
            };
        }
    }

    fn product(&mut self) -> Result<Value, String> {
        let mut left = self.factor()?;
        loop {
            left = if self.take("//") {
                compute(left, '/', self.factor()?)?
            } else if self.take("*") {
                compute(left, '*', self.factor()?)?
            } else if self.take("%") {
                compute(left, '%', self.factor()?)?
            } else {
                return Ok(left);
            };
        }
    }

    fn factor(&mut self) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("it is nested more than {DEEPEST} deep"));
        }
        let value = self.parse_nested();
        self.depth -= 1;
        value
    }

    fn parse_nested(&mut self) -> Result<Value, String> {
        if self.take("(") {
            let value = self.sum()?;
            return if self.take(")") { Ok(value) } else { Err(self.unexpected_token()) };
        }
        if self.take("-") {
            return compute(Value::Number(0), '-', self.factor()?);
        }
        for quote in ["'", "\""] {
            if self.take(quote) {
                let (text, rest) = self.rest.split_once(quote).ok_or("a text has no end")?;
                if text.contains('\\') {
                    return Err("escapes in texts are not supported".into());
                }
                self.rest = rest;
                return Ok(Value::Text(text.to_owned()));
            }
        }
        let word = self.word();
        match word.chars().next() {
            None => Err(self.unexpected_token()),
            Some('0'..='9') => match word.parse() {
                Ok(number) => Ok(Value::Number(number)),
                Err(_) => Err(format!("{word:?} is no whole number of 64 bits")),
            },
            Some(_) if self.take("(") => self.call(word),
            Some(_) => match self.scope.values.get(word) {
                Some(value) => Ok(value.clone()),
                None if self.scope.functions.contains_key(word) => {
                    Err(format!("'{word}' needs arguments: {word}(name='text')"))
                }
                None => Err(format!("there is no '{word}'")),
            },
        }
    }

    fn word(&mut self) -> &'t str {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Evaluates a call, after its opening parenthesis.
    /// The template only sees its arguments, so it cannot call other templates.
    fn call(&mut self, name: &str) -> Result<Value, String> {
        let mut inner = Scope::default();
        while !self.take(")") {
            let argument = self.word();
            if argument.is_empty() || !self.take("=") {
                return Err(self.unexpected_token());
            }
            inner.values.insert(argument.to_owned(), self.sum()?);
            if !self.take(",") && !self.rest.starts_with(')') {
                return Err(self.unexpected_token());
            }
        }
        match self.scope.functions.get(name) {
            Some(template) => inner.render(template).map(Value::Text),
            None => Err(format!("there is no template '{name}' that takes arguments")),
        }
    }
}

/// Computes like Python: quotients are rounded down.
fn compute(left: Value, operator: char, right: Value) -> Result<Value, String> {
    let (Value::Number(a), Value::Number(b)) = (&left, &right) else {
        return Err(format!("'{operator}' needs whole numbers, found '{left}' and '{right}'"));
    };
    let (a, b) = (*a, *b);
    let floor =
        |quotient: i64, rest: i64| if rest != 0 && (rest < 0) != (b < 0) { quotient - 1 } else { quotient };
    let computed = match operator {
        '+' => a.checked_add(b),
        '-' => a.checked_sub(b),
        '*' => a.checked_mul(b),
        '/' => a.checked_div(b).zip(a.checked_rem(b)).map(|(quotient, rest)| floor(quotient, rest)),
        _ => a.checked_rem(b).map(|rest| if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }),
    };
    let computed = computed.ok_or_else(|| format!("cannot compute {a} {operator} {b} in 64 bits"));
    computed.map(Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        let templates = [("u", "server.domain/path"), ("f", "{{c}}"), ("two", "{{a}}-{{ b }}/{{a}}")];
        let mut scope = Scope::new(templates.map(|(name, text)| (name.to_owned(), text.to_owned())));
        scope.values.insert("i".into(), Value::Number(4));
        scope
    }

    #[test]
    fn templates() {
        for (template, made) in [
            ("", ""),
            ("no }} template { {", "no }} template { {"),
            ("http://{{u}}_{{ i }}", "http://server.domain/path_4"),
            ("{{(i + 1) * 1000}}", "5000"),
            ("{{ 2 + i*3 - 1 }}", "13"),
            ("{{ -7 // 2 }} {{ -7 % 2 }} {{ 7 // -2 }} {{ 7 % -2 }} {{ 6 // 2 }}", "-4 1 -4 -1 3"),
            ("{{f(c='text')}}", "text"),
            ("{{ f( c = u ) }}x", "server.domain/pathx"),
            ("{{two(a='}}', b=i)}}", "}}-4/}}"),
            ("{{ i }}}", "4}"),
            ("{{ \"it's\" }}", "it's"),
        ] {
            assert_eq!(scope().render(template).as_deref(), Ok(made), "{template}");
        }
    }

    #[test]
    fn what_is_no_template() {
        let deep = format!("{{{{ {}1 }}}}", "(".repeat(100_000));
        let minus = format!("{{{{ {}1 }}}}", "-".repeat(100_000));
        let long = "{{u}}".repeat(100_000);
        for (template, why) in [
            ("{{ nothing }}", "there is no 'nothing'"),
            ("{{ f }}", "'f' needs arguments"),
            ("{{ g(c='x') }}", "no template 'g'"),
            ("{{ u(c='x') }}", "no template 'u'"),
            ("{{ f(c='x' }}", "cannot evaluate"),
            ("{{ f('x') }}", "cannot evaluate"),
            ("{{ f(d='x') }}", "there is no 'c'"),
            ("{{ u | upper }}", "cannot evaluate \"| upper }}\""),
            ("{{ u.upper() }}", "cannot evaluate \".upper"),
            ("{{ i / 2 }}", "cannot evaluate \"/ 2"),
            ("{{ i ** 2 }}", "cannot evaluate \"* 2"),
            ("{{ 'x' + 'y' }}", "needs whole numbers"),
            ("{{ 1 // 0 }}", "cannot compute 1 / 0"),
            ("{{ i % 0 }}", "cannot compute"),
            ("{{ 9223372036854775807 + 1 }}", "cannot compute"),
            ("{{ 9223372036854775808 }}", "no whole number"),
            ("{{ 1.5 }}", "cannot evaluate \".5"),
            ("{{ 'x }}", "no end"),
            ("{{ i", "cannot evaluate \"\""),
            ("{{ }}", "cannot evaluate"),
            ("{{- i }}", "'{{-'"),
            ("{{ i -}}", "cannot evaluate"),
            ("{% for i in x %}", "statements and comments"),
            ("{# x #}", "statements and comments"),
            (&deep, "nested"),
            (&minus, "nested"),
            (&long, "more than 65536 bytes"),
        ] {
            let error = scope().render(template).unwrap_err();
            assert!(error.contains(why), "{}: {error}", excerpt(template));
        }
    }
}
