// A folder of snapshots with DevTools' answers, for tests that hold ours against them.
//
//   node24 judge/folder.mjs DIR [--nodes 12,20,24] [--programs names,weak] [--no-chromium]
//
// NAME.heapsnapshot and NAME.2.heapsnapshot (the same process later), NAME.answers/, NAME.filters.json and NAME.diff.json (see ask.mjs). What is there already
// is kept. Without --nodes: every Node that is installed here; without --programs: all, but for tools that are not installed. The whole takes up to an hour, most of it in
// Nodes that lack the document's fixes. Then:
//
//   HEAPLAB_SNAPSHOTS=DIR cargo test --release -p heaplab-snapshot --test devtools -- --nocapture

import {execFileSync, spawnSync} from 'node:child_process';
import {existsSync, mkdirSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import path from 'node:path';
import {parseArgs} from 'node:util';

const folder = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const node = version => path.join(folder, `node_modules/node${version}/bin/node`);
const PROGRAMS = ['json-cache', 'numeric-keys', 'closures', 'deep-chain', 'wide', 'weak', 'names', 'leak', 'inspected', 'tracking',
  'typescript', 'eslint'];
/** Programs that are an installed package's: `npm ci --omit=dev` leaves these out. */
const TOOLS = ['typescript', 'eslint'];

const {positionals: [named], values} = parseArgs({
  allowPositionals: true,
  options: {nodes: {type: 'string'}, programs: {type: 'string'}, chromium: {type: 'boolean', default: true}},
  allowNegative: true,
});
if (!named) {
  console.error('usage: folder.mjs DIR [--nodes 12,20,24] [--programs names,weak] [--no-chromium]');
  process.exit(2);
}
const out = path.resolve(named);
mkdirSync(out, {recursive: true});

const versions = values.nodes?.split(',') ?? [12, 14, 16, 18, 20, 22, 24].filter(version => existsSync(node(version)));
const missing = TOOLS.filter(tool => !existsSync(path.join(folder, 'node_modules', tool)));
const programs = values.programs?.split(',') ?? PROGRAMS.filter(program => !missing.includes(program));
if (!values.programs && missing.length) {
  console.error(`left out, not installed (npm ci): ${missing.join(', ')}`);
}
let made = 0;
for (const version of versions) {
  for (const program of programs) {
    const file = path.join(out, `node${version}-${program}.heapsnapshot`);
    make(file, program === 'tracking'
      ? ['programs/tracking.mjs', node(version), file]
      : {command: node(version), args: ['programs/make.cjs', program, file]});
  }
}
if (values.chromium && spawnSync('chromium', ['--version']).status === 0) {
  const file = path.join(out, 'chromium-dom.heapsnapshot');
  make(file, ['programs/chromium.mjs', file]);
} else if (values.chromium) {
  console.error('left out, not installed: chromium');
}
console.log(`${made} snapshots with their answers`);

/** Runs a program (by this Node unless it names another) and asks DevTools about what it wrote. */
function make(file, program) {
  const {command, args} = Array.isArray(program) ? {command: process.execPath, args: program} : program;
  const name = file.replace(/\.heapsnapshot$/, '');
  const run = (command, args) => execFileSync(command, args, {cwd: folder, stdio: ['ignore', 'ignore', 'inherit']});
  if (!existsSync(`${name}.2.heapsnapshot`)) {
    run(command, [...args, '--times', '2']);
  }
  if (!existsSync(`${name}.answers/answers.json`)) {
    run(process.execPath, ['judge/ask.mjs', 'answers', file, '-o', `${name}.answers`]);
  }
  if (!existsSync(`${name}.filters.json`)) {
    run(process.execPath, ['judge/ask.mjs', 'filters', file, '-o', `${name}.filters.json`]);
  }
  if (!existsSync(`${name}.diff.json`)) {
    run(process.execPath, ['judge/ask.mjs', 'diff', file, `${name}.2.heapsnapshot`, '-o', `${name}.diff.json`]);
  }
  console.log(path.basename(name));
  ++made;
}
