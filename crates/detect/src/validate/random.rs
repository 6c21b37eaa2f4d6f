//! Randomness test, which distinguishes random letters and digits from names.

/// Least number of letters and digits in a key.
const LENGTH_MIN: usize = 16;
/// Length of a sequence such as `1234567` or `abcdefg` that is never random.
const ROW_LENGTH: usize = 6;

#[derive(Clone, Copy, PartialEq)]
enum Letter {
    Upper,
    Lower,
    Digit,
}

impl Letter {
    fn of(byte: u8) -> Option<Self> {
        match byte {
            b'A'..=b'Z' => Some(Self::Upper),
            b'a'..=b'z' => Some(Self::Lower),
            b'0'..=b'9' => Some(Self::Digit),
            _ => None,
        }
    }
}

/// Returns true if letters look random: their kinds alternate as often as by chance, while names
/// have words of one kind, followed by numbers.
pub(super) fn is_drawn(text: &str) -> bool {
    let drawn: Vec<(u8, Letter)> =
        text.bytes().filter_map(|byte| Letter::of(byte).map(|letter| (byte, letter))).collect();
    let count = |wanted: Letter| drawn.iter().filter(|(_, letter)| *letter == wanted).count();
    let upper = count(Letter::Upper);
    let lower = count(Letter::Lower);
    let digits = count(Letter::Digit);
    if drawn.len() < LENGTH_MIN || digits < 2 || upper + lower < 2 || is_uuid(text) {
        return false;
    }
    let has_row = drawn.windows(ROW_LENGTH).any(|window| {
        let steps = || window.windows(2).map(|pair| i16::from(pair[1].0) - i16::from(pair[0].0));
        steps().all(|step| step == 1) || steps().all(|step| step == -1) || steps().all(|s| s == 0)
    });
    let changes = drawn.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    let is_mixed = upper > 2 && lower > 2;
    // Least share of adjacent pairs of two kinds, percent.
    let share_min = if is_mixed { 42 } else { 20 };
    !has_row && changes * 100 >= share_min * (drawn.len() - 1)
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12]
}
