// Opens a snapshot in DevTools' worker and asks for what its Summary shows: what there is to measure of it.
//
//   node --max-old-space-size=8192 judge/load.mjs a.heapsnapshot
//
// For `cargo xtask bench snapshot FILE --peer devtools`.

import {open} from './devtools.mjs';

const [file] = process.argv.slice(2);
if (!file) {
  console.error('usage: load.mjs FILE');
  process.exit(2);
}
const snapshot = await open(file);
const classes = Object.values(snapshot.getAggregatesByClassKey(true, 'allObjects'));
console.log(`${snapshot.nodeCount} nodes, ${classes.length} classes, ${snapshot.totalSize} bytes`);
process.exit(0);
