// Collector under test: started on free ports with a store of its own, stopped at the end.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Milliseconds of the longest wait for what must come: a bound for a check that fails, and no measure of speed. */
export const PATIENCE_MS = 120000;
/** Milliseconds between two looks. */
const PAUSE_MS = 100;

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Looks until it is so; `false` if the patience ends before. */
export async function eventually(look) {
  const until = Date.now() + PATIENCE_MS;
  while (!await look()) {
    if (Date.now() > until) return false;
    await pause(PAUSE_MS);
  }
  return true;
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

const config = ({ folder, otlp, grpc, dashboard, metrics, health }) => `
data_dir: ${folder}/data
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:${grpc}"}, http: {endpoint: "127.0.0.1:${otlp}"}}}}
telemetry: {metrics: {endpoint: "127.0.0.1:${metrics}"}, health: {endpoint: "127.0.0.1:${health}"}}
dashboard: {endpoint: "127.0.0.1:${dashboard}"}
store: {content: full, details: all}
evaluators:
  tool_error: {}
  tool_efficiency: {}
  tool_trajectory/refund:
    when: service_name == "shop"
    match_mode: in_order
    criteria: {expected_tool_calls: [{name: get_order, arguments: {order: A-17}}, {name: check_policy, arguments: {order: A-17}}, {name: issue_refund, arguments: {order: A-17, amount: 60, currency: EUR}}]}
exporters: {}
`;

/** Logs in as a browser does that opens the link of `spanscore open`; returns its cookie. */
async function logIn(base, link) {
  const body = new URLSearchParams(link.split('#/login?')[1]);
  const answer = await fetch(`${base}/login`, { method: 'POST', headers: { origin: base }, body, redirect: 'manual' });
  const [name, value] = answer.headers.get('set-cookie').split(';')[0].split('=');
  return { name, value, url: base, httpOnly: true, sameSite: 'Strict' };
}

/** Starts the binary; returns its addresses and what stops it. */
export async function start(binary) {
  const folder = mkdtempSync(join(tmpdir(), 'spanscore-browser-'));
  const [otlp, grpc, dashboard, metrics, health] = await Promise.all(Array.from({ length: 5 }, freePort));
  const file = join(folder, 'spanscore.yaml');
  writeFileSync(file, config({ folder, otlp, grpc, dashboard, metrics, health }));
  const child = spawn(binary, ['serve', '--config', file], { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  child.stderr.on('data', (data) => { said = (said + data).slice(-20000); });
  child.stdout.resume();
  const base = `http://127.0.0.1:${dashboard}`;
  const isOver = () => child.exitCode !== null;
  const header = join(folder, 'data/dashboard/header');
  await eventually(() => existsSync(header) || isOver());
  if (!existsSync(header)) throw new Error(`the collector did not start:\n${said}`);
  const stop = async () => {
    child.kill('SIGTERM');
    if (!isOver()) await new Promise((resolve) => child.once('exit', resolve));
    rmSync(folder, { recursive: true, force: true });
  };
  const authorization = readFileSync(header, 'utf8').trim().replace('Authorization: ', '');
  const ask = (path) => fetch(`${base}/api/v1${path}`, { headers: { authorization } });
  const link = () => execFileSync(binary, ['open', '--config', file], { encoding: 'utf8' }).trim();
  const cookie = await logIn(base, link());
  const token = authorization.replace('Bearer ', '');
  return { base, ask, link, cookie, token, folder, otlp: `http://127.0.0.1:${otlp}`, pid: child.pid, said: () => said, stop };
}
