//! Names in JavaScript patterns: of groups, and of Unicode properties.

use super::{JsRegexError, invalid};

/// Values of `General_Category`, short and long, and the binary properties.
const PROPERTIES: &str = " L Letter LC Cased_Letter Lu Uppercase_Letter Ll Lowercase_Letter Lt \
    Titlecase_Letter Lm Modifier_Letter Lo Other_Letter M Mark Combining_Mark Mn Nonspacing_Mark \
    Mc Spacing_Mark Me Enclosing_Mark N Number Nd Decimal_Number digit Nl Letter_Number No \
    Other_Number P Punctuation punct Pc Connector_Punctuation Pd Dash_Punctuation Ps \
    Open_Punctuation Pe Close_Punctuation Pi Initial_Punctuation Pf Final_Punctuation Po \
    Other_Punctuation S Symbol Sm Math_Symbol Sc Currency_Symbol Sk Modifier_Symbol So \
    Other_Symbol Z Separator Zs Space_Separator Zl Line_Separator Zp Paragraph_Separator C Other \
    Cc Control cntrl Cf Format Cs Surrogate Co Private_Use Cn Unassigned \
    ASCII Any Assigned ASCII_Hex_Digit AHex Alphabetic Alpha Bidi_Control Bidi_C Bidi_Mirrored \
    Bidi_M Case_Ignorable CI Cased Changes_When_Casefolded CWCF Changes_When_Casemapped CWCM \
    Changes_When_Lowercased CWL Changes_When_NFKC_Casefolded CWKCF Changes_When_Titlecased CWT \
    Changes_When_Uppercased CWU Dash Default_Ignorable_Code_Point DI Deprecated Dep Diacritic Dia \
    Emoji Emoji_Component EComp Emoji_Modifier EMod Emoji_Modifier_Base EBase Emoji_Presentation \
    EPres Extended_Pictographic ExtPict Extender Ext Grapheme_Base Gr_Base Grapheme_Extend Gr_Ext \
    Hex_Digit Hex IDS_Binary_Operator IDSB IDS_Trinary_Operator IDST ID_Continue IDC ID_Start IDS \
    Ideographic Ideo Join_Control Join_C Logical_Order_Exception LOE Lowercase Lower Math \
    Noncharacter_Code_Point NChar Pattern_Syntax Pat_Syn Pattern_White_Space Pat_WS \
    Quotation_Mark QMark Radical Regional_Indicator RI Sentence_Terminal STerm Soft_Dotted SD \
    Terminal_Punctuation Term Unified_Ideograph UIdeo Uppercase Upper Variation_Selector VS \
    White_Space space XID_Continue XIDC XID_Start XIDS ";

/// Returns true if a property has JavaScript's exact spelling; other engines are lenient.
pub(crate) fn is_property(text: &str) -> bool {
    let listed = |name: &str| !name.contains(' ') && PROPERTIES.contains(&format!(" {name} "));
    match text.split_once('=') {
        None => listed(text),
        Some(("General_Category" | "gc", value)) => listed(value),
        Some(("Script" | "sc" | "Script_Extensions" | "scx", value)) => value
            .split('_')
            .all(|part| part.starts_with(|c: char| c.is_ascii_uppercase()) && part.len() > 1),
        Some(_) => false,
    }
}

/// Capturing groups of a pattern: number and names.
#[derive(Default)]
pub(crate) struct CaptureGroups {
    pub(crate) count: u32,
    pub(crate) names: Vec<Vec<u32>>,
}

impl CaptureGroups {
    /// Collects the groups of a pattern.
    pub(crate) fn of(units: &[u32]) -> Self {
        let mut groups = Self::default();
        let mut class = false;
        let mut at = 0;
        while at < units.len() {
            match char::from_u32(units[at]) {
                Some('\\') => at += 1,
                Some('[') => class = true,
                Some(']') => class = false,
                Some('(') if !class => groups.add(&units[at + 1..]),
                _ => {}
            }
            at += 1;
        }
        groups
    }

    fn add(&mut self, inner: &[u32]) {
        match inner {
            [0x3f, 0x3c, next, ..] if !matches!(next, 0x3d | 0x21) => {
                self.count += 1;
                let name = inner[2..].iter().copied().take_while(|&unit| unit != 0x3e);
                self.names.push(name.collect());
            }
            [0x3f, ..] => {}
            _ => self.count += 1,
        }
    }

    /// Returns JavaScript's error for the reference by name that follows `\\k`.
    pub(crate) fn reference(&self, rest: &[u32]) -> JsRegexError {
        let name = rest.strip_prefix(&[0x3c]).and_then(|name| {
            let end = name.iter().position(|&unit| unit == 0x3e)?;
            Some(&name[..end])
        });
        match name {
            None => invalid("Invalid named reference"),
            Some(name) if self.names.iter().any(|known| known == name) => {
                JsRegexError::NotLinear("a back-reference")
            }
            Some(_) => invalid("Invalid named capture referenced"),
        }
    }
}
