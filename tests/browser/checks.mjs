// Checks of one page in a browser: nothing runs, nothing leaves, nothing overflows, axe agrees.
import { HIDDEN } from './hostile.mjs';

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
/** Elements that the pages make; another one came from a text. */
const ELEMENTS = new Set('A B BDI BR BUTTON CIRCLE CODE DD DETAILS DIALOG DIV DL DT FIGCAPTION FIGURE FORM G H1 H2 H3 HEADER I INPUT KBD LABEL LI LINE MAIN NAV OL OPTION P PATH PRE RECT SECTION SELECT SPAN SUMMARY SVG TABLE TBODY TD TEXT TEXTAREA TH THEAD TIME TR UL'.split(' '));
/** Contrast that text needs, and that a shape needs which says something. */
const TEXT_CONTRAST = 4.5;
const SHAPE_CONTRAST = 3;

/** Faults of a page, gathered while it is open. */
export function watch(page, origin) {
  const found = [];
  page.on('pageerror', (error) => found.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => { found.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('console', (message) => {
    // A status that the check itself has made is no fault of the page.
    if (['error', 'warning'].includes(message.type()) && !message.text().startsWith('Failed to load resource')) found.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith('data:')) found.push(`request to ${request.url()}`);
  });
  return found;
}

/** Waits until the page has its answers. */
export async function settled(page) {
  await page.waitForSelector('main > *');
  await page.waitForFunction(() => !document.querySelector('.skeleton'));
}

/** Runs in the page: contrast of texts and shapes of drawings with what is behind them. */
function contrasts([textMin, shapeMin]) {
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const behind = (element) => {
    for (let at = element.closest('svg'); at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  const check = (selector, property, min) => {
    for (const element of document.querySelectorAll(selector)) {
      const found = ratio(rgb(getComputedStyle(element)[property]), behind(element));
      if (found < min) low.push(`${selector} has a contrast of ${found.toFixed(2)}`);
    }
  };
  check('.chart svg text', 'fill', textMin);
  check('.chart .line', 'stroke', shapeMin);
  check('.chart .dot, .f-pass, .f-fail, .f-failed, .f-not_evaluable, .f-plain, .bar', 'fill', shapeMin);
  return [...new Set(low)];
}

/** Runs in the page: elements, links and texts that no page of ours has. */
function foreign([allowed, hidden]) {
  const known = new Set(allowed);
  const bad = new RegExp(hidden, 'u');
  const found = [];
  for (const element of document.querySelectorAll('#app *')) {
    if (!known.has(element.tagName.toUpperCase())) found.push(`element ${element.tagName}`);
    for (const { name } of element.attributes) if (name.startsWith('on') || name === 'srcdoc' || name === 'style' && element.getAttribute('style').includes('url')) found.push(`attribute ${name}`);
    const href = element.getAttribute('href');
    if (href !== null && !href.startsWith('#/') && href !== '#main' && href !== 'login' && !/^api\/v1\/datasets\/[^/]+\/items\.jsonl$/.test(href)) found.push(`link ${href.slice(0, 60)}`);
  }
  const texts = document.createTreeWalker(document.querySelector('#app'), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) if (bad.test(texts.currentNode.data)) found.push(`text with a hidden character: ${JSON.stringify(texts.currentNode.data.slice(0, 60))}`);
  for (const name of ['title', 'aria-label']) for (const element of document.querySelectorAll(`#app [${name}]`)) if (bad.test(element.getAttribute(name))) found.push(`${name} with a hidden character`);
  if (globalThis.__ran) found.push('a text ran as a program');
  return [...new Set(found)];
}

/** Faults of the page as it stands. */
export async function faults(page, { axe = true } = {}) {
  const found = await page.evaluate(foreign, [[...ELEMENTS], HIDDEN.source]);
  const [wide, inner] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  if (wide > inner) found.push(`scrolls sideways: ${wide} of ${inner} px`);
  found.push(...await page.evaluate(() => (globalThis.__csp ?? []).map((it) => `policy: ${it}`)));
  found.push(...await page.evaluate(contrasts, [TEXT_CONTRAST, SHAPE_CONTRAST]));
  if (!axe) return found;
  const { violations } = await page.evaluate((tags) => globalThis.axe.run(document, { runOnly: tags, resultTypes: ['violations'] }), TAGS);
  const first = (violation) => violation.nodes.slice(0, 2).map((node) => `${node.target.join(' ')} ${(node.any[0] ?? node.all[0] ?? node.none[0])?.message ?? ''}`).join('; ');
  return [...found, ...violations.map((it) => `axe ${it.id}: ${it.nodes.length} times, ${first(it)}`)];
}
