//! `tools_file`: tool definitions in a file beside the config.
//!
//! Evaluators do no I/O, so the file is read here and its content replaces the setting. The
//! evaluator's identity then changes with the content, not with the path.

use spanscore_base::settings::{Node, NodeKind, SettingsError};
use spanscore_base::value::{Value, json};

/// Size limit of a definitions file, bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Replaces the setting `tools_file`, a path relative to the working directory, by `tools`.
pub(super) fn resolve(mut settings: Node) -> Result<Node, SettingsError> {
    let has_tools = settings.get("tools").is_some();
    let NodeKind::Map(entries) = &mut settings.kind else { return Ok(settings) };
    let found = entries.iter_mut().find(|(key, _)| key.text == "tools_file");
    let Some((key, node)) = found else { return Ok(settings) };
    let NodeKind::Scalar(Value::String(path)) = &node.kind else { return Ok(settings) };
    if has_tools {
        let error = SettingsError::new("`tools` and `tools_file` exclude each other");
        return Err(error.at(key.place));
    }
    let content = read(path).map_err(|what| {
        SettingsError::new(format!("cannot read tool definitions from {path}: {what}"))
            .with_help("a JSON list of tools, or an object that holds it under `tools`")
            .at(node.place)
    })?;
    key.text = "tools".to_owned();
    node.kind = Node::from_value(&content).kind;
    Ok(settings)
}

fn read(path: &str) -> Result<Value<'static>, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("{size} bytes are more than {FILE_BYTES_MAX}"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    json::parse(&text).map(Value::into_owned).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Node {
        Node::from_value(&json::parse(text).unwrap())
    }

    #[test]
    fn content_of_the_file_takes_the_place_of_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tools.json");
        std::fs::write(&path, r#"{"tools":[{"name":"a"}]}"#).unwrap();
        let path = path.to_str().unwrap();
        let resolved = resolve(settings(&format!(r#"{{"tools_file":"{path}"}}"#))).unwrap();
        let expected = r#"{"tools":{"tools":[{"name":"a"}]}}"#;
        assert_eq!(resolved.to_value().to_string(), expected);
    }

    #[test]
    fn file_that_cannot_be_read_is_named() {
        let error = resolve(settings(r#"{"tools_file":"missing.json"}"#)).unwrap_err();
        let expected = "cannot read tool definitions from missing.json: ";
        assert!(error.message.starts_with(expected), "{error}");
        assert!(resolve(settings(r#"{"tools_file":"missing.json","tools":[]}"#)).is_err());
        assert!(resolve(settings("{}")).is_ok());
    }
}
