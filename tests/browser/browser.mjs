// Browser under test: Debian's Chromium, and pages of it that are watched.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { watch } from './checks.mjs';
import { PATIENCE_MS } from './collector.mjs';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const ARGUMENTS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** Starts it; without one the program ends. */
export async function launch() {
  if (!existsSync(CHROMIUM)) {
    console.log(`there is no ${CHROMIUM} (Debian: apt-get install chromium; another: CHROMIUM=PATH)`);
    process.exit(1);
  }
  return chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const REPORTS = 'globalThis.__csp = []; addEventListener("securitypolicyviolation", (event) => __csp.push(`${event.violatedDirective} ${event.blockedURI}`));';

/** Opens a context with the cookie of a collector, unless nobody is to be known. */
export async function context(browser, { cookie }, { width = 1280, theme = 'light', height = 900, isKnown = true, scale = 1 } = {}) {
  const made = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: 'reduce', deviceScaleFactor: scale });
  made.setDefaultTimeout(PATIENCE_MS);
  await made.addInitScript(REPORTS);
  await made.addInitScript(axe);
  if (isKnown) await made.addCookies([cookie]);
  return made;
}

/** Opens a page of its own that is watched, hands it over with what is found, and closes it. */
export async function watched(browser, collector, options, use) {
  const own = await context(browser, collector, options);
  const page = await own.newPage();
  const found = watch(page, collector.base);
  try {
    await use(page, found);
  } finally {
    await own.close();
  }
}
