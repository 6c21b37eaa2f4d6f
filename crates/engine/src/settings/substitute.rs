//! Environment variables in scalars: `${env:NAME}`, `${NAME}`, `${env:NAME:-default}` and `$$`.
//!
//! The form is that of the OpenTelemetry Collector
//! (`opentelemetry.io/docs/collector/configuration/#environment-variables`), with two differences:
//! a variable without value and default is an error, and a value never becomes more than one
//! scalar.

use spanscore_base::settings::SettingsError;

/// Lookup of an environment variable; `None` if it is not set.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Scalar with its variables replaced.
#[derive(Debug, PartialEq)]
pub(super) struct Substituted {
    /// The text that replaces the scalar.
    pub(super) text: String,
    /// True if the scalar was a single reference, whose value is typed.
    pub(super) whole: bool,
    /// The values from the environment, with their references as written.
    pub(super) values: Vec<(String, String)>,
}

/// Replaces the references of a scalar; `None` without any.
pub(super) fn substitute(
    text: &str,
    lookup: Lookup<'_>,
) -> Result<Option<Substituted>, SettingsError> {
    if !text.contains("${") && !text.contains("$$") {
        return Ok(None);
    }
    let mut out = Substituted { text: String::new(), whole: false, values: Vec::new() };
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        out.text.push_str(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.text.push('$');
            rest = after;
        } else if let Some((inner, after)) =
            rest.strip_prefix('{').and_then(|rest| rest.split_once('}'))
        {
            let (value, from_environment) = resolve(inner, lookup)?;
            out.text.push_str(&value);
            let reference = format!("${{{inner}}}");
            out.whole = reference == text;
            if from_environment {
                out.values.push((reference, value));
            }
            rest = after;
        } else {
            out.text.push('$');
        }
    }
    out.text.push_str(rest);
    Ok(Some(out))
}

/// Resolves the text between the braces; returns the value, and true if it came from the
/// environment.
fn resolve(inner: &str, lookup: Lookup<'_>) -> Result<(String, bool), SettingsError> {
    if inner.contains("${") {
        return Err(SettingsError::new(format!("a reference inside of `${{{inner}}}`"))
            .with_help("a default is plain text"));
    }
    let (name, default) = match inner.strip_prefix("env:").unwrap_or(inner).split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner.strip_prefix("env:").unwrap_or(inner), None),
    };
    if let Some(meant) = other_spelling(inner) {
        return Err(SettingsError::new(format!("`${{{inner}}}` is no reference"))
            .with_help(format!("write ${{env:{meant}}}")));
    }
    if let Some((scheme, rest)) = name.split_once(':') {
        if inner.starts_with("env:") && is_name(scheme) {
            return Err(SettingsError::new(format!("`${{{inner}}}` lacks the `-` of a default"))
                .with_help(format!("write ${{env:{scheme}:-{rest}}}")));
        }
        return Err(SettingsError::new(format!("unknown source `{scheme}` in `${{{inner}}}`"))
            .with_help("only environment variables are read: ${env:NAME}"));
    }
    if !is_name(name) {
        return Err(SettingsError::new(format!("`{name}` is not the name of a variable"))
            .with_help("write ${env:NAME}, or $$ for a dollar sign"));
    }
    match (lookup(name), default) {
        (Some(value), _) => Ok((value, true)),
        (None, Some(default)) => Ok((default.to_owned(), false)),
        (None, None) => {
            Err(SettingsError::new(format!("environment variable `{name}` is not set"))
                .with_help(format!("set it, or give a default: ${{env:{name}:-default}}")))
        }
    }
}

/// Returns the variable of a reference in another spelling: `${ENV:NAME}`, `${env.NAME}`.
fn other_spelling(inner: &str) -> Option<&str> {
    let (source, rest) = inner.split_at_checked(3)?;
    let name = rest.trim_start_matches([':', '.', ' ']).trim_end();
    let is_it = source.eq_ignore_ascii_case("env") && name.len() < rest.len() && is_name(name);
    (is_it && inner != format!("env:{name}")).then_some(name)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let lookup = |name: &str| match name {
            "HOST" => Some("example.org".to_owned()),
            "EMPTY" => Some(String::new()),
            "DOLLARS" => Some("$$ ${HOST}".to_owned()),
            _ => None,
        };
        let found = match substitute(text, &lookup) {
            Ok(Some(found)) => {
                format!("{}{}", found.text, if found.whole { " (whole)" } else { "" })
            }
            Ok(None) => format!("{text} (untouched)"),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn references_are_replaced_as_the_collector_does() {
        check("plain", "plain (untouched)");
        check("cost: $5", "cost: $5 (untouched)");
        check("${env:HOST}", "example.org (whole)");
        check("${HOST}", "example.org (whole)");
        check("http://${env:HOST}:4317", "http://example.org:4317");
        check("${env:EMPTY:-default}", " (whole)");
        check("${env:UNSET:-a:-b}", "a:-b (whole)");
        check("${env:UNSET:-}", " (whole)");
        check("$${env:HOST}", "${env:HOST}");
        check("$$$5 a$", "$$5 a$");
        check("${HOST", "${HOST");
        check("${DOLLARS}", "$$ ${HOST} (whole)");
    }

    #[test]
    fn a_reference_that_cannot_be_resolved_is_an_error_with_a_remedy() {
        check(
            "${env:UNSET}",
            "environment variable `UNSET` is not set \
             (set it, or give a default: ${env:UNSET:-default})",
        );
        check(
            "${file:/etc/passwd}",
            "unknown source `file` in `${file:/etc/passwd}` \
             (only environment variables are read: ${env:NAME})",
        );
        check(
            "${env:UNSET:http://b:4318}",
            "`${env:UNSET:http://b:4318}` lacks the `-` of a default \
             (write ${env:UNSET:-http://b:4318})",
        );
        check(
            "${env:UNSET:-${env:HOST}}",
            "a reference inside of `${env:UNSET:-${env:HOST}` (a default is plain text)",
        );
        for written in ["${ENV:HOST}", "${env.HOST}", "${env: HOST}"] {
            check(written, &format!("`{written}` is no reference (write ${{env:HOST}})"));
        }
        check(
            "${1}",
            "`1` is not the name of a variable (write ${env:NAME}, or $$ for a dollar sign)",
        );
    }
}
