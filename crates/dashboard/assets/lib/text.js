// Text of strangers as segments: what shows, and escapes for what would hide, reorder or deceive.

// Control, format, bidirectional, shapeless and unpaired characters, line and paragraph separators.
const HIDDEN = new RegExp(
  '[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Cs}\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u2065\\u3164\\uffa0\\u{e0000}-\\u{e0fff}]',
  'u',
);
const PICTURE = /\p{Extended_Pictographic}/u;

/** Escape of one character: `\n`, `\u202e`, `\u{e0041}`. */
export function escapeOf(character) {
  const short = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }[character];
  if (short) return short;
  const hex = character.codePointAt(0).toString(16);
  return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, '0')}`;
}

/** True for a joiner between two pictures, as in a family of emoji. */
function joinsPictures(characters, at) {
  const before = characters.slice(Math.max(0, at - 3), at).join('');
  return characters[at] === '\u200d' && PICTURE.test(before) && PICTURE.test(characters[at + 1] ?? '');
}

/**
 * Splits a text into segments `{ text, hidden }`. With `lines`, line feeds and tabs stay. A text of
 * blanks alone is said to be one.
 * @param {string} text
 */
export function segments(text, lines = false) {
  if (!HIDDEN.test(text)) return text === '' ? [] : [text.trim() ? { text, hidden: false } : { text: 'blank', hidden: true }];
  const out = [];
  let plain = '';
  const characters = Array.from(text);
  characters.forEach((character, at) => {
    const stays = (lines && (character === '\n' || character === '\t')) || joinsPictures(characters, at);
    if (stays || !HIDDEN.test(character)) {
      plain += character;
      return;
    }
    if (plain) out.push({ text: plain, hidden: false });
    plain = '';
    out.push({ text: escapeOf(character), hidden: true });
  });
  if (plain) out.push({ text: plain, hidden: false });
  return out;
}

/** The same as one string, for titles and labels. */
export function visible(text, lines = false) {
  return segments(String(text ?? ''), lines).map((it) => it.text).join('');
}

/** Cuts a text after so many characters, never within one. */
export function cut(text, max) {
  if (text.length <= max) return text;
  const end = text.slice(0, max);
  return (/[\ud800-\udbff]$/.test(end) ? end.slice(0, -1) : end) + '…';
}

/** JSON of any value, in lines or in one; what is too deep to write is said. */
export function json(value, indent = 0) {
  try {
    return JSON.stringify(value, null, indent) ?? 'null';
  } catch {
    return '(too deeply nested to show)';
  }
}

/** One line for the arguments of a call: `id="1234" amount=90`. */
export function argumentLine(value, max = 160) {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'object' || Array.isArray(value)) return cut(json(value), max);
  let line = '';
  for (const key of Object.keys(value)) {
    line += `${line && '  '}${key}=${cut(json(value[key]), 60)}`;
    if (line.length > max) break;
  }
  return cut(line, max);
}

/** Plural of a count: `1 call`, `2 calls`. */
export function count(n, one, many = `${one}s`) {
  return `${Number(n).toLocaleString('en')} ${n === 1 ? one : many}`;
}
