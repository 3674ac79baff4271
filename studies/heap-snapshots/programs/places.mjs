// A made heap as Chromium writes them since its places are in the order of nodes: custom elements, native nodes and their wrappers, know where their
// constructor stands, and so do a function and an array.
//
//   node programs/places.mjs OUT.heapsnapshot

import {writeFileSync} from 'node:fs';

const NODE_TYPES = ['hidden', 'array', 'string', 'object', 'code', 'closure', 'regexp', 'number', 'native', 'synthetic', 'concatenated string',
  'sliced string', 'symbol', 'bigint', 'object shape'];
const EDGE_TYPES = ['context', 'element', 'property', 'internal', 'hidden', 'shortcut', 'weak'];
const NODE_FIELDS = ['type', 'name', 'id', 'self_size', 'edge_count', 'detachedness'];
const numbers = types => types.map(() => 'number');

const strings = [], nodes = [], places = [];

function string(text) {
  const known = strings.indexOf(text);
  return known < 0 ? strings.push(text) - 1 : known;
}

/** Ids of the heap's objects are odd, those of nodes of the embedder even. */
function node(type, name, size, {detachedness = 0, place} = {}) {
  const id = 2 * nodes.length + (type === 'native' ? 2 : 1);
  const ordinal = nodes.push({row: [NODE_TYPES.indexOf(type), string(name), id, size], detachedness, edges: []}) - 1;
  if (place) {
    places.push([ordinal * NODE_FIELDS.length, place[0], 0, place[1], place[2]]);
  }
  return ordinal;
}

function edge(type, from, name, to) {
  nodes[from].edges.push(EDGE_TYPES.indexOf(type), typeof name === 'number' ? name : string(name), to * NODE_FIELDS.length);
}

const root = node('synthetic', '', 0), roots = node('synthetic', '(GC roots)', 0), documents = node('synthetic', '(Document DOM trees)', 0);
const page = node('object', 'Window / https://example.org', 40), html = node('native', 'HTMLDocument', 64, {detachedness: 1});
edge('element', root, 1, roots);
edge('element', root, 2, documents);
edge('shortcut', root, 'Window / https://example.org', page);
edge('element', documents, 1, html);
edge('property', page, 'document', html);
for (let number = 0; number < 6; ++number) {
  const attached = number % 2 === 1;
  const element = node('native', `<my-el id="e${number}">`, 160, {detachedness: attached ? 1 : 2, place: [3, 73, 9]});
  const wrapper = node('object', 'MyElement', 24, {place: [3, 73, 9]});
  attached ? edge('element', html, number, element) : edge('property', page, `gone${number}`, element);
  edge('internal', element, 'wrapper', wrapper);
  edge('internal', wrapper, 'native', element);
}
for (let number = 0; number < 3; ++number) {
  const other = node('object', 'MyElement', 32, {place: [5, 1, number >> 1]});
  const callback = node('closure', `f${number}`, 56, {place: [5, 9, number]});
  edge('property', page, `other${number}`, other);
  edge('property', other, 'f', callback);
}
edge('element', html, 9, node('native', '<my-el>', 96));
edge('property', page, 'list', node('array', 'list', 48, {place: [7, 7, 7]}));

const edges = nodes.flatMap(({edges}) => edges);
writeFileSync(process.argv[2], JSON.stringify({
  snapshot: {
    meta: {
      node_fields: NODE_FIELDS,
      node_types: [NODE_TYPES, 'string', ...numbers(NODE_FIELDS.slice(2))],
      edge_fields: ['type', 'name_or_index', 'to_node'],
      edge_types: [EDGE_TYPES, 'string_or_number', 'node'],
      trace_function_info_fields: ['function_id', 'name', 'script_name', 'script_id', 'line', 'column'],
      trace_node_fields: ['id', 'function_info_index', 'count', 'size', 'children'],
      sample_fields: ['timestamp_us', 'last_assigned_id'],
      location_fields: ['object_index', 'script_id', 'script_object_index', 'line', 'column'],
    },
    node_count: nodes.length,
    edge_count: edges.length / 3,
    trace_function_count: 0,
  },
  nodes: nodes.flatMap(({row, detachedness, edges}) => [...row, edges.length / 3, detachedness]),
  edges,
  trace_function_infos: [],
  trace_tree: [],
  samples: [],
  locations: places.flat(),
  strings,
}) + '\n');
