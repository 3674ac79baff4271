// Fills a heap in a known way and lives on, so that a snapshot can be taken of it from outside.
//
//   node --inspect=127.0.0.1:0 programs/live.cjs json-cache --scale 190      (a snapshot of 450 MB)
//   heaplab snapshot take --node PID -o big.heapsnapshot                     (PID is what it prints)

'use strict';
const heaps = Object.assign({}, require('./heaps.cjs'), require('./tools.cjs'));

const [name, ...options] = process.argv.slice(2);
if (!name || !heaps[name]) {
  console.error('usage: live.cjs PROGRAM [--scale N]; programs: ' + Object.keys(heaps).join(', '));
  process.exit(2);
}
// What the program holds must be reachable from the global object, as in a real one.
global.held = heaps[name].fill(options[0] === '--scale' ? Number(options[1]) : 1);
console.log(process.pid);
setInterval(() => {}, 1000);
