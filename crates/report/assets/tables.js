// Sizes, slop, lifetimes and what is live at the end: tables with bars, which are chart and text alternative in one.

function sizesSection(page) {
  const sizes = page.sizes;
  if (sizes.whole.total_count === 0) return [empty('No request was recorded.')];
  const most = (key) => Math.max(1, ...sizes.buckets.map((bucket) => bucket[key]));
  const column = (title, key, node, hint) => {
    const top = most(key);
    return { title, hint, numeric: true, class: 'bar-cell', value: (row) => row[key], cell: (row) => [row[key] ? node(row[key]) : '–', barNode(row[key] / top)] };
  };
  const range = (row) => (row.from_bytes === row.to_bytes ? formatCount(row.from_bytes) : `${formatCount(row.from_bytes)} – ${formatCount(row.to_bytes)}`);
  const buckets = sortable('Requests by size, powers of two', [
    { title: 'Bytes asked for', numeric: true, value: (row) => row.from_bytes, cell: range },
    column('Requests', 'count', formatCount, 'Over the whole run'),
    column('Bytes', 'bytes', bytesNode, 'Over the whole run'),
    column('Live at peak', 'peak_count', formatCount, 'Objects live at peak'),
    column('Bytes at peak', 'peak_bytes', bytesNode, 'Bytes live at peak'),
  ], sizes.buckets, { first: 64, noun: 'size' });
  const place = el('div', {});
  const draw = (when) => place.replaceChildren(...countsTable(sizes[when], when));
  draw('whole');
  return [buckets, el('h3', {}, 'Exact sizes'), el('div', { class: 'controls' }, choice('Count', [['whole', 'Whole run'], ['peak', 'Live at peak']], 'whole', draw)), place];
}

function countsTable(counts, when) {
  if (counts.total_count === 0) return [empty('Nothing was live at peak.')];
  let sum = 0;
  const rows = counts.rows.map((row, index) => {
    sum += row.count;
    return { ...row, rank: index + 1, cumulative: sum };
  });
  const measured = rows.some((row) => row.usable !== null);
  const columns = [
    { title: 'Rank', numeric: true, value: (row) => -row.rank, cell: (row) => String(row.rank) },
    { title: 'Request', numeric: true, hint: 'Bytes asked for', value: (row) => row.request, cell: (row) => `${row.grouped ? 'up to ' : ''}${formatCount(row.request)} B` },
    { title: 'Count', numeric: true, value: (row) => row.count, cell: (row) => formatCount(row.count) },
    { title: 'Share', numeric: true, class: 'bar-cell', value: (row) => row.count, cell: (row) => [formatShare(row.count, counts.total_count), barNode(row.count / rows[0].count)] },
    { title: 'Cumulative', numeric: true, value: (row) => row.cumulative, cell: (row) => formatShare(row.cumulative, counts.total_count) },
    { title: 'Bytes', numeric: true, value: (row) => row.bytes, cell: (row) => bytesNode(row.bytes) },
  ];
  if (measured) {
    const range = (row, from) => { const [low, high] = row.usable; return low === high ? `${formatCount(low - from)} B` : `${formatCount(low - from)} – ${formatCount(high - from)} B`; };
    columns.splice(2, 0,
      { title: 'Usable', numeric: true, hint: 'Bytes the allocator gave', value: (row) => row.usable?.[1] ?? -1, cell: (row) => (row.usable ? range(row, 0) : '–') },
      { title: 'Slop', numeric: true, hint: 'Usable less request', value: (row) => (row.usable ? row.usable[1] - row.request : -1), cell: (row) => (row.usable && !row.grouped ? range(row, row.request) : '–') });
    columns.push({ title: 'Slop in all', numeric: true, value: (row) => row.slop_bytes ?? -1, cell: (row) => (row.slop_bytes === null ? '–' : bytesNode(row.slop_bytes)) });
  }
  const caption = when === 'whole' ? 'Counts of exact sizes, whole run' : 'Counts of exact sizes, live at peak';
  const parts = [sortable(caption, columns, rows, { first: 15, sortBy: columns.findIndex((column) => column.title === 'Count'), noun: 'size' })];
  if (counts.rows_left_out > 0) {
    parts.push(note(`${plural(counts.rows_left_out, 'rarer size')} not listed; the shares are of all ${formatCount(counts.total_count)}.`));
  }
  return parts;
}

function slopSection(page) {
  if (page.slop.length === 0) return [empty('Slop was not computed for this recording.')];
  const share = (sum) => (sum.usable_bytes - sum.requested_bytes) / Math.max(1, sum.requested_bytes);
  const top = Math.max(1e-9, ...page.slop.flatMap((row) => [share(row.whole), share(row.peak)]));
  const cell = (sum) => [bytesNode(sum.usable_bytes - sum.requested_bytes), el('span', { class: 'share' }, formatShare(sum.usable_bytes - sum.requested_bytes, sum.requested_bytes)), barNode(share(sum) / top, 'waste')];
  const table = sortable('Slop by allocator', [
    { title: 'Allocator', value: (row) => row.allocator },
    { title: 'Slop at peak', numeric: true, class: 'bar-cell', hint: 'Bytes, and as a share of the bytes asked for', value: (row) => share(row.peak), cell: (row) => cell(row.peak) },
    { title: 'Slop over the run', numeric: true, class: 'bar-cell', hint: 'Summed over every request', value: (row) => share(row.whole), cell: (row) => cell(row.whole) },
  ], page.slop, { first: 20, noun: 'allocator' });
  const place = el('div', {});
  const draw = (index) => place.replaceChildren(...slopClasses(page.slop[Number(index)]));
  draw('0');
  return [note(`${page.slop.some((row) => row.measured) ? 'The first row was measured while recording, the others are' : 'Usable sizes were not measured while recording: all rows are'} worked out from each allocator’s size classes. Shares are of the bytes asked for. Slop is not always waste: a program that reads its usable size uses it. Headers that an allocator keeps between blocks are not in these figures.`),
    table, el('h3', {}, 'By size class'), el('div', { class: 'controls' }, choice('Allocator', page.slop.map((row, index) => [String(index), row.allocator]), '0', draw)), place];
}

