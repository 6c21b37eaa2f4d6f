//! Schemas of tools with arguments for them: what `schema: full` has a library do.

use super::shape::{Genes, Shape};
use super::texts::{UNITS, json, list, repeated, request, span, texts};

/// Keywords, alone or in many schemas that all apply to one value.
const KEYWORDS: u32 = 27;
/// Formats that drafts before 2019-09 check.
const FORMATS: [&str; 13] = [
    "regex", "email", "idn-email", "uri", "uri-template", "iri", "hostname", "idn-hostname",
    "ipv6", "date-time", "duration", "json-pointer", "uuid",
];
/// Patterns that ask much of an automaton.
const PATTERNS: [&str; 6] =
    ["^(a|b)*$", "(x+x+)+y", "[a-z]{1,40}$", r"\\w{1,30}!", "(a?){300}a{300}$", "(.*a.{12})+$"];
/// Texts that are patterns, names or addresses to a format.
const FORMAT_UNITS: [&str; 8] =
    [r"\w", "(?i)\u{e4}", "xn--a.", "{a}", "a@", "%41", "(a|", r"\p{L}{3}"];

/// A schema with arguments by its genes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SchemaShape(Genes);

impl Shape for SchemaShape {
    const GENES: &'static [(&'static str, u32)] = &[
        ("keyword", KEYWORDS),
        ("element", 9),
        ("unit", (UNITS.len() + FORMAT_UNITS.len()) as u32),
        // Powers of two: bytes of a text.
        ("text_bytes", 16),
        // Eighths of all bytes that are the schema's.
        ("share", 7),
        ("pattern", PATTERNS.len() as u32),
        ("format", FORMATS.len() as u32),
        ("draft", 3),
        ("calls", 3),
        ("wrap", 4),
    ];

    fn new(genes: Genes) -> Self {
        Self(genes)
    }

    fn genes(&self) -> &Genes {
        &self.0
    }

    fn request(&self, bytes: usize) -> Vec<u8> {
        // A schema of more bytes is refused.
        let schema_bytes = (bytes / 8 * (1 + self.gene("share"))).min(200_000);
        let calls = [1, 8, 64][self.gene("calls")];
        let schema = self.schema(schema_bytes);
        let definition = format!(r#"[{{"name":"t","description":"d","parameters":{schema}}}]"#);
        let definitions = vec![
            ("gen_ai.operation.name", "chat".to_owned()),
            ("gen_ai.tool.definitions", definition),
        ];
        let root = vec![
            ("gen_ai.operation.name", "invoke_agent".to_owned()),
            ("gen_ai.agent.name", "a".to_owned()),
        ];
        let mut spans = vec![span(0, 0, 1, texts(root)), span(1, 0, 2, texts(definitions))];
        let arguments = self.arguments(bytes.saturating_sub(schema_bytes) / calls);
        for at in 2..2 + calls {
            let call = vec![
                ("gen_ai.operation.name", "execute_tool".to_owned()),
                ("gen_ai.tool.name", "t".to_owned()),
                ("gen_ai.tool.call.arguments", arguments.clone()),
            ];
            spans.push(span(at, 0, at as u64 + 1, texts(call)));
        }
        request(spans)
    }
}

