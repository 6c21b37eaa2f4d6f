// Times Iris's own engine on what corpus.py gathered: the bundle `safety`, one thread, warm.
//
//   git clone --branch v0.4.2 https://github.com/iris-eval/mcp-server && cd mcp-server
//   npm ci --ignore-scripts && npx tsc -p tsconfig.build.json
//   node iris_rules.mjs mcp-server/dist/eval/engine.js /tmp/corpus
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

const [, , engine, folder] = process.argv;
const { EvalEngine } = await import(resolve(engine));
const iris = new EvalEngine();

for (const name of ["chunks", "long"]) {
  const lines = readFileSync(`${folder}/${name}.jsonl`, "utf8").trim().split("\n");
  const texts = lines.map((line) => JSON.parse(line).text);
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  let [fastest, failed] = [Infinity, 0];
  for (let round = 0; round < 5; round++) {
    failed = 0;
    const start = process.hrtime.bigint();
    for (const output of texts) {
      if (iris.evaluate("safety", { output }).rule_results.some((rule) => !rule.passed)) failed++;
    }
    fastest = Math.min(fastest, Number(process.hrtime.bigint() - start) / 1e3);
  }
  const each = (fastest / texts.length).toFixed(1);
  const speed = (bytes / fastest).toFixed(0);
  console.log(`${name}: ${texts.length} texts, ${each} µs a text, ${speed} MB/s, ${failed} failed`);
}
