// The pages in a real browser, over a real collector that is fed by real OTLP.
//
//     node run.mjs PATH-TO-SPANSCORE [FOLDER]
//
// Prints a line for each check and ends with `N passed, N failed`; exits 1 if any failed, or without
// Chromium. With a folder, it leaves a picture of each page there.
import { execFileSync } from 'node:child_process';
import { payment, send, sendHostile, sendLong, sendOrdinary } from './agent.mjs';
import { launch, watched } from './browser.mjs';
import { faults, settled } from './checks.mjs';
import { eventually, start } from './collector.mjs';
import { CORPUS } from './hostile.mjs';
import { elsewhere } from './elsewhere.mjs';
import { agreed, judged, people } from './people.mjs';
import { soak } from './soak.mjs';
import { walk } from './walk.mjs';

const WIDTHS = [360, 1280];
const THEMES = ['light', 'dark'];
const HEIGHT = 900;
/** Calls of the long run, of 10,000 spans, and milliseconds of the page until it must stand, in one of some turns. */
const LONG = 9999;
const LONG_MS = 1000;
const LONG_TURNS = 10;
/** Seconds of the soak; that of minutes is `soak.mjs` by itself. */
const SOAK_S = 30;

const [, , binary, pictures] = process.argv;
let passed = 0;
let failed = 0;
function check(what, found) {
  const isGood = found.length === 0;
  if (isGood) passed += 1; else failed += 1;
  console.log(isGood ? 'ok  ' : 'FAIL', what, isGood ? '' : `\n     ${found.slice(0, 8).join('\n     ')}`);
}

/** Opens a page of its own that is watched, hands it over with what is found, and closes it. */
const within = (browser, base, options, use) => watched(browser, collector, options, use);

/** Opens an address at each width, which programs read as they start, and checks it there in each theme, which only styles read. */
async function everyLook(page, base, hash, ready, tell) {
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: HEIGHT });
    // A page that differs in the part behind # alone would not be loaded again.
    await page.goto('about:blank');
    await page.goto(`${base}/${hash}`);
    await ready(page);
    for (const theme of THEMES) {
      await page.emulateMedia({ colorScheme: theme });
      await tell(theme, width, await faults(page));
    }
  }
}

async function everyPage(browser, base, places) {
  for (const [name, hash] of places) {
    await within(browser, base, {}, async (page, found) => {
      await everyLook(page, base, hash, settled, async (theme, width, seen) => {
        check(`${name}, ${theme}, ${width} px`, [...found.splice(0), ...seen]);
        if (pictures) await page.screenshot({ path: `${pictures}/${name}-${theme}-${width}.png` });
      });
    });
  }
}

/** States that a good collector seldom shows: its answers are replaced. */
async function everyState(browser, base, places) {
  const problem = (status) => ({ status, contentType: 'application/problem+json', body: JSON.stringify({ type: 'urn:spanscore:problem:too_long', title: 'The question takes too long', status, detail: 'ask for a shorter time, or for fewer fields' }) });
  const states = { failing: (route) => route.fulfill(problem(503)), unauthorised: (route) => route.fulfill(problem(401)), waiting: () => {} };
  for (const [state, answer] of Object.entries(states)) {
    for (const [name, hash] of places) {
      await within(browser, base, {}, async (page, found) => {
        await page.route('**/api/v1/**', answer);
        const ready = () => page.waitForSelector(state === 'waiting' ? 'main' : '.problem, .note');
        await everyLook(page, base, hash, ready, (theme, width, seen) => check(`${name}, ${state}, ${theme}, ${width} px`, [...found.splice(0), ...seen]));
      });
    }
  }
}

/** From nothing to the page of the first run, which the command of the README sends. */
async function setup(browser, { base, otlp }) {
  await within(browser, base, {}, async (page, found) => {
    await page.goto(`${base}/`);
    await page.waitForSelector('.stands');
    check('setup opens by itself while nothing was received', page.url().endsWith('#/setup') ? [] : [page.url()]);
    const done = () => page.locator('.steps .is-pass').count();
    check('setup before the first span', [...found.splice(0), ...await faults(page), ...(await done() === 0 ? [] : ['a step is done'])]);
    execFileSync(binary, ['send', '--sample', '--endpoint', otlp]);
    await page.waitForFunction(() => document.querySelectorAll('.steps .is-pass').length === 6);
    await page.click('text=See the runs');
    await page.waitForSelector('a.row');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.trace-head');
    await settled(page);
    const calls = await page.locator('.call').count();
    check('the sample moves the six steps, and ends on its page', [...found.splice(0), ...await faults(page), ...(calls >= 5 ? [] : [`${calls} calls`])]);
    await sendOrdinary(otlp, 60);
  });
}

