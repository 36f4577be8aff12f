"use strict";
document.querySelectorAll("main table").forEach(idlewave.align);
document.querySelectorAll("table.sortable").forEach(idlewave.sortable);
idlewave.theme();
idlewave.calibration();
idlewave.redraw();
{
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; idlewave.redraw(); } });
}
document.documentElement.dataset.ready = "true";
