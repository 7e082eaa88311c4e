// What was diagnosed: a card each, in which every statement leads to its line.

const EVIDENCE_SHOWN = 5;

function cards(page) {
  const { told } = page;
  byId('summary').textContent = told.summary;
  byId('diagnoses').append(...told.diagnoses.map((one, index) => card(page, one, index, told.diagnoses.length > 1)));
}

function card(page, one, index, hasOthers) {
  const choose = button('Show in lanes', () => page.choose(index, true), { class: 'choose', 'aria-pressed': 'false' });
  return element('article', { class: one.root && hasOthers ? 'card root' : 'card', id: `diagnosis-${index}` },
    element('div', { class: 'bar' },
      element('h2', {}, `${index + 1}. ${one.title}`, one.root && hasOthers ? element('span', { class: 'badge' }, 'the root') : null),
      choose),
    element('p', { class: 'quiet' }, when(one), ' · ', one.components.join(', ')),
    element('p', { class: 'quiet' }, `${one.signature} · `, sure(one.confidence)),
    element('p', {}, one.explanation),
    element('p', { class: 'advice' }, element('b', {}, 'What to do: '), one.advice),
    one.issues.length ? element('p', { class: 'quiet' }, `Known as ${one.issues.join(', ')}`) : null,
    one.groups ? groups(one.groups) : null,
    one.chain.length > 1 ? chain(page, one, index) : null,
    element('h3', {}, 'Seen in'),
    some(element('ul', { class: 'evidence' }), one.evidence, EVIDENCE_SHOWN, (number) => evidence(page, number, index)));
}

function when(one) {
  const start = stamp(one.begin);
  if (one.end === one.begin) return start;
  const end = stamp(one.end);
  return `${start} to ${end.slice(0, 10) === start.slice(0, 10) ? end.slice(11) : end} (${lasting(one.end - one.begin)})`;
}

function sure(confidence) {
  const percent = `${Math.round(confidence * 100)} %`;
  return element('span', {}, element('meter', { min: 0, max: 1, value: confidence, title: percent }), ` ${percent} sure`);
}

function groups(all) {
  return element('ul', {}, ...all.map((group) => element('li', {},
    `${group.onset.replace('T', ' ')}: ${group.servers.join(', ')}, within ${lasting(group.spread_ms)}`)));
}

function chain(page, one, index) {
  return element('div', {}, element('h3', {}, 'How it came about'),
    element('ol', { class: 'chain' }, ...one.chain.map(([number, rule, delay]) => link(page, number, rule, delay, index))));
}

function link(page, number, rule, delay, index) {
  const { told } = page;
  const why = rule ? element('div', { class: 'why' }, element('b', {}, `+${lasting(delay)}`), ` ${rule}`) : null;
  return element('li', {}, why, claim(page, number, index,
    element('span', { class: 'quiet' }, `${clockOf(told.happenings.begin[number])} `),
    element('b', {}, laneOf(told, number).component.name), `: ${sentence(told, number)}`));
}

function evidence(page, number, index) {
  const { told } = page;
  const often = told.happenings.count[number] > 1 ? ` (${times(told.happenings.count[number])})` : '';
  return element('li', {}, claim(page, number, index,
    element('span', { class: 'place' }, place(told, number), often), element('code', {}, told.happenings.text[number])));
}

// Whatever is claimed can be followed to the line that says it.
function claim(page, number, index, ...says) {
  return element('button', { type: 'button', class: 'claim', onclick: () => page.follow(index, number) }, ...says);
}

function markChosen(chosen) {
  document.querySelectorAll('.card').forEach((one, index) => {
    one.classList.toggle('chosen', index === chosen);
    one.querySelector('.choose').setAttribute('aria-pressed', String(index === chosen));
  });
  byId('unchoose').hidden = chosen === null;
}
