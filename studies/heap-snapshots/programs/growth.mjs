// How the time of a snapshot grows with its heap, and which functions of Node take it: a line of text for each row of the study.
//
//   node24 programs/growth.mjs sizes             four sizes of two programs on Node 18, 20 and 24: processor seconds, growth, the size of half an hour
//   node24 programs/growth.mjs successive        four snapshots of one process whose heap grows, the same heap four times, the last heap alone
//   node24 programs/growth.mjs large             one snapshot of 110 MB and one of 190 MB on Node 18 and 24: the better part of an hour
//   node24 programs/growth.mjs cause             instructions by function, counted by callgrind
//
// Exit code 3: a Node, or callgrind, is not installed.

import {execFileSync, spawnSync} from 'node:child_process';
import {existsSync, mkdtempSync, rmSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import os from 'node:os';
import path from 'node:path';

const folder = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const TIME = path.join(folder, 'programs/time.cjs');

function node(version) {
  const file = path.join(folder, `node_modules/node${version}/bin/node`);
  if (!existsSync(file)) {
    process.exit(3);
  }
  return file;
}

/** Processor seconds and bytes of a snapshot at each scale, all in one process. */
function timed(version, program, scales) {
  const lines = execFileSync(node(version), [TIME, program, '--scale', scales.join()], {encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore']});
  return lines.trim().split('\n').map(line => JSON.parse(line));
}

const seconds = runs => runs.map(run => run.cpu_s.toFixed(run.cpu_s < 10 ? 2 : 1)).join(', ') + ' s';
const MB = 1e6;
const HALF_HOUR_S = 1800;

function sizes() {
  const parts = [];
  for (const [program, scales] of [['numeric-keys', [0.5, 1, 2, 4]], ['closures', [2, 4, 8, 16]]]) {
    for (const version of [18, 20, 24]) {
      const runs = scales.map(scale => timed(version, program, [scale])[0]);
      const [half, last] = runs.slice(-2);
      const doubling = last.cpu_s / half.cpu_s;
      // From here on each doubling costs as much as the last measured one, and bytes grow evenly.
      const scale = scales.at(-1) * 2 ** (Math.log(HALF_HOUR_S / last.cpu_s) / Math.log(doubling));
      const bytes = last.bytes + (last.bytes - half.bytes) * (scale - scales.at(-1)) / (scales.at(-1) / 2);
      parts.push(`${program}, Node ${version}: ${runs.map(run => Math.round(run.bytes / MB)).join(', ')} MB in ${seconds(runs)}, ` +
        `${doubling.toFixed(1)}x the last doubling, half an hour at ${bytes < 1e10 ? Math.round(bytes / MB) + ' MB' : 'more than 10 GB'}`);
    }
  }
  return parts.join('; ');
}

function successive() {
  const grows = [2, 2.5, 3, 3.5];
  return [18, 24].map(version => {
    const [growing, same, alone] = [grows, grows.map(() => grows[0]), grows.slice(-1)].map(scales => timed(version, 'numeric-keys', scales));
    return `Node ${version}, ${growing.map(run => Math.round(run.bytes / MB)).join(', ')} MB: ${seconds(growing)}; the first heap four times: ` +
      `${seconds(same)}; the last in a process of its own: ${seconds(alone)}`;
  }).join('; ');
}

/** Functions on one line, as a bundler writes them, until Node 18 takes as long as the document says. */
function large() {
  return [256, 440].map(scale => {
    const [before, after] = [18, 24].map(version => timed(version, 'closures', [scale])[0]);
    const each = [before, after].map((run, place) => `Node ${[18, 24][place]}: ${Math.round(run.bytes / MB)} MB in ${(run.cpu_s / 60).toFixed(2)} min`);
    return `closures, ${each.join(', ')}, ${(before.cpu_s / after.cpu_s).toFixed(0)}x`;
  }).join('; ');
}

/** The functions of both defects: the table of names (with the search that is inlined there), and lines of scripts. */
const PARTS = {
  'table of names': /StringsStorage::|TemplateHashMapImpl<void\*, void\*/,
  'line ends': /Script::GetPositionInfo|CalculateLineEnds/,
};
const GENERATE = 'v8::internal::HeapSnapshotGenerator::GenerateSnapshot()';

/** Instructions of GenerateSnapshot: all, and those of each part. */
function counted(version, program, scale) {
  const out = mkdtempSync(path.join(os.tmpdir(), 'heaplab-cause-'));
  const profile = path.join(out, 'profile');
  // Without compiled JavaScript: callgrind would have to be told of each change of code.
  const run = spawnSync('valgrind', ['-q', '--tool=callgrind', `--callgrind-out-file=${profile}`, '--collect-atstart=no', `--toggle-collect=${GENERATE}`,
    node(version), '--jitless', TIME, program, '--scale', String(scale)]);
  if (run.error?.code === 'ENOENT') {
    process.exit(3);
  }
  const report = execFileSync('callgrind_annotate', ['--auto=no', '--threshold=100', profile], {encoding: 'utf8', maxBuffer: 1 << 30});
  rmSync(out, {recursive: true});
  const found = {all: 0, ...Object.fromEntries(Object.keys(PARTS).map(part => [part, 0]))};
  for (const [, count, what] of report.matchAll(/^\s*([\d,]+) \([\d. ]+%\)\s+(.*)$/gm)) {
    const instructions = Number(count.replaceAll(',', ''));
    if (what === 'PROGRAM TOTALS') {
      found.all = instructions;
    }
    for (const [part, names] of Object.entries(PARTS)) {
      if (names.test(what)) {
        found[part] += instructions;
      }
    }
  }
  if (!found.all) {
    throw new Error(`callgrind counted nothing of ${GENERATE} in Node ${version}: ${run.stderr}`);
  }
  return found;
}

function cause() {
  const parts = [];
  for (const [program, scale] of [['numeric-keys', 0.5], ['closures', 1]]) {
    for (const version of [18, 24]) {
      const run = counted(version, program, scale);
      const each = Object.keys(PARTS).map(part => `${part} ${(run[part] / MB).toFixed(0)} M (${(100 * run[part] / run.all).toFixed(0)} %)`);
      parts.push(`${program}, Node ${version}: ${(run.all / MB).toFixed(0)} M, of them ${each.join(', ')}`);
    }
  }
  return parts.join('; ');
}

const row = {sizes, successive, large, cause}[process.argv[2]];
if (!row) {
  console.error('usage: growth.mjs sizes|successive|large|cause');
  process.exit(2);
}
console.log(row());
