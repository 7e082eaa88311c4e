// State of the page: visible range, chosen diagnosis, selected occurrence and hidden kinds.

class Page {
  constructor(answer) {
    this.answer = answer;
    this.chosen = null; // a diagnosis
    this.selected = -1; // an occurrence
    this.hidden = new Set(); // kinds
    this.pointers = new Map();
    this.colours = colours(answer);
    const { occurrences } = answer;
    let end = occurrences.length ? occurrences.begin[0] : 0;
    for (let number = 0; number < occurrences.length; number++) end = Math.max(end, endOf(occurrences, number));
    this.view = new View(occurrences.length ? occurrences.begin[0] : 0, end);
    this.lanes = new Lanes(this);
  }

  choose(index, isScrolled) {
    const one = this.answer.diagnoses[index];
    const { begin } = this.answer.occurrences;
    const starts = one.chain.map(([number]) => begin[number]);
    this.chosen = index;
    markChosen(index);
    this.view.fitRange(Math.min(one.begin, ...starts), Math.max(one.end, ...starts));
    this.lanes.redraw();
    if (isScrolled) scrollToLanes();
  }

  unchoose() {
    this.chosen = null;
    markChosen(null);
    this.lanes.redraw();
  }

  // Shows the log line behind a statement of a diagnosis.
  showEvidence(index, number) {
    if (this.chosen !== index) this.choose(index, false);
    this.select([number], true);
  }

  select(numbers, isScrolledTo) {
    [this.selected] = numbers;
    if (isScrolledTo) this.bringIntoView(this.selected);
    showDetails(this, numbers);
    this.lanes.redraw();
  }

  close() {
    this.selected = -1;
    hideDetails();
    hideTooltip();
    this.lanes.redraw();
  }

  bringIntoView(number) {
    const at = this.answer.occurrences.begin[number];
    const { box } = this.lanes;
    const lane = laneOf(this.answer, number);
    if (!this.view.has(at)) this.view.show(at - this.view.span / 2, at + this.view.span / 2);
    if (lane.top - AXIS < box.scrollTop) box.scrollTop = lane.top - AXIS;
    if (lane.top + lane.height > box.scrollTop + box.clientHeight) box.scrollTop = lane.top + lane.height - box.clientHeight;
    this.lanes.redraw();
  }

  showInLanes(number) {
    this.bringIntoView(number);
    scrollToLanes();
  }

  fold(lanes, isFolded) {
    for (const lane of lanes) {
      lane.folded = isFolded;
      lane.name.classList.toggle('folded', isFolded);
      lane.name.setAttribute('aria-expanded', String(!isFolded));
    }
    byId('fold-all').textContent = this.answer.lanes.every((lane) => lane.folded) ? 'Unfold lanes' : 'Fold lanes';
    this.lanes.layOut();
    this.lanes.redraw();
  }

  hide(kinds, isHidden) {
    for (const kind of kinds) {
      if (isHidden) this.hidden.add(kind);
      else this.hidden.delete(kind);
      byId(`kind-${kind}`).checked = !isHidden;
    }
    byId('filter-summary').textContent = `${this.answer.kinds.length - this.hidden.size} of ${this.answer.kinds.length} shown`;
    this.lanes.redraw();
  }
}

function scrollToLanes() {
  const isStill = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
  byId('timeline').scrollIntoView({ behavior: isStill ? 'auto' : 'smooth' });
}

// The most frequent kinds get the most different colours.
function colours(answer) {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const order = answer.kinds.map((_, kind) => kind).sort((one, other) => answer.kindCounts[other] - answer.kindCounts[one]);
  const kinds = [];
  order.forEach((kind, rank) => {
    kinds[kind] = `hsl(${Math.round(210 + rank * 137.5) % 360} ${rank % 2 ? 60 : 72}% ${of('mark-light')})`;
  });
  return { kinds, line: of('line'), text: of('text'), quiet: of('quiet'), surface: of('surface'), band: of('band'), accent: of('accent') };
}

function createLaneButtons(page) {
  for (const lane of page.answer.lanes) {
    lane.name = button(element('span', {}, lane.component.name), () => page.fold([lane], !lane.folded),
      { class: 'name', title: `${lane.component.name} (${lane.component.kind}), ${formatNumber(lane.numbers.length)} occurrences` });
    lane.name.setAttribute('aria-expanded', 'true');
    lane.name.append(element('span', { class: 'quiet' }, lane.component.kind));
    byId('names').append(lane.name);
  }
  byId('fold-all').addEventListener('click', () => page.fold(page.answer.lanes, !page.answer.lanes.every((lane) => lane.folded)));
}

function createKindFilter(page) {
  const order = page.answer.kinds.map((_, kind) => kind).sort((one, other) => page.answer.kindCounts[other] - page.answer.kindCounts[one]);
  byId('kinds').append(...order.map((kind) => element('label', {},
    element('input', { type: 'checkbox', id: `kind-${kind}`, checked: true, onchange: (event) => page.hide([kind], !event.target.checked) }),
    swatch(page, kind), page.answer.kinds[kind], element('span', { class: 'quiet' }, ` ${formatNumber(page.answer.kindCounts[kind])}`))));
  byId('all-kinds').addEventListener('click', () => page.hide(order, false));
  byId('no-kinds').addEventListener('click', () => page.hide(order, true));
  page.hide([], false);
}

function recolour(page) {
  page.colours = colours(page.answer);
  document.querySelectorAll('#kinds label').forEach((label) => {
    label.querySelector('.swatch').style.background = page.colours.kinds[label.querySelector('input').id.slice(5)];
  });
  page.lanes.draw();
}

function start() {
  const page = new Page(readAnswer());
  createCards(page);
  createTables(page);
  if (!page.answer.lanes.length) {
    byId('timeline').hidden = true;
    return;
  }
  createLaneButtons(page);
  createKindFilter(page);
  addListeners(page);
  byId('unchoose').addEventListener('click', () => page.unchoose());
  for (const query of ['(prefers-color-scheme: dark)', 'print']) {
    window.matchMedia(query).addEventListener('change', () => recolour(page));
  }
  page.lanes.redraw();
}

start();