/** A browser that nobody knows sees nothing; the link of `spanscore open` lets it in, once. */
async function entering({ base, link }, browser) {
  const opened = link();
  for (const isFirst of [true, false]) {
    await within(browser, base, { isKnown: false }, async (page, found) => {
      await page.goto(`${base}/#/runs`);
      await page.waitForSelector('.problem a[href="login"]');
      check('a stranger is shown how to log in', [...found.splice(0), ...await faults(page)]);
      await page.goto(opened);
      await page.waitForSelector(isFirst ? 'a.row' : '.problem a[href="login"]');
      const kept = page.url().includes('code=') ? ['the address holds the code'] : [];
      check(isFirst ? 'the link lets a browser in' : 'the link lets nobody in again', [...found, ...kept]);
    });
  }
}

/** So does the token in the form; another does not. */
async function loggingIn({ base, token }, browser) {
  await within(browser, base, { isKnown: false }, async (page, found) => {
    await page.goto(`${base}/login`);
    for (const typed of ['no such token', token]) {
      await page.fill('input[name="token"]', typed);
      await page.click('button');
      await page.waitForSelector(typed === token ? 'a.row' : 'p:has-text("This is no token")');
    }
    check('the token lets a browser in', found);
  });
}

/** Arrivals are seen at once on Live, and announced on Runs. */
async function arrivals({ base, otlp }, browser) {
  await within(browser, base, {}, async (page, found) => {
    await page.goto(`${base}/#/live`);
    await page.waitForSelector('text=listening');
    await sendOrdinary(otlp, 2);
    await page.waitForSelector('tbody tr:nth-child(9)');
    check('evaluations appear as they come', [...found, ...await faults(page)]);
    await page.goto(`${base}/#/runs`);
    await page.waitForSelector('a.row');
    const before = await page.textContent('.page-head [role="status"]');
    await sendOrdinary(otlp, 1);
    await page.click('.button.main');
    await page.waitForFunction((was) => document.querySelector('.page-head [role="status"]').textContent !== was, before);
    check('new runs are announced, and come when asked for', [...found, ...await faults(page)]);
  });
}

/** Pasted spans are explained, hostile ones without harm. */
async function inspect({ base }, browser) {
  const request = (name) => JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [{
    traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', name: 'execute_tool search', startTimeUnixNano: '1', endTimeUnixNano: '2',
    attributes: [{ key: 'gen_ai.operation.name', value: { stringValue: 'execute_tool' } }, { key: 'gen_ai.tool.name', value: { stringValue: name } }],
  }] }] }] });
  for (const width of WIDTHS) {
    await within(browser, base, { width }, async (page, found) => {
      await page.goto(`${base}/#/inspect`);
      await page.fill('textarea', request('search'));
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await page.waitForSelector('.found li:has-text("search")');
      check(`pasted spans are explained, ${width} px`, [...found.splice(0), ...await faults(page)]);
      for (const text of CORPUS.slice(0, 20)) {
        await page.fill('textarea', request(text));
        await page.click('.button.main');
        await page.waitForSelector('text=Span by span');
      }
      check(`pasted hostile spans, ${width} px`, [...found.splice(0), ...await faults(page)]);
      await page.fill('textarea', 'no request');
      await page.click('.button.main');
      await page.waitForSelector('.problem');
      const expected = (it) => it.includes('400');
      check(`what is no request is refused in words, ${width} px`, [...found.filter((it) => !expected(it)), ...await faults(page)]);
    });
  }
}

/** Runs in the page: opens an address; returns the milliseconds until many calls stand, and those of the answer among them. */
const opening = (hash) => new Promise((resolve) => {
  const began = performance.now();
  const answered = () => performance.getEntriesByType('resource').filter((it) => it.name.includes('/traces/')).at(-1)?.duration ?? 0;
  const look = () => (document.querySelector('[data-line="20"]') ? resolve([performance.now() - began, answered()]) : requestAnimationFrame(look));
  location.hash = hash;
  look();
});

async function long({ base, otlp }, browser) {
  const id = await sendLong(otlp, LONG);
  await stored(id);
  await within(browser, base, {}, async (page, found) => {
    let opened = Infinity;
    let answer = 0;
    // The best of some, on a machine that does other things; a build without optimisation answers late.
    for (let turn = 0; turn < LONG_TURNS && opened - answer > LONG_MS; turn += 1) {
      await page.goto(`${base}/#/live`);
      await settled(page);
      [opened, answer] = await page.evaluate(opening, `#/runs/${id}`);
    }
    const lines = await page.locator('.call').count();
    const unfolded = await page.evaluate(() => new Promise((resolve) => {
      const began = performance.now();
      document.querySelector('[data-line="5"] button').click();
      requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - began)));
    }));
    console.log(`     ${LONG + 1} spans: ${Math.round(opened)} ms until they stand, ${Math.round(answer)} of them for the answer, ${lines} lines in the document, ${Math.round(unfolded)} ms to unfold one`);
    check('a run of many calls opens, with few lines in the document', [...found, ...(opened - answer > LONG_MS ? [`${opened - answer} ms`] : []), ...(lines > 400 ? [`${lines} lines`] : []), ...await faults(page)]);
  });
}

