import os, shutil

import pytest
from lab import FLAGS, INSTALL


@pytest.fixture(scope='session')
def chromium():
    "The browser's path, as `make test` finds or installs it; None for the one that playwright keeps itself."
    names = [
        os.environ.get('CHROMIUM', ''),
        'chromium',
        'chromium-browser',
        'google-chrome',
        'google-chrome-stable',
        'chrome',
        '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
        '/Applications/Chromium.app/Contents/MacOS/Chromium',
    ]
    return next((p for p in map(shutil.which, filter(None, names)) if p), None)


@pytest.fixture(scope='session')
def browser(chromium):
    if not (chromium or os.environ.get('PLAYWRIGHT_BROWSERS_PATH')):
        pytest.fail(f'no Chromium on this machine. Install it with: {INSTALL}', pytrace=False)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()
