// Makes own-names.txt: names that a runtime brings itself, so that `redact` may keep them.
//
//   node own-names.mjs NODE NODE ... > own-names.txt      (paths of several versions of Node; *.heapsnapshot)
//
// Each Node writes a snapshot of an empty program; a name of a property, an internal reference, a class, a function or a root counts if
// at least two versions have it: what is of one machine (paths, the environment) is of one program only, or not shaped like a name.
// V8's bare globals are added from this Node. Of a file *.heapsnapshot among the arguments (Chromium's) only the classes of native objects count,
// which are C++ classes. Contents of strings are never looked at.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import vm from 'node:vm';

const SHAPE = /^(?:[A-Za-z_$][\w$]*|get [\w$]+|set [\w$]+|<symbol [\w$.:]+>|\((?!.* builtin\))[\w -]+\)|system(?: \/ [A-Za-z ]+)+|<[a-z]+>|[A-Z][A-Za-z]+ [A-Za-z ]+)$/;
const NAMED_NODES = new Set(['hidden', 'array', 'object', 'code', 'closure', 'synthetic', 'native', 'object shape']);
const environment = new Set([...Object.keys(process.env), ...Object.values(process.env)]);

function namesOf(node, folder) {
  const file = join(folder, 'a.heapsnapshot');
  execFileSync(node, ['-e', `require('v8').writeHeapSnapshot(${JSON.stringify(file)})`], { env: {}, cwd: folder });
  const { snapshot: { meta }, nodes, edges, strings } = JSON.parse(readFileSync(file, 'latin1'));
  const names = new Set();
  const add = (name) => { if (name.length <= 60 && SHAPE.test(name) && !environment.has(name)) names.add(name); };
  const width = meta.node_fields.length;
  for (let i = 0; i < nodes.length; i += width) {
    if (NAMED_NODES.has(meta.node_types[0][nodes[i]])) add(strings[nodes[i + 1]]);
  }
  for (let i = 0; i < edges.length; i += 3) {
    if (['property', 'internal', 'shortcut', 'weak'].includes(meta.edge_types[0][edges[i]])) add(strings[edges[i + 1]]);
  }
  return names;
}

function nativesOf(file) {
  const { snapshot: { meta }, nodes, strings } = JSON.parse(readFileSync(file, 'latin1'));
  const names = [];
  for (let i = 0; i < nodes.length; i += meta.node_fields.length) {
    const name = strings[nodes[i + 1]];
    if (meta.node_types[0][nodes[i]] === 'native' && name.length <= 60 && /^[A-Z]\w*$/.test(name)) names.push(name);
  }
  return names;
}

const folder = mkdtempSync(join(tmpdir(), 'own-names-'));
const seen = new Map();
const natives = process.argv.slice(2).filter((name) => name.endsWith('.heapsnapshot')).flatMap(nativesOf);
for (const node of process.argv.slice(2).filter((name) => !name.endsWith('.heapsnapshot'))) {
  for (const name of namesOf(node, folder)) seen.set(name, (seen.get(name) ?? 0) + 1);
}
rmSync(folder, { recursive: true });
const names = new Set([...seen].filter(([, count]) => count > 1).map(([name]) => name));

const globals = vm.runInNewContext(`
  const names = new Set(), done = new Set();
  (function visit(value) {
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || done.has(value)) return;
    done.add(value);
    for (const key of Reflect.ownKeys(value)) {
      if (typeof key === 'string') names.add(key);
      const own = Object.getOwnPropertyDescriptor(value, key);
      [own.value, own.get, own.set].forEach(visit);
    }
    visit(Object.getPrototypeOf(value));
  })(globalThis);
  [...names]`);
for (const name of natives) names.add(name);
for (const name of globals) if (SHAPE.test(name)) names.add(name);
process.stdout.write([...names].sort().join('\n') + '\n');
