//! The text form of a fault rule.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::StatusCode;

use super::pattern::KeyPattern;
use crate::request::{RequestKind, Target};

/// One thing that the server does wrong on purpose, written as a line of words:
///
/// ```text
/// METHOD [key=PATTERN] [attempt=N|N-M|N+] [from=K] [count=N] ACTION...
///
/// get key=*img_3* attempt=1 status=503
/// get delay_first_byte=100ms
/// put status=403 from=5
/// ```
///
/// METHOD is `get`, `put` (parts of multipart uploads included), `list`, `head`, `delete` or `any`,
/// which alone fits copies and all else.
///
/// Which requests (all conditions must hold):
/// - `key`: a glob over the whole decoded key (the prefix, for `list`). `*` stands for any characters,
///   `?` for one; a blank, which would end the word, is written as `?`.
/// - `attempt`: the how-manieth request this is for its key, among those that method and `key` fit.
/// - `from`: not before the K-th request that fits all of the above.
/// - `count`: at most N times.
///
/// What happens (at least one):
/// - `delay_first_byte=100ms`: the answer comes that much later; `us`, `ms` or `s`.
/// - `status=503`: the answer is this error, with S3's code for it or the one of `code=Name`.
/// - `reset`: the connection is reset (RST) instead of an answer.
///
/// [`Display`](fmt::Display) gives a text that parses to the same rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    method: Method,
    key: Option<KeyPattern>,
    pub(super) attempts: Option<Attempts>,
    /// At least 1.
    pub(super) from: u64,
    pub(super) count: Option<u64>,
    pub(super) delay_first_byte: Option<Duration>,
    pub(super) answer: Option<Answer>,
}

impl FaultRule {
    /// Whether the rule's method and key pattern fit.
    pub(super) fn fits(&self, target: &Target) -> bool {
        self.method.fits(target.kind)
            && self.key.as_ref().is_none_or(|pattern| pattern.matches(&target.key))
    }
}

/// What takes the place of the store's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An S3 error.
    Status {
        /// 400 to 599.
        status: StatusCode,
        /// Letters and digits.
        code: String,
    },
    /// No answer: a RST.
    Reset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Get,
    Put,
    List,
    Head,
    Delete,
    Any,
}

impl Method {
    const ALL: [(&'static str, Self); 6] = [
        ("get", Self::Get),
        ("put", Self::Put),
        ("list", Self::List),
        ("head", Self::Head),
        ("delete", Self::Delete),
        ("any", Self::Any),
    ];

    fn fits(self, kind: RequestKind) -> bool {
        match self {
            Self::Get => kind == RequestKind::Get,
            // A part is a write like any other: what holds for objects should hold for large ones.
            Self::Put => matches!(kind, RequestKind::Put | RequestKind::Part),
            Self::List => kind == RequestKind::List,
            Self::Head => kind == RequestKind::Head,
            Self::Delete => kind == RequestKind::Delete,
            Self::Any => true,
        }
    }
}

/// A range of attempt numbers, both ends included; open when `last` is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attempts {
    first: u64,
    last: Option<u64>,
}

impl Attempts {
    pub(super) fn contains(self, attempt: u64) -> bool {
        attempt >= self.first && self.last.is_none_or(|last| attempt <= last)
    }
}

/// Why a text is no fault rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fault rule \"{rule}\": {problem}")]
pub struct FaultRuleError {
    /// The text.
    pub rule: String,
    /// What is wrong with it.
    pub problem: FaultProblem,
}

/// What is wrong with the text of a fault rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultProblem {
    /// It does not begin with a method.
    #[error("it must begin with get, put, list, head, delete or any, not with \"{found}\"")]
    Method {
        /// The first word; empty when there is none.
        found: String,
    },
    /// A word is no condition and no action.
    #[error(
        "\"{word}\" is not known; conditions are key=, attempt=, from= and count=, actions are \
         delay_first_byte=, status= (with code=) and reset"
    )]
    Word {
        /// The word.
        word: String,
    },
    /// A condition or action stands there twice.
    #[error("{name} is given twice")]
    Twice {
        /// Its name.
        name: String,
    },
    /// A value is not what its name asks for.
    #[error("{name}={value} is not valid: {expected}")]
    Value {
        /// The name before the `=`.
        name: &'static str,
        /// The text behind it.
        value: String,
        /// What is accepted.
        expected: &'static str,
    },
    /// There is nothing to do.
    #[error("it has no action: add delay_first_byte=, status= or reset")]
    NoAction,
    /// An answer and a reset exclude each other.
    #[error("status= and reset exclude each other")]
    StatusAndReset,
    /// A code without a status.
    #[error("code= needs a status=")]
    CodeWithoutStatus,
}

