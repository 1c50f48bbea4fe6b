// Films that can be stopped, and figures that can be enlarged where a window is narrow.
(() => {
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  for (const film of document.querySelectorAll(".film")) {
    const [picture, button] = [film.querySelector("picture"), film.querySelector(".pause")];
    const [image, source] = [picture.querySelector("img"), picture.querySelector("source")];
    const [moving, still] = [image.src, source.srcset];
    const show = (runs) => {
      source.remove(); // from now on the button decides
      const wanted = runs ? moving : still;
      if (image.src !== wanted) image.src = wanted;
      tell(runs);
    };
    const tell = (runs) => {
      button.setAttribute("aria-label", runs ? "Pause the film" : "Play the film");
      button.setAttribute("aria-pressed", String(!runs));
    };
    tell(!calm.matches);
    button.hidden = false;
    button.addEventListener("click", () => show(button.getAttribute("aria-pressed") === "true"));
  }
  for (const button of document.querySelectorAll(".larger")) {
    button.addEventListener("click", () => {
      const large = button.parentElement.classList.toggle("large");
      button.setAttribute("aria-pressed", String(large));
      button.textContent = large ? "Fit to width" : "Enlarge";
      if (large) button.parentElement.tabIndex = 0; // what scrolls must be reachable
      else button.parentElement.removeAttribute("tabindex");
    });
  }
})();
