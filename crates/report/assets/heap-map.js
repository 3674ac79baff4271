// Heaps' pages as strips, one a page, at the moments that the page has.

const STRIP_HEIGHT = 9;
// Kinds of free bytes, from those with most bytes on; the rest share the last.
const FREE_COLOURS = ['free-0', 'free-1', 'free-2', 'free-3', 'free-4', 'free-5'];

// Several heaps stand one below the other, at the same moment of the run.
function heapPagesParts(heaps) {
  const drawn = heaps.filter((heap) => heap.moments.length > 0).map(drawnHeap);
  if (drawn.length === 0) return [];
  const compared = el('div', {});
  const name = el('output', {});
  const steps = stepsOf(heaps);
  const show = (index) => {
    const { at, said } = steps[index];
    drawn.forEach((heap) => heap.show(at));
    name.textContent = said;
    if (drawn.length > 1) compared.replaceChildren(comparedHeaps(drawn));
  };
  const last = steps.length - 1;
  const slider = steps.length < 2 ? null : el('p', { class: drawn.length > 1 ? 'moment-slider for-all' : 'moment-slider' },
    el('label', {}, 'Moment ', el('input', { type: 'range', min: 0, max: last, value: last, oninput: (event) => show(Number(event.target.value)) })), ' ', name);
  show(last);
  return [drawn.length > 1 ? el('h3', {}, `The pages of ${drawn.length} heaps`) : null, slider, compared, ...drawn.flatMap((heap) => heap.parts)].filter(Boolean);
}

// The moments of all heaps in the order of births. One heap's stand by their places, because two can follow one birth; one
// moment a heap (a collection's number) is one step.
function stepsOf(heaps) {
  const most = Math.max(...heaps.map((heap) => heap.moments.length));
  if (heaps.length === 1 || most === 1) return Array.from({ length: most }, (_, index) => ({ at: () => index, said: heaps[0].moments[index].moment }));
  const bornAt = (map) => map.births ?? Infinity;
  const births = [...new Set(heaps.flatMap((heap) => heap.moments.map(bornAt)))].sort((a, b) => a - b);
  return births.map((born) => ({
    at: (moments) => moments.findLastIndex((map) => bornAt(map) <= born),
    said: born === Infinity ? 'at the end' : `after ${plural(born, 'birth')}`,
  }));
}

function drawnHeap({ heap, moments, collections }) {
  const colours = freeColours(collections?.categories, moments);
  const shown = el('div', {});
  const drawn = { heap, map: null };
  drawn.show = (at) => {
    const index = at(moments);
    drawn.map = moments[index] ?? null;
    shown.replaceChildren(...(drawn.map ? [note(drawn.map.moment), ...heapMapParts({ ...drawn.map, colours })] : [empty('No earlier moment of this heap is drawn.')]));
  };
  const charts = collections ? [collectionChart(collections), categoryChart(collections, colours)].filter(Boolean) : [];
  drawn.parts = [el('h3', {}, `The pages of ${heap}`), ...charts, shown];
  return drawn;
}

function comparedHeaps(drawn) {
  const sum = (row, of) => (row.map ? row.map.spaces.reduce((total, space) => total + of(space), 0) : 0);
  const live = (row) => sum(row, (space) => space.live_bytes);
  const vacant = (row) => sum(row, (space) => space.vacant_bytes);
  const committed = (row) => live(row) + vacant(row);
  const bytes = (title, value) => ({ title, numeric: true, value, cell: (row) => (row.map ? bytesNode(value(row)) : '–') });
  return sortable('The heaps at this moment', [
    { title: 'Heap', class: 'wide', value: (row) => row.heap, cell: (row) => [row.heap, el('span', { class: 'where' }, row.map?.moment ?? 'no earlier moment is drawn')] },
    { title: 'Pages', numeric: true, value: (row) => sum(row, (space) => space.pages.length + space.more_pages), cell: (row) => formatCount(sum(row, (space) => space.pages.length + space.more_pages)) },
    bytes('Committed', committed),
    bytes('In blocks', live),
    bytes('Vacant', vacant),
  ], [...drawn].sort((a, b) => committed(a) - committed(b)), { noun: 'heap' });
}

// A page of the heap calls a category's blocks "(free, 24 to 31 bytes)", before its sweep "(free once swept, 24 to 31 bytes)",
// a collection "24 to 31 bytes".
function categoryOf(name) {
  return name.replace(/^\(free(?: once swept)?, (.*)\)$/, '$1');
}

// A colour for each kind of free bytes, the same at all moments and in the chart. Beside categories, what is in none is pale.
function freeColours(categories, moments) {
  const bytes = new Map();
  const add = (name, more) => bytes.set(name, (bytes.get(name) ?? 0) + more);
  categories?.names.forEach((name, index) => add(name, categories.bytes.reduce((sum, row) => sum + row[index], 0)));
  moments.forEach((map) => map.free.filter((kind) => !isLost(kind.name)).forEach((kind) => add(categoryOf(kind.name), kind.bytes)));
  const isPale = (name) => categories && !categories.names.includes(name);
  const order = [...bytes.keys()].filter((name) => !isPale(name)).sort((a, b) => bytes.get(b) - bytes.get(a));
  const colours = order.map((name, index) => [name, FREE_COLOURS[Math.min(index, FREE_COLOURS.length - 1)]]);
  return new Map([...colours, ...[...bytes.keys()].filter(isPale).map((name) => [name, 'free-none'])]);
}