impl FromStr for FaultRule {
    type Err = FaultRuleError;

    fn from_str(text: &str) -> Result<Self, FaultRuleError> {
        parse(text).map_err(|problem| FaultRuleError { rule: text.trim().to_owned(), problem })
    }
}

/// The words behind the method, as they stand there.
#[derive(Default)]
struct Words<'a> {
    key: Option<&'a str>,
    attempt: Option<&'a str>,
    from: Option<&'a str>,
    count: Option<&'a str>,
    delay_first_byte: Option<&'a str>,
    status: Option<&'a str>,
    code: Option<&'a str>,
    reset: Option<&'a str>,
}

impl<'a> Words<'a> {
    fn read(words: impl Iterator<Item = &'a str>) -> Result<Self, FaultProblem> {
        let mut read = Self::default();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let place = match name {
                "reset" if word == name => &mut read.reset,
                _ if word == name => return Err(FaultProblem::Word { word: word.to_owned() }),
                "key" => &mut read.key,
                "attempt" => &mut read.attempt,
                "from" => &mut read.from,
                "count" => &mut read.count,
                "delay_first_byte" => &mut read.delay_first_byte,
                "status" => &mut read.status,
                "code" => &mut read.code,
                _ => return Err(FaultProblem::Word { word: word.to_owned() }),
            };
            if place.replace(value).is_some() {
                return Err(FaultProblem::Twice { name: name.to_owned() });
            }
        }
        Ok(read)
    }
}

fn parse(text: &str) -> Result<FaultRule, FaultProblem> {
    let mut words = text.split_whitespace();
    let found = words.next().unwrap_or_default();
    let method = Method::ALL.iter().find(|(name, _)| *name == found);
    let &(_, method) = method.ok_or_else(|| FaultProblem::Method { found: found.to_owned() })?;
    let words = Words::read(words)?;

    let answer = match (words.status, words.code, words.reset) {
        (None, None, None) => None,
        (None, None, Some(_)) => Some(Answer::Reset),
        (Some(_), _, Some(_)) => return Err(FaultProblem::StatusAndReset),
        (None, Some(_), _) => return Err(FaultProblem::CodeWithoutStatus),
        (Some(status), code, None) => Some(parse_status(status, code)?),
    };
    let delay_first_byte = words.delay_first_byte.map(parse_duration).transpose()?;
    if answer.is_none() && delay_first_byte.is_none() {
        return Err(FaultProblem::NoAction);
    }
    Ok(FaultRule {
        method,
        key: words.key.map(KeyPattern::new),
        attempts: words.attempt.map(parse_attempts).transpose()?,
        from: words.from.map_or(Ok(1), |value| parse_count("from", value))?,
        count: words.count.map(|value| parse_count("count", value)).transpose()?,
        delay_first_byte,
        answer,
    })
}

/// A whole number from 1 on.
fn positive(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0)
}

fn parse_count(name: &'static str, value: &str) -> Result<u64, FaultProblem> {
    positive(value).ok_or_else(|| FaultProblem::Value {
        name,
        value: value.to_owned(),
        expected: "a whole number from 1 on",
    })
}

fn parse_attempts(value: &str) -> Result<Attempts, FaultProblem> {
    let range = if let Some(first) = value.strip_suffix('+') {
        positive(first).map(|first| Attempts { first, last: None })
    } else {
        let (first, last) = value.split_once('-').unwrap_or((value, value));
        positive(first).zip(positive(last)).and_then(|(first, last)| {
            (first <= last).then_some(Attempts { first, last: Some(last) })
        })
    };
    range.ok_or_else(|| FaultProblem::Value {
        name: "attempt",
        value: value.to_owned(),
        expected: "a number from 1 on (1), a range (1-3), or all from one on (2+)",
    })
}

