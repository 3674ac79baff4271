// A heap that collects: what its space held over the collections, and its pages as strips, one a page.

const STRIP_HEIGHT = 9;
// Kinds of free bytes, from those with most bytes on; the rest share the last.
const FREE_COLOURS = ['free-0', 'free-1', 'free-2', 'free-3', 'free-4', 'free-5'];

function heapMapParts(map) {
  if (!map) return [];
  const legend = el('p', { class: 'note' }, swatch('live'), ' in blocks  ', ...map.free.slice(0, FREE_COLOURS.length).flatMap((kind, index) => [swatch(colourOf(map, index)), ` ${kind.name}  `]));
  const spaces = map.spaces.map((space) => el('div', {},
    el('h4', {}, `${space.name}: ${plural(space.pages.length + space.more_pages, 'page')}, ${formatBytes(space.live_bytes)} in blocks, ${formatBytes(space.vacant_bytes)} in none`),
    el('div', { class: 'strips' }, ...space.pages.map((page, index) => pageStrip(map, page, index))),
    space.more_pages ? note(`${plural(space.more_pages, 'page')} more are not drawn.`) : null));
  const kinds = sortable('Vacant bytes by what the heap calls them', [
    { title: 'Kind', class: 'wide', value: (row) => row.name },
    { title: 'Pieces', numeric: true, value: (row) => row.pieces, cell: (row) => formatCount(row.pieces) },
    { title: 'Bytes', numeric: true, value: (row) => row.bytes, cell: (row) => bytesNode(row.bytes) },
    { title: 'Mean', numeric: true, value: (row) => row.bytes / row.pieces, cell: (row) => bytesNode(Math.round(row.bytes / row.pieces)) },
    { title: 'Largest', numeric: true, value: (row) => row.largest_bytes, cell: (row) => bytesNode(row.largest_bytes) },
  ], map.free, { noun: 'kind' });
  return [el('h3', {}, `The pages of ${map.heap} ${map.moment}`), el('ul', { class: 'verdicts' }, ...map.words.map((text) => el('li', {}, text))), legend, ...spaces, kinds];
}

function isLost(name) {
  return /waste|header|remnant|fragment/.test(name);
}

function colourOf(map, index) {
  return isLost(map.free[index].name) ? 'lost' : FREE_COLOURS[Math.min(index, FREE_COLOURS.length - 1)];
}

function swatch(colour) {
  return svg('svg', { class: 'swatch', width: 11, height: 11, 'aria-hidden': 'true' }, svg('rect', { width: 11, height: 11, class: colour }));
}

// One page: neighbouring cells of one kind are one rectangle, and the whole says its sums.
function pageStrip(map, page, index) {
  const said = [`${page.name} ${index + 1}: ${formatBytes(page.bytes)}, ${formatBytes(page.live_bytes)} in blocks`, ...page.vacant.map(([kind, bytes]) => `${map.free[kind].name} ${formatBytes(bytes)}`)].join('; ');
  const rects = [];
  for (let from = 0; from < page.strip.length;) {
    let to = from + 1;
    while (to < page.strip.length && page.strip[to] === page.strip[from]) to += 1;
    const colour = colourOfLetter(map, page.strip[from]);
    if (colour) rects.push(svg('rect', { x: from, width: to - from, height: STRIP_HEIGHT, class: colour }));
    from = to;
  }
  return svg('svg', { class: 'strip', viewBox: `0 0 ${map.cells} ${STRIP_HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': said }, svg('title', {}, said), ...rects);
}

function colourOfLetter(map, letter) {
  if (letter === 'l') return 'live';
  if (letter === 'w') return 'lost';
  if (letter === ' ') return null;
  const index = '0123456789abcdefghijkmnopqrstuvxyz'.indexOf(letter);
  return index < 0 || index >= map.free.length ? null : colourOf(map, index);
}

// Committed and used bytes over the collections of each heap that collects; one scale for all.
function collectionsParts(replay) {
  const heaps = replay.heaps.filter((heap) => heap.collections);
  if (heaps.length === 0) return [];
  const top = Math.max(1, ...heaps.flatMap((heap) => heap.collections.committed_bytes));
  const last = (values) => values[values.length - 1] ?? 0;
  const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
  const pause = (heap) => (heap.collections.pause_ns.length ? [timeNode(median(heap.collections.pause_ns)), ', at most ', timeNode(Math.max(...heap.collections.pause_ns))] : '–');
  return [el('h3', {}, 'Collections'), sortable('Committed and used bytes at each collection', [
    { title: 'Heap', value: (heap) => heap.name },
    { title: 'Over the collections', class: 'spark-cell', value: (heap) => last(heap.collections.committed_bytes), cell: (heap) => collectionSpark(heap.collections, top) },
    { title: 'Collections', value: (heap) => heap.collections.count, cell: (heap) => heap.collections.kinds },
    { title: 'Committed at most', numeric: true, value: (heap) => Math.max(...heap.collections.committed_bytes), cell: (heap) => bytesNode(Math.max(...heap.collections.committed_bytes)) },
    { title: 'Committed at the end', numeric: true, value: (heap) => last(heap.collections.committed_bytes), cell: (heap) => bytesNode(last(heap.collections.committed_bytes)) },
    { title: 'Used at the end', numeric: true, value: (heap) => last(heap.collections.used_bytes), cell: (heap) => bytesNode(last(heap.collections.used_bytes)) },
    { title: 'Waste at the end', numeric: true, value: (heap) => last(heap.collections.waste_bytes), cell: (heap) => bytesNode(last(heap.collections.waste_bytes)) },
    { title: 'Pause, median', numeric: true, value: (heap) => median(heap.collections.pause_ns) ?? -1, cell: pause },
  ], heaps, { noun: 'heap' })];
}

function collectionSpark(collections, top) {
  const width = 220;
  const last = Math.max(1, collections.births[collections.births.length - 1] ?? 1);
  const points = (values) => values.map((value, index) => [(collections.births[index] / last) * width, 46 - (value / top) * 42]);
  const ticks = collections.births.map((births) => `M${((births / last) * width).toFixed(1)} 46v3`).join('');
  const said = `Committed bytes over ${plural(collections.count, 'collection')}, at most ${formatBytes(Math.max(...collections.committed_bytes))}`;
  return svg('svg', { class: 'spark', width, height: 50, role: 'img', 'aria-label': said },
    svg('path', { class: 'area', d: `${path([[0, 46], ...points(collections.used_bytes), [width, 46]])}Z` }),
    svg('path', { class: 'line', d: path(points(collections.committed_bytes)) }), svg('path', { class: 'ticks', d: ticks }));
}
