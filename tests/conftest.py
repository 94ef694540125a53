import os

import lab as labs
import pytest


@pytest.fixture(scope='session')
def chromium():
    return labs.chromium()


@pytest.fixture(scope='session')
def browser(chromium):
    "One Chromium for all tests"
    if not (chromium or os.environ.get('PLAYWRIGHT_BROWSERS_PATH')):
        pytest.fail(f'no Chromium on this machine. Install it with: {labs.INSTALL}', pytrace=False)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=labs.FLAGS)
        yield browser
        browser.close()
