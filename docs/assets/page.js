// Equations are typeset: pymdownx.arithmatex marks them with \( \) or \[ \].
for (const element of document.querySelectorAll(".arithmatex")) {
  const text = element.textContent.trim();
  katex.render(text.slice(2, -2), element, { displayMode: text.startsWith("\\["), throwOnError: false });
}

// A picture opens at its full size, for narrow screens.
for (const picture of document.querySelectorAll(".md-content img")) {
  if (!picture.closest("a")) {
    const link = document.createElement("a");
    link.href = picture.src;
    picture.replaceWith(link);
    link.append(picture);
  }
}
