"use strict";
/* The pages of placements: tooltips of what is drawn, and files to copy. Everything else is static. */
idlewave.placement = () => {
  document.querySelectorAll("[data-tip]").forEach((part) => {
    const title = part.querySelector("title"), text = title.textContent;
    // Both tooltips would show.
    title.remove();
    part.setAttribute("aria-label", text);
    part.addEventListener("pointermove", (event) => idlewave.tip(text, event.clientX, event.clientY));
    part.addEventListener("pointerleave", () => idlewave.tip(""));
  });
  document.querySelectorAll("[data-copy]").forEach((button) => {
    const code = button.closest(".file").querySelector("code");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent + "\n");
        button.textContent = "Copied";
      } catch {
        // The clipboard is not allowed here: the selection can be copied by hand.
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  });
};
