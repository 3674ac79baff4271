// One leak of programs.cjs in this Node, and three snapshots: before the action, after it, after
// what was to undo it.
//
//   node leaks/node.cjs PROGRAM FOLDER      (base, target and final.heapsnapshot in that folder)

'use strict';
const path = require('node:path');
const v8 = require('node:v8');
const leaks = require('./programs.cjs');

const [name, folder] = process.argv.slice(2);
if (!leaks[name] || !folder) {
  console.error('usage: node.cjs PROGRAM FOLDER; programs: ' + Object.keys(leaks).join(', '));
  process.exit(2);
}
const take = moment => v8.writeHeapSnapshot(path.join(folder, moment + '.heapsnapshot'));
const rest = () => new Promise(resolve => setTimeout(resolve, 20));

(async () => {
  const program = leaks[name].setup();
  global.app = program.app;
  // Once before, so that what is made only the first time is there.
  program.act();
  program.revert();
  await rest();
  take('base');
  program.act();
  await rest();
  take('target');
  program.revert();
  await rest();
  take('final');
  console.log(JSON.stringify(leaks[name].way));
  process.exit(0);
})();
