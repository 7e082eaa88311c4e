// Details of a mark: a tooltip at the pointer, and a panel with the log lines.

const LINES_SHOWN = 50;

function showTooltip(page, numbers, x, y) {
  const { answer } = page;
  const tooltip = byId('tooltip');
  const lines = numbers.slice(0, 4).map((number) => element('div', {},
    element('span', { class: 'quiet' }, formatClock(answer.occurrences.begin[number]), ' '),
    description(answer, number), repetitionText(answer, number)));
  if (numbers.length > 4) lines.push(element('div', { class: 'quiet' }, `and ${formatNumber(numbers.length - 4)} more`));
  const sum = numbers.reduce((total, number) => total + answer.occurrences.count[number], 0);
  const lane = laneOf(answer, numbers[0]);
  tooltip.replaceChildren(element('b', {}, lane.component.name), ` · ${formatTimes(sum)}`, ...lines);
  tooltip.hidden = false;
  const { width, height } = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - width - 8))}px`;
  tooltip.style.top = `${y + 18 + height > window.innerHeight ? Math.max(4, y - height - 14) : y + 18}px`;
}

function hideTooltip() {
  byId('tooltip').hidden = true;
}

function repetitionText(answer, number) {
  const { count, begin, last, end } = answer.occurrences;
  const long = end[number] > begin[number] ? `, ${formatDuration(end[number] - begin[number])} long` : '';
  const countText = count[number] > 1 ? `, ${formatTimes(count[number])} in ${formatDuration(last[number] - begin[number])}` : '';
  return element('span', { class: 'quiet' }, long + countText);
}

function showDetails(page, numbers) {
  const { answer } = page;
  const title = numbers.length === 1 ? 'The line' : `${formatNumber(numbers.length)} lines`;
  const list = element('div', { class: 'lines' });
  byId('details').replaceChildren(
    element('div', { class: 'bar' }, element('h2', {}, title), element('div', { class: 'buttons' },
      button('Show in lanes', () => page.showInLanes(numbers[0])),
      button('Close', () => page.close(), { 'aria-label': 'Close the lines' }))),
    listWithMore(list, numbers, LINES_SHOWN, (number) => lineArticle(page, answer, number)),
  );
  byId('details').hidden = false;
  document.body.classList.add('has-details');
}

function hideDetails() {
  byId('details').hidden = true;
  document.body.classList.remove('has-details');
}

function lineArticle(page, answer, number) {
  const { begin, offset, kind, text } = answer.occurrences;
  return element('article', { class: 'line' },
    element('p', {},
      swatch(page, kind[number]), element('b', {}, description(answer, number)), repetitionText(answer, number)),
    element('p', { class: 'quiet' },
      `${formatTime(begin[number])} · ${laneOf(answer, number).component.name} · ${answer.kinds[kind[number]]}`),
    element('p', { class: 'place' }, sourceLine(answer, number), element('span', { class: 'quiet' }, ` at byte ${formatNumber(offset[number])}`)),
    element('pre', {}, text[number]));
}

function swatch(page, kind) {
  const made = element('span', { class: 'swatch' });
  made.style.background = page.colours.kinds[kind];
  return made;
}