fn parse_duration(value: &str) -> Result<Duration, FaultProblem> {
    let unit_at = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(unit_at);
    // The largest number of 32 bits is 49 days in milliseconds, and no delay can overflow a sum.
    let duration = number.parse::<u32>().ok().map(u64::from).and_then(|number| match unit {
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    });
    duration.ok_or_else(|| FaultProblem::Value {
        name: "delay_first_byte",
        value: value.to_owned(),
        expected: "a whole number with its unit, us, ms or s",
    })
}

fn parse_status(value: &str, code: Option<&str>) -> Result<Answer, FaultProblem> {
    let status = value.parse::<u16>().ok().and_then(|number| StatusCode::from_u16(number).ok());
    let status = status.filter(|status| status.is_client_error() || status.is_server_error());
    let status = status.ok_or_else(|| FaultProblem::Value {
        name: "status",
        value: value.to_owned(),
        expected: "an error status, 400 to 599",
    })?;
    let code = code.unwrap_or_else(|| default_code(status));
    if code.is_empty() || !code.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(FaultProblem::Value {
            name: "code",
            value: code.to_owned(),
            expected: "letters and digits, such as SlowDown",
        });
    }
    Ok(Answer::Status { status, code: code.to_owned() })
}

/// The code that S3 sends most often with this status.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>
fn default_code(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "InvalidRequest",
        403 => "AccessDenied",
        404 => "NoSuchKey",
        405 => "MethodNotAllowed",
        408 => "RequestTimeout",
        409 => "OperationAborted",
        411 => "MissingContentLength",
        412 => "PreconditionFailed",
        416 => "InvalidRange",
        429 => "TooManyRequests",
        500 => "InternalError",
        501 => "NotImplemented",
        503 => "SlowDown",
        507 => "InsufficientStorage",
        other if other < 500 => "InvalidRequest",
        _ => "InternalError",
    }
}