function slopClasses(slop) {
  if (slop.classes.length === 0) return [empty(`${slop.allocator} rounds nothing up here: every request fits its size class.`)];
  const top = Math.max(1, ...slop.classes.map((row) => row.peak_slop_bytes));
  const all = Math.max(1, ...slop.classes.map((row) => row.slop_bytes));
  const parts = [sortable(`Slop by size class, ${slop.allocator}`, [
    { title: 'Class', numeric: true, hint: 'Usable bytes of a block', value: (row) => row.class_bytes, cell: (row) => `${formatCount(row.class_bytes)} B` },
    { title: 'Live at peak', numeric: true, value: (row) => row.peak_count, cell: (row) => formatCount(row.peak_count) },
    { title: 'Slop at peak', numeric: true, class: 'bar-cell', value: (row) => row.peak_slop_bytes, cell: (row) => [bytesNode(row.peak_slop_bytes), barNode(row.peak_slop_bytes / top, 'waste')] },
    { title: 'Requests', numeric: true, value: (row) => row.count, cell: (row) => formatCount(row.count) },
    { title: 'Slop over the run', numeric: true, class: 'bar-cell', value: (row) => row.slop_bytes, cell: (row) => [bytesNode(row.slop_bytes), barNode(row.slop_bytes / all, 'waste')] },
  ], slop.classes, { first: 12, sortBy: 2, noun: 'class' })];
  if (slop.classes_left_out > 0) parts.push(note(`${plural(slop.classes_left_out, 'class')} with less slop not listed: together ${formatBytes(slop.left_out_peak_slop_bytes)} at peak, ${formatBytes(slop.left_out_slop_bytes)} over the run.`));
  return parts;
}

function lifetimesSection(page) {
  if (!page.lifetimes.some((row) => row.objects > 0)) return [empty('No object died while it was recorded.')];
  const place = el('div', {});
  const draw = (clock) => place.replaceChildren(lifetimesTable(page, clock));
  draw('time');
  return [el('div', { class: 'controls' }, choice('Measured in', [['time', 'Time'], ['bytes', 'Bytes asked for meanwhile']], 'time', draw)), place,
    note(`${plural(page.totals.end_objects, 'object')} still live at the end ${page.totals.end_objects === 1 ? 'is' : 'are'} not among these.`)];
}

function lifetimesTable(page, clock) {
  const rows = clock === 'time' ? page.lifetimes : page.lifetimes_by_bytes;
  const format = clock === 'time' ? formatTime : formatBytes;
  const objects = rows.reduce((sum, row) => sum + row.objects, 0);
  const top = Math.max(1, ...rows.map((row) => row.objects));
  const bytes = Math.max(1, ...rows.map((row) => row.bytes));
  const range = (row) => (row.from === 0 ? `under ${format(row.to)}` : `${format(row.from)} – ${format(row.to)}`);
  return sortable(clock === 'time' ? 'Objects by how long they lived' : 'Objects by the bytes asked for between their birth and death', [
    { title: 'Lived', numeric: true, value: (row) => row.from, cell: range },
    { title: 'Objects', numeric: true, class: 'bar-cell', value: (row) => row.objects, cell: (row) => [row.objects ? formatCount(row.objects) : '–', barNode(row.objects / top)] },
    { title: 'Share', numeric: true, value: (row) => row.objects, cell: (row) => formatShare(row.objects, objects) },
    { title: 'Bytes', numeric: true, class: 'bar-cell', value: (row) => row.bytes, cell: (row) => [row.bytes ? bytesNode(row.bytes) : '–', barNode(row.bytes / bytes)] },
  ], rows, { first: 80, noun: 'range' });
}

function endSection(page) {
  const { end_bytes: bytes, end_objects: objects } = page.totals;
  if (objects === 0) return [empty('Nothing: everything that was allocated was freed.')];
  const parts = [el('p', {}, 'At the end ', bytesNode(bytes), ` in ${plural(objects, 'object')} had not been freed. A program may leave to the system at exit what it uses to the end, so this is a list to read, not a list of faults.`)];
  if (page.live_at_end.length === 0) {
    parts.push(empty('No stacks were recorded, so they cannot be told apart by place.'));
    return parts;
  }
  parts.push(sortable('Live at the end, by stack', [
    { title: 'Bytes', numeric: true, value: (row) => row.bytes, cell: (row) => bytesNode(row.bytes) },
    { title: 'Share', numeric: true, class: 'bar-cell', value: (row) => row.bytes, cell: (row) => [formatShare(row.bytes, bytes), barNode(row.bytes / Math.max(1, bytes))] },
    { title: 'Objects', numeric: true, value: (row) => row.objects, cell: (row) => formatCount(row.objects) },
    { title: 'Asked for by', class: 'wide', value: (row) => stackLine(page.frames, row.frames), cell: (row) => stackCell(page.frames, row.frames) },
  ], page.live_at_end, { first: 12, sortBy: 0, noun: 'stack' }));
  return parts;
}
