// What is said of one place in the lanes: shortly where the pointer is, and with the lines themselves below.

const LINES_SHOWN = 50;

function showTooltip(page, numbers, x, y) {
  const { told } = page;
  const tooltip = byId('tooltip');
  const lines = numbers.slice(0, 4).map((number) => element('div', {},
    element('span', { class: 'quiet' }, clockOf(told.happenings.begin[number]), ' '),
    sentence(told, number), repeated(told, number)));
  if (numbers.length > 4) lines.push(element('div', { class: 'quiet' }, `and ${amount(numbers.length - 4)} more`));
  const sum = numbers.reduce((total, number) => total + told.happenings.count[number], 0);
  const lane = laneOf(told, numbers[0]);
  tooltip.replaceChildren(element('b', {}, lane.component.name), ` · ${times(sum)}`, ...lines);
  tooltip.hidden = false;
  const { width, height } = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - width - 8))}px`;
  tooltip.style.top = `${y + 18 + height > window.innerHeight ? Math.max(4, y - height - 14) : y + 18}px`;
}

function hideTooltip() {
  byId('tooltip').hidden = true;
}

function repeated(told, number) {
  const { count, begin, last, end } = told.happenings;
  const long = end[number] > begin[number] ? `, ${lasting(end[number] - begin[number])} long` : '';
  const often = count[number] > 1 ? `, ${times(count[number])} in ${lasting(last[number] - begin[number])}` : '';
  return element('span', { class: 'quiet' }, long + often);
}

function showDetails(page, numbers) {
  const { told } = page;
  const title = numbers.length === 1 ? 'The line' : `${amount(numbers.length)} lines`;
  const list = element('div', { class: 'lines' });
  byId('details').replaceChildren(
    element('div', { class: 'bar' }, element('h2', {}, title), element('div', { class: 'buttons' },
      button('Show in lanes', () => page.showInLanes(numbers[0])),
      button('Close', () => page.closed(), { 'aria-label': 'Close the lines' }))),
    some(list, numbers, LINES_SHOWN, (number) => line(page, told, number)),
  );
  byId('details').hidden = false;
  document.body.classList.add('has-details');
}

function hideDetails() {
  byId('details').hidden = true;
  document.body.classList.remove('has-details');
}

function line(page, told, number) {
  const { begin, offset, kind, text } = told.happenings;
  return element('article', { class: 'line' },
    element('p', {},
      swatch(page, kind[number]), element('b', {}, sentence(told, number)), repeated(told, number)),
    element('p', { class: 'quiet' },
      `${stamp(begin[number])} · ${laneOf(told, number).component.name} · ${told.kinds[kind[number]]}`),
    element('p', { class: 'place' }, place(told, number), element('span', { class: 'quiet' }, ` at byte ${amount(offset[number])}`)),
    element('pre', {}, text[number]));
}

function swatch(page, kind) {
  const made = element('span', { class: 'swatch' });
  made.style.background = page.colours.kinds[kind];
  return made;
}
