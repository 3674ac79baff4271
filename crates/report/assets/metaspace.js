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
    lazyDetails(['As jcmd VM.metaspace says it'], () => el('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': 'VM.metaspace' }, el('pre', {}, metaspace.text))),
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

function metaspaceChart({ time_ns: times, committed, used, peak_bytes: peak }) {
  if (times.length < 2) return null;
  const [width, height] = [960, 160];
  const [first, last] = [times[0], Math.max(times.at(-1), times[0] + 1)];
  const x = (time) => ((time - first) / (last - first)) * width;
  const y = (bytes) => height - (bytes / Math.max(peak, 1)) * (height - 4);
  // What holds between two points is what the first says.
  const steps = (values) => values.flatMap((value, index) => [[x(times[index]), y(value)], [x(times[index + 1] ?? last), y(value)]]);
  const text = `Committed and used bytes over ${formatTime(last - first)}; the most committed is ${formatBytes(peak)}`;
  return el('figure', {}, svg('svg', { class: 'metaspace', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': text },
    svg('path', { class: 'committed', d: `${path([[0, height], ...steps(committed), [width, height]])}Z` }),
    svg('path', { class: 'used', d: `${path([[0, height], ...steps(used), [width, height]])}Z` })),
  el('figcaption', { class: 'note' }, `${text}. Blue is used, orange is committed and not used.`));
}