impl SchemaShape {
    fn schema(&self, bytes: usize) -> String {
        let draft = match self.gene("draft") {
            0 => "",
            1 => r#""$schema":"http://json-schema.org/draft-07/schema#","#,
            _ => r#""$schema":"http://json-schema.org/draft-04/schema#","#,
        };
        let one = self.element_schema(bytes);
        match self.gene("wrap") {
            0 => format!(r#"{{{draft}"properties":{{"a":{{"items":{one}}}}}}}"#),
            1 => {
                let list = r##"{"items":{"$ref":"#/$defs/e"}}"##;
                format!(r#"{{{draft}"$defs":{{"e":{one}}},"properties":{{"a":{list}}}}}"#)
            }
            2 => {
                let inner = format!(r#"{{"items":{one},"additionalProperties":{one}}}"#);
                format!(r#"{{{draft}"properties":{{"a":{{"items":{inner}}}}}}}"#)
            }
            _ => format!(r#"{{{draft}"properties":{{"a":{one}}}}}"#),
        }
    }

    /// The schema of one element, of about so many bytes.
    fn element_schema(&self, bytes: usize) -> String {
        let pattern = format!("\"{}\"", PATTERNS[self.gene("pattern")]);
        let many = |make: &dyn Fn(usize) -> String| list(bytes, make).join(",");
        let patterns = |most: usize| {
            list(bytes, |_| format!(r#"{{"pattern":{pattern}}}"#))
                .into_iter()
                .take(most)
                .collect::<Vec<_>>()
                .join(",")
        };
        let named = |make: &dyn Fn(usize) -> String| many(&|at| format!(r#""k{at}":{}"#, make(at)));
        match self.gene("keyword") {
            0 => format!(r#"{{"enum":[{}]}}"#, many(&|at| format!(r#""v{at}""#))),
            1 => format!(r#"{{"enum":[{}]}}"#, many(&|at| at.to_string())),
            2 => format!(r#"{{"enum":[{}]}}"#, many(&|at| format!(r#"["v",{at}]"#))),
            3 => format!(r#"{{"enum":[{}]}}"#, many(&|at| format!(r#"{{"k":{at}}}"#))),
            4 => format!(r#"{{"const":[{}]}}"#, many(&|at| at.to_string())),
            5 => format!(r#"{{"pattern":{pattern}}}"#),
            6 => format!(r#"{{"allOf":[{}]}}"#, patterns(95)),
            7 => format!(
                r#"{{"patternProperties":{{{}}}}}"#,
                list(bytes, |at| format!(r#""^k{at}(a|b)*$":{{"type":"integer"}}"#))
                    .into_iter()
                    .take(95)
                    .collect::<Vec<_>>()
                    .join(",")
            ),
            8 | 9 => format!(r#"{{"format":"{}"}}"#, FORMATS[self.gene("format")]),
            10 => r#"{"uniqueItems":true}"#.to_owned(),
            11 => format!(
                r#"{{"allOf":[{}]}}"#,
                many(&|at| format!(r#"{{"contains":{{"const":{at}}}}}"#))
            ),
            12 => format!(r#"{{"required":[{}]}}"#, many(&|at| format!(r#""k{at}""#))),
            13 => format!(
                r#"{{"dependentRequired":{{{}}}}}"#,
                named(&|_| r#"["k1","k2","k3"]"#.into())
            ),
            14 => format!(r#"{{"allOf":[{}]}}"#, many(&|at| format!(r#"{{"minimum":{at}}}"#))),
            15 => format!(r#"{{"anyOf":[{}]}}"#, many(&|at| format!(r#"{{"const":{at}}}"#))),
            16 => format!(r#"{{"oneOf":[{}]}}"#, many(&|at| format!(r#"{{"maxLength":{at}}}"#))),
            17 => r#"{"multipleOf":1e-300}"#.to_owned(),
            18 => format!(
                r#"{{"allOf":[{}],"unevaluatedProperties":false}}"#,
                many(&|at| format!(r#"{{"properties":{{"k{at}":true}}}}"#))
            ),
            19 => format!(r#"{{"propertyNames":{{"pattern":{pattern}}}}}"#),
            20 => format!(r#"{{"properties":{{{}}}}}"#, named(&|_| r#"{"minLength":3}"#.into())),
            21 => r#"{"minLength":9,"maxLength":99999999}"#.to_owned(),
            22 => format!(r#"{{"enum":[{},5]}}"#, many(&|at| format!(r#""v{at}""#))),
            23 => format!(
                r#"{{"allOf":[{}]}}"#,
                many(&|at| {
                    let then = r#""then":{"maximum":9},"else":{"type":"object"}"#;
                    format!(r#"{{"if":{{"minimum":{at}}},{then}}}"#)
                })
            ),
            24 => format!(r#"{{"allOf":[{}]}}"#, many(&|_| r#"{"uniqueItems":true}"#.to_owned())),
            25 => format!(
                r#"{{"dependentSchemas":{{{}}}}}"#,
                named(&|_| r#"{"minProperties":2}"#.into())
            ),
            _ => format!(r#"{{"allOf":[{}]}}"#, many(&|_| r#"{"maxLength":99999999}"#.to_owned())),
        }
    }

    fn arguments(&self, bytes: usize) -> String {
        let unit = self.gene("unit");
        let unit = UNITS.get(unit).or_else(|| FORMAT_UNITS.get(unit - UNITS.len())).copied();
        let text = json(&repeated(unit.unwrap_or("a"), (1 << self.gene("text_bytes")).min(bytes)));
        let pair = |at: usize| format!(r#"["v",-{at}]"#);
        let element: &dyn Fn(usize) -> String = match self.gene("element") {
            0 => &|at| format!("-{}", at + 1),
            1 => &|at| format!(r#""w{at}""#),
            2 => &|_| text.clone(),
            3 => &pair,
            4 => &|at| format!(r#"{{"k":-{at}}}"#),
            5 => &|_| {
                format!(
                    "{{{}}}",
                    list(4_000.min(bytes), |key| format!(r#""k{key}":{key}"#)).join(",")
                )
            },
            6 => &|at| format!("1e{}", 300 - at % 3),
            7 => &|_| format!("[{}]", list(4_000.min(bytes), |at| at.to_string()).join(",")),
            _ => &|_| format!("{{{text}:{text}}}"),
        };
        format!(r#"{{"a":[{}]}}"#, list(bytes, element).join(","))
    }
}
