"""Installs the launch files and the configuration from the repository's own folders beside the nodes."""

from pathlib import Path

from setuptools import find_packages, setup

NAME = "tether_bringup"
ROOT = Path("../../..")  # of the repository, from this package


def shared(folder: str) -> list[tuple[str, list[str]]]:
    """Entries of data_files that install a folder of the repository with its sub-folders."""
    files = sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in (".xml", ".yaml"))
    if not files:
        raise SystemExit(f"{(ROOT / folder).resolve()}: no files; build {NAME} inside a checkout of Tether")
    folders = sorted({path.parent for path in files})
    return [
        (f"share/{NAME}/{parent.relative_to(ROOT)}", [str(path) for path in files if path.parent == parent])
        for parent in folders
    ]


setup(
    name=NAME,
    version="0.1.0",
    packages=find_packages(),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        *shared("launch"),
        *shared("config"),
    ],
    install_requires=["setuptools"],
    zip_safe=True,
    maintainer="Tether maintainers",
    maintainer_email="maintainers@tether.invalid",
    description="Launch files, configuration and lifecycle manager of Tether's graph",
    license="Apache-2.0",
    entry_points={
        "console_scripts": [
            "composed = tether_bringup.composed:main",
            "lifecycle_manager = tether_bringup.lifecycle_manager:main",
            "recorder = tether_bringup.recorder:main",
            "replay_player = tether_bringup.replay_player:main",
        ],
    },
)