impl fmt::Display for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Method::ALL.iter().find(|(_, method)| *method == self.method);
        f.write_str(name.map_or("any", |(name, _)| name))?;
        if let Some(key) = &self.key {
            write!(f, " key={key}")?;
        }
        match self.attempts {
            None => {}
            Some(Attempts { first, last: None }) => write!(f, " attempt={first}+")?,
            Some(Attempts { first, last: Some(last) }) if first == last => {
                write!(f, " attempt={first}")?;
            }
            Some(Attempts { first, last: Some(last) }) => write!(f, " attempt={first}-{last}")?,
        }
        if self.from > 1 {
            write!(f, " from={}", self.from)?;
        }
        if let Some(count) = self.count {
            write!(f, " count={count}")?;
        }
        if let Some(delay) = self.delay_first_byte {
            f.write_str(" delay_first_byte=")?;
            match delay.as_micros() {
                us if us % 1_000 != 0 => write!(f, "{us}us")?,
                us if us % 1_000_000 != 0 => write!(f, "{}ms", us / 1_000)?,
                us => write!(f, "{}s", us / 1_000_000)?,
            }
        }
        match &self.answer {
            None => Ok(()),
            Some(Answer::Reset) => f.write_str(" reset"),
            Some(Answer::Status { status, code }) if code == default_code(*status) => {
                write!(f, " status={}", status.as_u16())
            }
            Some(Answer::Status { status, code }) => {
                write!(f, " status={} code={code}", status.as_u16())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn problem(text: &str) -> FaultProblem {
        text.parse::<FaultRule>().unwrap_err().problem
    }

    #[test]
    fn the_parts_of_a_rule_are_read() {
        let rule: FaultRule =
            " get  key=*img_3* attempt=1-3 from=2 count=7 status=503 ".parse().unwrap();
        assert_eq!(rule.method, Method::Get);
        assert_eq!(rule.key, Some(KeyPattern::new("*img_3*")));
        assert_eq!(rule.attempts, Some(Attempts { first: 1, last: Some(3) }));
        assert_eq!((rule.from, rule.count), (2, Some(7)));
        let code = "SlowDown".to_owned();
        let status = StatusCode::SERVICE_UNAVAILABLE;
        assert_eq!(rule.answer, Some(Answer::Status { status, code }));
    }

    #[test]
    fn a_key_may_hold_an_equals_sign() {
        let rule: FaultRule = "get key=a=b reset".parse().unwrap();
        assert_eq!(rule.key, Some(KeyPattern::new("a=b")));
    }

    #[test]
    fn what_is_no_rule_is_told_why() {
        assert_eq!(problem(""), FaultProblem::Method { found: String::new() });
        assert_eq!(problem("GET reset"), FaultProblem::Method { found: "GET".into() });
        assert_eq!(problem("get"), FaultProblem::NoAction);
        assert_eq!(problem("get key=a"), FaultProblem::NoAction);
        assert_eq!(problem("get reset=1"), FaultProblem::Word { word: "reset=1".into() });
        assert_eq!(problem("get status"), FaultProblem::Word { word: "status".into() });
        assert_eq!(problem("get stall"), FaultProblem::Word { word: "stall".into() });
        assert_eq!(problem("get key=a key=b reset"), FaultProblem::Twice { name: "key".into() });
        assert_eq!(problem("get reset reset"), FaultProblem::Twice { name: "reset".into() });
        assert_eq!(problem("get reset status=503"), FaultProblem::StatusAndReset);
        assert_eq!(problem("get reset code=A"), FaultProblem::CodeWithoutStatus);
        for wrong in [
            "reset attempt=0",
            "reset attempt=3-2",
            "reset attempt=+",
            "reset attempt=x",
            "reset from=0",
            "reset count=0",
            "reset count=-1",
            "status=200",
            "status=600",
            "status=x",
            "status=503 code=<x>",
            "status=503 code=",
            "delay_first_byte=1",
            "delay_first_byte=ms",
            "delay_first_byte=-1s",
            "delay_first_byte=99999999999s",
        ] {
            let problem = problem(&format!("get {wrong}"));
            assert!(matches!(problem, FaultProblem::Value { .. }), "{wrong}: {problem}");
        }
    }

    #[test]
    fn an_error_shows_the_rule_and_what_is_accepted() {
        let error = "get status=700".parse::<FaultRule>().unwrap_err().to_string();
        assert_eq!(
            error,
            "fault rule \"get status=700\": status=700 is not valid: an error status, 400 to 599"
        );
    }

    fn rules() -> impl Strategy<Value = FaultRule> {
        let method = proptest::sample::select(Method::ALL.map(|(_, method)| method).to_vec());
        let attempts = (1_u64..9, option::of(0_u64..9))
            .prop_map(|(first, more)| Attempts { first, last: more.map(|more| first + more) });
        let delay = prop_oneof![
            any::<u32>().prop_map(|us| Duration::from_micros(u64::from(us))),
            any::<u32>().prop_map(|ms| Duration::from_millis(u64::from(ms))),
            any::<u32>().prop_map(|s| Duration::from_secs(u64::from(s))),
        ];
        let answer = prop_oneof![
            Just(Answer::Reset),
            (400_u16..600, option::of("[A-Za-z0-9]{1,12}")).prop_map(|(status, code)| {
                let status = StatusCode::from_u16(status).unwrap();
                let code = code.unwrap_or_else(|| default_code(status).to_owned());
                Answer::Status { status, code }
            }),
        ];
        let actions = (option::of(delay), option::of(answer))
            .prop_filter("no action", |(delay, answer)| delay.is_some() || answer.is_some());
        let key = option::of("[a-z0-9*?=/%+ü.-]{0,12}".prop_map(|text| KeyPattern::new(&text)));
        let count = option::of(1_u64..);
        (method, key, option::of(attempts), 1_u64.., count, actions).prop_map(
            |(method, key, attempts, from, count, (delay_first_byte, answer))| FaultRule {
                method,
                key,
                attempts,
                from,
                count,
                delay_first_byte,
                answer,
            },
        )
    }

    proptest! {
        #[test]
        fn the_text_of_a_rule_parses_to_the_same_rule(rule in rules()) {
            prop_assert_eq!(rule.to_string().parse::<FaultRule>(), Ok(rule));
        }
    }
}
