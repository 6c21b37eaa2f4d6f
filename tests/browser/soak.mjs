// Soak: 1,000 evaluations a second, while tabs of one browser show Runs and Live.
//
//     node soak.mjs PATH-TO-SPANSCORE [SECONDS]
//
// Memory of pages and collector stays flat; Live tells each evaluation, or a gap; seven visible tabs
// hold one stream. Ten minutes unless told otherwise.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { payment, send } from './agent.mjs';
import { context, launch } from './browser.mjs';
import { eventually, pause, start } from './collector.mjs';

const TABS = 7;
/** Runs of a request, each judged by two evaluators, and milliseconds between two requests. */
const RUNS = 50;
const EVERY_MS = 100;
/** Growth that is noise, from a third of the time on: MiB of a page, MiB of the collector. */
const PAGE_MIB = 16;
const COLLECTOR_MIB = 128;

/** MiB that the programs of a page hold, once what nobody needs is gone. */
async function heap(page) {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return usedSize / 2 ** 20;
}

const resident = (pid) => Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) / 1024;

/** Opens tabs on Live and one on Runs; counts the streams that they ask for. */
async function tabs(browser, collector) {
  const own = await context(browser, collector);
  let streams = 0;
  own.on('request', (it) => {
    if (it.url().includes('/api/v1/stream')) streams += 1;
  });
  const pages = [];
  for (let at = 0; at < TABS; at += 1) {
    const page = await own.newPage();
    await page.goto(`${collector.base}/#/live`);
    await page.waitForSelector('text=listening');
    pages.push(page);
  }
  const opened = streams;
  const runs = await own.newPage();
  await runs.goto(`${collector.base}/#/runs?from=`);
  await runs.waitForSelector('main');
  return { own, pages, runs, streams: opened };
}

/** Sends runs at the rate for some seconds; `look` is asked each second. Returns the runs sent. */
async function load({ otlp }, seconds, look) {
  const began = Date.now();
  const source = { service: 'soak', version: '1', environment: 'prod' };
  const batch = () => Array.from({ length: RUNS }, (_, at) => payment(`Pay back ${at}`, at));
  let sent = 0;
  let looked = 0;
  while (Date.now() - began < seconds * 1000) {
    await send(otlp, source, batch());
    sent += RUNS;
    const second = Math.floor((Date.now() - began) / 1000);
    if (second > looked) await look(looked = second);
    const due = (sent / RUNS) * EVERY_MS - (Date.now() - began);
    if (due > 0) await pause(due);
  }
  return { sent, rate: Math.round((sent * 2) / ((Date.now() - began) / 1000)) };
}

/** Loads a fresh collector; returns what was seen in words, and what is wrong. */
export async function soak(browser, collector, seconds) {
  const found = [];
  const { own, pages, runs, streams } = await tabs(browser, collector);
  try {
    if (streams !== 1) found.push(`${streams} streams of ${TABS} tabs`);
    const seen = () => Promise.all(pages.map((page) => page.textContent('.page-head').then((text) => Number(text.match(/([\d,. \u00a0\u202f]+) since/)[1].replace(/\D/g, '')))));
    let before = null;
    const measure = async () => ({ heap: Math.max(await heap(pages[0]), await heap(runs)), resident: resident(collector.pid) });
    const { sent, rate } = await load(collector, seconds, async (second) => {
      if (!before && second >= seconds / 3) before = await measure();
    });
    const after = await measure();
    const status = async () => (await (await collector.ask('/status')).json()).store;
    await eventually(async () => (await status()).written_trajectories >= sent);
    const { written_evaluations: written, shed_evaluations: shed } = await status();
    await eventually(async () => Math.min(...await seen()) >= written);
    const told = await seen();
    if (told.some((it) => it !== written)) found.push(`told ${told.join(', ')} of ${written} evaluations`);
    const gaps = await pages[0].locator('td .is-not_evaluable:has-text("gap")').count();
    if (written > 200 && gaps === 0) found.push('no line tells of the gap');
    const grown = { heap: after.heap - before.heap, resident: after.resident - before.resident };
    if (grown.heap > PAGE_MIB) found.push(`a page grew by ${grown.heap.toFixed(1)} MiB`);
    if (grown.resident > COLLECTOR_MIB) found.push(`the collector grew by ${grown.resident.toFixed(1)} MiB`);
    if ((await runs.locator('.button.main').textContent()).trim() === '') found.push('Runs announces nothing');
    const words = `${rate} evaluations/s, ${written} stored, ${shed} shed, ${streams} stream of ${TABS} tabs; page ${before.heap.toFixed(1)} to ${after.heap.toFixed(1)} MiB, collector ${before.resident.toFixed(0)} to ${after.resident.toFixed(0)} MiB`;
    return { words, found };
  } finally {
    await own.close();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , binary, seconds] = process.argv;
  const browser = await launch();
  const collector = await start(binary);
  const { words, found } = await soak(browser, collector, Number(seconds ?? 600));
  await browser.close();
  await collector.stop();
  console.log([words, ...found].join('\n'));
  process.exit(found.length > 0 ? 1 : 0);
}
