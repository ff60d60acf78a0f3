// The terminal keeps a picture of each character that it has drawn, so it begins when its fonts are there, or soon after.
const begin = () => {
  const script = document.createElement("script");
  script.src = "static/js/textual.js";
  // It begins with the page's own event, which may have been already.
  script.addEventListener("load", () => document.readyState === "complete" && window.onload?.(new Event("load")));
  document.head.append(script);
};
const fonts = ["", "bold ", "italic "].map((style) => document.fonts.load(`${style}16px "Roboto Mono"`, "a\u28ff\u25cf"));
const patience = new Promise((resolve) => setTimeout(resolve, 1500));
Promise.race([Promise.allSettled(fonts), patience]).then(begin);

// Keys go to the dashboard at once; without this a person would have to click into it first.
window.addEventListener("load", () => {
  const focus = () => document.querySelector(".xterm-helper-textarea")?.focus();
  window.addEventListener("focus", focus);
  new MutationObserver(focus).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  focus();
});
