//! Validators: checks of a match beyond regular expressions, such as check digits.
//!
//! In: the matched text (ASCII after normalisation). Out: true if it can be real.

mod random;

/// Check that a finding must pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Validator {
    /// Payment card: 13 to 19 digits, a known issuer prefix and a correct check digit (Luhn).
    /// Repetitions of one digit fail.
    Card,
    /// IBAN: country, length and remainder (ISO 13616, mod 97).
    Iban,
    /// US social security number: area, group and serial number that can be issued.
    Ssn,
    /// IPv4 address that is routable on the internet.
    Ipv4,
    /// IPv6 address that is routable on the internet.
    Ipv6,
    /// Routable IPv4 address that is no version or section number: the first of its four numbers is
    /// 25 or more, and one has three digits.
    Ipv4Plain,
    /// Telephone number: 7 to 15 digits. Repetitions of one digit and counting sequences fail.
    Phone,
    /// Telephone number after a word that announces one: 8 digits or more. Dates fail, and so do
    /// long numbers without a leading zero or `+`.
    PhoneSpoken,
    /// Date that can be a date of birth: plausible year, month and day.
    BirthDate,
    /// Secret: letters and digits mixed, and enough different ones. Words joined by `_` or `-`
    /// fail.
    Secret,
    /// Secret without a clear announcement: letters and digits as if drawn at random. Sequences and
    /// UUIDs fail.
    Drawn,
    /// Password. Placeholders such as `<password>`, `***` and `changeme` fail.
    Password,
    /// Password with words between it and its announcement: three of letters, digits and signs.
    /// Addresses, paths, numbers and calls fail.
    StrongPassword,
    /// Brazilian CPF: both check digits.
    Cpf,
    /// Aadhaar number: 12 digits, the first of them 2 to 9. Repetitions of one digit fail.
    Aadhaar,
    /// Spanish DNI or NIE: the letter that follows from the number.
    Dni,
    /// Chinese identity number: the date and the check character.
    ChinaId,
    /// Seed phrase of a wallet: 12, 15, 18, 21 or 24 words. Words that only occur in sentences
    /// fail.
    SeedPhrase,
    /// E-mail address. Reserved and example domains and placeholders fail.
    Email,
    /// Number of an identity document: five digits or more. Repetitions of one digit and dates
    /// fail.
    IdNumber,
}

impl Validator {
    /// Returns true if the match can be real.
    pub(crate) fn accepts(self, text: &str) -> bool {
        match self {
            Self::Card => card(text),
            Self::Iban => iban(text),
            Self::Ssn => ssn(&digits(text)),
            Self::Ipv4 => ipv4(text),
            Self::Ipv4Plain => ipv4_plain(text),
            Self::Ipv6 => ipv6(text),
            Self::PhoneSpoken => phone_spoken(text),
            Self::Phone => phone(text),
            Self::BirthDate => birth_date(text),
            Self::Secret => secret(text),
            Self::Drawn => secret(text) && random::is_drawn(text),
            Self::Password => password(text),
            Self::StrongPassword => strong_password(text),
            Self::Cpf => cpf(&digits(text)),
            Self::Aadhaar => {
                let digits = digits(text);
                digits.len() == 12 && digits[0] > 1 && !repeated(&digits)
            }
            Self::Dni => dni(text),
            Self::ChinaId => china_id(text),
            Self::SeedPhrase => seed_phrase(text),
            Self::Email => email(text),
            Self::IdNumber => id_number(text),
        }
    }
}

fn digits(text: &str) -> Vec<u8> {
    text.bytes().filter(u8::is_ascii_digit).map(|b| b - b'0').collect()
}

fn repeated(digits: &[u8]) -> bool {
    digits.windows(2).all(|pair| pair[0] == pair[1])
}

/// Checks Luhn's formula: every second digit from the right doubled, the sum a multiple of ten.
fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, &digit)| {
            u32::from(if index % 2 == 0 { digit } else { digit * 2 - 9 * u8::from(digit > 4) })
        })
        .sum();
    sum.is_multiple_of(10)
}

