// Creates a card for each diagnosis, in which every statement links to its log line.

const EVIDENCE_SHOWN = 5;

function createCards(page) {
  const { answer } = page;
  byId('summary').textContent = answer.summary;
  byId('diagnoses').append(...answer.diagnoses.map((one, index) => card(page, one, index, answer.diagnoses.length > 1)));
  if (!answer.diagnoses.length && answer.errors.first) byId('errors').append(...errorLines(answer.errors));
}

// The first and the most frequent error lines, for an answer without a diagnosis.
function errorLines(errors) {
  return [element('h2', {}, 'Lines that report errors'),
    element('h3', {}, 'First'),
    element('ul', { class: 'evidence' }, errorLine(errors.first, '')),
    element('h3', {}, 'Most frequent'),
    listWithMore(element('ul', { class: 'evidence' }), errors.most_frequent, EVIDENCE_SHOWN, (one) => errorLine(one, ` (${formatTimes(one.count)})`))];
}

function errorLine(one, countText) {
  return element('li', {},
    element('span', { class: 'place' }, `${one.file}:${one.line}${countText}`), ' ',
    element('span', { class: 'quiet' }, `at byte ${formatNumber(one.offset)}`),
    element('code', {}, one.text));
}

function card(page, one, index, hasOthers) {
  const choose = button('Show in lanes', () => page.choose(index, true), { class: 'choose', 'aria-pressed': 'false' });
  return element('article', { class: one.root && hasOthers ? 'card root' : 'card', id: `diagnosis-${index}` },
    element('div', { class: 'bar' },
      element('h2', {}, `${index + 1}. ${one.title}`, one.root && hasOthers ? element('span', { class: 'badge' }, 'root cause') : null),
      choose),
    element('p', { class: 'quiet' }, timeRange(one), ' · ', one.components.join(', ')),
    element('p', { class: 'quiet' }, `${one.signature} · `, confidenceMeter(one.confidence)),
    element('p', {}, one.explanation),
    element('p', { class: 'advice' }, element('b', {}, 'What to do: '), one.advice),
    one.issues.length ? element('p', { class: 'quiet' }, `Known as ${one.issues.join(', ')}`) : null,
    one.groups ? groupsList(one.groups) : null,
    one.chain.length > 1 ? chainList(page, one, index) : null,
    element('h3', {}, 'Evidence'),
    listWithMore(element('ul', { class: 'evidence' }), one.evidence, EVIDENCE_SHOWN, (number) => evidenceItem(page, number, index)));
}

function timeRange(one) {
  const start = formatTime(one.begin);
  if (one.end === one.begin) return start;
  const end = formatTime(one.end);
  return `${start} to ${end.slice(0, 10) === start.slice(0, 10) ? end.slice(11) : end} (${formatDuration(one.end - one.begin)})`;
}

function confidenceMeter(confidence) {
  const percent = `${Math.round(confidence * 100)} %`;
  return element('span', {}, element('meter', { min: 0, max: 1, value: confidence, title: percent }), ` ${percent} sure`);
}

function groupsList(all) {
  return element('ul', {}, ...all.map((group) => element('li', {},
    `${group.onset.replace('T', ' ')}: ${group.servers.join(', ')}, within ${formatDuration(group.spread_ms)}`)));
}

function chainList(page, one, index) {
  return element('div', {}, element('h3', {}, 'Cause chain'),
    element('ol', { class: 'chain' }, ...one.chain.map(([number, rule, delay]) => chainItem(page, number, rule, delay, index))));
}

function chainItem(page, number, rule, delay, index) {
  const { answer } = page;
  const why = rule ? element('div', { class: 'why' }, element('b', {}, `+${formatDuration(delay)}`), ` ${rule}`) : null;
  return element('li', {}, why, lineButton(page, number, index,
    element('span', { class: 'quiet' }, `${formatClock(answer.occurrences.begin[number])} `),
    element('b', {}, laneOf(answer, number).component.name), `: ${description(answer, number)}`));
}

function evidenceItem(page, number, index) {
  const { answer } = page;
  const countText = answer.occurrences.count[number] > 1 ? ` (${formatTimes(answer.occurrences.count[number])})` : '';
  return element('li', {}, lineButton(page, number, index,
    element('span', { class: 'place' }, sourceLine(answer, number), countText), element('code', {}, answer.occurrences.text[number])));
}

// Creates a button that shows the log line of an occurrence.
function lineButton(page, number, index, ...content) {
  return element('button', { type: 'button', class: 'claim', onclick: () => page.showEvidence(index, number) }, ...content);
}

function markChosen(chosen) {
  document.querySelectorAll('.card').forEach((one, index) => {
    one.classList.toggle('chosen', index === chosen);
    one.querySelector('.choose').setAttribute('aria-pressed', String(index === chosen));
  });
  byId('unchoose').hidden = chosen === null;
}
