// The explorer: frames, motion, codes and predictions of a few episodes, drawn from sprite sheets.
(() => {
  const sets = JSON.parse(document.getElementById("data").textContent);
  if (!sets.length) return;
  const by = (id) => document.getElementById(id);
  const CELL = 24; // canvas pixels of a patch
  const BEAT = 1000 / 12; // milliseconds of a frame
  const GAIN = 3; // how strongly errors are shown
  const state = { set: null, episode: null, time: 0, code: null, kept: false, at: null, timer: null, wanted: null };
  let cells = [];
  let cards = [];

  const bytes = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const bounded = (value, last) => Math.max(0, Math.min(last, value));
  const short = (value) => value.toPrecision(3).replace(/e([-+]\d+)$/, " · 10^$1");

  // --- Sprite sheets ---
  const load = (sprite) => {
    if (!sprite.image) {
      sprite.image = new Image();
      sprite.image.src = sprite.src;
      sprite.ready = sprite.image.decode();
    }
    return sprite.ready;
  };
  const paint = (canvas, sprite, index) => {
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    const [x, y] = [(index % sprite.columns) * sprite.width, Math.floor(index / sprite.columns) * sprite.height];
    pen.imageSmoothingEnabled = false;
    pen.drawImage(sprite.image, x, y, sprite.width, sprite.height, 0, 0, canvas.width, canvas.height);
    return pen;
  };

  // --- What is shown of the chosen frame ---
  const codesNow = () => {
    const size = state.set.grid ** 2;
    return state.episode.codeNumbers.subarray(state.time * size, (state.time + 1) * size);
  };
  const movedAt = (place) => state.episode.movementBytes[state.time * state.set.grid ** 2 + place] / 255;
  const drawPanel = (name, sprite, overlaid) => {
    const grid = state.set.grid;
    const pen = paint(by(name), sprite, state.time);
    const codes = codesNow();
    if (overlaid) {
      codes.forEach((code, place) => {
        pen.globalAlpha = 0.7 * movedAt(place);
        pen.fillStyle = state.set.colours[code];
        pen.fillRect((place % grid) * CELL, Math.floor(place / grid) * CELL, CELL, CELL);
      });
      pen.globalAlpha = 1;
    }
    if (state.code === null) return;
    codes.forEach((code, place) => {
      if (code !== state.code) return;
      const [x, y] = [(place % grid) * CELL, Math.floor(place / grid) * CELL];
      pen.lineWidth = 4;
      pen.strokeStyle = "rgb(0 0 0 / 55%)";
      pen.strokeRect(x + 1, y + 1, CELL - 2, CELL - 2);
      pen.lineWidth = 2;
      pen.strokeStyle = "#fff";
      pen.strokeRect(x + 1, y + 1, CELL - 2, CELL - 2);
    });
  };
  const drawGrid = () => {
    const codes = codesNow();
    cells.forEach((cell, place) => {
      const code = codes[place];
      cell.style.setProperty("--moved", movedAt(place).toFixed(2));
      if (cell.code !== code) {
        cell.code = code;
        cell.dataset.code = code;
        cell.style.backgroundColor = state.set.colours[code];
      }
      cell.classList.toggle("lit", code === state.code);
    });
    by("grid").classList.toggle("choosing", state.code !== null);
  };
  const drawEntry = () => {
    const { code, set } = state;
    by("known").hidden = code === null;
    by("hint").hidden = code !== null;
    if (code === null) return;
    const fires = codesNow().filter((each) => each === code).length;
    const share = 100 * set.atlas.shares[code];
    by("swatch").style.backgroundColor = set.colours[code];
    by("code").textContent = `Code ${set.names[code]}`;
    by("kept").hidden = !state.kept;
    by("share").textContent = `${share.toFixed(share < 1 ? 2 : 1)} % of all patches; ${fires} of ${set.grid ** 2} in this frame`;
    const entry = `${sets.indexOf(set)} ${code}`; // names of data sets may repeat
    if (by("entry").dataset.code === entry) return;
    by("entry").dataset.code = entry;
    const first = code * set.atlas.pictures.columns;
    const patch = (index) => {
      const { width, height, columns } = set.atlas.pictures;
      const ariaLabel = index === columns - 1 ? `What code ${code} draws` : `Motion patch ${index + 1} of code ${code}`;
      const canvas = make("canvas", { width, height, role: "img", ariaLabel });
      paint(canvas, set.atlas.pictures, first + index);
      return canvas;
    };
    const known = Array.from({ length: set.atlas.known[code] }, (_, index) => patch(index));
    by("patches").replaceChildren(...(known.length ? known : ["none of those looked at"]));
    by("effect").replaceChildren(patch(set.atlas.pictures.columns - 1));
  };

  // --- Over time ---
  const series = () => {
    const { episode, code, set } = state;
    const size = set.grid ** 2;
    const values = new Float64Array(episode.count);
    const source = code === null ? episode.movementBytes : episode.codeNumbers;
    source.forEach((value, place) => {
      values[Math.floor(place / size)] += code === null ? value : value === code;
    });
    return values;
  };
  const drawStrip = () => {
    const canvas = by("strip");
    const values = series();
    const scale = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth * scale, canvas.clientHeight * scale].map(Math.round);
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    const pen = canvas.getContext("2d");
    const [most, step] = [Math.max(1, ...values), width / values.length];
    pen.clearRect(0, 0, width, height);
    pen.fillStyle = state.code === null ? colour("--plain") : state.set.colours[state.code];
    pen.globalAlpha = state.code === null ? 0.45 : 1;
    values.forEach((value, place) => {
      const tall = (value / most) * (height - 8 * scale);
      pen.fillRect(place * step + 0.12 * step, height - tall, 0.76 * step, tall);
    });
    pen.globalAlpha = 1;
    pen.fillStyle = colour("--ink");
    pen.fillRect(Math.round((state.time + 0.5) * step) - scale, 0, 2 * scale, height);
    by("strip-label").textContent =
      state.code === null
        ? "Movement in every frame"
        : `Code ${state.code} in every frame: at most ${most === 1 ? "1 patch" : `${most} patches`}, now ${values[state.time]}`;
  };

  // --- Predictions ---
  const buildCards = () => {
    const { episode } = state;
    const { width, height } = episode.frames;
    const card = (name, kind, extra) => {
      const canvas = make("canvas", { width, height, role: "img", ariaLabel: name });
      const told = make("span");
      const figure = make("figure", { className: kind }, canvas, make("figcaption", {}, make("b", { textContent: name }), told));
      return { canvas, told, figure, ...extra };
    };
    cards = [];
    for (const stride of Object.keys(episode.copied).map(Number)) {
      const later = stride === 1 ? "1 step later" : `${stride} steps later`;
      cards.push(card("true future", "truth", { stride, later, sprite: episode.frames, ahead: stride }));
      cards.push(card("no change", "", { stride, sprite: episode.frames, ahead: 0, errors: episode.copied[stride] }));
      for (const each of episode.predictions.filter((one) => one.stride === stride)) {
        cards.push(card(each.method, "", { stride, sprite: each.pictures, ahead: 0, errors: each.errors, drawn: true }));
      }
    }
    for (const each of cards) {
      if (each.errors) each.mean = each.errors.reduce((sum, error) => sum + error, 0) / each.errors.length;
    }
    by("cards").replaceChildren(...cards.map((each) => each.figure));
    by("compare").hidden = !episode.predictions.length;
  };
  const drawCards = () => {
    const wrong = by("wrong").checked;
    let truth = null;
    for (const each of cards) {
      const pen = paint(each.canvas, each.sprite, state.time + each.ahead);
      if (!each.errors) {
        truth = pen.getImageData(0, 0, each.canvas.width, each.canvas.height);
        each.told.replaceChildren(each.later);
        continue;
      }
      if (wrong) showWrong(pen, each.canvas, truth);
      const error = each.errors[state.time];
      const rivals = cards.filter((one) => one.drawn && one.stride === each.stride);
      const least = Boolean(each.drawn) && rivals.length > 1 && rivals.every((one) => one.errors[state.time] >= error);
      each.told.replaceChildren(short(error), " ", make("i", { textContent: `(${short(each.mean)})` }), least ? " lowest" : "");
      each.told.classList.toggle("least", least);
    }
  };
  const showWrong = (pen, canvas, truth) => {
    const guess = pen.getImageData(0, 0, canvas.width, canvas.height);
    for (let at = 0; at < guess.data.length; at += 4) {
      let gap = 0;
      for (let channel = 0; channel < 3; channel++) gap += Math.abs(guess.data[at + channel] - truth.data[at + channel]) / 3;
      const light = Math.min(255, GAIN * gap);
      guess.data.set([light, 0.62 * light, 0.22 * light], at);
    }
    pen.putImageData(guess, 0, 0);
  };

  const draw = () => {
    const { episode, time } = state;
    by("time").value = time;
    by("time").setAttribute("aria-valuetext", `frame ${episode.first + time}`);
    by("when").textContent = `frame ${episode.first + time}`;
    drawPanel("frame", episode.frames, by("overlay").checked);
    drawPanel("motion", episode.motion, false);
    drawGrid();
    drawEntry();
    drawStrip();
    drawCards();
  };

  // --- Choosing ---
  const choose = (code, kept = false) => {
    if (code === state.code && kept === state.kept) return;
    Object.assign(state, { code, kept });
    draw();
    // Nobody can listen to twelve codes a second.
    if (!state.timer) by("said").textContent = code === null ? "" : `${by("code").textContent}: ${by("share").textContent}`;
  };
  const goTo = (time) => {
    state.time = bounded(time, state.episode.count - 1);
    draw();
    if (cells.includes(document.activeElement)) nameCell(document.activeElement);
    if (state.at && !state.kept) choose(state.at.code);
  };
  const play = (on) => {
    clearInterval(state.timer);
    state.timer = on ? setInterval(() => goTo((state.time + 1) % state.episode.count), BEAT) : null;
    by("play").setAttribute("aria-pressed", String(on));
    by("play").setAttribute("aria-label", on ? "Pause" : "Play");
  };
  const open = async (set, index) => {
    play(false);
    const episode = set.episodes[index];
    state.wanted = episode;
    const sprites = [episode.frames, episode.motion, set.atlas.pictures, ...episode.predictions.map((one) => one.pictures)];
    await Promise.all(sprites.map(load));
    if (state.wanted !== episode) return; // another was chosen while this one was loading
    episode.codeNumbers ??= new Uint16Array(bytes(episode.codes).buffer);
    episode.movementBytes ??= bytes(episode.movement);
    if (set !== state.set) showSet(set);
    Object.assign(state, { episode, time: 0 });
    by("time").max = episode.count - 1;
    buildCards();
    draw();
    by("desk").dataset.shown = `${sets.indexOf(set)} ${episode.number}`;
  };
  const showSet = (set) => {
    Object.assign(state, { set, code: null, kept: false, at: null });
    by("about").textContent = `${set.about}. Motion over ${set.stride} steps, ${set.colours.length} codes.`;
    by("episode").replaceChildren(
      ...set.episodes.map((each, place) => new Option(`${each.number}${each.held_out ? " (held out)" : ""}`, place)),
    );
    for (const name of ["frame", "motion"]) by(name).width = by(name).height = set.grid * CELL;
    buildGrid();
  };

  // --- The grid of codes ---
  const buildGrid = () => {
    const { grid } = state.set;
    cells = [];
    const rows = Array.from({ length: grid }, () => {
      const row = make("div", { role: "row" });
      for (let column = 0; column < grid; column++) {
        const cell = make("div", { role: "gridcell", tabIndex: cells.length ? -1 : 0 });
        cells.push(cell);
        row.append(cell);
      }
      return row;
    });
    by("grid").style.gridTemplateColumns = `repeat(${grid}, 1fr)`;
    by("grid").replaceChildren(...rows);
  };
  const nameCell = (cell) => {
    const place = cells.indexOf(cell);
    const [row, column] = [Math.floor(place / state.set.grid), place % state.set.grid];
    cell.setAttribute("aria-label", `row ${row + 1}, column ${column + 1}, code ${cell.code}`);
  };
  const focusCell = (place) => {
    for (const cell of cells) cell.tabIndex = -1;
    cells[place].tabIndex = 0;
    cells[place].focus();
  };
  const grid = by("grid");
  // Pointer or focus, whichever moved last, is what the entry follows from frame to frame.
  const follow = (cell) => {
    state.at = cell;
    if (!state.kept) choose(cell ? cell.code : null);
  };
  grid.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "touch" && cells.includes(event.target)) follow(event.target);
  });
  grid.addEventListener("pointerleave", () => follow(null));
  grid.addEventListener("focusin", (event) => {
    nameCell(event.target);
    follow(event.target);
  });
  grid.addEventListener("focusout", (event) => {
    if (!grid.contains(event.relatedTarget)) follow(null);
  });
  const keep = (cell) => (state.kept && cell.code === state.code ? choose(null) : choose(cell.code, true));
  grid.addEventListener("click", (event) => {
    if (cells.includes(event.target)) keep(event.target);
  });
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const moveInGrid = (key) => {
    const size = state.set.grid;
    const place = cells.indexOf(document.activeElement);
    const [row, column] = [Math.floor(place / size) + moves[key][0], (place % size) + moves[key][1]];
    if (row >= 0 && row < size && column >= 0 && column < size) focusCell(row * size + column);
  };

  // --- Keys ---
  const inSight = () => {
    const box = by("desk").getBoundingClientRect();
    return box.top < innerHeight * 0.8 && box.bottom > innerHeight * 0.2;
  };
  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    const inside = by("explorer").contains(target);
    if (!state.episode || event.ctrlKey || event.metaKey || event.altKey || target.matches("select")) return;
    if (!inside && !(target === document.body && inSight() && key !== " ")) return;
    const cell = cells.includes(target);
    const step = { ArrowLeft: -1, ",": -1, ArrowRight: 1, ".": 1 }[key];
    if (key === "Escape") {
      state.at = null;
      choose(null);
    }
    else if (key === " " && !target.matches("button, input[type=checkbox]")) play(!state.timer);
    else if (cell && key in moves) moveInGrid(key);
    else if (cell && key === "Enter") keep(target);
    else if (step && !(target.matches("input[type=range]") && key in moves)) goTo(state.time + step);
    else return;
    event.preventDefault();
  });

  // --- Controls ---
  by("set").replaceChildren(...sets.map((each, place) => new Option(each.name, place)));
  by("set").addEventListener("change", (event) => open(sets[event.target.value], 0));
  by("episode").addEventListener("change", (event) => open(state.set, Number(event.target.value)));
  by("time").addEventListener("input", (event) => goTo(Number(event.target.value)));
  by("play").addEventListener("click", () => play(Boolean(state.episode) && !state.timer));
  for (const name of ["overlay", "wrong"]) by(name).addEventListener("change", draw);
  const seek = (event) => {
    const box = by("strip").getBoundingClientRect();
    goTo(Math.floor(((event.clientX - box.left) / box.width) * state.episode.count));
  };
  by("strip").addEventListener("pointerdown", (event) => {
    by("strip").setPointerCapture(event.pointerId);
    seek(event);
  });
  by("strip").addEventListener("pointermove", (event) => {
    if (event.buttons) seek(event);
  });
  by("desk").hidden = false;
  open(sets[0], 0).then(() => {
    addEventListener("resize", drawStrip);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawStrip);
  });
})();