fn card(text: &str) -> bool {
    let digits = digits(text);
    let Some(four) = digits.get(..4).map(number) else { return false };
    let two = four / 100;
    let issued = match digits.len() {
        13 => digits[0] == 4,
        14 => matches!(two, 36 | 38 | 39) || (300..=305).contains(&(four / 10)),
        15 => matches!(two, 34 | 37),
        16 => {
            digits[0] == 4
                || (51..=55).contains(&two)
                || (2221..=2720).contains(&four)
                || four == 6011
                || matches!(two, 35 | 62 | 64 | 65 | 81)
                || (2200..=2204).contains(&four)
        }
        17..=19 => digits[0] == 4 || matches!(two, 62 | 50 | 56..=58 | 63 | 67),
        _ => false,
    };
    issued && luhn(&digits) && !repeated(&digits)
}

/// Lengths by country, from the IBAN registry.
const IBAN_LENGTHS: &str = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 \
    CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 \
    HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 \
    ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 \
    SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30";

fn iban(text: &str) -> bool {
    let Some(country) = text.get(..2).map(str::to_ascii_uppercase) else { return false };
    let length =
        IBAN_LENGTHS.split_ascii_whitespace().find_map(|entry| entry.strip_prefix(&*country));
    let Some(length) = length.and_then(|length| length.parse::<usize>().ok()) else { return false };
    // The match may extend into the next word.
    let mut bytes = text.bytes();
    let compact: Vec<u8> = bytes.by_ref().filter(u8::is_ascii_alphanumeric).take(length).collect();
    if compact.len() < length || bytes.next().is_some_and(|next| next.is_ascii_alphanumeric()) {
        return false;
    }
    let (head, tail) = compact.split_at(4);
    let remainder = tail.iter().chain(head).fold(0, |sum, &byte| {
        let value = char::from(byte).to_digit(36).unwrap_or(0);
        (sum * if value > 9 { 100 } else { 10 } + value) % 97
    });
    remainder == 1
}

/// Parses at most nine digits.
fn number(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |value, &digit| value * 10 + u32::from(digit))
}

/// Checks the rules of issuance: no area 000, 666 or 9xx, no group 00, no serial 0000; one number
/// known from advertisements is void.
fn ssn(digits: &[u8]) -> bool {
    let Ok(digits) = <&[u8; 9]>::try_from(digits) else { return false };
    let area = number(&digits[..3]);
    let group = number(&digits[3..5]);
    let serial = number(&digits[5..]);
    area != 0
        && area != 666
        && area < 900
        && group != 0
        && serial != 0
        && number(digits) != 78_051_120
}

fn ipv4(text: &str) -> bool {
    let Ok(ip) = text.parse::<std::net::Ipv4Addr>() else { return false };
    let [a, b, c, d] = ip.octets();
    // 1.2.3.4 is always an example.
    let counting = [b, c, d] == [1, 2, 3].map(|step| a.saturating_add(step));
    !(counting
        || ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation()
        || ip.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (b == 18 || b == 19)))
}

fn ipv4_plain(text: &str) -> bool {
    let numbers: Vec<u8> = text.split('.').filter_map(|part| part.parse().ok()).collect();
    ipv4(text) && numbers.iter().any(|&number| number >= 100) && numbers[0] >= 25
}

fn ipv6(text: &str) -> bool {
    let Ok(ip) = text.parse::<std::net::Ipv6Addr>() else { return false };
    let first = ip.segments()[0];
    // Global unicast is 2000::/3; 2001:db8::/32 is for documentation.
    (0x2000..0x4000).contains(&first) && !(first == 0x2001 && ip.segments()[1] == 0xdb8)
}

