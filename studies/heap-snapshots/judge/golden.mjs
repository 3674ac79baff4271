// The answers that the tests of crates/snapshot keep: DevTools' about the small snapshots in crates/snapshot/tests/devtools.
//
//   node24 judge/golden.mjs [--check] [NAME ...]
//
// For each NAME.heapsnapshot.gz there (or those that are named): NAME.json.gz is answers.json of ask.mjs with a hash for every 500 rows of
// objects.tsv in place of its class keys, and NAME.filters.json.gz its filters. With --check nothing is written, and the exit code is 1 where one of
// them is not what DevTools answers. The snapshots themselves are made by folder.mjs, and name no one's folders.

import {execFileSync} from 'node:child_process';
import {existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {fileURLToPath} from 'node:url';
import path from 'node:path';
import {parseArgs} from 'node:util';
import {gunzipSync, gzipSync} from 'node:zlib';

const ROWS_A_HASH = 500;

const study = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const goldens = path.join(study, '../../crates/snapshot/tests/devtools');
const {positionals, values: {check}} = parseArgs({allowPositionals: true, options: {check: {type: 'boolean', default: false}}});
const suffix = '.heapsnapshot.gz';
const all = readdirSync(goldens).filter(file => file.endsWith(suffix)).map(file => file.slice(0, -suffix.length));
const unknown = positionals.filter(name => !all.includes(name));
if (unknown.length) {
  console.error(`${unknown.join(', ')}: there is no such snapshot; there are ${all.join(', ')}`);
  process.exit(2);
}

let differing = 0;
for (const name of positionals.length ? positionals : all) {
  const folder = mkdtempSync(path.join(tmpdir(), 'golden-'));
  try {
    const snapshot = path.join(folder, 'a.heapsnapshot');
    writeFileSync(snapshot, gunzipSync(readFileSync(path.join(goldens, name + suffix))));
    ask('answers', snapshot, path.join(folder, 'answers'));
    ask('filters', snapshot, path.join(folder, 'filters.json'));
    const {keys, ...answers} = JSON.parse(readFileSync(path.join(folder, 'answers/answers.json')));
    const rows = readFileSync(path.join(folder, 'answers/objects.tsv'), 'utf8').trimEnd().split('\n');
    keep(`${name}.json.gz`, JSON.stringify({...answers, hashes: hashes(rows, keys)}));
    keep(`${name}.filters.json.gz`, readFileSync(path.join(folder, 'filters.json'), 'utf8'));
  } finally {
    rmSync(folder, {recursive: true});
  }
}
process.exit(differing ? 1 : 0);

function ask(...words) {
  const output = words.pop();
  execFileSync(process.execPath, [path.join(study, 'judge/ask.mjs'), ...words, '-o', output], {cwd: study, stdio: ['ignore', 'ignore', 'inherit']});
}

/** Hashes of so many rows each, with class keys in words. */
function hashes(rows, keys) {
  const words = rows.map(row => {
    const fields = row.split('\t');
    fields[5] = keys[fields[5]];
    return fields.join('\t');
  });
  const found = [];
  for (let row = 0; row < words.length; row += ROWS_A_HASH) {
    found.push(fnv1a(Buffer.from(words.slice(row, row + ROWS_A_HASH).join('\n'))));
  }
  return found;
}

/** FNV-1a in 64 bits (Fowler, Noll, Vo), in hexadecimal: what both sides have without a library. */
function fnv1a(bytes) {
  let hash = 0xcbf29ce484222325n;
  for (const byte of bytes) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash.toString(16).padStart(16, '0');
}

/** Writes a golden file that is another than it was, or with --check says so. */
function keep(file, text) {
  const to = path.join(goldens, file);
  const same = existsSync(to) && gunzipSync(readFileSync(to)).toString() === text;
  if (!same && !check) {
    writeFileSync(to, gzipSync(text, {level: 9}));
  }
  differing += !same && check ? 1 : 0;
  console.log(`${file}: ${same ? 'as DevTools answers' : check ? 'DIFFERS from what DevTools answers' : 'written'}`);
}
