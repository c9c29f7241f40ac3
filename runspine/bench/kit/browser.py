"""Headless Chromium for tests, screenshots and benchmarks of the web page."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    SessionNotCreatedException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.remote.webelement import WebElement

Answer = TypeVar("Answer")
TIMEOUT_SECONDS = 60.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--hide-scrollbars",
    "--disable-extensions",
    "--disable-sync",
)
# Errors of a page that was redrawn between two calls.
REDRAWN = (
    "aborted by navigation",
    "does not belong to the document",
    "context was destroyed",
    "not clickable",
)
# Finds the first visible element with a text and evaluates an expression on it, in one call.
SEEN = """
const element = [...document.querySelectorAll(arguments[0])].find((each) =>
  each.checkVisibility({ visibilityProperty: true, opacityProperty: true })
  && (each.innerText ?? each.textContent).includes(arguments[1]));
"""


def missing() -> str:
    """Why there is no browser; empty when there is one."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not found: apt install chromium chromium-driver" if lacking else ""


class PageElement:
    """An element of the page, looked up again for every call: a live page may be redrawn."""

    def __init__(self, browser: Browser, css: str, text: str) -> None:
        self._browser, self._css, self._text = browser, css, text

    @property
    def text(self) -> str:
        return str(self._evaluate("(element.innerText ?? element.textContent).trim()"))

    def get_attribute(self, name: str) -> str | None:
        """Its property of this name, such as a whole address, or else its attribute."""
        found = self._evaluate("element[arguments[2]] ?? element.getAttribute(arguments[2])", name)
        return None if found is None else str(found)

    def is_enabled(self) -> bool:
        return bool(self._evaluate("!element.matches(':disabled')"))

    def focus(self) -> None:
        self._evaluate("element.focus()")

    def set(self, value: str) -> None:
        """Choose an option of a menu."""
        self._evaluate("(element.value = arguments[2], element.dispatchEvent(new Event('change')))", value)

    def mark(self) -> None:
        """Mark the node: `marked` is false once the page has replaced it."""
        self._evaluate("element.marked = true")

    def marked(self) -> bool:
        return bool(self._evaluate("Boolean(element.marked)"))

    def click(self) -> None:
        self._act(lambda element: element.click(), "can be pressed")

    def send_keys(self, *keys: str) -> None:
        # A stale element fails before the first key: none is sent twice.
        self._act(lambda element: element.send_keys(*keys), "takes keys")

    def there(self) -> bool:
        return bool(self._browser.script(f"{SEEN} return Boolean(element)", self._css, self._text))

    def _evaluate(self, expression: str, *more: str) -> Any:
        script = f"{SEEN} return element ? [{expression}] : null"
        return self._browser.until(
            lambda: self._browser.script(script, self._css, self._text, *more), str(self)
        )[0]

    def _act(self, act: Callable[[WebElement], None], what: str) -> None:
        def done() -> bool:
            element = self._browser.script(f"{SEEN} return element", self._css, self._text)
            if element is None:
                return False
            try:
                act(element)
            except (ElementClickInterceptedException, ElementNotInteractableException):
                return False
            return True

        self._browser.until(done, f"{self} {what}")

    def __str__(self) -> str:
        return f"{self._css} with {self._text!r}"


class Browser:
    """Chromium with waits for a live page: every check is repeated until it holds."""

    def __init__(self, driver: Chrome, address: str) -> None:
        self.driver = driver
        self.address = address

    def open(self, path: str) -> None:
        self.driver.get(f"{self.address}{path}")

    def login(self, token: str, to: str = "/") -> None:
        self.driver.get(f"{self.address}/login?to={to}#{token}")
        self.until(lambda: "/login" not in self.driver.current_url, "logged in")

    def headers(self) -> dict[str, str]:
        """Headers of a request in the name of this browser: its cookies, and who it is."""
        cookies = "; ".join(f"{one['name']}={one['value']}" for one in self.driver.get_cookies())
        return {"Cookie": cookies, "User-Agent": str(self.script("return navigator.userAgent"))}

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def until(self, check: Callable[[], Answer], what: str, timeout: float = TIMEOUT_SECONDS) -> Answer:
        deadline = time.monotonic() + timeout
        while True:
            with redrawn():
                if answer := check():
                    return answer
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout:.0f} s: {what}\n{self.text()[:1500]}")
            time.sleep(0.1)

    def text(self) -> str:
        return str(self.script("return document.body?.innerText ?? ''"))

    def sees(self, text: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self.until(lambda: text in self.text(), f"the page shows {text!r}", timeout)

    def find(self, css: str, text: str = "") -> PageElement:
        """Wait for the first visible element with the text."""
        found = PageElement(self, css, text)
        self.until(found.there, str(found))
        return found

    def count(self, css: str) -> int:
        """Number of elements, visible or not."""
        return int(self.script("return document.querySelectorAll(arguments[0]).length", css))

    def each(self, css: str, expression: str) -> list[Any]:
        """Evaluate an expression on every element, in one call."""
        script = f"return [...document.querySelectorAll(arguments[0])].map((element) => {expression})"
        return list(self.script(script, css))

    def press(self, css: str, text: str = "") -> None:
        self.find(css, text).click()

    def keys(self, *keys: str) -> None:
        """Type into the focused element."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self) -> str:
        """Accessible name of the focused element."""
        return str(self.script("return document.activeElement?.getAttribute('aria-label') ?? ''"))

    def fill(self, label: str, value: str) -> None:
        """Type into the field with this label."""
        field = f'input[aria-label="{label}"], textarea[aria-label="{label}"]'
        # Not clear(): the page must see the change.
        self.find(field)._evaluate("(element.focus(), element.select())")
        self.find(field).send_keys(value)

    def upload(self, css: str, path: Path) -> None:
        """Choose a file in a hidden field."""

        def chosen() -> bool:
            field = self.script("return document.querySelector(arguments[0])", css)
            return field is not None and field.send_keys(str(path)) is None

        self.until(chosen, f"{css} takes a file")


@contextlib.contextmanager
def redrawn() -> Iterator[None]:
    """Ignore errors of a page that changes during a call, so that the call is repeated."""
    try:
        yield
    except StaleElementReferenceException:
        pass
    except WebDriverException as error:
        if not any(words in str(error) for words in REDRAWN):
            raise


def started(options: ChromeOptions, tries: int = 3) -> Chrome:
    """Start Chromium; on a busy machine it may be too slow for its driver, so try again."""
    while True:
        try:
            return Chrome(options, Service(shutil.which("chromedriver") or "chromedriver"))
        except SessionNotCreatedException:
            tries -= 1
            if not tries:
                raise


@contextlib.contextmanager
def browsing(address: str, size: tuple[int, int] = (1360, 900), dark: bool = False) -> Iterator[Browser]:
    """A browser with a fresh profile."""
    with tempfile.TemporaryDirectory(prefix="runspine-chromium-", ignore_cleanup_errors=True) as profile:
        options = ChromeOptions()
        options.binary_location = shutil.which("chromium") or "chromium"
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = started(options)
        driver.set_page_load_timeout(120)
        driver.set_script_timeout(120)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        try:
            yield Browser(driver, address)
        finally:
            driver.quit()


def shoot(browser: Browser, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    browser.driver.save_screenshot(str(path))
