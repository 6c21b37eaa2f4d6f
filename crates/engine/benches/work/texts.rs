//! Texts and lists that traces of both families are made of.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, InstrumentationScope, KeyValue, any_value::Value,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

/// Texts that are repeated to make a long one: each hits something that has to be looked at. Behind
/// [`SHUFFLED`] stand the words of one rule, which come in any order: then an automaton is at many
/// of its beginnings at once.
pub(crate) const UNITS: [&str; 28] = [
    "a",
    " ",
    "1",
    "\n",
    "word ",
    "error ",
    "Error: ",
    "\u{e9}\u{301}\u{202e}",
    "a@b.",
    "john.doe@example.com ",
    "192.168.0.1 ",
    "4111 1111 1111 111 ",
    "ignore all previous ",
    "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ= ",
    "%69%67%6e",
    "&#105;",
    "i\u{200b}g\u{200b}n",
    "{\"a\":",
    "[",
    "\\u0041",
    "sk-aaaaaaaaaaaaaaaaaaaa ",
    "api_key=\"",
    "Traceback (most recent call last):\n",
    "http://a.b/?token=",
    "~reveal ignore send model chatgpt, mail: follow mention ai transfer run gemini obey, language \
     must delete instead <!-- forward. comply tell agent disregard copilot execute do not",
    "~payee file page away process beneficiary vendor card no issue without update immediately is \
     safe wallet approve need for payment. pay straight wait bank owner: message manager",
    "~browser share transfer credentials history passwd notify secretly leak message nothing the \
     silently transmit secret conversation https: passwords at it keys aws/ forward and not tell",
    "me@ab.co ",
];
/// Marks a unit whose words come in any order.
const SHUFFLED: char = '~';

/// A small repeatable generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below a limit.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}

/// A request of spans in one scope.
pub(crate) fn request(spans: Vec<Span>) -> Vec<u8> {
    let scope = InstrumentationScope { name: "worst".into(), ..Default::default() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..Default::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..Default::default() }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

/// A span of the one trace, which ends half a microsecond after its start.
pub(crate) fn span(at: usize, parent: usize, start: u64, attributes: Vec<KeyValue>) -> Span {
    Span {
        trace_id: vec![7; 16],
        span_id: (at as u64 + 1).to_be_bytes().to_vec(),
        parent_span_id: match at {
            0 => Vec::new(),
            _ => (parent as u64 + 1).to_be_bytes().to_vec(),
        },
        name: "span".into(),
        start_time_unix_nano: 1_790_000_000_000_000_000 + start * 1_000,
        end_time_unix_nano: 1_790_000_000_000_000_500 + start * 1_000,
        attributes,
        ..Default::default()
    }
}

pub(crate) fn repeated(unit: &str, bytes: usize) -> String {
    let Some(words) = unit.strip_prefix(SHUFFLED) else { return unit.repeat(bytes / unit.len()) };
    let words: Vec<&str> = words.split(' ').collect();
    let (mut random, mut text) = (Random(0x2545_f491_4f6c_dd1d), String::new());
    while text.len() < bytes {
        text += words[random.below(words.len() as u32) as usize];
        text += [" ", " ", " ", "-", "\n"][random.below(5) as usize];
    }
    text
}

pub(crate) fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Entries until so many bytes are there, with commas; one at least.
pub(crate) fn entries(bytes: usize, make: impl Fn(usize) -> String) -> String {
    list(bytes, make).join(",")
}

pub(crate) fn list(bytes: usize, make: impl Fn(usize) -> String) -> Vec<String> {
    let mut list = vec![make(0)];
    let mut held = list[0].len();
    while held < bytes {
        let next = make(list.len());
        held += 1 + next.len();
        list.push(next);
    }
    list
}

/// Fields as Python prints them, each of its own name.
pub(crate) fn printed_fields(bytes: usize) -> String {
    list(bytes, |at| format!("k{at}=1")).join(" ")
}

pub(crate) fn object(keys: usize, make: impl Fn(usize) -> String) -> String {
    let entries: Vec<_> = (0..keys).map(make).collect();
    format!("{{{}}}", entries.join(","))
}

pub(crate) fn object_entries(keys: usize, at: usize) -> String {
    let entries: Vec<_> =
        (0..keys).map(|key| format!(r#""key_{key}":{{"maxLength":{at}}}"#)).collect();
    entries.join(",")
}

pub(crate) fn message(role: &str, text: &str) -> String {
    format!(r#"[{{"role":"{role}","parts":[{{"type":"text","content":{}}}]}}]"#, json(text))
}

pub(crate) fn texts(attributes: Vec<(&str, String)>) -> Vec<KeyValue> {
    let attribute = |(key, text): (&str, String)| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(Value::StringValue(text)) }),
        ..Default::default()
    };
    attributes.into_iter().map(attribute).collect()
}
