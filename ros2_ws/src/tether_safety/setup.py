from setuptools import find_packages, setup

NAME = "tether_safety"

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
    description="Safety supervisor, the gate before every motor, and the black box",
    license="Apache-2.0",
    entry_points={
        "console_scripts": [
            "safety_supervisor = tether_safety.safety_supervisor:main",
            "black_box = tether_safety.black_box:main",
        ]
    },
)