fn phone(text: &str) -> bool {
    let main = text.split(['x', 'X', 'e', 'E']).next().unwrap_or(text);
    let digits = digits(main);
    let counting = digits.windows(2).all(|pair| (pair[0] + 1) % 10 == pair[1]);
    let host = main.trim_start_matches('(').split('/').next().unwrap_or_default();
    let is_octet =
        |part: &str| part.parse::<u8>().is_ok() && (part.len() == 1 || !part.starts_with('0'));
    let is_address = host.split('.').count() == 4 && host.split('.').all(is_octet);
    let is_span = main.split_once('-').is_some_and(|(from, to)| is_year(from) && is_year(to));
    !is_address
        && !is_span
        && (7..=15).contains(&digits.len())
        && !counting
        && !digits[1..].windows(6).any(repeated)
        && !is_nobodys(main, &digits)
}

fn is_year(text: &str) -> bool {
    text.parse().is_ok_and(|year: u16| (1000..=2100).contains(&year)) && text.len() == 4
}

fn phone_spoken(text: &str) -> bool {
    let digits = digits(text);
    let dated = text.split(['-', '/', '.']).count() == 3 && digits.len() == 8;
    let marked = text.starts_with(['0', '+', '(']) || digits.len() <= 11;
    digits.len() >= 8 && !dated && marked && phone(text)
}

/// Returns true for toll-free numbers, 0800 in most of Europe, and the fictional 555-01xx.
fn is_nobodys(text: &str, digits: &[u8]) -> bool {
    let abroad = number(&digits[..5]);
    if matches!(abroad, 31800 | 33800 | 41800 | 43800 | 44800 | 49800 | 8000..=8009) {
        return true;
    }
    let foreign = text.starts_with('+') && digits[0] != 1;
    let local = match digits.len() {
        11 if digits[0] == 1 => &digits[1..],
        10 if !foreign => digits,
        _ => return false,
    };
    let area = number(&local[..3]);
    matches!(area, 800 | 822 | 833 | 844 | 855 | 866 | 877 | 888)
        || (number(&local[3..6]) == 555 && number(&local[6..8]) == 1)
}

fn birth_date(text: &str) -> bool {
    let numbers: Vec<u32> = text
        .split(|c: char| !c.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .filter_map(|part| part.parse().ok())
        .collect();
    let year = |year: u32| (1880..=2035).contains(&year) || year < 100;
    let day = |day: u32| (1..=31).contains(&day);
    let month = |month: u32| (1..=12).contains(&month);
    match numbers[..] {
        [y, m, d] if y > 999 => year(y) && month(m) && day(d),
        [packed] if packed > 9_999_999 => {
            year(packed / 10_000) && month(packed / 100 % 100) && day(packed % 100)
        }
        [a, b, y] => year(y) && ((month(a) && day(b)) || (day(a) && month(b))),
        // A month may be a word of any language, but day and year are required.
        [d, y] | [y, d] if text.chars().any(char::is_alphabetic) => {
            (day(d) && (1880..=2035).contains(&y)) || (day(y) && (1880..=2035).contains(&d))
        }
        _ => false,
    }
}

fn distinct(text: &str) -> usize {
    let mut seen = [false; 256];
    text.bytes().filter(|&b| !std::mem::replace(&mut seen[usize::from(b)], true)).count()
}

fn placeholder(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    const WORDS: &str = "example placeholder your changeme change_me change-me redacted dummy \
        sample xxxx **** .... see_ documentation insert";
    WORDS.split_ascii_whitespace().any(|word| lower.contains(word))
}

fn secret(text: &str) -> bool {
    // Expressions that read a secret from its store.
    const READ: [&str; 5] = ["process.env", "import.meta.env", "os.environ", "os.getenv", "env."];
    if placeholder(text) || distinct(text) < 8 || READ.iter().any(|read| text.starts_with(read)) {
        return false;
    }
    let upper = text.bytes().filter(u8::is_ascii_uppercase).count();
    let lower = text.bytes().filter(u8::is_ascii_lowercase).count();
    let digit = text.bytes().filter(u8::is_ascii_digit).count();
    // Identifiers are joined words; a key has capitals or digits within a word.
    let mut words = text.split(['_', '-', '.', '/']).filter(|word| word.len() > 2);
    let is_word = |word: &str| word.bytes().skip(1).all(|b| b.is_ascii_lowercase());
    let only_words = text.contains(['_', '-', '.', '/']) && words.all(is_word);
    // A name in camel case has few capitals and no digit: `sourceCode.getFirstToken`.
    let is_name = digit == 0 && (upper * 4 <= text.len() || lower == 0);
    !only_words && !is_name && ((digit > 0 && upper + lower > 0) || (upper > 1 && lower > 1))
}

fn password(text: &str) -> bool {
    const NOT: [&str; 40] = [
        "password", "passwort", "secret", "none", "null", "nil", "true", "false", "required",
        "optional", "string", "reset", "changed", "expired", "invalid", "incorrect", "wrong",
        "missing", "empty", "hidden", "strong", "weak", "must", "should", "the", "your", "this",
        "hash", "hashed", "encrypted", "field", "prompt", "input", "undefined", "unset", "str",
        "forgot", "redacted", "masked", "removed",
    ];
    let bare = text.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let lower = bare.to_ascii_lowercase();
    if placeholder(text) || NOT.contains(&&*lower) || distinct(bare) < 3 {
        return false;
    }
    let is_version = lower.split('.').count() > 1
        && lower.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'^' | b'~'));
    let is_call = lower.split_once('(').is_some_and(|(name, _)| {
        name.len() > 2 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b))
    });
    if is_version || is_call || lower.contains("%20") {
        return false;
    }
    if text.starts_with(['<', '{', '$', '%', '[', '('])
        || text.contains("os.environ")
        || text.contains("getenv")
    {
        return false;
    }
    // A plain word is no password: `password: reset by email`.
    let core = text.trim_end_matches(['.', ',', ';', ':', ')', '"', '\'']);
    core.len() >= 4 && core.contains(|c: char| c.is_ascii_digit() || "!@#%^&*+=~?".contains(c))
}

