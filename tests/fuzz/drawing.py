"""Draw what was read: the widget that `srlviz.explore` opens, as a page, without a browser.

A function here takes the folder of a case and draws; `run.perform` calls it after the reader succeeded. It may still
raise an error that names a file, as any reader; another error is of the verdict 'undrawn'.
"""

import tempfile
from dataclasses import replace
from pathlib import Path


def page(widget) -> None:
    """Write all that a widget draws as a page, and look for an error in its status line."""
    path = Path(tempfile.gettempdir()) / 'drawn.html'
    widget.to_html(path)
    path.unlink()
    repr(widget)
    status = getattr(widget, 'status', None)
    if status is not None and 'role="alert"' in status.value:
        raise RuntimeError(f'the status line of {type(widget).__name__}: {status.value}')


def explored(name: str = '', **options):
    """Return a function that draws a file or folder by its path, as `srlviz.explore(path, ...)` opens it."""

    def draw(place):
        import srlviz

        page(srlviz.explore(place / name if name else place, **options))

    return draw


def explored_recording(read):
    """Return a function that draws the recording that `read` returns for a folder."""

    def draw(place):
        import srlviz

        page(srlviz.explore(read(place)))

    return draw


def board(place) -> None:
    """Draw every cell of the matrix of a folder."""
    from srlviz.core.results_0_2 import load_matrix

    draw_board(load_matrix(place / 'matrix.csv').explore(widget='CrossMatrix'))
    explored('matrix.csv')(place)


def board_of_runs(place) -> None:
    """Draw every cell of the matrix of a folder of runs, without the moments, which would be recorded again."""
    from srlviz.studies.matrix.matrix_results import open_matrix

    draw_board(replace(open_matrix(place / 'runs'), recordings={}).explore(widget='CrossMatrix'))


def card(place) -> None:
    """Draw every cell of a card, and write its page and its text; alone, and merged."""
    import srlviz
    from srlviz.core.results_0_2 import load_card
    from srlviz.studies.matrix.scorecard import join_results

    draw_board(srlviz.explore(place / 'card.json', widget='CrossMatrix'))
    for x in load_card(place / 'card.json'), join_results([place / 'card.json']):
        write_tables(x)


def results(place) -> None:
    """Draw the results of a folder, and write their tables and their page."""
    import srlviz

    draw_board(srlviz.explore(place / 'saved', widget='CrossMatrix'))
    page(srlviz.explore(place / 'saved'))
    write_tables(srlviz.load(place / 'saved'))


def write_tables(found) -> None:
    """Write results in all their forms."""
    folder = Path(tempfile.gettempdir())
    found.to_html(folder / 'results.html').unlink()
    for task in found.tasks[:3]:
        found.table(task).to_string()
        found.to_markdown(task)
        found.to_latex(task)
        found.to_csv(folder / 'results.csv', task).unlink()


def draw_board(widget) -> None:
    """Draw each cell of a `CrossMatrix`, in both of its views."""
    for view in 'questions', 'worlds':
        widget.view = view
        for task in widget.offers('task')[:3]:
            for question in widget.offers('question')[:5]:
                for method in widget.offers('method')[:3]:
                    widget.set_cell(task=task, question=question, method=method)
                    for figure in widget.figures():
                        figure.to_json()
    page(widget)


def probe(place) -> None:
    """Draw a result of `srlviz.probe` in each of its widgets."""
    for widget in '', 'CodesExplorer', 'Workbench':
        explored('saved', widget=widget)(place)


def encoder(place) -> None:
    """Draw the codes of an encoder of frames of 80 x 80."""
    import numpy as np
    import srlviz
    from srlviz.core.recordings import Episode, Recording

    frames = np.random.default_rng(0).integers(0, 255, (12, 80, 80, 1)).astype(np.uint8)
    page(srlviz.explore(place / 'toy.safetensors', Recording([Episode({'frame': frames})])))


def returns(place) -> None:
    """Draw the scores of the episodes of a file."""
    import srlviz
    from srlviz.evaluate.questions.agent_returns import Returns
    from srlviz.evaluate.returns import episodes_of

    answer = Returns(epoch_steps=8, min_episodes=2).ask(episodes_of(place / '0.monitor.csv'))
    page(srlviz.explore(answer.run_scores(study='mine', task='toy', method='GRU')))
