//! Modules without comments, and without spaces and lines that mean nothing: those are for readers
//! of the source. Some words are said shorter.
//!
//! Strings, templates and regular expressions stay as they are.

/// Returns a module without comments, and with only the spaces of its code that mean something.
pub(crate) fn lean(module: &[u8]) -> Vec<u8> {
    let mut lean = Lean { rest: module, out: Vec::with_capacity(module.len()), open: Vec::new() };
    while lean.step() {}
    lean.out
}

/// Place inside of which code or a template stands.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    /// Template, until its back quote.
    Template,
    /// Template of markup, which htm reads.
    Markup,
    /// Braces of code.
    Braces,
    /// Code in a template, until its brace.
    Insertion,
}

/// Words with shorter ones: no constant is assigned to again, and markup is imported as `h`.
const SHORTER: [(&[u8], &[u8]); 4] =
    [(b"const", b"let"), (b"html", b"html as h"), (b"true", b"!0"), (b"false", b"!1")];

struct Lean<'a> {
    rest: &'a [u8],
    out: Vec<u8>,
    open: Vec<Open>,
}

impl Lean<'_> {
    /// Takes one token; false at the end.
    fn step(&mut self) -> bool {
        let Some(&first) = self.rest.first() else { return false };
        if let Some(Open::Template | Open::Markup) = self.open.last() {
            self.template(first);
            return true;
        }
        match first {
            b'\'' | b'"' => self.take_to(first),
            b' ' | b'\t' => self.spaces(),
            b'/' if self.rest.starts_with(b"//") => {
                let end = self.rest.iter().position(|byte| *byte == b'\n');
                self.rest = &self.rest[end.unwrap_or(self.rest.len())..];
                self.out.truncate(self.out.trim_ascii_end_of_line());
            }
            b'/' if self.rest.starts_with(b"/*") => self.comment(),
            b'/' if self.begins_expression() => self.take_to(b'/'),
            b'`' if self.out.ends_with(b"html") => {
                // Imported under that name.
                self.out.truncate(self.out.len() - b"tml".len());
                self.open(1, Open::Markup);
            }
            b'`' => self.open(1, Open::Template),
            b'{' => self.open(1, Open::Braces),
            b'=' if self.rest.starts_with(b"=>") => self.arrow(),
            b'}' => {
                self.leave_out(b";,");
                self.open.pop();
                self.take(1);
            }
            b')' | b']' => {
                self.leave_out(b",");
                self.take(1);
            }
            b'\n' if self.out.last().is_none_or(|last| *last == b'\n') => {
                self.rest = &self.rest[1..];
            }
            b'c' | b'h' | b't' | b'f' if self.shorten() => {}
            _ => {
                // A statement ends with its line where the next one begins with a word.
                if first.is_ascii_alphabetic() && self.out.last() == Some(&b'\n') {
                    self.leave_out(b";");
                }
                self.take(1);
            }
        }
        true
    }

    /// Takes a byte of a template, which keeps its spaces but for those that indent it. Markup
    /// lacks what means nothing to htm: names of end tags, quotes around a word.
    fn template(&mut self, first: u8) {
        let is_markup = self.open.last() == Some(&Open::Markup);
        match first {
            b'<' if is_markup && self.rest.starts_with(b"</") => {
                self.take(2);
                let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'/';
                let name = self.rest.iter().take_while(is_name).count();
                self.rest = &self.rest[name..];
            }
            b' ' if is_markup && self.rest.starts_with(b" />") => self.rest = &self.rest[1..],
            b'=' if is_markup => self.attribute(),
            b'`' => {
                self.open.pop();
                self.take(1);
            }
            b'\\' => self.take(2),
            b'$' if self.rest.starts_with(b"${") => self.open(2, Open::Insertion),
            b' ' if self.out.last() == Some(&b'\n') => {
                self.rest = self.rest.trim_ascii_start_of_line();
            }
            _ => self.take(1),
        }
    }

    /// Takes the sign before the value of an attribute, and a value that is a word.
    fn attribute(&mut self) {
        self.take(1);
        let Some(value) = self.rest.strip_prefix(b"\"") else { return };
        let is_word = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        let (word, rest) = value.split_at(value.iter().take_while(is_word).count());
        let Some(rest) = rest.strip_prefix(b"\"") else { return };
        if !word.is_empty() && rest.first().is_some_and(|byte| b" >\n".contains(byte)) {
            self.out.extend_from_slice(word);
            self.rest = rest;
        }
    }

    fn take(&mut self, count: usize) {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.out.extend_from_slice(taken);
        self.rest = rest;
    }

    fn open(&mut self, count: usize, place: Open) {
        self.open.push(place);
        self.take(count);
    }

    /// Takes a string, or a regular expression, up to its end. A bracket of the latter may hold a
    /// slash.
    fn take_to(&mut self, end: u8) {
        let mut is_class = false;
        self.take(1);
        while let Some(&byte) = self.rest.first() {
            self.take(if byte == b'\\' { 2 } else { 1 });
            match byte {
                b'[' if end == b'/' => is_class = true,
                b']' => is_class = false,
                _ if byte == end && !is_class => return,
                _ => {}
            }
        }
    }

    /// Takes the arrow of a function, whose one parameter needs no parentheses.
    fn arrow(&mut self) {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_$".contains(&byte);
        let name = self.out.strip_suffix(b")").unwrap_or_default();
        let start = name.iter().rposition(|byte| !is_name(*byte)).unwrap_or(0);
        let is_alone = start + 1 < name.len() && name[start] == b'(';
        if is_alone && !start.checked_sub(1).is_some_and(|before| is_name(name[before])) {
            self.out.pop();
            self.out.remove(start);
        }
        self.take(2);
    }

    /// Leaves the last sign out, if it is one of these.
    fn leave_out(&mut self, signs: &[u8]) {
        let last = self.out.iter().rposition(|byte| *byte != b'\n');
        if let Some(last) = last.filter(|last| signs.contains(&self.out[*last])) {
            self.out.remove(last);
        }
    }

    /// Leaves spaces out at the ends of lines and beside signs.
    fn spaces(&mut self) {
        self.rest = self.rest.trim_ascii_start_of_line();
        let is_sign =
            |byte: Option<&u8>| byte.is_none_or(|byte| b"(){}[]=<>,;:?&|!*'\"`\n".contains(byte));
        // Two of these would be another sign together.
        let is_sum = |byte: Option<&u8>| byte.is_some_and(|byte| b"+-".contains(byte));
        let sides = [self.out.last(), self.rest.first()];
        let is_beside_sum = sides.into_iter().filter(|side| is_sum(*side)).count() == 1;
        if !sides.into_iter().any(is_sign) && !is_beside_sum {
            self.out.push(b' ');
        }
    }

    /// Says a word shorter, if it is one of [`SHORTER`]; else returns false.
    fn shorten(&mut self) -> bool {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$.".contains(byte);
        let length = self.rest.iter().take_while(|byte| is_name(byte)).count();
        let (word, behind) = self.rest.split_at(length);
        let is_inside = self.out.last().is_some_and(is_name) || behind.first() == Some(&b':');
        let found = SHORTER.iter().find(|(long, _)| *long == word && !is_inside);
        let Some((_, short)) = found else { return false };
        let start = self.out.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if word == b"html" && !self.out[start..].starts_with(b"import") || behind.starts_with(b"`")
        {
            return false;
        }
        if self.out.last() == Some(&b'\n') {
            self.leave_out(b";");
        }
        self.out.extend_from_slice(short);
        self.rest = behind;
        true
    }

    /// Leaves a comment out; one that stands alone has the end of its line behind it.
    fn comment(&mut self) {
        let end = self.rest.windows(2).position(|pair| pair == b"*/");
        self.rest = &self.rest[end.map_or(self.rest.len(), |end| end + 2)..];
    }

    /// Returns true where a slash begins a regular expression: after a value it divides.
    fn begins_expression(&self) -> bool {
        let before = self.out.trim_ascii_end();
        before.last().is_none_or(|byte| b"(=,:?&|!{};[>".contains(byte))
            || before.ends_with(b"return")
    }
}

