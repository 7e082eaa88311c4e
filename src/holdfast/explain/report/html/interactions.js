// Handles pointer and keyboard events of the lanes.

const ZOOM = 1.6;
const CLICK_PIXELS = 4;

function addListeners(page) {
  const { canvas, box } = page.lanes;
  canvas.addEventListener('wheel', (event) => onWheel(page, event), { passive: false });
  canvas.addEventListener('pointerdown', (event) => onPointerDown(page, event));
  canvas.addEventListener('pointermove', (event) => onDrag(page, event) || onHover(page, event));
  canvas.addEventListener('pointerup', (event) => onPointerUp(page, event));
  canvas.addEventListener('pointercancel', () => page.pointers.clear());
  canvas.addEventListener('pointerleave', () => hideTooltip());
  canvas.addEventListener('dblclick', () => updateView(page, () => page.view.reset()));
  canvas.addEventListener('keydown', (event) => onKey(page, event));
  canvas.addEventListener('focus', () => page.selected >= 0 && canvas.matches(':focus-visible') && showTooltipAtSelected(page));
  canvas.addEventListener('blur', () => hideTooltip());
  box.addEventListener('scroll', () => page.lanes.redraw(), { passive: true });
  byId('zoom-in').addEventListener('click', () => zoomBy(page, 1 / ZOOM));
  byId('zoom-out').addEventListener('click', () => zoomBy(page, ZOOM));
  byId('reset').addEventListener('click', () => updateView(page, () => page.view.reset()));
  new ResizeObserver(() => page.lanes.redraw()).observe(box);
}

function updateView(page, change) {
  hideTooltip();
  change();
  page.lanes.redraw();
}

function zoomBy(page, factor, x = page.view.width / 2) {
  updateView(page, () => page.view.zoom(factor, x));
}

// A horizontal wheel moves the view. With Shift the wheel scrolls the lanes, which is the browser's default.
function onWheel(page, event) {
  if (event.shiftKey) return;
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 16 : 1;
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    updateView(page, () => page.view.move((event.deltaX * unit * page.view.span) / page.view.width));
  } else zoomBy(page, Math.exp(Math.max(-200, Math.min(200, event.deltaY * unit)) * 0.002), event.offsetX);
}

function onPointerDown(page, event) {
  page.lanes.canvas.setPointerCapture(event.pointerId);
  page.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY, moved: 0 });
}

// One pointer moves the view, two zoom it. Returns true if a pointer was down.
function onDrag(page, event) {
  const before = page.pointers.get(event.pointerId);
  if (!before) return false;
  const now = { x: event.offsetX, y: event.offsetY };
  now.moved = before.moved + Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
  page.pointers.set(event.pointerId, now);
  if (now.moved <= CLICK_PIXELS) return true;
  const [other] = [...page.pointers].filter(([id]) => id !== event.pointerId).map(([, pointer]) => pointer);
  if (other) {
    const apart = Math.max(10, Math.abs(now.x - other.x));
    zoomBy(page, Math.max(10, Math.abs(before.x - other.x)) / apart, other.x);
  } else {
    updateView(page, () => page.view.move(((before.x - now.x) * page.view.span) / page.view.width));
    if (event.pointerType === 'mouse') page.lanes.box.scrollTop += before.y - now.y;
  }
  return true;
}

function onPointerUp(page, event) {
  const pointer = page.pointers.get(event.pointerId);
  page.pointers.delete(event.pointerId);
  if (!pointer || pointer.moved > CLICK_PIXELS) return;
  const found = page.lanes.markAt(event.offsetX, event.offsetY);
  if (found) page.select(found.numbers, false);
}

function onHover(page, event) {
  const found = page.lanes.markAt(event.offsetX, event.offsetY);
  page.lanes.canvas.style.cursor = found ? 'pointer' : 'grab';
  if (found) showTooltip(page, found.numbers, event.clientX, event.clientY);
  else hideTooltip();
}

function onKey(page, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const does = {
    '+': () => zoomBy(page, 1 / ZOOM),
    '=': () => zoomBy(page, 1 / ZOOM),
    '-': () => zoomBy(page, ZOOM),
    0: () => updateView(page, () => page.view.reset()),
    ArrowLeft: () => updateView(page, () => page.view.move(-page.view.span / 8)),
    ArrowRight: () => updateView(page, () => page.view.move(page.view.span / 8)),
    ArrowUp: () => selectNext(page, -1),
    ArrowDown: () => selectNext(page, 1),
    Enter: () => page.selected >= 0 && page.select([page.selected], false),
    Escape: () => page.close(),
  }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
}

// Selects the next occurrence that is not hidden, or the first visible one if none is selected.
function selectNext(page, by) {
  const { occurrences } = page.answer;
  let number = page.selected < 0 ? lowerBound(occurrences.begin, page.view.begin) : page.selected + by;
  while (number >= 0 && number < occurrences.length && page.hidden.has(occurrences.kind[number])) number += by;
  if (number < 0 || number >= occurrences.length) return;
  page.selected = number;
  page.bringIntoView(number);
  showTooltipAtSelected(page);
}

function showTooltipAtSelected(page) {
  page.lanes.draw();
  const around = page.lanes.canvas.getBoundingClientRect();
  const { x, y } = positionOf(page.lanes, page.selected);
  showTooltip(page, [page.selected], around.left + x, around.top + y);
}
