// A JVM's metaspace: committed and used over time, who holds it, where it goes unused, and the lines of VM.metaspace.

function metaspaceSection({ metaspaces }) {
  return metaspaces.flatMap((metaspace) => [metaspace.jvm ? el('h3', {}, metaspace.jvm) : null, ...metaspaceParts(metaspace)]).filter(Boolean);
}

function metaspaceParts(metaspace) {
  return [
    el('p', { class: 'lead' }, `${metaspace.moment}: `, bytesNode(metaspace.committed_bytes), ' committed, of which ', bytesNode(metaspace.used_bytes), ' used in chunks and ', bytesNode(metaspace.free_chunks_bytes), ' in free chunks. Peak ', bytesNode(metaspace.peak_bytes), '.'),
    metaspaceChart(metaspace),
    metaspaceFindings(metaspace),
    metaspaceKinds(metaspace),
    lazyDetails(['As jcmd VM.metaspace says it: a quotation, where KB and MB are 1,024 and 1,048,576 bytes, as KiB and MiB on this page'], () => el('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': 'VM.metaspace' }, el('pre', {}, metaspace.text))),
  ];
}

// Text in which the name of a JVM's option is not broken behind its hyphen.
function withOptions(text) {
  return text.split(/(-XX:[+-]?\w+)/).map((part, index) => (index % 2 === 1 ? el('span', { class: 'option' }, part) : part));
}

function metaspaceFindings({ findings }) {
  if (findings.length === 0) return empty('Next to nothing goes unused.');
  return el('ol', {}, ...findings.map((finding) => el('li', {}, el('strong', {}, finding.title), el('p', { class: 'note' }, ...withOptions(finding.advice)))));
}

function metaspaceKinds({ kinds }) {
  const amount = (title, key, hint) => ({ title, hint, numeric: true, value: (row) => row[key], cell: (row) => bytesNode(row[key]) });
  const count = (title, key) => ({ title, numeric: true, value: (row) => row[key], cell: (row) => formatCount(row[key]) });
  return sortable('By kind of class loader', [
    { title: 'Arenas of', value: (row) => row.name },
    count('Arenas', 'arenas'), count('Chunks', 'chunks'), amount('Asked for', 'requested_bytes', 'by blocks that are live'),
    amount('Used', 'used_bytes', 'up to where blocks were given'), amount('Free', 'free_bytes', 'the rest of current chunks'),
    amount('Waste', 'waste_bytes', 'the rest of retired chunks'), amount('Committed', 'committed_bytes'),
  ], kinds, { noun: 'kind' });
}

const METASPACE_HEIGHT = 216;
const METASPACE_MARGIN = { top: 12, right: 14, bottom: 44, left: 70 };

// Committed and used bytes over time, with the axes and the units of the timeline.
function metaspaceChart({ time_ns: times, committed, used, peak_bytes: peak }) {
  if (times.length < 2) return null;
  const [first, last] = [times[0], Math.max(times.at(-1), times[0] + 1)];
  const words = `Committed and used bytes from ${formatTime(first)} to ${formatTime(last)}; the most committed is ${formatBytes(peak)}`;
  const chart = svg('svg', { class: 'chart metaspace', height: METASPACE_HEIGHT, role: 'img', 'aria-label': words });
  const box = el('div', { class: 'chart-box' }, chart);
  const draw = () => {
    const width = Math.max(280, box.clientWidth);
    const { top, right, bottom, left } = METASPACE_MARGIN;
    const floor = METASPACE_HEIGHT - bottom;
    const x = (time) => left + ((time - first) / (last - first)) * (width - left - right);
    const y = (bytes) => floor - (bytes / Math.max(peak * 1.04, 1)) * (floor - top);
    // What holds between two points is what the first says.
    const steps = (values) => values.flatMap((value, index) => [[x(times[index]), y(value)], [x(times[index + 1] ?? last), y(value)]]);
    const area = (kind, values) => svg('path', { class: kind, d: `${path([[x(first), floor], ...steps(values), [x(last), floor]])}Z` });
    const grid = svg('g', { class: 'grid' });
    for (const tick of byteTicks(peak)) {
      grid.append(svg('line', { x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
        svg('text', { x: left - 8, y: y(tick) + 4, 'text-anchor': 'end' }, tick === 0 ? '0' : formatBytes(tick).replace(/\.0+ /, ' ')));
    }
    for (const { time, label } of axisTicks({ axis: 'time' }, first, last, Math.max(2, Math.floor((width - left - right) / 80)))) {
      grid.append(svg('line', { x1: x(time), x2: x(time), y1: floor, y2: floor + 5 }), svg('text', { x: x(time), y: floor + 19, 'text-anchor': 'middle' }, label));
    }
    const middle = (top + floor) / 2;
    grid.append(svg('text', { class: 'axis', x: (left + width - right) / 2, y: METASPACE_HEIGHT - 6, 'text-anchor': 'middle' }, 'time since the recording began'),
      svg('text', { class: 'axis', x: 12, y: middle, 'text-anchor': 'middle', transform: `rotate(-90 12 ${middle})` }, 'metaspace'));
    chart.setAttribute('width', width);
    chart.replaceChildren(area('committed', committed), area('used', used), grid);
  };
  redrawn(box, draw);
  const key = (kind, text) => el('span', { class: 'key' }, el('span', { class: `swatch metaspace-${kind}`, 'aria-hidden': 'true' }), text);
  return el('figure', {}, box, el('figcaption', { class: 'note' }, `${words}. `, key('used', 'used'), ' ', key('committed', 'committed and not used')));
}
