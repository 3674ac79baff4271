// The live blocks by how often memory reporters name them, the last time that reporters were asked.

function darkMatterSection({ dark_matter: found, frames }) {
  const stacks = (reported) => (reported.length ? reported.flatMap((stack) => [stackCell(frames, stack), ' ']) : '–');
  const columns = [
    { title: 'Bytes', numeric: true, value: (row) => row.bytes, cell: (row) => bytesNode(row.bytes) },
    { title: 'Slop', numeric: true, value: (row) => row.slop_bytes, cell: (row) => bytesNode(row.slop_bytes) },
    { title: 'Blocks', numeric: true, value: (row) => row.blocks, cell: (row) => formatCount(row.blocks) },
    { title: 'Allocated at', class: 'wide', value: (row) => frames[row.allocated[0]]?.label ?? '', cell: (row) => stackCell(frames, row.allocated) },
    { title: 'Reported at', class: 'wide', value: (row) => row.reported.length, cell: (row) => stacks(row.reported) },
  ];
  const asked = found.asked === 1 ? 'Reporters were asked once' : `Reporters were asked ${formatCount(found.asked)} times, last`;
  const lists = found.lists.filter((list) => list.blocks > 0).flatMap((list) => [
    el('h3', {}, `${list.name}: `, bytesNode(list.bytes), ` in ${plural(list.blocks, 'block')} (${formatShare(list.bytes, found.bytes)} of live bytes)`),
    sortable(list.name, columns, list.groups, { first: 8, noun: 'group' }),
  ]);
  return [
    el('p', { class: 'note' }, `${asked} at ${formatTime(found.time_ns)}, when `, bytesNode(found.bytes), ' were live. A block that two reporters name is counted twice.'),
    found.is_whole ? null : el('p', { class: 'notice' }, 'The recording ends before the reporters had answered: blocks that they had not reached count as unreported.'),
    found.of_nothing ? el('p', { class: 'note' }, `${plural(found.of_nothing, 'report')} named no live block.`) : null,
    ...lists,
  ].filter(Boolean);
}
