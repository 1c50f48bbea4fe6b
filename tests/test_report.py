"""The report: what is in it, that it needs nothing else, and that it works in a real browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from otflam.commands.report import Report
from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.core.progress import Progress
from otflam.data.store import Store
from otflam.experiments.studies import STUDIES
from otflam.lam.train import train_lam
from otflam.presets import get_preset
from otflam.report.explorer import make_explorer
from otflam.report.page import as_json, make_page
from otflam.report.runs import find_runs
from otflam.report.tables import TABLES
from otflam.report.verdicts import Verdict
from otflam.tokenizer.build import train_frame_tokenizer, train_tokenizer

TINY = get_preset("tiny")
RECORDS = Path(__file__).parents[1] / "results" / "records"
NAME = "squares & <b>"
"""A data set whose name must be escaped."""
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def runs(square_frames: Callable[[Path], Store], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set, four latent action models on it, and some records."""
    root, beside, cpu = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("beside"), Hardware(accelerator="cpu")
    store = square_frames(root / "data" / NAME)
    train_tokenizer(store, [0, 1], TINY.tokenizer, TINY.tokenizer_training, cpu, root / "otf")
    train_frame_tokenizer(store, [0, 1], TINY.frame_tokenizer, TINY.frame_training, cpu, beside / "frames")
    folders = {"lapo-64": beside} | dict.fromkeys(("otf-lam-pixel", "lapo-256", "flam-4", "hilam"), root / "lams")
    bases = {"otf-lam-pixel": root / "otf", "flam-4": beside / "frames", "hilam": beside / "lapo-64"}
    for method, folder in folders.items():
        settings = TINY.lam[method], TINY.lam_training[method]
        train_lam(method, store, ([0, 1], [2, 3]), *settings, cpu, folder / method, bases.get(method))
    (root / "records").mkdir()
    for path in [*RECORDS.glob("lam-*-cheetah-run-noisy-laptop-seed0.json"), *RECORDS.glob("transfer-*-seed0.json")]:
        shutil.copy(path, root / "records")
    return root


@pytest.fixture(scope="module")
def page(runs: Path) -> Path:
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    made = make_page(runs, runs / "records", "laptop", runs.with_name("page"))
    assert before == {path: path.stat().st_mtime_ns for path in runs.rglob("*")}  # nothing is written into the runs
    return made


def test_the_page_holds_everything_it_shows(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r'\b(?:src|href|srcset|action|data)="([^"]*)"', text)
    assert len(targets) > 5 and all(target.startswith(("data:", "#")) for target in targets)
    assert "default-src 'none'" in text and "script-src &#39;sha256-" in text  # the browser itself refuses the rest
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert len(style) == 1 and "@import" not in style[0] and "url(" not in style[0]
    assert [path.name for path in page.parent.iterdir()] == ["index.html"] and page.stat().st_size < 12e6
    assert all(len(words) > 20 for words in re.findall(r'<img [^>]*alt="([^"]*)"', text))


def test_what_is_in_the_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    record = json.loads(next(RECORDS.glob("transfer-*.json")).read_text())
    assert f"torch {record['versions']['torch']}" in text and "<dd>laptop</dd>" in text
    assert "otflam reproduce transfer --preset laptop" in text and "otflam reproduce lam --preset laptop" in text
    assert "Monolithic minus OTF, paired by seed" in text and "which calls the rise a drop" in text
    assert "What do agents earn" not in text  # tables without rows are left out
    assert {table.study for table in TABLES.values()} <= STUDIES.keys()  # commands that exist
    inside = re.findall(r'id="figure-inside-\d">\s*<div class="paper"[^>]*><img src="data:image/webp', text)
    assert len(inside) == 2 and "flam-4 on squares &amp; &lt;b&gt;: frames of" in text and "hilam on squares" in text
    assert re.search(r'class="pill (holds|fails|open|unmeasured)"', text)


