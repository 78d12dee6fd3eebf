//! The head of an answer: its status, where its body ends, and whether the connection outlives it.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};

use crate::Cause;

/// The longest head; S3's own are below 1 KiB, and metadata of users may have 8 KiB.
pub(super) const LONGEST: usize = 32 << 10;
/// The most header fields.
const MOST_FIELDS: usize = 128;

/// What the head of an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The HTTP status.
    pub(super) status: u16,
    /// Bytes of the head itself, with the empty line.
    pub(super) bytes: usize,
    pub(super) body: Body,
    /// What `Content-Length` says; of an answer to HEAD it is not the body's.
    pub(super) content_length: Option<u64>,
    /// Whether the connection may serve another request behind this answer.
    pub(super) keeps_connection: bool,
}

/// Where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// Behind so many bytes.
    Length(u64),
    /// Where its last chunk says so.
    Chunked,
    /// Where the connection ends; nobody can tell whether it is whole.
    UntilClose,
}

/// Reads the head that `bytes` begin with; `None` as long as its end is missing. With `to_head` it
/// answers a HEAD request, so that no body follows whatever it says.
///
/// # Errors
/// It is no head of HTTP/1, or leaves open where its body ends.
pub(super) fn parse(bytes: &[u8], to_head: bool) -> Result<Option<Head>, Cause> {
    let mut fields = [MaybeUninit::uninit(); MOST_FIELDS];
    let mut answer = Response::new(&mut []);
    let length = match parse_into(&mut answer, bytes, &mut fields) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) if bytes.len() < LONGEST => return Ok(None),
        Ok(Status::Partial) => {
            return Err(Cause::protocol(format!("its head is longer than {LONGEST} bytes")));
        }
        Err(error) => {
            let text = format!("the answer is not HTTP ({error}); is this an S3 endpoint?");
            return Err(Cause::Other(text));
        }
    };
    let is_1_1 = answer.version == Some(1);
    let status = answer.code.unwrap_or_default();
    let mut framing = Framing::default();
    for field in &*answer.headers {
        framing.note(field)?;
    }
    let Framing { content_length, is_chunked, closes, keeps } = framing;
    if is_chunked && content_length.is_some() {
        return Err(Cause::protocol("it has a Content-Length and comes in chunks"));
    }
    if is_chunked && !is_1_1 {
        return Err(Cause::protocol("it comes in chunks, which HTTP/1.0 does not have"));
    }
    let has_no_body = to_head || status / 100 == 1 || status == 204 || status == 304;
    let body = match content_length {
        _ if has_no_body => Body::Length(0),
        _ if is_chunked => Body::Chunked,
        Some(length) => Body::Length(length),
        None => Body::UntilClose,
    };
    let keeps_connection = body != Body::UntilClose && !closes && (is_1_1 || keeps);
    Ok(Some(Head { status, bytes: length, body, content_length, keeps_connection }))
}

/// Where the fields go need not be made ready: it would be 4 KiB for each answer.
fn parse_into<'headers, 'bytes>(
    answer: &mut Response<'headers, 'bytes>,
    bytes: &'bytes [u8],
    fields: &'headers mut [MaybeUninit<Header<'bytes>>],
) -> httparse::Result<usize> {
    ParserConfig::default().parse_response_with_uninit_headers(answer, bytes, fields)
}

/// The value of the field `name`, of a head that was parsed before.
pub(super) fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let mut fields = [MaybeUninit::uninit(); MOST_FIELDS];
    let mut answer = Response::new(&mut []);
    parse_into(&mut answer, head, &mut fields).ok()?;
    let field = answer.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(field.value).ok().map(str::trim)
}

/// What the fields say about the body's end.
#[derive(Default)]
struct Framing {
    content_length: Option<u64>,
    is_chunked: bool,
    closes: bool,
    keeps: bool,
}

