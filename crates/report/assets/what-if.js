// The page of a what-if: the verdict, then the program as recorded and as changed, side by side on each heap.

const page = JSON.parse(byId('data').textContent);

const list = (texts, attributes = {}) => el('ul', attributes, ...texts.map((text) => el('li', {}, text)));
const fileName = (path) => path.split('/').at(-1);

function summary() {
  byId('program').textContent = fileName(page.recording);
  byId('bar-name').textContent = 'heaplab';
  byId('bar-name').title = page.writer;
  byId('facts').replaceChildren(el('span', {}, `recorded: ${page.recording}`), el('span', {}, `changed: ${page.bundle}`));
  const [first, ...rest] = page.verdict;
  byId('lead').replaceChildren(el('strong', {}, first ?? 'Nothing was measured.'));
  return [rest.length ? list(rest, { class: 'verdicts' }) : null, el('h3', {}, 'Changed'), list(page.changed, { class: 'verdicts' })].filter(Boolean);
}

// A ratio of each heap to itself, without the change.
function ratios(key, title, absolute) {
  const heaps = page.heaps.filter((heap) => heap[key]);
  return heaps.length === 0 ? null : ratioPlot({ ...page, heaps }, key, title, absolute);
}

function spaceSection() {
  const heaps = page.heaps.filter((heap) => heap.before && heap.after);
  if (heaps.length === 0) return [empty('Space was not measured.')];
  const top = Math.max(1, ...heaps.flatMap((heap) => [heap.before.peak_bytes, heap.after.peak_bytes]));
  const by = (heap) => heap.after.peak_bytes - heap.before.peak_bytes;
  const words = (difference) => (difference === 0 ? 'the same' : `${difference > 0 ? '+' : ''}${formatBytes(difference)}`);
  const side = (key, title) => [
    { title, class: 'spark-cell', value: (heap) => heap[key].peak_bytes, cell: (heap) => spark(heap[key], top) },
    { title: 'Peak', numeric: true, value: (heap) => heap[key].peak_bytes, cell: (heap) => bytesNode(heap[key].peak_bytes) },
  ];
  return [ratios('space_ratio', 'Peak resident', (heap) => `${formatBytes(heap.before.peak_bytes)} → ${formatBytes(heap.after.peak_bytes)}`),
    sortable('Resident bytes of each heap over the replay, the driver’s own taken off', [
      { title: 'Heap', value: (heap) => heap.name }, ...side('before', 'As recorded'), ...side('after', 'Changed'),
      { title: 'Difference', numeric: true, value: by, cell: (heap) => el('span', { class: 'n', title: exactBytes(by(heap)) }, words(by(heap))) },
    ], heaps, { noun: 'heap' })].filter(Boolean);
}

function timeSection() {
  const plot = ratios('time_ratio', 'Time of a run', (heap) => (heap.run_ns ? `${formatTime(heap.run_ns[0])} → ${formatTime(heap.run_ns[1])}` : 'not measured'));
  return [plot ?? empty('Time was not measured, or the change leaves next to nothing to compare.'), ...page.tables.filter(({ headings }) => headings[0] === 'time of a run').map(figures)];
}

function askedSection() {
  return page.tables.filter(({ headings }) => headings[0] === 'asked for').map(figures);
}

// The figures of the text: a name, as recorded, changed, the change.
function figures({ headings, rows }) {
  const [name, ...rest] = headings.map((heading) => heading.charAt(0).toUpperCase() + heading.slice(1));
  const head = el('tr', {}, el('th', { scope: 'col' }, name), ...rest.map((title) => el('th', { scope: 'col', class: 'num' }, title)));
  const row = ([first, ...cells]) => el('tr', {}, el('th', { scope: 'row' }, first), ...cells.map((cell) => el('td', { class: 'num' }, cell.replace('\n', ', '))));
  return scrolling(name, el('table', {}, el('caption', {}, 'As recorded and changed'), el('thead', {}, head), el('tbody', {}, ...rows.map(row))));
}

function aboutSection() {
  return [list(page.assumptions, { class: 'cautions' }), page.cautions.length ? list(page.cautions, { class: 'cautions' }) : null].filter(Boolean);
}

const SECTIONS = [['summary', 'Summary', summary], ['space', 'Space', spaceSection], ['time', 'Time', timeSection], ['asked', 'Requests', askedSection], ['about', 'Assumptions', aboutSection]];

theme();
sectionLinks(SECTIONS);
SECTIONS.forEach(fillSection);
footer();
document.documentElement.dataset.ready = 'true';
