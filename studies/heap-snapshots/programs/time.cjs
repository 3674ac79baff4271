// Processor seconds that a snapshot of a program costs, once its heap is filled: a line of JSON for each scale.
//
//   node programs/time.cjs PROGRAM [--scale N[,N...]]      (several: one process, whose heap is filled anew between its snapshots)
//
// Of the processor and not of the clock: other programs run beside. The file goes to the system's folder for temporary files and is removed.

'use strict';
const fs = require('fs');
const os = require('os');
const path = require('path');
const v8 = require('v8');
const heaps = Object.assign({}, require('./heaps.cjs'), require('./tools.cjs'));

const [name, , scales] = process.argv.slice(2);
const file = path.join(os.tmpdir(), 'heaplab-time-' + process.pid + '.heapsnapshot');
for (const scale of (scales || '1').split(',')) {
  global.held = heaps[name].fill(Number(scale));
  const before = process.cpuUsage();
  try {
    v8.writeHeapSnapshot(file);
    const used = process.cpuUsage(before);
    console.log(JSON.stringify({cpu_s: (used.user + used.system) / 1e6, bytes: fs.statSync(file).size, version: process.version}));
  } finally {
    fs.unlinkSync(file);
  }
}
