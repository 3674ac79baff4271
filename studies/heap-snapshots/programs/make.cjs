// Fills a heap in a known way and writes its snapshot. Runs on every Node from 12 on, so its language is that of Node 12.
//
//   node programs/make.cjs PROGRAM OUT.heapsnapshot [--scale N] [--times N]
//
// --times N writes N snapshots of the same process, the heap changed in between: OUT.heapsnapshot, OUT.2.heapsnapshot, ...
// Without arguments the programs are listed.

'use strict';
const path = require('path');
const v8 = require('v8');
const heaps = Object.assign({}, require('./heaps.cjs'), require('./tools.cjs'));

function main() {
  const [name, out, ...options] = process.argv.slice(2);
  if (!name || !out || !heaps[name]) {
    console.error('usage: make.cjs PROGRAM OUT.heapsnapshot [--scale N] [--times N]; programs: ' + Object.keys(heaps).join(', '));
    process.exit(2);
  }
  const option = (key, value) => options.includes(key) ? Number(options[options.indexOf(key) + 1]) : value;
  const heap = heaps[name];
  const times = option('--times', 1);
  // What the program holds must be reachable from the global object, as in a real one.
  global.held = heap.fill(option('--scale', 1));
  if (heap.settle) {
    heap.settle(global.held);
  }
  for (let time = 1; time <= times; ++time) {
    if (time > 1) {
      heap.change(global.held, time);
    }
    const file = time === 1 ? out : path.join(path.dirname(out), path.basename(out, '.heapsnapshot') + '.' + time + '.heapsnapshot');
    v8.writeHeapSnapshot(file);
  }
}

main();