def test_text_is_escaped(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert data and json.loads(data[1])[0]["name"] == NAME and "<" not in data[1]
    record = json.loads((RECORDS / "lam-lapo-256-cheetah-run-noisy-laptop-seed0.json").read_text())
    (tmp_path / "evil.json").write_text(json.dumps(record | {"method": EVIL}))
    monkeypatch.setattr("otflam.report.page.sketch_figures", lambda records, size: [])
    evil = Verdict(EVIL, EVIL, EVIL, "open", EVIL)
    monkeypatch.setattr("otflam.report.page.verdicts_by_topic", lambda *_: {EVIL: [evil]})
    text = make_page(None, tmp_path, "laptop", tmp_path / "out").read_text(encoding="utf-8")
    assert EVIL not in text and text.count("&lt;script&gt;alert(1)") == 6
    assert text.count("<script") == 2  # the data and the program


def test_same_inputs_same_bytes(runs: Path, page: Path, tmp_path: Path) -> None:
    again = make_page(runs, runs / "records", "laptop", tmp_path)
    assert again.read_bytes() == page.read_bytes()


def test_the_command(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Report(runs, tmp_path, preset="tiny").run()  # no records of it, but an explorer
    told = capsys.readouterr().out
    assert f"wrote {tmp_path / 'index.html'}" in told and "otf-lam-pixel, lapo-256" in told
    assert "no records of the preset tiny" in (tmp_path / "index.html").read_text(encoding="utf-8")
    with pytest.raises(UserError, match="did you mean 'laptop'"):
        Report(runs, tmp_path, preset="lapto").run()


def test_the_explorer_shows_held_out_frames_as_they_are(runs: Path) -> None:
    shown = make_explorer(runs)
    assert [each.name for each in shown] == [NAME]
    episode = shown[0].episodes[0]
    assert [each.number for each in shown[0].episodes] == [2, 3] and episode.held_out
    assert [each.method for each in episode.predictions] == ["otf-lam-pixel", "lapo-256"]
    frames = Store(runs / "data" / NAME).episode(2, "frames").astype(float) / 255
    for stride, copied in episode.copied.items():
        now = frames[episode.first : episode.first + episode.count]
        later = frames[episode.first + stride : episode.first + stride + episode.count]
        np.testing.assert_allclose(copied, np.square(later - now).mean((1, 2, 3)), rtol=1e-3)
    assert all(len(each.errors) == episode.count for each in episode.predictions)


def test_models_that_cannot_be_shown(runs: Path, tmp_path: Path) -> None:
    """The best of several trainings is shown; a broken one is left out, and without any the tokenizer remains."""
    shutil.copytree(runs / "data", tmp_path / "data")
    shutil.copytree(runs / "otf", tmp_path / "otf")
    told: list[str] = []

    class Heard(Progress):
        def note(self, text: str) -> None:
            told.append(text)

    only = next(find_runs(tmp_path, Heard()))
    assert not only.models and only.held_out == [2, 3] and not told
    for name, error in {"good": 0.2, "broken": 0.1}.items():
        shutil.copytree(runs / "lams" / "lapo-256", tmp_path / name)
        (tmp_path / name / "health.json").write_text(json.dumps({"error": error}))
        (tmp_path / name / "digest.json").unlink()  # it would tell that the health was altered
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"nothing")
    assert list(next(find_runs(tmp_path, Heard())).models) == ["lapo-256"]
    assert len(told) == 1 and told[0].startswith("left out broken: ")


@pytest.fixture
def opened(chromium: webdriver.Chrome, page: Path) -> Iterator[webdriver.Chrome]:
    """The page in a browser; nothing may be said on its console."""
    look(chromium, 1280, 900)
    chromium.get(page.as_uri())
    WebDriverWait(chromium, 10).until(lambda chrome: chrome.find_element(By.ID, "desk").get_attribute("data-shown"))
    yield chromium
    assert chromium.get_log("browser") == []


def look(chrome: webdriver.Chrome, width: int, height: int, scheme: str = "light", mobile: bool = False) -> None:
    """Choose the size of the window and the colours that its user prefers, who wants nothing to glide."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wishes = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in wishes.items()]
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def pixels(chrome: webdriver.Chrome, name: str) -> str:
    return chrome.execute_script("return document.getElementById(arguments[0]).toDataURL()", name)


def cells(chrome: webdriver.Chrome) -> list[WebElement]:
    return chrome.find_elements(By.CSS_SELECTOR, "#grid [role=gridcell]")


def test_time_moves(opened: webdriver.Chrome) -> None:
    slider, first = opened.find_element(By.ID, "time"), pixels(opened, "frame")
    assert opened.find_element(By.CSS_SELECTOR, "#set option").text == NAME
    slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    second = pixels(opened, "frame")
    assert second != first and slider.get_attribute("value") == "2"
    ActionChains(opened).move_to_element(slider).click().perform()  # its middle
    assert pixels(opened, "frame") not in (first, second) and int(slider.get_attribute("value") or 0) > 3
    here = int(slider.get_attribute("value") or 0)
    opened.find_element(By.ID, "frame").click()  # focus leaves the slider but stays in the explorer
    ActionChains(opened).send_keys(Keys.ARROW_LEFT).perform()
    assert int(slider.get_attribute("value") or 0) == here - 1
    plain = pixels(opened, "frame")
    opened.find_element(By.ID, "overlay").click()
    assert pixels(opened, "frame") != plain


def test_playing(opened: webdriver.Chrome) -> None:
    button, slider = (opened.find_element(By.ID, name) for name in ("play", "time"))
    button.click()
    assert button.get_attribute("aria-label") == "Pause"
    WebDriverWait(opened, 5).until(lambda chrome: int(slider.get_attribute("value") or 0) >= 3)
    slider.send_keys(" ")
    assert button.get_attribute("aria-label") == "Play"
    stopped = slider.get_attribute("value")
    assert opened.execute_async_script("setTimeout(arguments[0], 300)") is None
    assert slider.get_attribute("value") == stopped


def test_codes_are_explained(opened: webdriver.Chrome) -> None:
    before, strip, found = pixels(opened, "frame"), pixels(opened, "strip"), cells(opened)
    assert len(found) == TINY.tokenizer.grid**2
    ActionChains(opened).move_to_element(found[100]).perform()
    code = found[100].get_attribute("data-code")
    same = [cell for cell in found if cell.get_attribute("data-code") == code]
    assert len(opened.find_elements(By.CSS_SELECTOR, "#grid .lit")) == len(same) > 0
    assert opened.find_element(By.ID, "code").text == f"Code {code}"
    assert f"{len(same)} of {len(found)} in this frame" in opened.find_element(By.ID, "share").text
    assert opened.find_elements(By.CSS_SELECTOR, "#effect canvas")
    assert pixels(opened, "frame") != before and pixels(opened, "strip") != strip
    ActionChains(opened).move_to_element(opened.find_element(By.ID, "explorer-title")).perform()
    assert not opened.find_elements(By.CSS_SELECTOR, "#grid .lit") and pixels(opened, "frame") == before
    # The same without a mouse: move, keep, let go.
    opened.execute_script("arguments[0].focus()", found[0])
    ActionChains(opened).send_keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ENTER).perform()
    place = TINY.tokenizer.grid + 1
    assert opened.switch_to.active_element == found[place]
    assert f"code {found[place].get_attribute('data-code')}" in (found[place].get_attribute("aria-label") or "")
    assert opened.find_element(By.ID, "kept").is_displayed()
    # Let go, it follows from frame to frame what moved last, here the mouse.
    ActionChains(opened).send_keys(Keys.ESCAPE).move_to_element(found[100]).send_keys(".").perform()
    assert opened.find_element(By.ID, "code").text == f"Code {found[100].get_attribute('data-code')}"
    ActionChains(opened).send_keys(Keys.ESCAPE, ".").perform()
    assert not opened.find_element(By.ID, "known").is_displayed()


def test_data_sets_of_the_same_name(opened: webdriver.Chrome, page: Path, tmp_path: Path) -> None:
    """The entry of a code is that of the data set in sight: the second, else the same, knows no patches."""
    before, data, after = re.split(r'(?<=id="data">)(.*?)(?=</script>)', page.read_text(encoding="utf-8"), maxsplit=1)
    one, two = (json.loads(data)[0] for _ in range(2))
    two["atlas"]["known"] = [0] * len(two["colours"])
    (tmp_path / "two.html").write_text(before + str(as_json([one, two])) + after, encoding="utf-8")
    opened.get((tmp_path / "two.html").as_uri())
    desk, patches, choice = (opened.find_element(By.ID, name) for name in ("desk", "patches", "set"))
    for place in (0, 1):
        Select(choice).select_by_index(place)
        WebDriverWait(opened, 10).until(lambda chrome, shown=f"{place} 2": desk.get_attribute("data-shown") == shown)
        ActionChains(opened).move_to_element(cells(opened)[100]).perform()
        assert (patches.text == "none of those looked at") == (place == 1)


def test_predictions_are_compared(opened: webdriver.Chrome) -> None:
    shown = opened.find_element(By.ID, "cards").text
    assert all(name in shown for name in ("true future", "no change", "otf-lam-pixel", "lapo-256"))
    names = [figure.text.splitlines()[0] for figure in opened.find_elements(By.CSS_SELECTOR, "#cards figure")]
    drawn = "return document.querySelectorAll('#cards canvas')[arguments[0]].toDataURL()"
    before = opened.execute_script(drawn, names.index("lapo-256"))
    opened.find_element(By.ID, "wrong").click()
    assert opened.execute_script(drawn, names.index("lapo-256")) != before


def test_tables_are_sorted_and_copied(opened: webdriver.Chrome) -> None:
    def texts(table: WebElement, column: int) -> list[str]:
        return [cell.text for cell in table.find_elements(By.CSS_SELECTOR, f"tbody td:nth-child({column})")]

    def values() -> list[float]:
        return [float(text.split(" ± ")[0]) for text in texts(table, column)]

    opened.execute_script("for (const each of document.querySelectorAll('details.table')) each.open = true")
    shown = opened.find_elements(By.CSS_SELECTOR, "details[open] table")
    columns = ((table, column) for table in shown for column in range(3, 10))
    number = re.compile(r"-?[\d.]+( ± .*)?")  # a column that has all its numbers
    table, column = next(each for each in columns if (found := texts(*each)) and all(map(number.fullmatch, found)))

    original, head = values(), table.find_element(By.CSS_SELECTOR, f"th:nth-child({column})")
    head.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert values() == sorted(original) and head.get_attribute("aria-sort") == "ascending"
    head.find_element(By.TAG_NAME, "button").click()
    assert values() == sorted(original, reverse=True)
    head.find_element(By.TAG_NAME, "button").click()
    assert values() == original
    copy = opened.find_element(By.CSS_SELECTOR, "details[open] .copy")
    copy.click()
    WebDriverWait(opened, 3).until(lambda chrome: copy.text == "Copied")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_every_window(opened: webdriver.Chrome, width: int, scheme: str) -> None:
    look(opened, width, 844, scheme, mobile=width < 500)
    opened.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    room = opened.execute_script("return [document.documentElement.scrollWidth, document.body.scrollWidth]")
    assert max(room) <= width
    ground = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
    light = np.mean([int(number) for number in re.findall(r"\d+", ground)[:3]])
    assert (light > 200) == (scheme == "light")
    assert all(canvas.size["width"] > 60 for canvas in opened.find_elements(By.CSS_SELECTOR, "#stage .panel canvas"))