function heapMapParts(map) {
  const legend = el('p', { class: 'note' }, swatchKey('live', 'in blocks'), ...legendOf(map).map(([colour, text]) => swatchKey(colour, text)));
  const spaces = map.spaces.map((space) => el('div', {},
    el('h4', {}, `${space.name}: ${plural(space.pages.length + space.more_pages, 'page')}, ${formatBytes(space.live_bytes)} in blocks, ${formatBytes(space.vacant_bytes)} in none`),
    ...stripsParts(map, space),
    space.more_pages ? note(`${plural(space.more_pages, 'page')} more are not drawn.`) : null));
  const kinds = sortable('Vacant bytes by what the heap calls them', [
    { title: 'Kind', class: 'wide', value: (row) => row.name },
    { title: 'Pieces', numeric: true, value: (row) => row.pieces, cell: (row) => formatCount(row.pieces) },
    { title: 'Bytes', numeric: true, value: (row) => row.bytes, cell: (row) => bytesNode(row.bytes) },
    { title: 'Mean', numeric: true, value: (row) => row.bytes / row.pieces, cell: (row) => bytesNode(Math.round(row.bytes / row.pieces)) },
    { title: 'Largest', numeric: true, value: (row) => row.largest_bytes, cell: (row) => bytesNode(row.largest_bytes) },
  ], map.free, { noun: 'kind' });
  return [el('ul', { class: 'verdicts' }, ...map.words.map((text) => el('li', {}, text))), legend, ...spaces, kinds];
}

// What each colour stands for: kinds that share one stand together.
function legendOf(map) {
  const groups = new Map();
  map.free.forEach((kind, index) => groups.set(colourOf(map, index), [...(groups.get(colourOf(map, index)) ?? []), kind.name]));
  return [...groups].map(([colour, names]) => [colour, names.length > 3 ? `${names[0]} and ${plural(names.length - 1, 'kind')} more` : names.join(', ')]);
}

// The strips of a space, and under them what the one at the pointer holds.
function stripsParts(map, space) {
  const begin = 'Each line is a page. Pointing at one tells its sizes.';
  const readout = el('p', { class: 'readout', 'aria-live': 'polite' }, begin);
  const strips = el('div', { class: 'strips' }, ...space.pages.map((page, index) => pageStrip(map, page, index)));
  const move = (event) => {
    const strip = event.target.closest('svg.strip');
    const index = strip ? [...strips.children].indexOf(strip) : -1;
    if (index < 0) return;
    const { left, width } = strip.getBoundingClientRect();
    const cell = Math.min(map.cells - 1, Math.max(0, Math.floor(((event.clientX - left) / width) * map.cells)));
    const page = space.pages[index];
    readout.textContent = `${pageText(map, page, index)}. Here, at ${formatBytes(Math.floor((page.bytes * cell) / map.cells))}: mostly ${letterText(map, page.strip[cell])}.`;
  };
  strips.addEventListener('pointermove', move);
  strips.addEventListener('pointerdown', move);
  return [strips, readout];
}

function pageText(map, page, index) {
  return [`${page.name} ${index + 1}: ${formatBytes(page.bytes)}, ${formatBytes(page.live_bytes)} in blocks`, ...page.vacant.map(([kind, bytes]) => `${map.free[kind].name} ${formatBytes(bytes)}`)].join('; ');
}

function letterText(map, letter) {
  if (letter === 'l') return 'blocks';
  if (letter === 'w') return 'lost bytes';
  return map.free[kindOfLetter(letter)]?.name ?? 'nothing that the heap names';
}

function isLost(name) {
  return /waste|header|remnant|fragment/.test(name);
}

function colourOf(map, index) {
  const { name } = map.free[index];
  const colour = isLost(name) ? 'lost' : map.colours.get(categoryOf(name));
  return name.includes('once swept') ? `${colour} unswept` : colour;
}

function swatch(colour) {
  return svg('svg', { class: 'swatch', width: 11, height: 11, 'aria-hidden': 'true' }, svg('rect', { width: 11, height: 11, class: colour }));
}

function swatchKey(colour, text) {
  return el('span', { class: 'swatch-key' }, swatch(colour), ` ${text}`);
}

// One page: neighbouring cells of one kind are one rectangle, and the whole says its sums.
function pageStrip(map, page, index) {
  const said = pageText(map, page, index);
  const rects = [];
  for (let from = 0; from < page.strip.length;) {
    let to = from + 1;
    while (to < page.strip.length && page.strip[to] === page.strip[from]) to += 1;
    const colour = colourOfLetter(map, page.strip[from]);
    if (colour) rects.push(svg('rect', { x: from, width: to - from, height: STRIP_HEIGHT, class: colour }));
    from = to;
  }
  return svg('svg', { class: 'strip', viewBox: `0 0 ${map.cells} ${STRIP_HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': said }, ...rects);
}

function kindOfLetter(letter) {
  return '0123456789abcdefghijkmnopqrstuvxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'.indexOf(letter);
}

function colourOfLetter(map, letter) {
  if (letter === 'l') return 'live';
  if (letter === 'w') return 'lost';
  if (letter === ' ') return null;
  const index = kindOfLetter(letter);
  return index < 0 || index >= map.free.length ? null : colourOf(map, index);
}
