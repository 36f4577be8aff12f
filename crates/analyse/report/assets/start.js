"use strict";
/* Puts the parts together: what needs only the findings first, then what has to be unpacked. */
(async () => {
  const { byId } = idlewave;
  document.querySelectorAll("main table").forEach(idlewave.align);
  document.querySelectorAll("table.sortable").forEach(idlewave.sortable);
  idlewave.theme();
  idlewave.charts();
  const drawn = await idlewave.inflate(byId("drawn").textContent);
  if (byId("lanes")) idlewave.lanes(drawn.lanes);
  if (byId("wave-canvas")) idlewave.waves(byId("wave-canvas"));
  if (byId("nodes-map")) idlewave.nodes(byId("nodes-map"));
  if (byId("matrix")) idlewave.matrix(byId("matrix"));
  if (byId("timeline")) idlewave.timeline(drawn.timeline);
  if (byId("spacetime")) idlewave.spacetime(drawn.spacetime);
  document.querySelectorAll("canvas.slowest").forEach((c) => idlewave.slowest(c, drawn.slowest[c.dataset.map]));
  if (byId("explorer")) await idlewave.exploring(drawn.explorer);
  idlewave.redraw();
  let width = innerWidth;
  addEventListener("resize", () => {
    // Mobile browsers change only their height when their bars come and go.
    if (innerWidth !== width) { width = innerWidth; idlewave.redraw(); }
  });
  document.documentElement.dataset.ready = "true";
})();
