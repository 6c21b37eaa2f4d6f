//! Comments and indentation left out of a module: they are for readers of its source.

/// Returns a module without indentation and without lines that are comments alone: those stay as
/// empty lines, so that an error names the line of the source. Lines of a template that begin like
/// a comment would go, too: the modules have none.
pub(crate) fn lean(module: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(module.len());
    let mut is_comment = false;
    for line in module.split_inclusive(|byte| *byte == b'\n') {
        let line = line.trim_ascii_start();
        if is_comment || line.starts_with(b"/**") {
            is_comment = !line.windows(2).any(|pair| pair == b"*/");
        } else if !line.starts_with(b"//") && !line.is_empty() {
            out.extend_from_slice(line);
            continue;
        }
        out.push(b'\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_empty_lines_and_code_stays() {
        let check = |module: &str, expected: &str| {
            assert_eq!(String::from_utf8_lossy(&lean(module.as_bytes())), expected, "{module}");
        };
        check("// Head.\n\nconst a = 1; // one\n", "\n\nconst a = 1; // one\n");
        check("  /** One line. */\n  let b;\n", "\nlet b;\n");
        check("/**\n * Two\n * lines.\n */\nf();\n", "\n\n\n\nf();\n");
        check("const c = a\n  * 2;\n", "const c = a\n* 2;\n");
        check("", "");
    }
}
