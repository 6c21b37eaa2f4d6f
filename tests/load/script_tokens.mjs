// Counts the tokens of the texts of tests/fixtures/judges/scripts.jsonl, a hundred copies of each,
// by the tokenizers that packages ship. Writes the lines anew, on standard output:
//
//   npm install gpt-tokenizer@4.0.0 llama3-tokenizer-js@1.2.0 mistral-tokenizer-js@1.0.0
//   node script_tokens.mjs scripts.jsonl
import fs from "node:fs";
import llama3 from "llama3-tokenizer-js";
import mistral from "mistral-tokenizer-js";
import { encode as cl100k } from "gpt-tokenizer/encoding/cl100k_base";
import { encode as o200k } from "gpt-tokenizer/encoding/o200k_base";
import { encode as p50k } from "gpt-tokenizer/encoding/p50k_base";

const tokenizers = {
  o200k,
  cl100k,
  p50k,
  llama3: (text) => llama3.encode(text, { bos: false, eos: false }),
  mistral: (text) => mistral.encode(text, false, false),
};

for (const line of fs.readFileSync(process.argv[2], "utf8").trim().split("\n")) {
  const { script, text } = JSON.parse(line);
  const count = ([name, encode]) => [name, encode(text.repeat(100)).length];
  const tokens = Object.fromEntries(Object.entries(tokenizers).map(count));
  console.log(JSON.stringify({ script, text, tokens }));
}
