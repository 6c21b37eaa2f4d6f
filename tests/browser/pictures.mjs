// Pictures of the README: the runs of the examples' shop, and one of them that fails.
//
//     node pictures.mjs PATH-TO-SPANSCORE [FOLDER]
//
// Writes runs.png and run.png, to docs/images without a folder.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sendOrdinary } from './agent.mjs';
import { launch, watched } from './browser.mjs';
import { settled } from './checks.mjs';
import { eventually, start } from './collector.mjs';

const [, , binary, folder = fileURLToPath(new URL('../../docs/images', import.meta.url))] = process.argv;
const RUNS = 20;

const browser = await launch();
const collector = await start(binary);
try {
  await sendOrdinary(collector.otlp, RUNS);
  const list = async (query) => (await (await collector.ask(`/traces?${query}`)).json());
  await eventually(async () => (await list('limit=1')).count?.count >= 2 * RUNS);
  const failing = (await list('label=fail&limit=1')).items[0].trace_id;
  for (const [name, hash, height] of [['runs', '#/runs', 640], ['run', `#/runs/${failing}?call=2`, 900]]) {
    await watched(browser, collector, { height }, async (page) => {
      await page.goto(`${collector.base}/${hash}`);
      await settled(page);
      await page.screenshot({ path: join(folder, `${name}.png`) });
    });
  }
} finally {
  await browser.close();
  await collector.stop();
}
