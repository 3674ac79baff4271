// Heaps that collect: what a space held over the collections, its free bytes by category, and heaps side by side as space
// against time.

const CHARTED_HEAPS = 12;
const CHART = { width: 760, height: 190, left: 70, bottom: 24, top: 8 };
const CATEGORY_COLOURS = 6;

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
  ], heaps, { noun: 'heap' }), ...heaps.slice(0, CHARTED_HEAPS).map((heap) => el('details', { open: heaps.length === 1 }, el('summary', {}, heap.name), collectionChart(heap.collections), categoryChart(heap.collections)))];
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

// Scales of a chart over births: `top` bytes high.
function chartScales(births, top) {
  const last = Math.max(1, births[births.length - 1] ?? 1);
  const { width, height, left, bottom } = CHART;
  const x = (value) => left + (value / last) * (width - left - 8);
  const y = (value) => height - bottom - (value / Math.max(1, top)) * (height - bottom - CHART.top);
  const axis = [0, 0.5, 1].flatMap((part) => [
    svg('line', { class: 'grid', x1: left, x2: width - 8, y1: y(part * top), y2: y(part * top) }),
    svg('text', { x: left - 6, y: y(part * top) + 4, 'text-anchor': 'end' }, formatBytes(part * top))]);
  axis.push(svg('text', { x: left, y: height - 6 }, '0 births'), svg('text', { x: width - 8, y: height - 6, 'text-anchor': 'end' }, `${formatCount(last)} births`));
  return { x, y, axis };
}

// Committed and used bytes before and after each collection, what full collections found alive, and a mark a collection.
function collectionChart(c) {
  if (c.births.length === 0) return null;
  const top = Math.max(1, ...c.committed_bytes, ...c.before_committed_bytes);
  const { x, y, axis } = chartScales(c.births, top);
  const line = (before, after) => path(c.births.flatMap((births, index) => [[x(births), y(before[index])], [x(births), y(after[index])]]));
  const marks = c.births.map((births, index) => {
    const full = c.live_bytes[index] !== null;
    const pause = c.point_pause_ns[index] === null ? '' : `, pause ${formatTime(c.point_pause_ns[index])}`;
    const live = full ? `; ${formatBytes(c.live_bytes[index])} alive in all spaces` : '';
    const said = `${c.kind[index]} (${c.cause[index]}) after ${formatCount(births)} births${pause}: committed ${formatBytes(c.before_committed_bytes[index])} to ${formatBytes(c.committed_bytes[index])}, used ${formatBytes(c.before_used_bytes[index])} to ${formatBytes(c.used_bytes[index])}${live}`;
    return svg('g', { class: full ? 'mark full' : 'mark' }, svg('title', {}, said),
      svg('line', { x1: x(births), x2: x(births), y1: full ? CHART.top : y(0) - 8, y2: y(0) }),
      full ? svg('circle', { class: 'alive', cx: x(births), cy: y(Math.min(top, c.live_bytes[index])), r: 3 }) : null);
  });
  const said = `Committed and used bytes over ${plural(c.count, 'collection')}: ${c.kinds}; committed at most ${formatBytes(top)}`;
  return el('figure', { class: 'collections' },
    svg('svg', { class: 'collection-chart', viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: 'img', 'aria-label': said }, ...axis, ...marks,
      svg('path', { class: 'used', d: line(c.before_used_bytes, c.used_bytes) }), svg('path', { class: 'committed', d: line(c.before_committed_bytes, c.committed_bytes) })),
    el('figcaption', {}, el('span', { class: 'key committed' }, 'committed'), el('span', { class: 'key used' }, 'used'), el('span', { class: 'key alive' }, 'alive at a full collection, all spaces'),
      ` ${c.kinds}; a long line is a full collection, a short one any other. Pointing at a line tells it.`));
}

