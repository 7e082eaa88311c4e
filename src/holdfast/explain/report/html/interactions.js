// What pointers and keys do to the lanes.

const ZOOM = 1.6;
const CLICK_PIXELS = 4;

function listen(page) {
  const { canvas, box } = page.lanes;
  canvas.addEventListener('wheel', (event) => wheel(page, event), { passive: false });
  canvas.addEventListener('pointerdown', (event) => press(page, event));
  canvas.addEventListener('pointermove', (event) => drag(page, event) || hover(page, event));
  canvas.addEventListener('pointerup', (event) => release(page, event));
  canvas.addEventListener('pointercancel', () => page.pointers.clear());
  canvas.addEventListener('pointerleave', () => hideTooltip());
  canvas.addEventListener('dblclick', () => seen(page, () => page.view.reset()));
  canvas.addEventListener('keydown', (event) => key(page, event));
  canvas.addEventListener('focus', () => page.selected >= 0 && canvas.matches(':focus-visible') && tooltipAtSelected(page));
  canvas.addEventListener('blur', () => hideTooltip());
  box.addEventListener('scroll', () => page.lanes.redraw(), { passive: true });
  byId('zoom-in').addEventListener('click', () => zoomed(page, 1 / ZOOM));
  byId('zoom-out').addEventListener('click', () => zoomed(page, ZOOM));
  byId('reset').addEventListener('click', () => seen(page, () => page.view.reset()));
  new ResizeObserver(() => page.lanes.redraw()).observe(box);
}

function seen(page, change) {
  hideTooltip();
  change();
  page.lanes.redraw();
}

function zoomed(page, factor, x = page.view.width / 2) {
  seen(page, () => page.view.zoom(factor, x));
}

// A wheel that is turned sideways moves; one that is held with Shift scrolls lanes, as it would without us.
function wheel(page, event) {
  if (event.shiftKey) return;
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 16 : 1;
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    seen(page, () => page.view.move((event.deltaX * unit * page.view.span) / page.view.width));
  } else zoomed(page, Math.exp(Math.max(-200, Math.min(200, event.deltaY * unit)) * 0.002), event.offsetX);
}

function press(page, event) {
  page.lanes.canvas.setPointerCapture(event.pointerId);
  page.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY, moved: 0 });
}

// One pointer moves, two zoom: the pixels between them stay the same time. True if this was that.
function drag(page, event) {
  const before = page.pointers.get(event.pointerId);
  if (!before) return false;
  const now = { x: event.offsetX, y: event.offsetY };
  now.moved = before.moved + Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
  page.pointers.set(event.pointerId, now);
  if (now.moved <= CLICK_PIXELS) return true;
  const [other] = [...page.pointers].filter(([id]) => id !== event.pointerId).map(([, pointer]) => pointer);
  if (other) {
    const apart = Math.max(10, Math.abs(now.x - other.x));
    zoomed(page, Math.max(10, Math.abs(before.x - other.x)) / apart, other.x);
  } else {
    seen(page, () => page.view.move(((before.x - now.x) * page.view.span) / page.view.width));
    if (event.pointerType === 'mouse') page.lanes.box.scrollTop += before.y - now.y;
  }
  return true;
}

function release(page, event) {
  const pointer = page.pointers.get(event.pointerId);
  page.pointers.delete(event.pointerId);
  if (!pointer || pointer.moved > CLICK_PIXELS) return;
  const found = page.lanes.at(event.offsetX, event.offsetY);
  if (found) page.select(found.numbers, false);
}

function hover(page, event) {
  const found = page.lanes.at(event.offsetX, event.offsetY);
  page.lanes.canvas.style.cursor = found ? 'pointer' : 'grab';
  if (found) showTooltip(page, found.numbers, event.clientX, event.clientY);
  else hideTooltip();
}

function key(page, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const does = {
    '+': () => zoomed(page, 1 / ZOOM),
    '=': () => zoomed(page, 1 / ZOOM),
    '-': () => zoomed(page, ZOOM),
    0: () => seen(page, () => page.view.reset()),
    ArrowLeft: () => seen(page, () => page.view.move(-page.view.span / 8)),
    ArrowRight: () => seen(page, () => page.view.move(page.view.span / 8)),
    ArrowUp: () => step(page, -1),
    ArrowDown: () => step(page, 1),
    Enter: () => page.selected >= 0 && page.select([page.selected], false),
    Escape: () => page.closed(),
  }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
}

// To the next happening that is not hidden; to the first that is seen if there was none before.
function step(page, by) {
  const { happenings } = page.told;
  let number = page.selected < 0 ? firstNotBelow(happenings.begin, page.view.begin) : page.selected + by;
  while (number >= 0 && number < happenings.length && page.hidden.has(happenings.kind[number])) number += by;
  if (number < 0 || number >= happenings.length) return;
  page.selected = number;
  page.bringIntoView(number);
  tooltipAtSelected(page);
}

function tooltipAtSelected(page) {
  page.lanes.draw();
  const around = page.lanes.canvas.getBoundingClientRect();
  const { x, y } = spot(page.lanes, page.selected);
  showTooltip(page, [page.selected], around.left + x, around.top + y);
}