/** Waits until the store has a run. */
async function stored(id) {
  if (!await eventually(async () => (await collector.ask(`/traces/${id}`)).ok)) throw new Error(`the run ${id} is not stored`);
}

/** Every string in every field, in the lists and on its own page. */
async function hostile({ base, otlp }, browser) {
  const ids = await sendHostile(otlp, CORPUS);
  for (const id of ids) await stored(id);
  const lists = ['#/runs', '#/runs?sort=worst', '#/overview?by=user_id', '#/evaluators', '#/tools', '#/sessions', '#/compare', '#/live'];
  for (const width of WIDTHS) {
    await within(browser, base, { width, height: 6000 }, async (page, found) => {
      for (const hash of lists) {
        await page.goto(`${base}/${hash}`);
        await settled(page);
        for (let turn = 0; turn < 4; turn += 1) await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
        await page.evaluate(() => scrollTo(0, 0));
        check(`hostile strings in ${hash}, ${width} px`, [...found.splice(0), ...await faults(page, { axe: width === WIDTHS[1] })]);
      }
      // Pages of their own are looked at where there is least room.
      if (width !== WIDTHS[0]) return;
      const bad = [];
      for (const [at, id] of ids.entries()) {
        await page.goto(`${base}/#/runs/${id}?call=${1 + (at % 2)}`);
        await page.waitForSelector(`.trace-head [title$="${id}"]`);
        await page.waitForSelector('.call-body');
        const own = [...found.splice(0), ...await faults(page, { axe: at % 40 === 0 })];
        bad.push(...own.map((it) => `${JSON.stringify(CORPUS[at]).slice(0, 40)}: ${it}`));
      }
      check(`${ids.length} hostile strings on pages of their own, ${width} px`, bad);
    });
  }
}

const browser = await launch();
const collector = await start(binary);
/** A store of its own: what came before is no part of it. */
async function soaking() {
  const own = await start(binary);
  try {
    const { words, found } = await soak(browser, own, SOAK_S);
    console.log(`     ${words}`);
    check(`${SOAK_S} s of 1,000 evaluations a second, seven tabs share one stream`, found);
  } finally {
    await own.stop();
  }
}

try {
  await setup(browser, collector);
  await entering(collector, browser);
  await loggingIn(collector, browser);
  const [paid] = await send(collector.otlp, { service: 'till', version: '1', environment: 'prod' }, [payment('Pay back B-1 as promised', 60)]);
  await stored(paid);
  await within(browser, collector.base, {}, async (page, found) => {
    check('verdicts and items of people, by keys alone', [...await people(page, collector, paid), ...found]);
    check('people are shown beside the evaluator and each other', [...await agreed(page, collector), ...found]);
    check('an item of the page is read by expect.file, and judged by score', judged(binary, collector.folder, await page.evaluate((path) => fetch(path).then((it) => it.text()), 'api/v1/datasets/golden/items.jsonl')));
  });
  const failing = await (await collector.ask('/traces?label=fail&limit=1')).json();
  const id = failing.items[0].trace_id;
  const places = [['runs', '#/runs'], ['run', `#/runs/${id}?call=2`], ['overview', '#/overview'], ['overview by model', '#/overview?by=model'], ['evaluators', '#/evaluators'], ['evaluator', '#/evaluators/tool_trajectory/refund'], ['evaluator without a name', '#/evaluators/tool_error'], ['tools', '#/tools'], ['compare', '#/compare'], ['live', '#/live'], ['sessions', '#/sessions'], ['datasets', '#/datasets'], ['dataset', '#/datasets/golden'], ['inspect', '#/inspect'], ['setup', '#/setup']];
  await everyPage(browser, collector.base, places);
  await everyPage(browser, collector.base, [['nothing found', '#/runs?label=fail&agent=nobody'], ['no such run', '#/runs/ffffffff'], ['no such page', '#/nowhere']]);
  await everyState(browser, collector.base, places);
  await within(browser, collector.base, {}, async (page, found) => check('a walk by keys alone', [...await walk(page, collector.base), ...found]));
  await inspect(collector, browser);
  await arrivals(collector, browser);
  await long(collector, browser);
  await hostile(collector, browser);
  check('hostile strings in stream, export and terminal', await elsewhere(binary, collector));
  await soaking();
} finally {
  await browser.close();
  await collector.stop();
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
