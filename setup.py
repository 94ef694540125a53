"""Give setuptools what settings.ini says about the package; the version is that of srlviz/__init__.py (pyproject.toml)."""
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py


class BuildWithoutIndex(build_py):
    "Leave out the index of symbols that nbdev-export writes for nbdev-update."

    def find_package_modules(self, package, package_dir):
        modules = super().find_package_modules(package, package_dir)
        return [module for module in modules if module[1] != '_modidx']


ini = ConfigParser(delimiters=['='])
ini.read(Path(__file__).with_name('settings.ini'), encoding='utf-8')
cfg = ini['DEFAULT']
name = cfg['lib_name']
shipped = {f'{name}.data_samples': 'data_samples', f'{name}.notebooks': 'nbs'}  # folders outside srlviz/ that the wheel has
data = {
    f'{name}.data_samples': ['*', '**/*'],
    f'{name}.notebooks': ['course/*.ipynb', 'studies/*.ipynb', 'tutorials/*.ipynb'],  # the others are the modules
    f'{name}.widgets': ['*.js', '*.css', 'vendor/*.js'],
    f'{name}.data.landing': ['*.md'],
}
classifiers = [
    'Development Status :: 3 - Alpha',
    'Framework :: Jupyter',
    'Intended Audience :: Education',
    'Intended Audience :: Science/Research',
    'Programming Language :: Python :: 3',
    'Topic :: Scientific/Engineering :: Artificial Intelligence',
]
setup(
    name=name,
    description=cfg['description'],
    license=cfg['license'],
    keywords=cfg['keywords'].split(),
    author=cfg['author'],
    python_requires=f">={cfg['min_python']}",
    long_description=Path(__file__).with_name('README.md').read_text(encoding='utf-8'),
    long_description_content_type='text/markdown',
    classifiers=classifiers,
    packages=find_packages(include=[name, f'{name}.*']) + list(shipped),
    package_dir=shipped,
    package_data=data,
    exclude_package_data={f'{name}.data_samples': ['landings/cache/*', 'landings/cache/**/*']},  # made when a set is read
    include_package_data=False,  # package_data says what the wheel has, MANIFEST.in what the source distribution has
    install_requires=cfg['requirements'].split(),
    extras_require={k.removesuffix('_requirements'): v.split() for k, v in cfg.items() if k.endswith('_requirements')},
    entry_points={'console_scripts': cfg['console_scripts'].split()},
    cmdclass={'build_py': BuildWithoutIndex},
)
