"""What tests share, and what is not a test.

- `lab`: a JupyterLab and a Chromium, for tests that press what a reader presses
- `papermill_runs`: each study, tutorial and lesson executed by papermill's command, once in a test run
- `flights_simulator`: random walks in place of the flight simulator, for tests of how sets of flights are stored
"""
