// Heaps that collect: what a space held over the collections, its free bytes by category, and heaps side by side as space
// against time.

const CHARTED_HEAPS = 12;
const CHART = { height: 210, left: 70, right: 10, bottom: 40, top: 10, least: 260 };
const SPACE_TIME = { largest: 460, left: 58, right: 14, bottom: 46, top: 14 };
// Two labels of the picture of heaps that lie closer would cover each other.
const LABEL_HEIGHT = 13;
const OTHERS = 'all others';

// Committed and used bytes over the collections of each heap that collects; one scale for all.
function collectionsParts(replay) {
  const heaps = replay.heaps.filter((heap) => heap.collections);
  if (heaps.length === 0) return [];
  const top = Math.max(1, ...heaps.flatMap((heap) => heap.collections.committed_bytes));
  const last = (values) => values.at(-1) ?? (values.length ? null : 0);
  const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
  const pause = (heap) => (heap.collections.pause_ns.length ? [timeNode(median(heap.collections.pause_ns)), ', at most ', timeNode(Math.max(...heap.collections.pause_ns))] : '–');
  return [el('h3', {}, 'Collections'), sortable('Committed and used bytes at each collection', [
    { title: 'Heap', value: (heap) => heap.name },
    { title: 'Over the collections', class: 'spark-cell', value: (heap) => last(heap.collections.committed_bytes), cell: (heap) => collectionSpark(heap.collections, top) },
    { title: 'Collections', value: (heap) => heap.collections.count, cell: (heap) => heap.collections.kinds },
    { title: 'Committed at most', numeric: true, value: (heap) => Math.max(...heap.collections.committed_bytes), cell: (heap) => bytesNode(Math.max(...heap.collections.committed_bytes)) },
    { title: 'Committed at the end', numeric: true, value: (heap) => last(heap.collections.committed_bytes), cell: (heap) => bytesNode(last(heap.collections.committed_bytes)) },
    { title: 'Used at the end', numeric: true, value: (heap) => last(heap.collections.used_bytes), cell: (heap) => bytesNode(last(heap.collections.used_bytes)) },
    { title: 'Waste at the end', numeric: true, value: (heap) => last(heap.collections.waste_bytes), cell: (heap) => (last(heap.collections.waste_bytes) === null ? '' : bytesNode(last(heap.collections.waste_bytes))) },
    { title: 'Pause, median', numeric: true, value: (heap) => median(heap.collections.pause_ns) ?? -1, cell: pause },
  ], heaps, { noun: 'heap' }), ...heaps.slice(0, CHARTED_HEAPS).map((heap) => el('details', { open: heaps.length === 1 }, el('summary', {}, heap.name), collectionChart(heap.collections), categoryChart(heap.collections)))];
}

function collectionSpark(collections, top) {
  const width = 150;
  const last = Math.max(1, collections.births[collections.births.length - 1] ?? 1);
  const points = (values) => values.map((value, index) => [(collections.births[index] / last) * width, 46 - (value / top) * 42]);
  const ticks = collections.births.map((births) => `M${((births / last) * width).toFixed(1)} 46v3`).join('');
  const said = `Committed bytes over ${plural(collections.count, 'collection')}, at most ${formatBytes(Math.max(...collections.committed_bytes))}`;
  return svg('svg', { class: 'spark', width, height: 50, role: 'img', 'aria-label': said },
    svg('path', { class: 'area', d: `${path([[0, 46], ...points(collections.used_bytes), [width, 46]])}Z` }),
    svg('path', { class: 'line', d: path(points(collections.committed_bytes)) }), svg('path', { class: 'ticks', d: ticks }));
}