/// Spaces within one line.
trait LineSpaces {
    /// Returns the rest behind spaces.
    fn trim_ascii_start_of_line(&self) -> &Self;
    /// Returns the length without spaces at the end.
    fn trim_ascii_end_of_line(&self) -> usize;
}

impl LineSpaces for [u8] {
    fn trim_ascii_start_of_line(&self) -> &Self {
        let spaces = self.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        &self[spaces..]
    }

    fn trim_ascii_end_of_line(&self) -> usize {
        let spaces = self.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        self.len() - spaces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_spaces_go_and_code_stays() {
        let check = |module: &str, expected: &str| {
            assert_eq!(String::from_utf8_lossy(&lean(module.as_bytes())), expected, "{module}");
        };
        check("// Head.\n\nconst a = 1; // one\n", "let a=1;\n");
        check("  /** One line. */\n  let b;\n", "let b;\n");
        check("/**\n * Two\n * lines.\n */\nf();\n", "f();\n");
        check("const c = a\n  * 2;\n", "let c=a\n*2;\n");
        check("import { a } from './a.js';", "import{a}from'./a.js';");
        check("return a + +b - --c / d / e", "return a+ +b- --c / d / e");
        check("s = 'a  // b' + \"it's  { }\";", "s='a  // b'+\"it's  { }\";");
        check("r = /[/ '] +/g.test(x) ? 1 : 2", "r=/[/ '] +/g.test(x)?1:2");
        check("s.replace(/\\/ +/, 'a  b')", "s.replace(/\\/ +/,'a  b')");
        check(
            "t = `a  // ${ f({ b : 1 }) }  c ${ `x  y` }`;",
            "t=`a  // ${f({b:1})}  c ${`x  y`}`;",
        );
        check("h`<p>\n    a  b</p>` ; x", "h`<p>\na  b</p>`;x");
        check(
            "html`<p class=\"a-b\" title=\"a b\">=\"${x}<b id=\"c\" /></p><${D} e=${f} /><//>`",
            "h`<p class=a-b title=\"a b\">=\"${x}<b id=c/></><${D} e=${f}/></>`",
        );
        check("async (a) => { await b; }", "async(a)=>{await b}");
        check("f((a) => b, (c, d) => (e)); (g = 1) => h", "f(a=>b,(c,d)=>(e));(g=1)=>h");
        check("a();\n// One.\nb({\n  c,\n});\n[d, e];", "a()\nb({\nc\n});\n[d,e];");
        check("import { html, x } from 'y';\nhtml`a`;", "import{html as h,x}from'y'\nh`a`;");
        check("a = true && !false; b = {true: is.true, trues}", "a=!0&&!!1;b={true:is.true,trues}");
        check("`a\n\n  b`", "`a\n\nb`");
        check("f();\nconst [a] = b, constant = c.const", "f()\nlet[a]=b,constant=c.const");
        check("", "");
    }
}
