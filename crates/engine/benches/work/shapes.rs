//! Traces that a stranger could send, each told by a few numbers, so that a search can change them.

use std::fmt;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, InstrumentationScope, KeyValue, any_value::Value,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

/// Texts that are repeated to make a long one: each hits something that has to be looked at. Behind
/// [`SHUFFLED`] stand the words of one rule, which come in any order: then an automaton is at many
/// of its beginnings at once.
const UNITS: [&str; 28] = [
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

/// The genes of a trace, each with how many values it takes.
const GENES: [(&str, u32); 18] = [
    ("dialect", 3),
    // Powers of two.
    ("call_bytes", 15),
    ("names", 12),
    ("ids", 4),
    ("arguments", 6),
    ("keys", 8),
    ("results", 9),
    ("unit", UNITS.len() as u32),
    ("messages", 4),
    // Calls on spans without arguments, which only messages hold.
    ("bare", 2),
    // Models are given what they asked for in reverse.
    ("reversed", 2),
    ("definitions", 6),
    ("schema", 6),
    ("same_time", 2),
    ("nested", 2),
    ("text_share", 4),
    ("text", 4),
    ("output_unit", UNITS.len() as u32),
];

/// Most spans of a trace that are kept by default.
const SPANS_MAX: usize = 45_000;

/// The name of a tool of a trace.
pub(crate) fn tool_name(at: usize) -> String {
    format!("tool_{at}")
}

/// The name of an argument.
pub(crate) fn argument_key(at: usize) -> String {
    format!("key_{at}")
}

/// A small repeatable generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}

/// A trace by its genes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TraceShape([u32; GENES.len()]);

impl fmt::Display for TraceShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let genes = GENES.iter().zip(&self.0).map(|((name, _), value)| format!("{name}={value}"));
        f.write_str(&genes.collect::<Vec<_>>().join(" "))
    }
}

impl TraceShape {
    /// Any shape.
    pub(crate) fn random(random: &mut Random) -> Self {
        Self(GENES.map(|(_, count)| random.below(count)))
    }

    /// The same with one to three genes changed.
    pub(crate) fn changed(&self, random: &mut Random) -> Self {
        let mut changed = self.clone();
        for _ in 0..=random.below(3) {
            let gene = random.below(GENES.len() as u32) as usize;
            changed.0[gene] = random.below(GENES[gene].1);
        }
        changed
    }

    /// Reads what `Display` wrote; genes that are not named are 0.
    pub(crate) fn parse(line: &str) -> Self {
        let mut shape = Self([0; GENES.len()]);
        for (name, value) in line.split_whitespace().filter_map(|gene| gene.split_once('=')) {
            let at = GENES.iter().position(|(gene, _)| *gene == name);
            let at = at.unwrap_or_else(|| panic!("no gene is called {name}"));
            shape.0[at] = value.parse().unwrap();
        }
        shape
    }

    fn gene(&self, name: &str) -> usize {
        let at = GENES.iter().position(|(gene, _)| *gene == name).unwrap();
        self.0[at] as usize
    }

