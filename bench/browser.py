"""A real Chromium without a window, for tests, screenshots and figures of the web page."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

Found = TypeVar("Found")
PATIENCE = 60.0
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


def missing() -> str:
    """Why there is no browser here; empty when there is one."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not found: apt install chromium chromium-driver" if lacking else ""


class Browser:
    """Chromium with the waits that a live page needs: everything is asked again until it is there."""

    def __init__(self, driver: Chrome, address: str) -> None:
        self.driver = driver
        self.address = address

    def open(self, path: str) -> None:
        self.driver.get(f"{self.address}{path}")

    def login(self, token: str, to: str = "/") -> None:
        self.driver.get(f"{self.address}/login?to={to}#{token}")
        self.until(lambda: "/login" not in self.driver.current_url, "logged in")

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def until(self, check: Callable[[], Found], what: str, patience: float = PATIENCE) -> Found:
        deadline = time.monotonic() + patience
        while True:
            with contextlib.suppress(StaleElementReferenceException):
                if found := check():
                    return found
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {patience:.0f} s: {what}\n{self.text()[:1500]}")
            time.sleep(0.1)

    def text(self) -> str:
        return str(self.script("return document.body.innerText"))

    def sees(self, text: str, patience: float = PATIENCE) -> None:
        self.until(lambda: text in self.text(), f"the page says {text!r}", patience)

    def find(self, css: str, text: str = "") -> WebElement:
        """The first visible one that holds the text."""

        def look() -> WebElement | None:
            for element in self.driver.find_elements(By.CSS_SELECTOR, css):
                if element.is_displayed() and text in element.text:
                    return element
            return None

        found = self.until(look, f"{css} with {text!r}")
        assert found is not None
        return found

    def press(self, css: str, text: str = "") -> None:
        def pressed() -> bool:
            try:
                self.find(css, text).click()
            except StaleElementReferenceException:
                return False
            except WebDriverException as error:
                if "not clickable" in str(error) or "intercepted" in str(error):
                    return False
                raise
            return True

        self.until(pressed, f"{css} {text!r} can be pressed")

    def fill(self, label: str, value: str) -> None:
        """Type into the field with this label."""
        field = self.find(f'input[aria-label="{label}"], textarea[aria-label="{label}"]')
        # Not clear(): the page must see the change.
        self.script("arguments[0].focus(); arguments[0].select()", field)
        field.send_keys(value)


@contextlib.contextmanager
def browsing(address: str, size: tuple[int, int] = (1360, 900), dark: bool = False) -> Iterator[Browser]:
    """One browser with a profile of its own."""
    with tempfile.TemporaryDirectory(prefix="runspine-chromium-", ignore_cleanup_errors=True) as profile:
        options = ChromeOptions()
        options.binary_location = shutil.which("chromium") or "chromium"
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = Chrome(options, Service(shutil.which("chromedriver") or "chromedriver"))
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
