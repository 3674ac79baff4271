// What resident memory was made of: areas that add up to it over time, and the parts of the largest reading.

const KIND_NAMES = {
  blocks: 'live blocks of malloc', allocator: 'malloc’s free memory and tables', mapped: 'mapped past malloc', stack: 'stacks', code: 'code of files',
  data: 'written data of files', file: 'other pages of files', shared: 'shared memory', recorder: 'heaplab’s recorder', kernel: 'the kernel’s pages', unknown: 'unknown',
};

const RESIDENT_CHART = { width: 760, height: 190, left: 70, bottom: 24, top: 8 };

function residentSection({ resident, frames, timeline }) {
  const columns = [
    { title: 'Part', class: 'wide', value: (row) => row.label, cell: (row) => (row.frames.length ? [row.label, ' ', stackCell(frames, row.frames)] : row.label) },
    { title: 'Resident', numeric: true, value: (row) => row.bytes, cell: (row) => bytesNode(row.bytes) },
    { title: 'Share', numeric: true, value: (row) => row.bytes, cell: (row) => formatShare(row.bytes, resident.bytes) },
    { title: 'In huge pages', numeric: true, value: (row) => row.huge_bytes, cell: (row) => (row.huge_bytes ? bytesNode(row.huge_bytes) : '–') },
    { title: 'Mappings', numeric: true, value: (row) => row.mappings, cell: (row) => formatCount(row.mappings) },
  ];
  return [
    residentChart(resident, timeline.axis === 'time' ? timeline.end : 0),
    el('p', { class: 'note' }, 'Each resident page is in one part: the parts add up to what the kernel counts (the Rss lines of /proc/PID/smaps). A block that is not written is not resident. The largest reading: ', bytesNode(resident.bytes), ` at ${formatTime(resident.at_ns)}.`),
    sortable('Parts at the largest reading', columns, resident.parts, { first: 14, noun: 'part' }),
  ].filter(Boolean);
}

function residentChart({ time_ns: times, kinds }, end) {
  if (times.length < 2) return null;
  const top = Math.max(1, ...times.map((_, at) => kinds.reduce((sum, kind) => sum + kind.bytes[at], 0)));
  const { width, height, left, bottom, top: above } = RESIDENT_CHART;
  const [first, last] = [times[0], Math.max(times.at(-1), end, times[0] + 1)];
  const x = (time) => left + ((time - first) / (last - first)) * (width - left - 8);
  const y = (value) => height - bottom - (value / (top * 1.02)) * (height - bottom - above);
  const axis = byteTicks(top).flatMap((tick) => [
    svg('line', { class: 'grid', x1: left, x2: width - 8, y1: y(tick), y2: y(tick) }),
    svg('text', { x: left - 6, y: y(tick) + 4, 'text-anchor': 'end' }, tick === 0 ? '0' : formatBytes(tick).replace(/\.0+ /, ' '))]);
  for (const { time, label } of axisTicks({ axis: 'time' }, first, last, 8)) {
    axis.push(svg('line', { class: 'grid', x1: x(time), x2: x(time), y1: height - bottom, y2: height - bottom + 4 }), svg('text', { x: x(time), y: height - 6, 'text-anchor': 'middle' }, label));
  }
  let floor = times.map(() => 0);
  // Between two readings nothing is known: the areas hold until the next.
  const edge = (values) => values.flatMap((value, at) => [[x(times[at]), y(value)], [x(times[at + 1] ?? last), y(value)]]);
  const areas = kinds.map(({ kind, bytes }) => {
    const ceiling = bytes.map((value, at) => floor[at] + value);
    const area = svg('path', { class: `kind-${kind}`, d: `${path([...edge(ceiling), ...edge(floor).reverse()])}Z` }, svg('title', {}, `${KIND_NAMES[kind]}: at most ${formatBytes(Math.max(...bytes))}`));
    floor = ceiling;
    return area;
  });
  const said = `What was resident in ${plural(times.length, 'reading')}, at most ${formatBytes(top)}: ${kinds.map(({ kind }) => KIND_NAMES[kind]).join(', ')}`;
  return el('figure', { class: 'collections kinds' },
    svg('svg', { class: 'collection-chart scaled', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': said }, ...axis, ...areas),
    el('figcaption', {}, ...kinds.map(({ kind }) => swatchKey(`kind-${kind}`, KIND_NAMES[kind]))));
}
