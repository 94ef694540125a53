"""The fifteen partially observable tasks of popgym, and one of our own.

Every module of this package is imported, and each class in it registers itself with Gymnasium: a new task is one
notebook in nbs/01_envs/pomdp.
"""

import importlib, pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f'{__name__}.{_module.name}')
