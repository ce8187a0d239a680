//! `credential_process`: a program that prints credentials as JSON.
//!
//! The program runs without a shell. Its words are split as AWS documents it: at spaces outside of
//! quotes; a backslash takes the next character literally. The program gets no input. Its standard
//! error is inherited from this process, because it may be a question to the user.
//! Spec: <https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html>

use super::{Given, Refused, time};
use hyperslab_store::fork::Mutex;
use serde_json::Value;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Longest output to read.
const MOST: u64 = 64 << 10;

/// Poll interval for a program that has closed its output but not ended.
const EVERY: Duration = Duration::from_millis(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    profile: String,
    name: String,
    words: Vec<String>,
}

/// A running program. Dropping this ends it, since nobody waits for it.
struct Running(Arc<Mutex<Child>>);

impl Drop for Running {
    fn drop(&mut self) {
        // Does nothing if the program has ended.
        let _ = self.0.lock().kill();
    }
}

impl Program {
    /// Parses `line`, as written in the profile.
    pub(crate) fn new(profile: &str, line: &str) -> Result<Program, String> {
        let mut words = split(line)?;
        if words.is_empty() {
            return Err("it names no program".into());
        }
        let name = words.remove(0);
        Ok(Program { profile: profile.to_owned(), name, words })
    }

    fn from(&self) -> String {
        format!("the credential_process of profile '{}'", self.profile)
    }

    /// Runs the program for at most `patience`.
    pub(super) async fn run(&self, patience: Duration) -> Result<Given, Refused> {
        let from = self.from();
        let mut command = Command::new(&self.name);
        command.args(&self.words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let failed = |what: &str| Refused::new(format!("no credentials: {from} {what}"));
        let mut child = command.spawn().map_err(|error| failed(&format!("cannot be run: {error}")))?;
        let output = child.stdout.take();
        let running = Running(Arc::new(Mutex::new(child)));
        let (done, answer) = tokio::sync::oneshot::channel();
        // A separate thread: processes started by the program may keep the output open for long.
        let child = running.0.clone();
        let wait = move || {
            let mut bytes = Vec::new();
            let read = output.map_or(Ok(0), |output| output.take(MOST + 1).read_to_end(&mut bytes));
            if read.is_err() || bytes.len() as u64 > MOST {
                let _ = child.lock().kill();
            }
            let status = loop {
                let status = child.lock().try_wait();
                match status {
                    Ok(None) => thread::sleep(EVERY),
                    status => break status,
                }
            };
            // The receiver may have stopped waiting.
            let _ = done.send((read.map(|_| bytes), status));
        };
        let started = thread::Builder::new().name("hyperslab-credentials".into()).spawn(wait);
        started.map_err(|error| failed(&format!("cannot be waited for: {error}")))?;
        let answer = tokio::time::timeout(patience, answer).await;
        let Ok(Ok((Ok(bytes), Ok(status)))) = answer else {
            return Err(match answer {
                Err(_) => failed(&format!("did not end within {} s", patience.as_secs())),
                Ok(_) => failed("could not be read from"),
            });
        };
        if bytes.len() as u64 > MOST {
            return Err(failed("printed more than 64 KiB"));
        }
        match status {
            Some(status) if status.success() => self.given(&bytes),
            status => {
                Err(failed(&format!("ended with {}", status.map_or_else(String::new, |s| s.to_string()))))
            }
        }
    }

    /// Parses the output.
    fn given(&self, bytes: &[u8]) -> Result<Given, Refused> {
        let from = self.from();
        let object: Value = serde_json::from_slice(bytes)
            .map_err(|_| Refused::new(format!("no credentials: {from} printed no JSON")))?;
        if object.get("Version").and_then(Value::as_u64) != Some(1) {
            return Err(Refused::new(format!("no credentials: {from} printed no \"Version\": 1")));
        }
        let end = match object.get("Expiration") {
            None | Some(Value::Null) => None,
            Some(end) => Some(end.as_str().and_then(time).ok_or_else(|| {
                Refused::new(format!("no credentials: {from} printed an \"Expiration\" that is no time"))
            })?),
        };
        Given::of(&from, &object, ["AccessKeyId", "SecretAccessKey", "SessionToken"], end)
    }
}

/// The words of a line.
fn split(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut letters) = (Vec::new(), None::<String>, line.chars());
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        None => return Err("a quote has no partner".into()),
                        Some(end) if end == letter => break,
                        // Inside double quotes, a backslash escapes only these two.
                        Some('\\') if letter == '"' => match letters.next() {
                            Some(next @ ('"' | '\\')) => word.push(next),
                            Some(next) => word.extend(['\\', next]),
                            None => return Err("a quote has no partner".into()),
                        },
                        Some(inside) => word.push(inside),
                    }
                }
            }
            '\\' => match letters.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err("nothing follows the last backslash".into()),
            },
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::{Program, split};
    use std::time::{Duration, Instant};

    #[test]
    fn words() {
        for (line, words) in [
            ("", &[][..]),
            ("  /bin/x  -a b ", &["/bin/x", "-a", "b"]),
            ("'/a b/x' \"c d\" e''f ''", &["/a b/x", "c d", "ef", ""]),
            (r#"x "a\"b\c" 'd\e' f\ g $HOME ~ `x`"#, &["x", "a\"b\\c", "d\\e", "f g", "$HOME", "~", "`x`"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        for line in ["x 'a", "x \"a", "x \"a\\", "x \\"] {
            assert!(split(line).is_err(), "{line}");
        }
    }

    fn run(line: &str, patience: u64) -> Result<super::Given, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let program = Program::new("p", line).unwrap();
        let done = runtime.block_on(program.run(Duration::from_millis(patience)));
        done.map_err(|refused| refused.to_string())
    }

    #[test]
    fn programs_print_credentials() {
        let json = r#"{"Version": 1, "AccessKeyId": "K", "SecretAccessKey": "canary", "SessionToken": "T"}"#;
        let keys = run(&format!("printf %s '{json}'"), 5000).unwrap().keys;
        assert_eq!(
            (keys.key_id.as_str(), keys.secret_key.as_str(), keys.token.as_deref()),
            ("K", "canary", Some("T"))
        );
        for (line, why) in [
            ("/no/such/program".to_owned(), "cannot be run"),
            ("false".to_owned(), "exit status: 1"),
            ("printf canary".to_owned(), "no JSON"),
            ("printf '{\"AccessKeyId\": \"canary\"}'".to_owned(), "Version"),
            (
                "printf '{\"Version\": 1, \"AccessKeyId\": \"canary\"}'".to_owned(),
                "without 'SecretAccessKey'",
            ),
            (format!("printf %s '{}'", json.replace("\"T\"", "\"T\", \"Expiration\": \"soon\"")), "no time"),
            (
                format!(
                    "printf %s '{}'",
                    json.replace("\"T\"", "\"T\", \"Expiration\": \"2001-01-01T00:00:00Z\"")
                ),
                "expired",
            ),
            ("head -c 70000 /dev/zero".to_owned(), "64 KiB"),
            ("yes".to_owned(), "64 KiB"),
        ] {
            let error = run(&line, 5000).unwrap_err();
            assert!(error.contains(why) && error.contains("'p'") && !error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn programs_that_do_not_end_are_ended() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let begun = Instant::now();
        let error = run(&format!("sh -c 'echo $$ > {}; exec sleep 60'", file.display()), 500).unwrap_err();
        assert!(error.contains("did not end within"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(20));
        let pid = std::fs::read_to_string(file).unwrap();
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        for _ in 0..1000 {
            if gone() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the program still runs");
    }
}
