from setuptools import find_packages, setup

NAME = "tether_robot"

setup(
    name=NAME,
    version="0.1.0",
    packages=find_packages(),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=True,
    maintainer="Tether maintainers",
    maintainer_email="maintainers@tether.invalid",
    description="Nodes of the physical robot and of its emulator",
    license="Apache-2.0",
    entry_points={
        "console_scripts": [
            "driver = tether_robot.driver:main",
            "emulator = tether_robot.emulator:main",
        ]
    },
)
