// What people add on the pages: a verdict, items of a dataset, and the file that a config reads.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { payment, requestOf } from './agent.mjs';
import { faults, settled } from './checks.mjs';

/** Walks from the list to a verdict and to an item, by keys alone; returns what went wrong. */
export async function people(page, { base, ask }, id) {
  const found = [];
  const expect = (what, isGood) => isGood || found.push(what);
  const press = async (keys, selector) => {
    for (const key of keys) await page.keyboard.press(key);
    await page.waitForSelector(selector);
  };
  await page.goto(`${base}/#/runs?service=till`);
  await page.waitForSelector('a.row');
  await press(['j'], 'tr.chosen a.row:focus');
  await press(['Enter'], '.trace-head');
  await settled(page);
  await press(['a'], 'select[name="target"]:focus');
  await press(['Tab', 'Tab'], 'input[name="comment"]:focus');
  await page.keyboard.type('paid <b>twice</b>');
  await press(['Tab'], 'input[name="author"]:focus');
  await page.keyboard.type('ann');
  await press(['Enter'], '.notes li .said');
  found.push(...await faults(page));
  const [annotation] = (await (await ask(`/annotations?trace_id=${id}`)).json()).items;
  expect(`the verdict is ${JSON.stringify(annotation)}`, annotation?.label === 'fail' && annotation.author === 'ann' && annotation.comment === 'paid <b>twice</b>');
  // Letters are keys again once the focus is on a button.
  await press(['Tab', 'd'], 'input[name="dataset"]:focus');
  await page.keyboard.press('Control+A');
  await page.keyboard.type('golden');
  await press(['Tab'], 'input[name="key"]:focus');
  await page.keyboard.type('pay-back');
  await press(['Enter'], '.change a[href="#/datasets/golden"]');
  await press(['Tab', 'Tab', 'Enter'], '.items textarea');
  expect('the item does not hold the calls', (await page.inputValue('textarea')).includes('"amount": 60'));
  found.push(...await faults(page));
  await page.fill('textarea', '{');
  await page.click('.items .button.main');
  await page.waitForSelector('.items .is-fail');
  // Somebody else changes the item.
  await page.evaluate((body) => fetch('api/v1/datasets/golden/items/pay-back', { method: 'PATCH', headers: { 'content-type': 'application/json' }, body }), '{"note": "seen"}');
  await page.click('.items button[aria-label="Delete pay-back"]');
  await page.waitForSelector('.items .is-fail:has-text("changed meanwhile")');
  await page.goto(`${base}/#/runs?service=shop`);
  await page.waitForSelector('.choice');
  await page.locator('.choice').first().focus();
  await press(['Space'], '.choice:checked');
  await page.locator('.change input[name="dataset"]').fill('chosen');
  await page.click('.change .button.main');
  await page.waitForSelector('.change a[href="#/datasets/chosen"]');
  found.push(...await faults(page));
  // A run that is there already does not stop the others, and stays chosen.
  for (const nth of [0, 1]) await page.locator('.choice').nth(nth).check();
  await page.click('.change .button.main');
  await page.waitForSelector('.change .is-fail:has-text("1 of 2 added: there is an item")');
  expect('not only the refused run stays chosen', await page.locator('.choice:checked').count() === 1);
  return found;
}

/** Labels evaluations as two people do, and a session; returns what the page of the evaluator lacks. */
export async function agreed(page, { base, ask }) {
  const found = [];
  const keep = (body) => page.evaluate((text) => fetch('api/v1/annotations', { method: 'POST', headers: { 'content-type': 'application/json' }, body: text }).then((it) => it.status), JSON.stringify(body));
  const { items } = await (await ask('/evaluations?evaluator=tool_trajectory/refund&limit=12')).json();
  for (const [at, it] of items.entries()) {
    const about = { trace_id: it.trace_id, evaluation_id: it.evaluation_id };
    await keep({ ...about, label: it.label, author: 'ann' });
    await keep({ ...about, label: at % 4 === 0 ? 'pass' : it.label, author: '<b>bob</b>' });
  }
  await page.goto(`${base}/#/evaluators/tool_trajectory/refund`);
  await page.waitForSelector('h2:has-text("Verdicts of people")');
  await settled(page);
  const told = await page.textContent('section:has(> h2:has-text("Verdicts of people"))');
  if (!told.includes('<b>bob</b>')) found.push(`the people are not named: ${told}`);
  found.push(...await faults(page));
  await page.goto(`${base}/#/runs/${items[0].trace_id}`);
  await page.waitForSelector('select[name="target"]');
  await page.selectOption('select[name="target"]', 'session');
  await page.fill('input[name="comment"]', 'all of it');
  await page.click('form[aria-label="Add a verdict"] .button.main');
  await page.waitForSelector('.notes li:has-text("the session"):has-text("all of it")');
  return [...found, ...await faults(page)];
}

const config = `
evaluators:
  tool_trajectory/golden: {expect: {file: items.jsonl, match: auto}}
`;

/** Judges a recording by the file of a dataset: the run that it was made of passes, another fails. */
export function judged(binary, folder, items) {
  writeFileSync(join(folder, 'items.jsonl'), items);
  writeFileSync(join(folder, 'judge.yaml'), config);
  const verdict = (amount) => {
    const recording = join(folder, `${amount}.jsonl`);
    const { body } = requestOf({ service: 'till', version: '2', environment: 'prod' }, [payment('Pay back  B-1 as promised', amount)]);
    writeFileSync(recording, `${body}\n`);
    const lines = execFileSync(binary, ['score', '--config', join(folder, 'judge.yaml'), '--fail-on', 'failed', '--format', 'jsonl', recording], { encoding: 'utf8' });
    const row = lines.trim().split('\n').map((line) => JSON.parse(line)).find((it) => it.evaluator === 'tool_trajectory/golden');
    return `${row?.label} ${row?.case}`;
  };
  const found = [verdict(60), verdict(90)].join(', ');
  return found === 'pass pay-back, fail pay-back' ? [] : [found];
}
