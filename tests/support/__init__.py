"""What tests share, and what is not a test.

- `lab`: a JupyterLab and a Chromium, for tests that press what a reader presses
- `papermill_runs`: each study, tutorial and lesson executed by papermill's command, once in a test run
- `selection`: which cases of a long list `make test` runs; the others are slow
- `flights_simulator`: random walks in place of the flight simulator, for tests of how sets of flights are stored
"""
