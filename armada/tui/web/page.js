// Keys go to the dashboard at once; without this a person would have to click into it first.
window.addEventListener("load", () => {
  const focus = () => document.querySelector(".xterm-helper-textarea")?.focus();
  window.addEventListener("focus", focus);
  new MutationObserver(focus).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  focus();
});
