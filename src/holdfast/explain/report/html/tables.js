// Creates the tables of everything that was read, and the notes about the answer.

const ROWS_SHOWN = 15;

function createTables(page) {
  const { answer } = page;
  byId('read').append(
    element('h2', {}, 'Input'),
    countsList(answer),
    answer.notes.length ? notesList(answer.notes) : '',
    element('h3', {}, 'Components'),
    answer.components.length ? componentsTable(answer) : element('p', { class: 'quiet' }, 'None: no line matches a known event.'),
    ...(answer.bursts.length ? [element('h3', {}, 'Bursts'), burstsTable(answer)] : []),
    ...(answer.lifetimes.length ? [element('h3', {}, 'Sessions, jobs and leaderships'), lifetimesTable(answer)] : []),
    element('h3', {}, 'Log templates'),
    templatesTable(answer));
}

function countsList(answer) {
  const labels = { bytes: 'bytes', lines: 'lines', records: 'records', events: 'events', unparsed_lines: 'lines without a record' };
  const pairs = [[answer.files.length, answer.files.length === 1 ? 'file' : 'files'],
    ...Object.entries(labels).map(([key, name]) => [answer.counts[key], name])];
  return element('dl', { class: 'counts' }, ...pairs.map(([number, name]) => element('div', {},
    element('dd', {}, formatNumber(number)), element('dt', {}, name))));
}

function notesList(all) {
  return listWithMore(element('ul', { class: 'notes' }), all, ROWS_SHOWN, (note) => element('li', {}, note));
}

function table(headings, rows, foot) {
  const cells = (name, row) => element('tr', {}, ...row.map((cell) => element(name, typeof cell === 'number' ? { class: 'number' } : {},
    typeof cell === 'number' ? formatNumber(cell) : cell)));
  const body = element('tbody');
  const whole = element('table', {}, element('thead', {}, cells('th', headings)), body,
    foot ? element('tfoot', {}, ...foot.map((row) => cells('td', row))) : null);
  const filled = listWithMore(body, rows, ROWS_SHOWN, (row) => cells('td', row));
  if (filled !== body) {
    whole.insertBefore(body, whole.tFoot);
    return element('div', { class: 'wide' }, whole, filled);
  }
  return element('div', { class: 'wide' }, whole);
}

function componentsTable(answer) {
  return table(['name', 'kind', 'clock offset', 'uncertainty', 'files'], answer.components.map((one) => [
    one.name, one.kind, formatOffset(one.clock_offset_ms), one.clock_error_ms === null ? '–' : formatDuration(one.clock_error_ms),
    one.files.join(', ')]));
}

function burstsTable(answer) {
  return table(['events', 'kind', 'component', 'from', 'to'], answer.bursts.map((one) => [
    one.count, one.event, one.component, withSpace(one.start), withSpace(one.end)]));
}

function lifetimesTable(answer) {
  return table(['kind', 'name', 'component', 'from', 'to', 'end', 'restarts'], answer.lifetimes.map((one) => [
    one.kind, one.name, one.component, withSpace(one.start), one.end === null ? '–' : withSpace(one.end), one.ended || '–', one.restarts]));
}

function withSpace(time) {
  return time.replace('T', ' ');
}

function formatOffset(ms) {
  return ms ? `${ms < 0 ? '−' : '+'}${formatDuration(Math.abs(ms))}` : '–';
}

// The last rows account for all other records, so that the numbers add up.
function templatesTable(answer) {
  const { named, others, other_records: rest } = answer.templates;
  const rows = named.map(([count, file, offset, text]) => [count, element('code', { title: text }, text),
    `${answer.files[file]} at byte ${formatNumber(offset)}`]);
  const foot = rest ? [[rest, others ? `in at least ${formatNumber(others)} other templates` : 'in other templates', '']] : [];
  const sum = rest + named.reduce((total, [count]) => total + count, 0);
  return table(['records', 'first record', 'position'], rows, [...foot, [sum, 'records', '']]);
}
