"""Sphinx configuration of the site; `.ci/docs.py` copies it next to the assembled pages."""

import os, re
from pathlib import Path

package = Path(os.environ['SRLVIZ_ROOT']) / 'srlviz/__init__.py'

project = 'srlviz'
author = 'The srlviz authors'
version = release = re.search(r'__version__ = "(.+?)"', package.read_text(encoding='utf-8'))[1]
project_copyright = author

extensions = ['myst_nb']
exclude_patterns = ['_build']
root_doc = 'index'
add_module_names = False
toc_object_entries_show_parents = 'hide'
python_maximum_signature_line_length = 88
python_display_short_literal_types = True
python_use_unqualified_type_names = True

nb_execution_mode = 'off'
nb_ipywidgets_js = {}  # nothing from a CDN
nb_merge_streams = True
nb_mime_priority_overrides = [('html', 'application/vnd.plotly.v1+json', None)]
myst_enable_extensions = ['deflist', 'dollarmath', 'amsmath']
myst_heading_anchors = 6
myst_update_mathjax = False
# levels of headings are those of the notebooks
suppress_warnings = ['myst.header']

html_theme = 'furo'
html_title = f'{project} {version}'
html_static_path = ['_static']
html_css_files = ['site.css']
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_math_renderer = 'mathml'
html_favicon = '_static/favicon.svg'
smartquotes = False  # 'probe' is a Python string
pygments_style = 'friendly'
pygments_dark_style = 'github-dark'


def _mathml(latex: str, display: str) -> str:
    from latex2mathml.converter import convert

    return convert(latex, display=display)


def visit_inline(self, node):
    from docutils import nodes

    self.body.append(_mathml(node.astext(), 'inline'))
    raise nodes.SkipNode


def visit_block(self, node):
    from docutils import nodes

    self.body.append(self.starttag(node, 'div', CLASS='math'))
    self.body.append(_mathml(node.astext(), 'block') + '</div>\n')
    raise nodes.SkipNode


def short_navigation(app, pagename, templatename, context, doctree):
    "Show in the side bar only what is around the page: with all 500 pages in it, each would have 100 kB more"
    if whole := context.get('toctree'):
        context['toctree'] = lambda **options: whole(**options | dict(collapse=True))


def setup(app):
    app.add_html_math_renderer('mathml', (visit_inline, None), (visit_block, None))
    app.connect('html-page-context', short_navigation, priority=400)  # before furo's, which calls toctree
    return dict(parallel_read_safe=True, parallel_write_safe=True)
