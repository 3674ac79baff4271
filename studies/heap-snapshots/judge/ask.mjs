// What DevTools answers about heap snapshots, as JSON and tables.
//
//   node judge/ask.mjs answers a.heapsnapshot -o DIR      DIR/answers.json, DIR/objects.tsv
//   node judge/ask.mjs answers a.heapsnapshot b.heapsnapshot -o DIR      DIR/a/answers.json and so on
//   node judge/ask.mjs diff a.heapsnapshot b.heapsnapshot -o FILE.json
//   node judge/ask.mjs filters a.heapsnapshot -o FILE.json
//
// objects.tsv: one row a node, in the order of the file: id, self size, retained size, distance, the immediate dominator's id, the
// class (a line number of answers.json's `keys`), detachedness (0 unknown, 1 attached, 2 detached).
// answers.json: `classes`: what the Summary shows (key, name, count, self, retained, distance); `keys`; `statistics`; `interfaces`;
// `duplicates`: groups of equal strings; `retainers`: of a sample of objects, in the order shown; `searches`: objects by a text in
// their names; `allocations`: the tops of an allocation-tracking file's functions. A class key that two classes share keeps the later one's figures in `classes`, as in DevTools;
// `overwritten` names them.
// filters: the Summary's classes (key, count, self, retained, distance) under each filter that it offers: what is retained by something, duplicated strings, ids
// between two others (a third of the file each), the first native contexts, and objects that a function allocated.

