from setuptools import find_packages, setup

NAME = "tether_agent"

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
    description="Action server for task skills",
    license="Apache-2.0",
    entry_points={
        "console_scripts": [
            "skill_server = tether_agent.skill_server:main",
        ]
    },
)