    /// A request of about so many bytes that holds one such trace.
    pub(crate) fn request(&self, bytes: usize) -> Vec<u8> {
        let text_bytes = bytes * self.gene("text_share") / 4;
        let mut left = bytes - text_bytes;
        let mut spans = vec![self.root(text_bytes)];
        if self.gene("definitions") > 0 {
            let share = left / 8 * self.gene("definitions");
            let span = self.definitions(share);
            left = left.saturating_sub(span.encoded_len());
            spans.push(span);
        }
        if self.gene("messages") > 0 {
            let share = left / 4 * self.gene("messages");
            for at in 0..3 {
                let span = self.model(share / 6, at);
                left = left.saturating_sub(span.encoded_len());
                spans.push(span);
            }
        }
        while spans.len() < SPANS_MAX {
            let span = self.call(spans.len());
            let Some(rest) = left.checked_sub(span.encoded_len() + 4) else { break };
            left = rest;
            spans.push(span);
        }
        let scope = InstrumentationScope { name: "worst".into(), ..Default::default() };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..Default::default() }];
        let resource_spans = vec![ResourceSpans { scope_spans, ..Default::default() }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    fn span(&self, at: usize, parent: usize, attributes: Vec<KeyValue>) -> Span {
        let start = if self.gene("same_time") == 1 { 1 } else { at as u64 + 1 };
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

    fn root(&self, text_bytes: usize) -> Span {
        let unit = UNITS[self.gene("output_unit")];
        let text = repeated(unit, text_bytes / 2);
        let output = match self.gene("text") {
            0 => text.clone(),
            1 => format!("{{{}}}", entries(text_bytes / 2, |at| format!(r#""k{at}":[{at}]"#))),
            2 => format!("[{}]", entries(text_bytes / 2, |at| format!("{at}"))),
            _ => format!("['{}']", entries(text_bytes / 2, |at| format!("x{at}"))),
        };
        let attributes = match self.gene("dialect") {
            0 => vec![
                ("openinference.span.kind", "AGENT".to_owned()),
                ("input.value", text),
                ("output.value", output),
            ],
            1 => vec![
                ("gen_ai.operation.name", "invoke_agent".to_owned()),
                ("gen_ai.agent.name", "a".to_owned()),
                ("gen_ai.input.messages", message("user", &text)),
                ("gen_ai.output.messages", message("assistant", &output)),
            ],
            _ => vec![
                ("traceloop.span.kind", "workflow".to_owned()),
                ("traceloop.entity.name", "w".to_owned()),
                ("traceloop.entity.input", text),
                ("traceloop.entity.output", output),
            ],
        };
        self.span(0, 0, texts(attributes))
    }

    fn id(&self, at: usize) -> Option<String> {
        match self.gene("ids") {
            0 => None,
            1 => Some("same".to_owned()),
            2 => Some(format!("c{at}")),
            _ => Some(format!("c{}", at % 7)),
        }
    }

    /// About half of the bytes of a call; 32 bytes and more.
    fn half(&self) -> usize {
        16 << self.gene("call_bytes")
    }

    fn arguments(&self, at: usize) -> String {
        let (bytes, keys) = (self.half(), 1 << self.gene("keys"));
        let text = json(&repeated(UNITS[self.gene("unit")], bytes / keys));
        match self.gene("arguments") {
            0 => "{}".to_owned(),
            1 => object(keys, |key| format!("{}:{text}", json(&argument_key(key)))),
            2 => object(keys, |key| format!("{}:\"v{at}\"", json(&argument_key((key + at) % 500)))),
            3 => format!("{}{}{}", "{\"a\":".repeat(bytes / 6), at, "}".repeat(bytes / 6)),
            4 => format!("{{\"a\":[{}]}}", entries(bytes, |number| format!("{}", number + at))),
            _ => format!("{{'a': {at}, 'b': (1, 2, [{text}])}}"),
        }
    }

    fn result(&self, at: usize) -> String {
        let bytes = self.half();
        let text = repeated(UNITS[self.gene("unit")], bytes);
        match self.gene("results") {
            0 => String::new(),
            1 => text,
            2 => format!("{{\"error\": {}}}", json(&text)),
            3 => format!("{{{}}}", entries(bytes, |key| format!("\"error\": null, \"k{key}\": 1"))),
            4 => format!("[{}]", entries(bytes, |_| r#"{"type": "text", "text": "ok"}"#.into())),
            5 => format!("content={} name='x' tool_call_id='c{at}'", json(&text)),
            8 => format!("content={} tool_call_id=2 {}", json(&text), printed_fields(bytes)),
            6 => format!("{{\"content\": {}}}", json(&format!("{{\"content\": {}}}", json(&text)))),
            _ => format!("{{'a': [{}]}}", entries(bytes, |number| format!("'{number}'"))),
        }
    }

    fn call(&self, at: usize) -> Span {
        let name = tool_name(at % (1 << self.gene("names")));
        let mut attributes = match self.gene("dialect") {
            0 => vec![
                ("openinference.span.kind", "TOOL".to_owned()),
                ("tool.name", name),
                ("input.value", self.arguments(at)),
                ("output.value", self.result(at)),
            ],
            1 => vec![
                ("gen_ai.operation.name", "execute_tool".to_owned()),
                ("gen_ai.tool.name", name),
                ("gen_ai.tool.call.arguments", self.arguments(at)),
                ("gen_ai.tool.call.result", self.result(at)),
            ],
            _ => vec![
                ("traceloop.span.kind", "tool".to_owned()),
                ("traceloop.entity.name", name),
                ("traceloop.entity.input", self.arguments(at)),
                ("traceloop.entity.output", self.result(at)),
            ],
        };
        if self.gene("bare") == 1 {
            let is_arguments = |key: &str| key.ends_with("arguments") || key.ends_with("input");
            attributes.retain(|(key, _)| !is_arguments(key) && *key != "input.value");
        }
        let key = ["tool_call.id", "gen_ai.tool.call.id", "gen_ai.tool.call.id"];
        attributes.extend(self.id(at).map(|id| (key[self.gene("dialect")], id)));
        let parent = if self.gene("nested") == 1 { at - 1 } else { 0 };
        self.span(at, parent, texts(attributes))
    }

    fn model(&self, bytes: usize, span: usize) -> Span {
        let call = |at: usize| {
            let id = self.id(at).map(|id| format!(r#""id":"{id}","#)).unwrap_or_default();
            let (name, arguments) =
                (tool_name(at % (1 << self.gene("names"))), json(&self.arguments(at)));
            let function = format!(r#"{{"name":"{name}","arguments":{arguments}}}"#);
            let call = format!(r#"{{{id}"type":"function","function":{function}}}"#);
            format!(r#"{{"role":"assistant","tool_calls":[{call}]}}"#)
        };
        let result = |at: usize| {
            let id = self.id(at).map(|id| format!(r#""tool_call_id":"{id}","#)).unwrap_or_default();
            format!(r#"{{"role":"tool",{id}"content":{}}}"#, json(&self.result(at)))
        };
        let (asked, answered) = (list(bytes / 2, call), list(bytes / 2, result));
        let messages = format!("[{},{}]", asked.join(","), answered.join(","));
        let given = if self.gene("reversed") == 1 {
            let all: Vec<_> = asked.into_iter().rev().chain(answered.into_iter().rev()).collect();
            format!("[{}]", all.join(","))
        } else {
            messages.clone()
        };
        let attributes = match self.gene("dialect") {
            0 => vec![
                ("openinference.span.kind", "LLM".to_owned()),
                ("input.value", given),
                ("output.value", messages),
            ],
            1 => vec![
                ("gen_ai.operation.name", "chat".to_owned()),
                ("gen_ai.input.messages", given),
                ("gen_ai.output.messages", messages),
            ],
            _ => vec![
                ("gen_ai.system", "openai".to_owned()),
                ("llm.request.type", "chat".to_owned()),
                ("traceloop.entity.input", given),
                ("traceloop.entity.output", messages),
            ],
        };
        self.span(SPANS_MAX + 1 + span, 0, texts(attributes))
    }

    fn definitions(&self, bytes: usize) -> Span {
        let schema = |at: usize| match self.gene("schema") {
            0 => r#"{"type":"object"}"#.to_owned(),
            1 => r#"{"type":"object","properties":{"key_0":{"type":"string"}}}"#.to_owned(),
            2 => {
                let property = format!(r#"{{"pattern":"^(a|b{at})*[a-z]{{1,40}}$"}}"#);
                format!(r#"{{"type":"object","properties":{{"key_0":{property}}}}}"#)
            }
            3 => format!(r#"{{"type":"object","properties":{{{}}}}}"#, object_entries(40, at)),
            4 => {
                let own = r##"{"$ref":"#/$defs/n"}"##;
                let defs = format!(r#"{{"n":{{"anyOf":[{{"type":"integer"}},{own}]}}}}"#);
                let properties = format!(r#"{{"key_0":{own},"k{at}":{{}}}}"#);
                format!(r#"{{"$defs":{defs},"properties":{properties}}}"#)
            }
            _ => {
                let list = entries(400, |number| format!("{}", number + at));
                format!(r#"{{"enum":[{list}]}}"#)
            }
        };
        let definition = |at: usize| {
            let (name, schema) = (tool_name(at), schema(at));
            format!(r#"{{"name":"{name}","description":"d","parameters":{schema}}}"#)
        };
        let list = format!("[{}]", entries(bytes, definition));
        let attributes =
            vec![("gen_ai.operation.name", "chat".to_owned()), ("gen_ai.tool.definitions", list)];
        self.span(SPANS_MAX, 0, texts(attributes))
    }
}

fn repeated(unit: &str, bytes: usize) -> String {
    let Some(words) = unit.strip_prefix(SHUFFLED) else { return unit.repeat(bytes / unit.len()) };
    let words: Vec<&str> = words.split(' ').collect();
    let (mut random, mut text) = (Random(0x2545_f491_4f6c_dd1d), String::new());
    while text.len() < bytes {
        text += words[random.below(words.len() as u32) as usize];
        text += [" ", " ", " ", "-", "\n"][random.below(5) as usize];
    }
    text
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Entries until so many bytes are there, with commas; one at least.
fn entries(bytes: usize, make: impl Fn(usize) -> String) -> String {
    list(bytes, make).join(",")
}

fn list(bytes: usize, make: impl Fn(usize) -> String) -> Vec<String> {
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
fn printed_fields(bytes: usize) -> String {
    list(bytes, |at| format!("k{at}=1")).join(" ")
}

fn object(keys: usize, make: impl Fn(usize) -> String) -> String {
    let entries: Vec<_> = (0..keys).map(make).collect();
    format!("{{{}}}", entries.join(","))
}

fn object_entries(keys: usize, at: usize) -> String {
    let entries: Vec<_> =
        (0..keys).map(|key| format!(r#""key_{key}":{{"maxLength":{at}}}"#)).collect();
    entries.join(",")
}

fn message(role: &str, text: &str) -> String {
    format!(r#"[{{"role":"{role}","parts":[{{"type":"text","content":{}}}]}}]"#, json(text))
}

fn texts(attributes: Vec<(&str, String)>) -> Vec<KeyValue> {
    let attribute = |(key, text): (&str, String)| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(Value::StringValue(text)) }),
        ..Default::default()
    };
    attributes.into_iter().map(attribute).collect()
}
