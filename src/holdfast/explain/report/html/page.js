// What is seen, chosen and hidden: everything that changes, and who is told of it.

class Page {
  constructor(told) {
    this.told = told;
    this.chosen = null; // a diagnosis
    this.selected = -1; // a happening
    this.hidden = new Set(); // kinds
    this.pointers = new Map();
    this.colours = colours(told);
    const { happenings } = told;
    let end = happenings.length ? happenings.begin[0] : 0;
    for (let number = 0; number < happenings.length; number++) end = Math.max(end, until(happenings, number));
    this.view = new View(happenings.length ? happenings.begin[0] : 0, end);
    this.lanes = new Lanes(this);
  }

  choose(index, isScrolled) {
    const one = this.told.diagnoses[index];
    const { begin } = this.told.happenings;
    const starts = one.chain.map(([number]) => begin[number]);
    this.chosen = index;
    markChosen(index);
    this.view.around(Math.min(one.begin, ...starts), Math.max(one.end, ...starts));
    this.lanes.redraw();
    if (isScrolled) scrollToLanes();
  }

  unchoose() {
    this.chosen = null;
    markChosen(null);
    this.lanes.redraw();
  }

  // From what is claimed to the line that says it.
  follow(index, number) {
    if (this.chosen !== index) this.choose(index, false);
    this.select([number], true);
  }

  select(numbers, isBrought) {
    [this.selected] = numbers;
    if (isBrought) this.bringIntoView(this.selected);
    showDetails(this, numbers);
    this.lanes.redraw();
  }

  closed() {
    this.selected = -1;
    hideDetails();
    hideTooltip();
    this.lanes.redraw();
  }

  bringIntoView(number) {
    const at = this.told.happenings.begin[number];
    const { box } = this.lanes;
    const lane = laneOf(this.told, number);
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
    byId('fold-all').textContent = this.told.lanes.every((lane) => lane.folded) ? 'Unfold lanes' : 'Fold lanes';
    this.lanes.layOut();
    this.lanes.redraw();
  }

  hide(kinds, isHidden) {
    for (const kind of kinds) {
      if (isHidden) this.hidden.add(kind);
      else this.hidden.delete(kind);
      byId(`kind-${kind}`).checked = !isHidden;
    }
    byId('filter-says').textContent = `${this.told.kinds.length - this.hidden.size} of ${this.told.kinds.length} shown`;
    this.lanes.redraw();
  }
}

function scrollToLanes() {
  const isStill = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
  byId('timeline').scrollIntoView({ behavior: isStill ? 'auto' : 'smooth' });
}

// The commonest kinds get the colours that are farthest apart.
function colours(told) {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const order = told.kinds.map((_, kind) => kind).sort((one, other) => told.often[other] - told.often[one]);
  const kinds = [];
  order.forEach((kind, rank) => {
    kinds[kind] = `hsl(${Math.round(210 + rank * 137.5) % 360} ${rank % 2 ? 60 : 72}% ${of('mark-light')})`;
  });
  return { kinds, line: of('line'), text: of('text'), quiet: of('quiet'), surface: of('surface'), band: of('band'), accent: of('accent') };
}

function names(page) {
  for (const lane of page.told.lanes) {
    lane.name = button(element('span', {}, lane.component.name), () => page.fold([lane], !lane.folded),
      { class: 'name', title: `${lane.component.name} (${lane.component.kind}), ${amount(lane.numbers.length)} happenings` });
    lane.name.setAttribute('aria-expanded', 'true');
    lane.name.append(element('span', { class: 'quiet' }, lane.component.kind));
    byId('names').append(lane.name);
  }
  byId('fold-all').addEventListener('click', () => page.fold(page.told.lanes, !page.told.lanes.every((lane) => lane.folded)));
}

function filter(page) {
  const order = page.told.kinds.map((_, kind) => kind).sort((one, other) => page.told.often[other] - page.told.often[one]);
  byId('kinds').append(...order.map((kind) => element('label', {},
    element('input', { type: 'checkbox', id: `kind-${kind}`, checked: true, onchange: (event) => page.hide([kind], !event.target.checked) }),
    swatch(page, kind), page.told.kinds[kind], element('span', { class: 'quiet' }, ` ${amount(page.told.often[kind])}`))));
  byId('all-kinds').addEventListener('click', () => page.hide(order, false));
  byId('no-kinds').addEventListener('click', () => page.hide(order, true));
  page.hide([], false);
}

function recolour(page) {
  page.colours = colours(page.told);
  document.querySelectorAll('#kinds label').forEach((label) => {
    label.querySelector('.swatch').style.background = page.colours.kinds[label.querySelector('input').id.slice(5)];
  });
  page.lanes.draw();
}

function start() {
  const page = new Page(read());
  cards(page);
  tables(page);
  if (!page.told.lanes.length) {
    byId('timeline').hidden = true;
    return;
  }
  names(page);
  filter(page);
  listen(page);
  byId('unchoose').addEventListener('click', () => page.unchoose());
  for (const query of ['(prefers-color-scheme: dark)', 'print']) {
    window.matchMedia(query).addEventListener('change', () => recolour(page));
  }
  page.lanes.redraw();
}

start();
