// Hostile strings where no page shows them: the stream, exports, the terminal.
import { execFileSync } from 'node:child_process';
import { request } from 'node:http';
import { join } from 'node:path';
import { CORPUS } from './hostile.mjs';
import { send } from './agent.mjs';

/** Characters that steer a terminal or hide; lines may end, and cells be set apart by tabs. */
const STEERING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/u;
/** Cells that a spreadsheet would take for a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/** Cells of a CSV text. */
function cells(text) {
  const found = text.matchAll(/("(?:[^"]|"")*"|[^,\n]*)(?:,|\n|$)/g);
  return Array.from(found, ([, cell]) => (cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell));
}

/** Events of a stream until `count` of one kind came; each a kind and its text. */
function listen({ base, token }, kind, count) {
  return new Promise((resolve, reject) => {
    const events = [];
    const asked = request(`${base}/api/v1/stream`, { headers: { authorization: `Bearer ${token}` } }, (answer) => {
      let rest = '';
      answer.setEncoding('utf8');
      answer.on('data', (text) => {
        const parts = (rest + text).split('\n\n');
        rest = parts.pop();
        events.push(...parts);
        if (events.filter((it) => it.includes(`event: ${kind}`)).length < count) return;
        asked.destroy();
        resolve(events);
      });
    });
    asked.on('error', reject);
    asked.setTimeout(60000, () => asked.destroy(new Error('the stream stands still')));
    asked.end();
  });
}

/** Faults of what the commands print of the strings, and of the stream while they come again. */
export async function elsewhere(binary, collector) {
  const found = [];
  const store = join(collector.folder, 'data/scores.db');
  const print = (...args) => execFileSync(binary, [...args, '--store', store], { encoding: 'utf8', maxBuffer: 1 << 28 });
  const text = (name, printed) => {
    const at = printed.search(STEERING);
    if (at >= 0) found.push(`${name}: ${JSON.stringify(printed.slice(Math.max(0, at - 40), at + 40))}`);
  };
  const lines = (name, printed) => printed.trim().split('\n').forEach((line) => {
    try {
      JSON.parse(line);
    } catch (error) {
      found.push(`${name}: ${error.message}: ${line.slice(0, 80)}`);
    }
  });
  text('scores', print('scores', '--since', '1h', '--limit', '10000'));
  text('scores --group-by', print('scores', '--since', '1h', '--group-by', 'service,agent'));
  for (const rows of ['evaluations', 'runs', 'calls', 'sessions']) {
    const jsonl = print('export', rows);
    text(`export ${rows}`, jsonl);
    lines(`export ${rows}`, jsonl);
    const csv = print('export', rows, '--format', 'csv');
    text(`export ${rows} --format csv`, csv);
    found.push(...cells(csv).filter((it) => FORMULA.test(it) && !Number.isFinite(Number(it))).slice(0, 3).map((it) => `export ${rows}: the cell ${JSON.stringify(it.slice(0, 40))}`));
  }
  const services = new Set(print('export', 'runs').trim().split('\n').map((line) => JSON.parse(line).service));
  const kept = CORPUS.filter((it) => it.length < 100 && services.has(it)).length;
  if (kept < 100) found.push(`only ${kept} of the strings are in the export as they are`);
  const listening = listen(collector, 'trajectory', 20);
  const ids = [];
  for (const it of CORPUS.slice(0, 40)) ids.push(...await send(collector.otlp, { service: it, version: it, environment: it }, [{ agent: it, session: it, input: it, output: it, calls: [{ tool: it || 'tool', arguments: it, result: it, error: it }] }]));
  for (const event of await listening) {
    text('stream', event);
    const data = event.split('\n').filter((line) => line.startsWith('data:'));
    if (data.length > 1) found.push('stream: an event of several lines');
    if (data.length > 0) lines('stream', data[0].slice(5));
  }
  for (const id of ids.slice(0, 20)) text('show', print('show', id));
  return found.slice(0, 20);
}
