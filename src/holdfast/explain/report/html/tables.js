// What was read, and what should be known about the answer itself.

const LOOKS_SHOWN = 15;

function tables(page) {
  const { told } = page;
  byId('read').append(
    element('h2', {}, 'What was read'),
    counts(told),
    told.notes.length ? notes(told.notes) : '',
    element('h3', {}, 'Components'),
    told.components.length ? components(told) : element('p', { class: 'quiet' }, 'None: no line says anything that is known here.'),
    ...(told.bursts.length ? [element('h3', {}, 'Bursts'), bursts(told)] : []),
    ...(told.lives.length ? [element('h3', {}, 'Sessions, jobs and leaderships'), lives(told)] : []),
    element('h3', {}, 'What records look like'),
    looks(told));
}

function counts(told) {
  const says = { bytes: 'bytes', lines: 'lines', records: 'records', events: 'events', unparsed_lines: 'lines of no record' };
  const pairs = [[told.files.length, told.files.length === 1 ? 'file' : 'files'],
    ...Object.entries(says).map(([key, name]) => [told.counts[key], name])];
  return element('dl', { class: 'counts' }, ...pairs.map(([number, name]) => element('div', {},
    element('dd', {}, amount(number)), element('dt', {}, name))));
}

function notes(all) {
  return some(element('ul', { class: 'notes' }), all, LOOKS_SHOWN, (note) => element('li', {}, note));
}

function table(headings, rows, foot) {
  const cells = (name, row) => element('tr', {}, ...row.map((cell) => element(name, typeof cell === 'number' ? { class: 'number' } : {},
    typeof cell === 'number' ? amount(cell) : cell)));
  const body = element('tbody');
  const whole = element('table', {}, element('thead', {}, cells('th', headings)), body,
    foot ? element('tfoot', {}, ...foot.map((row) => cells('td', row))) : null);
  const filled = some(body, rows, LOOKS_SHOWN, (row) => cells('td', row));
  if (filled !== body) {
    whole.insertBefore(body, whole.tFoot);
    return element('div', { class: 'wide' }, whole, filled);
  }
  return element('div', { class: 'wide' }, whole);
}

function components(told) {
  return table(['name', 'kind', 'clock moved by', 'give or take', 'files'], told.components.map((one) => [
    one.name, one.kind, moved(one.clock_offset_ms), one.clock_error_ms === null ? '–' : lasting(one.clock_error_ms),
    one.files.join(', ')]));
}

function bursts(told) {
  return table(['times', 'what', 'where', 'from', 'to'], told.bursts.map((one) => [
    one.count, one.event, one.component, spaced(one.start), spaced(one.end)]));
}

function lives(told) {
  return table(['what', 'name', 'whose', 'from', 'to', 'how it ended', 'restarts'], told.lives.map((one) => [
    one.kind, one.name, one.component, spaced(one.start), one.end === null ? '–' : spaced(one.end), one.ended || '–', one.restarts]));
}

function spaced(moment) {
  return moment.replace('T', ' ');
}

function moved(ms) {
  return ms ? `${ms < 0 ? '−' : '+'}${lasting(Math.abs(ms))}` : '–';
}

// They add up: whoever wonders what the rest is finds it in the last lines.
function looks(told) {
  const { named, others, other_records: rest } = told.looks;
  const rows = named.map(([count, file, offset, text]) => [count, element('code', { title: text }, text),
    `${told.files[file]} at byte ${amount(offset)}`]);
  const foot = rest ? [[rest, others ? `of ${amount(others)} other looks or more` : 'of other looks', '']] : [];
  const sum = rest + named.reduce((total, [count]) => total + count, 0);
  return table(['records', 'such as', 'first seen'], rows, [...foot, [sum, 'records', '']]);
}