// Free bytes by category when everything is swept, one over the other.
function categoryChart(c) {
  if (!c.categories || c.categories.births.length < 2) return null;
  const { names, births, bytes } = c.categories;
  const sums = names.map((_, index) => bytes.reduce((sum, row) => sum + row[index], 0));
  const order = names.map((_, index) => index).filter((index) => sums[index] > 0).sort((a, b) => sums[b] - sums[a]);
  const groups = order.slice(0, CATEGORY_COLOURS - 1).map((index) => [names[index], [index]]);
  if (order.length >= CATEGORY_COLOURS) groups.push(['all others', order.slice(CATEGORY_COLOURS - 1)]);
  if (groups.length === 0) return null;
  const value = (row, indexes) => indexes.reduce((sum, index) => sum + row[index], 0);
  const top = Math.max(1, ...bytes.map((row) => value(row, order)));
  const { x, y, axis } = chartScales(births, top);
  let floor = bytes.map(() => 0);
  const areas = groups.map(([name, indexes], colour) => {
    const ceiling = bytes.map((row, at) => floor[at] + value(row, indexes));
    const points = [...births.map((birth, at) => [x(birth), y(ceiling[at])]), ...births.map((birth, at) => [x(birth), y(floor[at])]).reverse()];
    floor = ceiling;
    return svg('path', { class: `free-${colour}`, d: `${path(points)}Z` }, svg('title', {}, `${name}: at most ${formatBytes(Math.max(...bytes.map((row) => value(row, indexes))))}`));
  });
  return el('figure', { class: 'collections' },
    svg('svg', { class: 'collection-chart strip-colours', viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: 'img', 'aria-label': `Free bytes by category at full collections, at most ${formatBytes(top)}` }, ...axis, ...areas),
    el('figcaption', {}, 'Free bytes in lists at each full collection, everything swept: ', ...groups.flatMap(([name], colour) => [swatch(`free-${colour}`), ` ${name}  `])));
}

// Heaps as points: time to the right, space upwards, each with its interval; the baseline is where both lines cross.
function spaceAgainstTime(replay) {
  const both = replay.heaps.filter((heap) => heap.space_ratio && heap.time_ratio);
  if (both.length === 0) return null;
  const size = 420;
  const place = (key) => {
    const ends = both.flatMap((heap) => [heap[key].low, heap[key].high, heap[key].value]).filter((value) => value > 0);
    const reach = Math.log(Math.max(1.05, ...ends.map((value) => Math.max(value, 1 / value))) * 1.05);
    return (value) => size / 2 + ((size / 2 - 14) * Math.log(Math.max(value, 1e-6))) / reach;
  };
  const [across, along] = [place('time_ratio'), place('space_ratio')];
  const up = (value) => size - along(value);
  const points = both.map((heap, index) => {
    const [time, space] = [heap.time_ratio, heap.space_ratio];
    const said = `${heap.name}: time ${formatRatio(time.value)} (${time.range}), space ${formatRatio(space.value)} (${space.range})`;
    return svg('g', { class: 'heap-point' }, svg('title', {}, said),
      svg('line', { x1: across(time.low), x2: across(time.high), y1: up(space.value), y2: up(space.value) }),
      svg('line', { x1: across(time.value), x2: across(time.value), y1: up(space.low), y2: up(space.high) }),
      svg('circle', { cx: across(time.value), cy: up(space.value), r: 4 }),
      svg('text', { x: across(time.value) + 7, y: up(space.value) - 6 }, both.length > 1 ? String(index + 1) : ''));
  });
  const names = both.length > 1 ? el('ol', {}, ...both.map((heap) => el('li', {}, heap.name))) : null;
  return el('div', {}, el('h3', {}, 'Space against time'), el('div', { class: 'space-time' },
    svg('svg', { viewBox: `0 0 ${size} ${size}`, role: 'img', 'aria-label': `Space and time of each heap as ratios to ${replay.baseline}` },
      svg('line', { class: 'grid', x1: size / 2, x2: size / 2, y1: 0, y2: size }), svg('line', { class: 'grid', x1: 0, x2: size, y1: size / 2, y2: size / 2 }),
      svg('text', { x: size - 4, y: size / 2 - 5, 'text-anchor': 'end' }, 'slower'), svg('text', { x: 4, y: size / 2 - 5 }, 'faster'),
      svg('text', { x: size / 2 + 5, y: 12 }, 'more space'), svg('text', { x: size / 2 + 5, y: size - 5 }, 'less space'), ...points), names),
    note(`Where the lines cross is ${replay.baseline}; both axes are logarithmic, a bar is an interval. Lower left is better in both.`));
}
