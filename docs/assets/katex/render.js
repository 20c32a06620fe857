// Typesets the equations of a page: pymdownx.arithmatex marks them with \( \) or \[ \].
for (const element of document.querySelectorAll(".arithmatex")) {
  const text = element.textContent.trim();
  katex.render(text.slice(2, -2), element, { displayMode: text.startsWith("\\["), throwOnError: false });
}
