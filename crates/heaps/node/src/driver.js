'use strict';
// Runs a workload in this V8. crates/heaps/node/src/workload.rs says how a workload is written, results.rs what comes back.
//
// While the workload runs nothing here allocates in the heap: statistics go from the raw binding into typed arrays whose
// bytes lie outside, records are written as they are, and the workload is read piece by piece into one buffer. What the
// heap holds besides the workload is therefore the same before each collection.
const v8 = process.binding('v8');
const fs = process.binding('fs');
const WORKLOAD = 0;
const RESULTS = 3;
const FIELDS = 4;
// A page holds so many symbols of 24 bytes.
const PAGE_SYMBOLS = process.versions.v8.startsWith('7.8') ? 10911 : 10910;
const [slotCount, compact, gcs, ...traces] = process.argv[1].split(',');
const spaces = v8.kHeapSpaces.length;
const OLD_USED = v8.kHeapSpaces.indexOf('old_space') * FIELDS + 1;
const NEW_USED = v8.kHeapSpaces.indexOf('new_space') * FIELDS + 1;

const work = new Int32Array(1 << 16);
const input = Buffer.from(work.buffer);
// The births so far, the spaces before, the spaces after.
const STATE = spaces * FIELDS;
const record = new Float64Array(1 + 2 * STATE);
const output = Buffer.from(record.buffer);
const BEFORE = 1;
const AFTER = 1 + STATE;
// Doubles would be objects; these are none.
const seen = new Int32Array(record.length);
let births = 0;
const context = {};
// V8 before 8.4 gives all spaces at once, later one by one.
const allSpaces = v8.updateHeapSpaceStatisticsArrayBuffer;
const oneSpace = v8.updateHeapSpaceStatisticsBuffer;
const given = allSpaces ? new Float64Array(v8.heapSpaceStatisticsArrayBuffer, 0, STATE) : v8.heapSpaceStatisticsBuffer;
// Both always are large objects, so that no page of old space has them.
const slots = new Array(Math.max(Number(slotCount), 20000)).fill(0);
const fillers = new Array(1000000).fill(0);
let filled = 0;

function statistics(at) {
  if (allSpaces) {
    allSpaces();
    record.set(given, at);
    return;
  }
  for (let space = 0; space < spaces; space++) {
    oneSpace(space);
    record.set(given, at + space * FIELDS);
  }
}

function send(file) {
  const written = fs.writeBuffer(file, output, 0, output.length, null, undefined, context);
  if (context.errno !== undefined || written !== output.length) process.reallyExit(71);
}

function collect(minor, file) {
  record[0] = births;
  statistics(BEFORE);
  if (minor) gc(true);
  else gc();
  statistics(AFTER);
  send(file);
}

function run(length, file) {
  for (let at = 0; at < length; at += 2) {
    const slot = work[at];
    const words = work[at + 1];
    if (slot < 0) {
      collect(slot === -2, file);
    } else if (words > 0) {
      slots[slot] = new Array(words);
      births++;
    } else {
      slots[slot] = 0;
    }
  }
}

// The same where V8 collects on its own: the spaces are looked at after each birth, and what a collection has changed is sent.
function runWatched(length, file) {
  for (let at = 0; at < length; at += 2) {
    const slot = work[at];
    const words = work[at + 1];
    if (slot < 0) {
      collect(slot === -2, file);
      statistics(BEFORE);
    } else if (words > 0) {
      slots[slot] = new Array(words);
      statistics(AFTER);
      seen.set(record);
      if (seen[AFTER + NEW_USED] < seen[BEFORE + NEW_USED] || seen[AFTER + OLD_USED] !== seen[BEFORE + OLD_USED]) {
        record[0] = births;
        send(file);
      }
      record.copyWithin(BEFORE, AFTER);
      births++;
    } else {
      slots[slot] = 0;
    }
  }
}

function runAll(workload, results) {
  for (;;) {
    const bytes = fs.read(workload, input, 0, input.length, -1, undefined, context);
    if (context.errno !== undefined || bytes % 8 !== 0) process.reallyExit(72);
    if (bytes === 0) return;
    if (gcs === 'own') runWatched(bytes >> 2, results);
    else run(bytes >> 2, results);
  }
}

// Every branch runs before the workload does, so that what V8 makes for code (feedback, handlers) is made, and old.
function warmUp(nowhere) {
  let length = 0;
  const put = (slot, words) => {
    work[length++] = slot;
    work[length++] = words;
  };
  for (let birth = 0; birth < 500; birth++) put(birth % 40, birth % 5 === 0 ? 0 : (birth % 9) + (birth % 100 === 1 ? 17000 : 0));
  for (let slot = 0; slot < 40; slot++) put(slot, 0);
  put(-2, 0);
  put(-1, 0);
  for (let round = 0; round < 4; round++) {
    runAll(nowhere, nowhere);
    run(length, nowhere);
    runWatched(length, nowhere);
  }
  births = 0;
}

function settle(nowhere) {
  work[0] = work[2] = -1;
  run(4, nowhere);
}

// Fills what is free on the pages of Node's own objects with symbols, which are born in old space and have the size of its
// smallest block, and one more page, so that what is left of the last one is known. A refill sweeps everything first where
// sweeping is said to be concurrent and no task does it.
function fillHoles() {
  look();
  const committed = seen[OLD_USED - 1];
  v8.setFlagsFromString('--no-single-threaded --no-single-threaded-gc --concurrent-sweeping');
  fillers[filled++] = Symbol();
  v8.setFlagsFromString('--single-threaded --single-threaded-gc --no-concurrent-sweeping');
  look();
  while (seen[OLD_USED - 1] === committed) {
    fillers[filled++] = Symbol();
    look();
  }
  for (let symbol = 1; symbol < PAGE_SYMBOLS; symbol++) fillers[filled++] = Symbol();
}

function look() {
  statistics(0);
  seen.set(record);
}

// In a function, so that no register of this script keeps any of it.
function sendHead() {
  const head = { node: process.versions.node, v8: process.versions.v8, spaces: [] };
  for (const { space_name } of require('v8').getHeapSpaceStatistics()) head.spaces.push(space_name);
  require('fs').writeSync(RESULTS, JSON.stringify(head) + '\n');
}

const nowhere = require('fs').openSync('/dev/null', 'r+');
sendHead();
// Node's own objects are moved together, and the holes that remain are filled: else they would serve the workload. The
// first round makes what filling itself needs.
v8.setFlagsFromString('--no-never-compact');
v8.setFlagsFromString('--always-compact');
warmUp(nowhere);
fillHoles();
while (filled > 0) fillers[--filled] = 0;
warmUp(nowhere);
if (compact !== 'always') v8.setFlagsFromString('--no-always-compact');
if (compact === 'never') v8.setFlagsFromString('--never-compact');
settle(nowhere);
for (let round = 0; round < 8; round++) {
  fillHoles();
  look();
  const used = seen[OLD_USED];
  settle(nowhere);
  look();
  if (seen[OLD_USED] === used && round > 1) break;
}
// No iterator, which would stay in a register, and no collection but the one of the start: another one leaves a page empty.
for (let nth = 0; nth < traces.length; nth++) v8.setFlagsFromString(traces[nth]);
run(2, RESULTS);
// Asked where Node's own objects lie: this collection leaves marks on them, and then the pipe that is the workload waits.
if (gcs === 'looked' || gcs === 'see') {
  v8.setFlagsFromString('--no-always-compact');
  v8.setFlagsFromString('--never-compact');
  run(2, RESULTS);
}
statistics(BEFORE);
runAll(WORKLOAD, RESULTS);
process.reallyExit(0);
