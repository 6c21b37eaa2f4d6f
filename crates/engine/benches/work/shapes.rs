//! Traces that a stranger could send, each told by a few numbers, so that a search can change them.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use super::shape::{Genes, Shape};
use super::texts::{
    self, UNITS, entries, json, list, message, object, object_entries, printed_fields, repeated,
    texts,
};

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

/// A trace by its genes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TraceShape(Genes);

impl Shape for TraceShape {
    const GENES: &'static [(&'static str, u32)] = &GENES;

    fn new(genes: Genes) -> Self {
        Self(genes)
    }

    fn genes(&self) -> &Genes {
        &self.0
    }

    /// A request of about so many bytes that holds one such trace.
    fn request(&self, bytes: usize) -> Vec<u8> {
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
        texts::request(spans)
    }
}

impl TraceShape {
    fn span(&self, at: usize, parent: usize, attributes: Vec<KeyValue>) -> Span {
        let start = if self.gene("same_time") == 1 { 1 } else { at as u64 + 1 };
        texts::span(at, parent, start, attributes)
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