impl Framing {
    fn note(&mut self, field: &Header<'_>) -> Result<(), Cause> {
        if field.name.eq_ignore_ascii_case("content-length") {
            let length = number(field.value).ok_or_else(|| {
                let value = String::from_utf8_lossy(field.value);
                Cause::protocol(format!("its Content-Length is `{value}`"))
            })?;
            if self.content_length.replace(length).is_some() {
                return Err(Cause::protocol("it has more than one Content-Length"));
            }
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            if self.is_chunked || !field.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                let value = String::from_utf8_lossy(field.value);
                let problem = format!("its Transfer-Encoding `{value}` is not chunked alone");
                return Err(Cause::protocol(problem));
            }
            self.is_chunked = true;
        } else if field.name.eq_ignore_ascii_case("connection") {
            for option in field.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                self.closes |= option.eq_ignore_ascii_case(b"close");
                self.keeps |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }
}

/// Digits and nothing else.
fn number(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    let is_digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| is_digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        parse(text.as_bytes(), false).unwrap().unwrap()
    }

    fn problem(text: &str) -> String {
        parse(text.as_bytes(), false).unwrap_err().to_string()
    }

    #[test]
    fn an_answer_tells_its_status_its_length_and_that_the_connection_stays() {
        let text = "HTTP/1.1 206 Partial Content\r\ncontent-length: 17\r\nETag: \"x\"\r\n\r\n";
        let head = head(&format!("{text}body"));
        assert_eq!((head.status, head.bytes, head.body), (206, text.len(), Body::Length(17)));
        assert_eq!((head.content_length, head.keeps_connection), (Some(17), true));
        assert_eq!(field(text.as_bytes(), "etag"), Some("\"x\""));
        assert_eq!(field(text.as_bytes(), "server"), None);
    }

    #[test]
    fn a_head_is_waited_for_until_it_is_whole() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..end], false).unwrap(), None, "{end}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(LONGEST));
        assert!(problem(&endless).contains("longer than 32768 bytes"));
    }

    #[test]
    fn what_follows_a_head_depends_on_method_and_status() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        let to_head = parse(text.as_bytes(), true).unwrap().unwrap();
        assert_eq!((to_head.body, to_head.content_length), (Body::Length(0), Some(9)));
        assert_eq!(head("HTTP/1.1 204 No Content\r\n\r\n").body, Body::Length(0));
        assert_eq!(head("HTTP/1.1 304 Not Modified\r\n\r\n").body, Body::Length(0));
        let chunked = head("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n");
        assert_eq!((chunked.body, chunked.keeps_connection), (Body::Chunked, true));
        let open = head("HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!((open.body, open.keeps_connection), (Body::UntilClose, false));
    }

    #[test]
    fn a_connection_is_kept_where_both_sides_want_it() {
        for (version, options, keeps) in [
            ("1.1", "", true),
            ("1.1", "Connection: close\r\n", false),
            ("1.1", "Connection: x, Close\r\n", false),
            ("1.0", "", false),
            ("1.0", "Connection: keep-alive\r\n", true),
        ] {
            let text = format!("HTTP/{version} 200 OK\r\nContent-Length: 1\r\n{options}\r\n");
            assert_eq!(head(&text).keeps_connection, keeps, "{text}");
        }
    }

    #[test]
    fn a_head_that_leaves_open_where_its_body_ends_is_an_error() {
        for (fields, words) in [
            ("Content-Length: 5\r\nContent-Length: 6\r\n", "more than one Content-Length"),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", "more than one Content-Length"),
            ("Content-Length: 5, 5\r\n", "Content-Length is `5, 5`"),
            ("Content-Length: +5\r\n", "Content-Length is `+5`"),
            ("Content-Length: -1\r\n", "Content-Length is `-1`"),
            ("Content-Length: 0x5\r\n", "Content-Length is `0x5`"),
            ("Content-Length:\r\n", "Content-Length is ``"),
            ("Content-Length: 99999999999999999999\r\n", "Content-Length is"),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "and comes in chunks"),
            ("Transfer-Encoding: gzip, chunked\r\n", "not chunked alone"),
            ("Transfer-Encoding: identity\r\n", "not chunked alone"),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "not chunked alone"),
        ] {
            let problem = problem(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
            assert!(problem.contains(words), "{fields}: {problem}");
        }
        let old = problem("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert!(old.contains("HTTP/1.0"), "{old}");
    }

    #[test]
    fn what_is_no_http_is_said_to_be_none() {
        for text in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/2 200\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nx: y\r\n folded: z\r\n\r\n",
        ] {
            assert!(problem(text).contains("is this an S3 endpoint?"), "{text}");
        }
    }
}