import {createWriteStream, mkdirSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import {once} from 'node:events';
import {parseArgs} from 'node:util';
import {open} from './devtools.mjs';

const ROWS_AT_ONCE = 20_000;
const SAMPLED_OBJECTS = 400;
const RETAINERS_SHOWN = 50;
const NAMES_SEARCHED = 30;
const IDS_SHOWN = 20;
const CONTEXTS_FILTERED = 6;
const FUNCTIONS_FILTERED = 10;
const NAMED_FILTERS = ['objectsRetainedByContexts', 'objectsRetainedByDetachedDomNodes', 'objectsRetainedByConsole',
  'objectsRetainedByEventHandlers', 'duplicatedStrings', 'sharedNativeContext', 'noNativeContext'];

const {positionals: [command, ...files], values: {output}} = parseArgs({
  allowPositionals: true,
  options: {output: {type: 'string', short: 'o'}},
});
const commands = {answers, diff, filters};
const isNumber = command === 'answers' ? files.length > 0 : files.length === (command === 'diff' ? 2 : 1);
if (!Object.hasOwn(commands, command ?? '') || !isNumber || !output) {
  console.error('usage: ask.mjs answers FILE... -o DIR | ask.mjs diff FILE FILE -o FILE | ask.mjs filters FILE -o FILE');
  process.exit(2);
}
if (command === 'answers' && files.length > 1) {
  for (const file of files) {
    await answers(file, path.join(output, path.basename(file, '.heapsnapshot')));
  }
} else {
  await commands[command](...files, output);
}

/** The class key that DevTools shows to the outside. */
function publicKey(snapshot, key) {
  return typeof key === 'number' ? ',' + snapshot.strings[key] : key;
}

async function answers(file, folder) {
  mkdirSync(folder, {recursive: true});
  const reports = [];
  const snapshot = await open(file, text => reports.push(text));
  const keys = await objects(snapshot, path.join(folder, 'objects.tsv'));
  const aggregates = snapshot.getAggregatesByClassKey(true, 'allObjects');
  const classes = Object.entries(aggregates).map(([key, {name, count, self, maxRet, distance}]) =>
    ({key, name, count, self, retained: maxRet, distance}));
  const duplicates = snapshot.getDuplicateStrings().map(({value, count, totalSelfSize, totalRetainedSize, truncated, length, hash}) =>
    ({value, count, self: totalSelfSize, retained: totalRetainedSize, truncated, length, hash}));
  const profile = snapshot.profile.snapshot;
  writeFileSync(path.join(folder, 'answers.json'), JSON.stringify({
    nodes: snapshot.nodeCount,
    edges: snapshot.containmentEdges.length / snapshot.edgeFieldsCount,
    total_bytes: snapshot.totalSize,
    max_js_object_id: snapshot.updateStaticData().maxJSObjectId,
    statistics: snapshot.getStatistics(),
    interfaces: JSON.parse(snapshot.interfaceDefinitions()),
    overwritten: keys.overwritten,
    classes,
    keys: keys.list,
    duplicates,
    retainers: retainers(snapshot),
    searches: searches(snapshot),
    samples: snapshot.getSamples(),
    allocations: profile.trace_function_count ? snapshot.allocationTracesTops() : null,
    reports: reports.map(report => report.split('\n')[0]),
  }, null, 1));
}

/** Writes a row for every node; gives the class keys by their numbers. */
async function objects(snapshot, file) {
  const out = createWriteStream(file);
  const numbers = new Map();
  const internal = new Map();
  const overwritten = new Set();
  const node = snapshot.createNode(0);
  const dominator = snapshot.createNode(0);
  let rows = [];
  for (let ordinal = 0; ordinal < snapshot.nodeCount; ++ordinal) {
    node.nodeIndex = ordinal * snapshot.nodeFieldCount;
    dominator.nodeIndex = node.dominatorIndex();
    const inner = node.classKeyInternal();
    const key = publicKey(snapshot, inner);
    if (!numbers.has(key)) {
      numbers.set(key, numbers.size);
    }
    if (node.selfSize()) {
      if (internal.has(key) && internal.get(key) !== inner) {
        overwritten.add(key);
      }
      internal.set(key, inner);
    }
    rows.push([node.id(), node.selfSize(), node.retainedSize(), node.distance(), dominator.id(), numbers.get(key), node.detachedness()].join('\t'));
    if (rows.length === ROWS_AT_ONCE) {
      if (!out.write(rows.join('\n') + '\n')) {
        await once(out, 'drain');
      }
      rows = [];
    }
  }
  out.end(rows.length ? rows.join('\n') + '\n' : '');
  await once(out, 'finish');
  return {list: [...numbers.keys()], overwritten: [...overwritten]};
}

/** The retainers of objects spread over the file, in the order that the Retainers view shows: by distance. */
function retainers(snapshot) {
  const step = Math.max(1, Math.floor(snapshot.nodeCount / SAMPLED_OBJECTS));
  const answers = [];
  for (let ordinal = 1; ordinal < snapshot.nodeCount; ordinal += step) {
    const nodeIndex = ordinal * snapshot.nodeFieldCount;
    const provider = snapshot.createRetainingEdgesProvider(nodeIndex);
    provider.sortAndRewind({fieldName1: 'distance', ascending1: true, fieldName2: 'name', ascending2: true});
    const {items, totalLength} = provider.serializeItemsRange(0, RETAINERS_SHOWN);
    answers.push({
      id: snapshot.createNode(nodeIndex).id(),
      name: snapshot.createNode(nodeIndex).name(),
      total: totalLength,
      shown: items.map(({name, type, node}) => ({edge: name, type, from: node.id, name: node.name, distance: node.distance})),
    });
  }
  return answers;
}

/** Objects by a text in their names: texts that many files have, and parts of names spread over the file. */
function searches(snapshot) {
  const step = Math.max(1, Math.floor(snapshot.nodeCount / NAMES_SEARCHED));
  const texts = ['map', 'SYSTEM /', '{', ', ', 'n', 'É', 'k\u212a'];
  for (let ordinal = 1; ordinal < snapshot.nodeCount; ordinal += step) {
    texts.push(snapshot.createNode(ordinal * snapshot.nodeFieldCount).name().slice(1, 7));
  }
  const wanted = [...new Set(texts)].filter(text => text && text.isWellFormed());
  return wanted.flatMap(query => [false, true].map(caseSensitive => {
    const ids = snapshot.search({query, caseSensitive, isRegex: false}, {});
    return {query, case_sensitive: caseSensitive, count: ids.length, ids: ids.slice(0, IDS_SHOWN)};
  }));
}

/** The Comparison view: `second` against `first`. */
async function diff(first, second, file) {
  const later = await open(second);
  const definitions = later.interfaceDefinitions();
  const base = (await open(first)).aggregatesForDiff(definitions);
  const answer = Object.entries(later.calculateSnapshotDiff(1, base)).map(([key, diff]) => ({
    key,
    name: diff.name,
    added: diff.addedCount,
    removed: diff.removedCount,
    added_bytes: diff.addedSize,
    removed_bytes: diff.removedSize,
    added_ids: diff.addedIds,
    removed_ids: diff.deletedIds,
  }));
  writeFileSync(file, JSON.stringify(answer, null, 1));
}

/** The Summary under each filter. */
async function filters(file, output) {
  const snapshot = await open(file);
  const classes = filter => Object.entries(snapshot.aggregatesWithFilter(filter))
    .map(([key, {count, self, maxRet, distance}]) => [key, count, self, maxRet, distance]);
  const answer = {named: {}, ids: [], contexts: [], functions: []};
  for (const filterName of NAMED_FILTERS) {
    answer.named[filterName] = classes({filterName});
  }
  const third = Math.floor(snapshot.updateStaticData().maxJSObjectId / 3);
  for (const [minNodeId, maxNodeId] of [[-1, third], [third, 2 * third], [2 * third, 2 ** 32 - 1]]) {
    answer.ids.push({after: minNodeId, until: maxNodeId, classes: classes({minNodeId, maxNodeId})});
  }
  const {nativeContexts, sharedSize, noAttributionSize} = snapshot.getNativeContextSizes();
  answer.shared_bytes = sharedSize;
  answer.unattributed_bytes = noAttributionSize;
  answer.context_count = nativeContexts.length;
  for (const {nodeId, nodeIndex, attributedSize} of nativeContexts.slice(0, CONTEXTS_FILTERED)) {
    answer.contexts.push({id: nodeId, size: attributedSize, classes: classes({filterName: `nativeContext_${nodeIndex}`})});
  }
  if (snapshot.profile.snapshot.trace_function_count) {
    for (const {id, name, scriptId, line, column} of snapshot.allocationTracesTops().slice(0, FUNCTIONS_FILTERED)) {
      answer.functions.push({name, scriptId, line, column, classes: classes({allocationNodeId: id})});
    }
  }
  writeFileSync(output, JSON.stringify(answer));
}