fn strong_password(text: &str) -> bool {
    let core = text.trim_end_matches(['.', ',', ';', ':', ')', '"', '\'', '>']);
    let has = |is: fn(&char) -> bool| usize::from(core.chars().any(|c| is(&c)));
    let is_mark = |c: &char| "!#$%&*+-./:;=?@^_~".contains(*c);
    let kinds = has(char::is_ascii_lowercase)
        + has(char::is_ascii_uppercase)
        + has(char::is_ascii_digit)
        + has(is_mark);
    let is_syntax = core.contains(['(', ')', '[', ']', '{', '}', '|', '\\'])
        || core.contains("://")
        || core.contains("::")
        || core.contains("->")
        || core.starts_with(['/', '.', '-', '@', '&']);
    core.is_ascii()
        && core.len() >= 6
        && kinds >= 3
        && distinct(core) >= 5
        && !is_syntax
        && password(text)
}

fn cpf(digits: &[u8]) -> bool {
    let check = |count: usize| {
        let sum: u32 = digits[..count]
            .iter()
            .zip((2..=count as u32 + 1).rev())
            .map(|(&d, w)| u32::from(d) * w)
            .sum();
        u32::from(digits[count]) == (sum * 10 % 11) % 10
    };
    digits.len() == 11 && !repeated(digits) && check(9) && check(10)
}

fn dni(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let compact: String = upper.chars().filter(char::is_ascii_alphanumeric).collect();
    let Some((number, letter)) = compact.split_at_checked(compact.len().saturating_sub(1)) else {
        return false;
    };
    let number = number.replace('X', "0").replace('Y', "1").replace('Z', "2");
    let Ok(number) = number.parse::<usize>() else { return false };
    "TRWAGMYFPDXBNJZSQVHLCKE".as_bytes().get(number % 23) == letter.as_bytes().first()
}

