// Films that can be stopped, and figures that can be enlarged where a window is narrow.
(() => {
  const BEGIN_MS = 600;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  for (const film of document.querySelectorAll(".film")) {
    const [image, button] = [film.querySelector("img"), film.querySelector(".pause")];
    const [moving, still] = [image.dataset.film, image.src];
    const show = (runs) => {
      if (image.src !== (runs ? moving : still)) image.src = runs ? moving : still;
      button.setAttribute("aria-label", runs ? "Pause the film" : "Play the film");
      button.setAttribute("aria-pressed", String(!runs));
    };
    show(false);
    button.hidden = false;
    button.addEventListener("click", () => show(button.getAttribute("aria-pressed") === "true"));
    // The first picture is there at once; films begin when it has been seen and everything else is there.
    const begin = () => button.getAttribute("aria-pressed") === "true" && show(true);
    if (!calm.matches) addEventListener("load", () => setTimeout(begin, BEGIN_MS));
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
