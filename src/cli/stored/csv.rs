//! Comma-separated values for spreadsheets, without formulas.

/// First characters that make a cell a formula in spreadsheets.
const FORMULA_STARTS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// Returns one line of cells, without its end.
pub(super) fn line(cells: impl IntoIterator<Item = String>) -> String {
    cells.into_iter().map(written).collect::<Vec<_>>().join(",")
}

fn written(cell: String) -> String {
    let is_number = cell.parse::<f64>().is_ok();
    let is_formula = !is_number && cell.starts_with(FORMULA_STARTS);
    let needs_quotes = cell.contains(['"', ',', '\n', '\r']) || is_formula;
    // A leading quotation mark turns a formula into text.
    let defused = if is_formula { "'" } else { "" };
    if needs_quotes {
        return format!("\"{defused}{}\"", cell.replace('"', "\"\""));
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_formulas_defused() {
        let check = |cell: &str, expected: &str| assert_eq!(line([cell.to_owned()]), expected);
        check("refund", "refund");
        check("a, b", "\"a, b\"");
        check("say \"hi\"", "\"say \"\"hi\"\"\"");
        check("=HYPERLINK(1)", "\"'=HYPERLINK(1)\"");
        check("+1", "+1");
        check("-0.5", "-0.5");
        check("-cmd", "\"'-cmd\"");
        check("@SUM(A1)", "\"'@SUM(A1)\"");
        check("\t=1", "\"'\t=1\"");
        assert_eq!(line(["a".to_owned(), String::new()]), "a,");
    }
}
