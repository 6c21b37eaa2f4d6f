// Walk by keys alone: list, run, call, filter, help.
import { faults, settled } from './checks.mjs';

/** Presses keys one after the other, and waits for what the last one brings. */
async function press(page, keys, selector) {
  for (const key of keys) await page.keyboard.press(key);
  await page.waitForSelector(selector);
}

const focused = (page) => page.evaluate(() => document.activeElement?.className ?? '');

export async function walk(page, base) {
  const found = [];
  const expect = (what, isGood) => isGood || found.push(what);
  await page.goto(`${base}/#/runs`);
  await page.waitForSelector('a.row');
  await press(page, ['j', 'j'], 'tr.chosen[data-row="1"] a.row:focus');
  await press(page, ['k'], 'tr.chosen[data-row="0"] a.row:focus');
  await press(page, ['Enter'], '.trace-head');
  await settled(page);
  await press(page, ['j'], '[data-line="0"].chosen button:focus');
  await press(page, ['Enter'], '[data-line="0"] .call-body');
  expect('the address does not hold the call', page.url().includes('call=1'));
  await page.goBack();
  await page.waitForSelector('a.row');
  await press(page, ['/'], '#filter:focus');
  await page.keyboard.type('verdict:fail');
  await press(page, ['Enter'], '.chip');
  expect('the address does not hold the filter', page.url().includes('label=fail'));
  await settled(page);
  expect('a run of the list does not fail', await page.locator('tbody .verdict.is-pass').count() === 0);
  await page.keyboard.press('Escape');
  await press(page, ['?'], 'dialog[open]');
  found.push(...await faults(page));
  await press(page, ['Escape'], 'body:not(:has(dialog[open]))');
  await press(page, ['g', 'o'], '.figures');
  await page.goto(`${base}/#/runs`);
  await page.waitForSelector('.pick');
  await page.locator('tbody .pick').first().focus();
  await press(page, ['Enter'], '.menu button:focus');
  found.push(...await faults(page));
  await press(page, ['ArrowDown', 'Enter'], '.chip.not');
  await page.keyboard.press('Tab');
  expect('the focus is lost', (await focused(page)) !== undefined);
  await page.goto('about:blank');
  await page.goto(`${base}/#/runs`);
  await page.waitForSelector('a.row');
  await press(page, ['Tab'], '.skip:focus');
  return found;
}