fn china_id(text: &str) -> bool {
    const WEIGHTS: [u32; 17] = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2];
    let sum: u32 = text.chars().zip(WEIGHTS).map(|(c, w)| c.to_digit(10).unwrap_or(0) * w).sum();
    let last = text.bytes().last().map(|b| b.to_ascii_uppercase());
    "10X98765432".as_bytes().get(sum as usize % 11).copied() == last
}

/// Checks a BIP-39 seed phrase: its lists have words of three to eight letters and hardly any
/// function words.
fn seed_phrase(text: &str) -> bool {
    const IN_SENTENCES: &str = "the your with and for are was were from not our but has its any \
        must should would could words them their his her who which what when where how";
    let count = text.split_ascii_whitespace().count();
    let holds = |word: &str| IN_SENTENCES.split_ascii_whitespace().any(|other| other == word);
    (12..=24).contains(&count)
        && count.is_multiple_of(3)
        && !text.split([' ', '\n', ',']).any(holds)
}

fn id_number(text: &str) -> bool {
    let digits = digits(text);
    let dated = matches!(
        text.split(['-', '/', '.']).map(str::len).collect::<Vec<_>>()[..],
        [4, 1..=2, 1..=2] | [1..=2, 1..=2, 4]
    );
    digits.len() >= 5 && !repeated(&digits) && !dated
}

/// Returns the address in typed form: signs for words, no spaces.
fn plain_address(text: &str) -> String {
    let mut plain = text.to_lowercase();
    for sign in ["&#64;", "&#x40;", "&commat;", "%40", "\\u0040", "=40"] {
        plain = plain.replace(sign, "@");
    }
    for (words, sign) in [("at", "@"), ("dot", ".")] {
        for (open, close) in [("[", "]"), ("(", ")"), ("{", "}"), ("<", ">"), (" ", " ")] {
            plain = plain.replace(&format!("{open}{words}{close}"), sign);
        }
    }
    plain.retain(|c| !c.is_whitespace());
    plain
}

fn email(text: &str) -> bool {
    let lower = plain_address(text);
    let domain = lower.split_once('@').map_or(&*lower, |(_, domain)| domain);
    const RESERVED: &str =
        ".example .test .invalid .localhost example.com example.org example.net .local";
    const FILES: &str = ".png .jpg .svg .js .ts .py .css .json .md .gif .service .socket .timer \
        .target .mount .slice .scope .conf .db .bt .txt .html .htm .yml .yaml .toml .xml .log .xx";
    // Shared mailboxes identify no person.
    const LIST_HOSTS: &str = "freelists.org vger.kernel.org googlegroups.com packages.debian.org";
    const LIST_STARTS: &str = "bug- help- info- owner- l10n- i18n-";
    const LIST_NAMES: &str = "-devel -dev -users -announce -bugs -list -request -discuss -admin \
        -owner -i18n -l10n -sig -maintainers -info";
    const ROLES: &str = "noreply no-reply donotreply git you username user name support info sales \
        help contact admin billing security privacy press team hello office careers jobs feedback \
        abuse postmaster webmaster service orders returns legal me someone email test foo \
        ftpmaster listmaster bugs report webadmin mailer-daemon developer \
        developers maintainers root test-user testuser my jbloggs dev";
    let local = lower.split('@').next().unwrap_or_default();
    let any =
        |list: &'static str, is_it: &dyn Fn(&str) -> bool| list.split_ascii_whitespace().any(is_it);
    let is_reserved = any(RESERVED, &|end| domain.ends_with(end))
        || domain.contains("example")
        || domain.contains("yourdomain");
    let is_file = any(FILES, &|end| domain.ends_with(end));
    let is_list = any(LIST_HOSTS, &|host| host == domain)
        || any(LIST_STARTS, &|start| local.starts_with(start))
        || any(LIST_NAMES, &|end| local.ends_with(end))
        || any("lists. lister.", &|start| domain.starts_with(start))
        || domain.contains(".lists.");
    let is_role =
        any(ROLES, &|role| role == local) || any("your. your_", &|it| lower.starts_with(it));
    !(is_reserved || is_file || is_list || is_role)
}

#[cfg(test)]
mod tests;