// A chart over births, as wide as there is room: axes, what `parts(scales)` draws, and under it what `tell(index)` says of
// the place that the pointer or the arrow keys are at.
function birthsChart({ births, top, name, said, begin, parts, tell }) {
  const chart = svg('svg', { class: `collection-chart ${name}`, height: CHART.height, tabindex: '0', role: 'application', 'aria-roledescription': 'chart', 'aria-label': said });
  const box = el('div', { class: 'chart-box' }, chart);
  const readout = el('p', { class: 'readout', 'aria-live': 'polite' }, begin);
  const last = Math.max(1, births[births.length - 1] ?? 1);
  const bottom = CHART.height - CHART.bottom;
  let [scales, hair, at] = [null, null, null];
  const point = (index) => {
    at = Math.min(births.length - 1, Math.max(0, index));
    hair.setAttribute('visibility', 'visible');
    for (const end of ['x1', 'x2']) hair.setAttribute(end, scales.x(births[at]));
    readout.textContent = tell(at);
  };
  const nearest = (x) => births.reduce((best, value, index) => (Math.abs(scales.x(value) - x) < Math.abs(scales.x(births[best]) - x) ? index : best), 0);
  redrawn(box, () => {
    const width = Math.max(CHART.least, box.clientWidth);
    const plot = width - CHART.left - CHART.right;
    scales = { x: (value) => CHART.left + (value / last) * plot, y: (value) => bottom - (value / Math.max(1, top)) * (bottom - CHART.top), bottom };
    hair = svg('line', { class: 'hair', y1: CHART.top, y2: bottom, visibility: 'hidden' });
    chart.setAttribute('width', width);
    chart.replaceChildren(...chartAxes(scales, top, last, width), ...parts(scales), hair);
    if (at !== null) point(at);
  });
  const move = (event) => point(nearest(event.clientX - chart.getBoundingClientRect().left));
  chart.addEventListener('pointermove', move);
  chart.addEventListener('pointerdown', move);
  chart.addEventListener('keydown', (event) => {
    const to = { ArrowLeft: (at ?? births.length) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: births.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    point(to);
  });
  return [box, readout];
}

function chartAxes({ x, y, bottom }, top, last, width) {
  const sides = byteTicks(top).filter((tick) => tick <= top).flatMap((tick) => [
    svg('line', { class: 'grid', x1: CHART.left, x2: width - CHART.right, y1: y(tick), y2: y(tick) }),
    svg('text', { x: CHART.left - 6, y: y(tick) + 4, 'text-anchor': 'end' }, tick === 0 ? '0' : formatBytes(tick).replace(/\.0+ /, ' '))]);
  const plot = width - CHART.left - CHART.right;
  const along = axisTicks({ axis: 'events' }, 0, last, Math.max(2, Math.floor(plot / 110))).map(({ time, label }) => [
    svg('line', { class: 'grid', x1: x(time), x2: x(time), y1: bottom, y2: bottom + 4 }),
    svg('text', { x: x(time), y: bottom + 17, 'text-anchor': x(time) > width - 45 ? 'end' : 'middle' }, label)]);
  return [...sides, ...along.flat(), svg('text', { x: CHART.left + plot / 2, y: CHART.height - 6, 'text-anchor': 'middle' }, 'objects born')];
}

// Committed and used bytes before and after each collection, what full collections found alive, and a mark a collection.
function collectionChart(c) {
  if (c.births.length === 0) return null;
  const committed = Math.max(1, ...c.committed_bytes, ...c.before_committed_bytes);
  const top = Math.max(committed, ...c.live_bytes.map((live) => live ?? 0));
  const full = (index) => c.live_bytes[index] !== null;
  const parts = ({ x, y, bottom }) => {
    const line = (before, after) => path(c.births.flatMap((births, index) => [[x(births), y(before[index])], [x(births), y(after[index])]]));
    const marks = c.births.map((births, index) => svg('g', { class: full(index) ? 'mark full' : 'mark' },
      svg('line', { x1: x(births), x2: x(births), y1: full(index) ? CHART.top : bottom - 8, y2: bottom }),
      full(index) ? svg('circle', { class: 'alive', cx: x(births), cy: y(c.live_bytes[index]), r: 3 }) : null));
    return [...marks, svg('path', { class: 'used', d: line(c.before_used_bytes, c.used_bytes) }), svg('path', { class: 'committed', d: line(c.before_committed_bytes, c.committed_bytes) })];
  };
  const said = `Committed and used bytes over ${plural(c.count, 'collection')}: ${c.kinds}; committed at most ${formatBytes(committed)}`;
  const begin = 'Point at the chart, or use the arrow keys: each collection’s kind, cause, pause and bytes.';
  const key = (kind, text) => el('span', { class: `key ${kind}` }, text);
  return el('figure', { class: 'collections' }, ...birthsChart({ births: c.births, top, name: '', said, begin, parts, tell: (index) => collectionText(c, index) }),
    el('figcaption', {}, key('committed', 'committed'), key('used', 'used'), ...(c.births.some((_, index) => full(index)) ? [key('alive', 'alive at a full collection, all spaces'), `${c.kinds}; a long line is a full collection, a short one any other.`] : [c.kinds])));
}

function collectionText(c, index) {
  const change = (before, after) => `${formatBytes(before[index])} to ${formatBytes(after[index])}`;
  const pause = c.point_pause_ns[index] === null ? 'pause not measured' : `pause ${formatTime(c.point_pause_ns[index])}`;
  const live = c.live_bytes[index] === null ? '' : `; ${formatBytes(c.live_bytes[index])} alive in all spaces`;
  return `Collection ${formatCount(c.number[index])}, ${c.kind[index]} (${c.cause[index]}), after ${formatCount(c.births[index])} births, ${pause}: committed ${change(c.before_committed_bytes, c.committed_bytes)}, used ${change(c.before_used_bytes, c.used_bytes)}${c.waste_bytes[index] === null ? '' : `, waste ${formatBytes(c.waste_bytes[index])}`}${live}.`;
}

// Free bytes by category when everything is swept, one over the other; categories of one colour lie together.
function categoryChart(c, colours = freeColours(c.categories, [])) {
  if (!c.categories || c.categories.births.length < 2) return null;
  const { names, births, bytes } = c.categories;
  const order = names.map((_, index) => index).filter((index) => bytes.some((row) => row[index] > 0));
  const groups = FREE_COLOURS.map((colour) => [colour, order.filter((index) => colours.get(names[index]) === colour)]).filter(([, indexes]) => indexes.length > 0)
    .map(([colour, indexes]) => [indexes.length > 1 ? OTHERS : names[indexes[0]], indexes, colour]);
  if (groups.length === 0) return null;
  const value = (row, indexes) => indexes.reduce((sum, index) => sum + row[index], 0);
  const top = Math.max(1, ...bytes.map((row) => value(row, order)));
  const parts = ({ x, y }) => {
    let floor = bytes.map(() => 0);
    return groups.map(([, indexes, colour]) => {
      const ceiling = bytes.map((row, at) => floor[at] + value(row, indexes));
      const points = [...births.map((birth, at) => [x(birth), y(ceiling[at])]), ...births.map((birth, at) => [x(birth), y(floor[at])]).reverse()];
      floor = ceiling;
      return svg('path', { class: colour, d: `${path(points)}Z` });
    });
  };
  const tell = (at) => {
    const some = groups.map(([name, indexes]) => [name, value(bytes[at], indexes)]).filter(([, free]) => free > 0);
    const said = some.map(([name, free]) => `${formatBytes(free)} in ${name === OTHERS ? name : `blocks of ${name}`}`);
    return `After ${formatCount(births[at])} births ${formatBytes(value(bytes[at], order))} are free${some.length ? ': ' : ''}${said.join(', ')}.`;
  };
  const said = `Free bytes by category at full collections, at most ${formatBytes(top)}`;
  const begin = 'Free bytes in lists at each full collection, everything swept, by the category of their blocks.';
  return el('figure', { class: 'collections' }, ...birthsChart({ births, top, name: 'strip-colours', said, begin, parts, tell }),
    el('figcaption', {}, ...groups.map(([name, , colour]) => swatchKey(colour, name))));
}

// Heaps as points: time to the right, space upwards, each with its interval; the baseline is where both lines cross.
function spaceAgainstTime(replay) {
  const both = replay.heaps.filter((heap) => heap.space_ratio && heap.time_ratio);
  if (both.length === 0) return null;
  const chart = svg('svg', { role: 'img', 'aria-label': `Space and time of each heap as ratios to ${replay.baseline}` });
  const box = el('div', { class: 'chart-box' }, chart);
  redrawn(box, () => drawSpaceAgainstTime(chart, both, Math.min(SPACE_TIME.largest, Math.max(CHART.least, box.clientWidth))));
  const range = (ratio) => `${formatRatio(ratio.value)} (${ratio.range})`;
  const names = el('ol', {}, ...both.map((heap) => el('li', {}, heap.name, el('span', { class: 'where' }, `time ${range(heap.time_ratio)}, space ${range(heap.space_ratio)}`))));
  return el('div', {}, el('h3', {}, 'Space against time'), el('div', { class: 'space-time' }, box, names),
    note(`Where the lines cross is ${replay.baseline}; both axes are logarithmic, a bar is an interval. Lower left is better in both.`));
}

function drawSpaceAgainstTime(chart, heaps, size) {
  const { left, right, top, bottom } = SPACE_TIME;
  const [across, along] = ['time_ratio', 'space_ratio'].map((key) => ratioScale(heaps, key));
  const x = (value) => left + ((size - left - right) * Math.min(100, Math.max(0, across.scale(value)))) / 100;
  const y = (value) => size - bottom - ((size - top - bottom) * Math.min(100, Math.max(0, along.scale(value)))) / 100;
  const line = (x1, y1, x2, y2, kind) => svg('line', { class: kind, x1, y1, x2, y2 });
  const axes = [
    ...across.ticks.flatMap((tick) => [line(x(tick), top, x(tick), size - bottom, tick === 1 ? 'one' : 'grid'), svg('text', { x: x(tick), y: size - bottom + 16, 'text-anchor': 'middle' }, `${tick}×`)]),
    ...along.ticks.flatMap((tick) => [line(left, y(tick), size - right, y(tick), tick === 1 ? 'one' : 'grid'), svg('text', { x: left - 6, y: y(tick) + 4, 'text-anchor': 'end' }, `${tick}×`)]),
    svg('text', { x: (left + size - right) / 2, y: size - 8, 'text-anchor': 'middle' }, 'time: faster ← → slower'),
    svg('text', { x: 12, y: (top + size - bottom) / 2, 'text-anchor': 'middle', transform: `rotate(-90 12 ${(top + size - bottom) / 2})` }, 'space: less ← → more'),
  ];
  const taken = [];
  const points = heaps.map((heap, index) => {
    const [time, space] = [heap.time_ratio, heap.space_ratio];
    const [cx, cy] = [x(time.value), y(space.value)];
    // A number goes up until it covers none that is there.
    let label = cy - 7;
    while (taken.some(([otherX, otherY]) => Math.abs(otherX - cx) < 16 && Math.abs(otherY - label) < LABEL_HEIGHT)) label -= LABEL_HEIGHT;
    taken.push([cx, label]);
    return svg('g', { class: 'heap-point' }, svg('title', {}, `${heap.name}: time ${formatRatio(time.value)} (${time.range}), space ${formatRatio(space.value)} (${space.range})`),
      line(x(time.low), cy, x(time.high), cy), line(cx, y(space.low), cx, y(space.high)),
      label < cy - 7 ? line(cx + 5, label, cx, cy, 'leader') : null,
      svg('circle', { cx, cy, r: 4 }), svg('text', { x: cx + 6, y: label }, String(index + 1)));
  });
  fill(chart, { width: size, height: size }, []).replaceChildren(...axes, ...points);
}
