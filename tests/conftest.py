import os, shutil

import pytest


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
